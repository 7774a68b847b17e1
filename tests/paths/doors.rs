//! The doors: who may enter, what is refused and how, and what health says.

use std::time::Duration;

use sealpost::operate::{Answer, Request, answer};
use serde_json::{Value as Json, json};

use crate::support::{TestWorld, Wire, config_with, notice_with_key};

pub(crate) const PRODUCER: &str = "Bearer producer";
pub(crate) const OPERATOR: &str = "Bearer operator";

fn request<'a>(method: &'a str, path: &'a str, token: Option<&'a str>, body: Option<&'a [u8]>) -> Request<'a> {
    Request {
        method,
        path,
        authorization: token,
        content_type: Some("application/json"),
        body,
        ..Request::default()
    }
}

pub(crate) async fn post(world: &TestWorld, body: &Json) -> Answer {
    let body = body.to_string();
    answer(
        world,
        &world.config,
        &request("POST", "/v1/intents", Some(PRODUCER), Some(body.as_bytes())),
    )
    .await
}

pub(crate) async fn get(world: &TestWorld, path: &str, token: Option<&str>) -> Answer {
    answer(world, &world.config, &request("GET", path, token, Some(&[]))).await
}

pub(crate) fn one_intent() -> Json {
    json!({ "intents": [notice_with_key("n0")] })
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer
        .headers
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, value)| value.as_str())
}

#[tokio::test]
async fn a_door_without_a_token_is_closed_and_a_wrong_token_is_refused() {
    let body = one_intent().to_string();
    let cases = [
        (None, 401, "token_required"),
        (Some("Bearer operator"), 401, "token_required"),
        (Some("Bearer producer2"), 401, "token_required"),
        (Some("Bearer "), 401, "token_required"),
        (Some("Basic producer"), 401, "token_required"),
        (Some("producer"), 401, "token_required"),
        // The hash that the configuration holds is not the token.
        (
            Some("Bearer d1990f97a1f4fe7b8e86da8c03c9dd3f7d536c14aa4a6f9eedab07f34cd961b0"),
            401,
            "token_required",
        ),
    ];
    let world = TestWorld::new().await;
    for (token, status, code) in cases {
        for request in [
            request("POST", "/v1/intents", token, Some(body.as_bytes())),
            request("GET", "/v1/intents/ntc_0123456789", token, None),
        ] {
            let answer = answer(&world, &world.config, &request).await;
            assert_eq!(
                (answer.status, answer.body["code"].as_str()),
                (status, Some(code)),
                "{token:?}"
            );
            assert_eq!(header(&answer, "www-authenticate"), Some("Bearer"));
        }
    }
    let closed = TestWorld::with(config_with(&[("PRODUCER_TOKENS", "")])).await;
    let answer = post(&closed, &one_intent()).await;
    assert_eq!(
        (answer.status, answer.body["code"].as_str()),
        (403, Some("door_closed"))
    );
    for world in [&world, &closed] {
        assert_eq!(world.count("pending").await, 0, "nothing was written");
        assert_eq!(world.transport.take_requests(), 0, "and nobody was asked");
    }
}

#[tokio::test]
async fn tokens_are_rotated_by_accepting_both_for_a_while() {
    // sha256("producer") and sha256("operator"): two tokens of one role.
    let both = "d1990f97a1f4fe7b8e86da8c03c9dd3f7d536c14aa4a6f9eedab07f34cd961b0, \
                06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23";
    let world = TestWorld::with(config_with(&[("PRODUCER_TOKENS", both)])).await;
    for token in [PRODUCER, OPERATOR, "bearer producer"] {
        let body = one_intent().to_string();
        let request = request("POST", "/v1/intents", Some(token), Some(body.as_bytes()));
        assert_eq!(answer(&world, &world.config, &request).await.status, 202, "{token}");
    }
}

#[tokio::test]
async fn a_request_that_no_door_takes_is_told_why() {
    let world = TestWorld::new().await;
    let ask = async |method, path, content_type, body| {
        let request = Request {
            method,
            path,
            authorization: Some(PRODUCER),
            content_type,
            body,
            ..Request::default()
        };
        let answer = answer(&world, &world.config, &request).await;
        assert_eq!(answer.content_type, "application/problem+json");
        (
            answer.status,
            answer.body["code"].as_str().unwrap().to_owned(),
            header(&answer, "allow").map(str::to_owned),
        )
    };
    let json = Some("application/json; charset=utf-8");
    let code = |status, code: &str| (status, code.to_owned(), None);
    assert_eq!(
        ask("POST", "/v1/nothing", json, Some(b"{}".as_slice())).await,
        code(404, "no_such_door")
    );
    assert_eq!(
        ask("GET", "/v1/intents/a/b", json, None).await,
        code(404, "no_such_door")
    );
    assert_eq!(
        ask("GET", "/v1/intents/ntc_0123456789", json, None).await,
        code(404, "no_such_intent")
    );
    assert_eq!(
        ask("GET", "/v1/intents/'%20or", json, None).await,
        code(404, "no_such_intent")
    );
    let allow = |method: &str| (405, "method_not_allowed".to_owned(), Some(method.to_owned()));
    assert_eq!(ask("GET", "/v1/intents", json, None).await, allow("POST"));
    assert_eq!(
        ask("DELETE", "/v1/intents/ntc_0123456789", json, None).await,
        allow("GET")
    );
    assert_eq!(ask("POST", "/health", json, None).await, allow("GET"));
    assert_eq!(
        ask("POST", "/v1/intents", json, None).await,
        code(413, "body_too_large")
    );
    for content_type in [None, Some("text/plain"), Some("application/jsonp"), Some("")] {
        assert_eq!(
            ask("POST", "/v1/intents", content_type, Some(b"{}".as_slice())).await,
            code(415, "json_expected")
        );
    }
    assert_eq!(
        ask("POST", "/v1/intents", json, Some(b"{".as_slice())).await,
        code(400, "json_invalid")
    );
    assert_eq!(
        ask("POST", "/v1/intents", json, Some(b"{}".as_slice())).await,
        code(422, "intents_invalid")
    );
}

