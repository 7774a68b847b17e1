//! An operator at the doors.

use sealpost::operate::{Answer, Request, answer};
use serde_json::Value as Json;

use super::world::TestWorld;

const OPERATOR: &str = "Bearer operator";

/// What a door answers to a look; the query follows a question mark.
pub async fn look(world: &TestWorld, path: &str) -> Answer {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let request = Request {
        method: "GET",
        path,
        query,
        authorization: Some(OPERATOR),
        body: Some(&[]),
        ..Request::default()
    };
    answer(world, &world.config, &request).await
}

/// What a door answers to an order.
pub async fn order(world: &TestWorld, path: &str, body: &Json) -> Answer {
    let body = body.to_string();
    let request = Request {
        method: "POST",
        path,
        authorization: Some(OPERATOR),
        content_type: Some("application/json"),
        body: Some(body.as_bytes()),
        ..Request::default()
    };
    answer(world, &world.config, &request).await
}

/// Status and code of a refusal.
pub fn refusal(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.body["code"].as_str().unwrap_or_default())
}

/// Every page of a list, joined; each page has `limit` entries at most.
pub async fn all_pages(world: &TestWorld, path: &str, limit: usize) -> Vec<Json> {
    let mut items = Vec::new();
    let mut next = Json::Null;
    for _ in 0..100 {
        let mark = if path.contains('?') { '&' } else { '?' };
        let cursor = next
            .as_str()
            .map(|cursor| format!("&after={cursor}"))
            .unwrap_or_default();
        let page = look(world, &format!("{path}{mark}limit={limit}{cursor}")).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let list = page.body["items"].as_array().expect("a list").clone();
        assert!(list.len() <= limit);
        items.extend(list);
        next = page.body["next"].clone();
        if next.is_null() {
            return items;
        }
    }
    panic!("a list without an end");
}

/// The refusals that every door of operators has: no token, a producer's token, a role without tokens, a wrong method.
pub async fn check_door(world: &TestWorld, method: &'static str, path: &str, allow: &str) {
    let ask = async |method, token| {
        let request = Request {
            method,
            path,
            authorization: token,
            content_type: Some("application/json"),
            body: Some(b"{}"),
            ..Request::default()
        };
        answer(world, &world.config, &request).await
    };
    world.transport.take_requests();
    for token in [None, Some("Bearer producer"), Some("Bearer "), Some("Basic operator")] {
        assert_eq!(refusal(&ask(method, token).await), (401, "token_required"), "{path}");
    }
    let wrong = ask("DELETE", Some(OPERATOR)).await;
    assert_eq!(refusal(&wrong), (405, "method_not_allowed"), "{path}");
    assert!(
        wrong.headers.contains(&("allow", allow.to_owned())),
        "{path}: {:?}",
        wrong.headers
    );
    assert_eq!(world.transport.take_requests(), 0, "{path}: the database is not asked");
}