#[tokio::test]
async fn an_intents_story_shows_its_attempts_and_events_and_nobody_personal() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.deliver().await;
    let answer = get(&world, &format!("/v1/intents/{id}"), Some(PRODUCER)).await;
    assert_eq!(answer.status, 200);
    let story = &answer.body;
    assert_eq!(story["status"], "sent");
    assert_eq!(story["attempts"][0]["outcome"], "accepted");
    assert_eq!(story["attempts"][0]["httpStatus"], 200);
    let steps: Vec<_> = story["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["to"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["pending", "enqueued", "processing", "sent"]);
    assert!(story["createdAt"].as_str().unwrap().ends_with('Z'));
    let shown = story.to_string();
    for personal in ["n0@example.com", "Ada", "Subject of", "Good news"] {
        assert!(!shown.contains(personal), "{personal} in {shown}");
    }
}

async fn troubles(world: &TestWorld) -> (u16, Vec<String>) {
    let answer = get(world, "/health", None).await;
    let list = answer.body["troubles"].as_array().unwrap();
    (
        answer.status,
        list.iter().map(|one| one.as_str().unwrap().to_owned()).collect(),
    )
}

fn troubled(code: &str) -> (u16, Vec<String>) {
    (503, vec![code.to_owned()])
}

#[tokio::test]
async fn health_names_what_is_wrong_with_the_pipeline() {
    let world = TestWorld::new().await;
    assert_eq!(troubles(&world).await, troubled("relay_never_ran"));
    world.tick().await;
    assert_eq!(troubles(&world).await, (200, Vec::new()));
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(troubles(&world).await, troubled("relay_stopped"));
    world.tick().await;

    // A row that nobody carries.
    world.broker.refuse(true);
    world.notices(1).await;
    world.broker.refuse(false);
    world.clock.advance(Duration::from_secs(31 + 601));
    world
        .sql(
            "UPDATE relay_health SET last_tick_at = ?1",
            vec![(1_767_225_600_000_i64 + 933_000).into()],
        )
        .await;
    assert_eq!(troubles(&world).await, troubled("rows_late"));
    world.tick().await;
    assert_eq!(troubles(&world).await, (200, Vec::new()));

    world.transport.next(Wire::Refuse);
    world.transport.next(Wire::Refuse);
    world.transport.next(Wire::Refuse);
    assert_eq!(troubles(&world).await, troubled("database_ambiguous"));
    world
        .sql(
            "INSERT INTO pauses (scope, reason, until, created_at) VALUES ('*', 'account_refused', ?1, 1)",
            vec![(1_767_225_600_000_i64 + 86_400_000).into()],
        )
        .await;
    assert_eq!(troubles(&world).await, troubled("sending_paused"));
}

#[tokio::test]
async fn health_says_when_nobody_hears_back_and_mail_goes_on() {
    for (secrets, trouble) in [("", "receipt_door_closed"), ("whsec_short", "receipt_secret_invalid")] {
        let world = TestWorld::with(config_with(&[("WEBHOOK_SECRETS", secrets)])).await;
        world.tick().await;
        assert_eq!(troubles(&world).await, troubled(trouble));
        assert_eq!(post(&world, &one_intent()).await.status, 202);
    }
}

#[tokio::test]
async fn health_tells_details_to_operators_alone() {
    let world = TestWorld::new().await;
    world.tick().await;
    for token in [None, Some(PRODUCER)] {
        let body = get(&world, "/health", token).await.body;
        assert_eq!(body, json!({ "status": "ok", "troubles": [] }));
    }
    let body = get(&world, "/health", Some(OPERATOR)).await.body;
    assert_eq!((&body["schemaVersion"], &body["parked"]), (&json!(3), &json!(0)));
}

#[tokio::test]
async fn health_remembers_a_refusing_queue_until_it_takes_something() {
    let world = TestWorld::new().await;
    world.broker.refuse(true);
    world.notices(1).await;
    world.clock.advance(Duration::from_secs(31));
    world.tick().await;
    assert_eq!(troubles(&world).await, troubled("queue_refuses"));
    // The row waits for its next publication: this tick learns nothing about the queue.
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.tick().await.published, 0);
    assert_eq!(troubles(&world).await, troubled("queue_refuses"));
    world.broker.refuse(false);
    world.intake(&[notice_with_key("n9")]).await.expect("recorded");
    assert_eq!(troubles(&world).await, (200, Vec::new()));
}
