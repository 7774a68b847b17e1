//! Many dead letters at once: those that this version can move come first, and nothing hides them.

use serde_json::{Value as Json, json};

use super::queues::without;
use crate::support::{TestWorld, notice_with_key, order, refusal};

const RETRY: &str = "/v1/queues/outbox/retry-dead";

/// Dead letters in this order, by the families `notice` and `announcement`, that no version could read; the version
/// that runs now does not know `notice`.
async fn dead(world: &mut TestWorld, families: &[&str]) -> Vec<String> {
    let known = world.config.clone();
    let mut ids = Vec::new();
    for (number, family) in families.iter().enumerate() {
        let mut intent = notice_with_key(&format!("d{number}"));
        intent["family"] = json!(family);
        intent["to"] = json!(format!("d{number}@example.com"));
        world.config = known.clone();
        ids.push(world.intake(&[intent]).await.expect("recorded").receipts.remove(0).id);
        // The bulk ones are the relay's to admit.
        world.tick().await;
        world.config = without(family, &known);
        world.deliver().await;
        assert_eq!(world.status(&ids[number]).await, "dead_letter");
    }
    world.config = without("notice", &known);
    ids
}

async fn retry(world: &TestWorld, body: &Json) -> (Vec<(i64, String)>, Json) {
    let answer = order(world, RETRY, body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let items = answer.body["items"].as_array().expect("a list").iter();
    let results = items.map(|item| {
        let result = item["result"].as_str().expect("a result").to_owned();
        (item["seq"].as_i64().expect("a number"), result)
    });
    (results.collect(), answer.body["next"].clone())
}

fn results(list: &[(i64, &str)]) -> Vec<(i64, String)> {
    list.iter().map(|(seq, result)| (*seq, (*result).to_owned())).collect()
}

const FAMILIES: [&str; 6] = [
    "notice",
    "notice",
    "notice",
    "announcement",
    "announcement",
    "announcement",
];

#[tokio::test]
async fn rows_that_cannot_move_hold_no_row_back_that_can() {
    let mut world = TestWorld::new().await;
    let ids = dead(&mut world, &FAMILIES).await;
    let two = json!({ "class": "pipeline", "limit": 2 });
    assert_eq!(
        retry(&world, &two).await,
        (results(&[(4, "retried"), (5, "retried")]), json!(5))
    );
    // The last one that can, and then what cannot: it is said.
    assert_eq!(
        retry(&world, &two).await,
        (results(&[(1, "still_unreadable"), (6, "retried")]), json!(1))
    );
    assert_eq!(
        retry(&world, &two).await,
        (results(&[(1, "still_unreadable"), (2, "still_unreadable")]), json!(2))
    );
    for (id, wanted) in ids
        .iter()
        .zip(["dead_letter", "dead_letter", "dead_letter", "retry", "retry", "retry"])
    {
        assert_eq!(world.status(id).await, wanted);
    }
}

#[tokio::test]
async fn a_row_that_must_end_is_no_row_that_cannot_be_read() {
    let mut world = TestWorld::new().await;
    dead(&mut world, &FAMILIES[..3]).await;
    order(&world, "/v1/suppressions", &json!({ "address": "d2@example.com" })).await;
    assert_eq!(
        retry(&world, &json!({ "limit": 1 })).await,
        (results(&[(3, "suppressed")]), json!(3))
    );
}

#[tokio::test]
async fn the_cursor_walks_on_behind_what_was_retried() {
    let mut world = TestWorld::new().await;
    let ids = dead(&mut world, &FAMILIES).await;
    assert_eq!(
        retry(&world, &json!({ "limit": 2 })).await,
        (results(&[(4, "retried"), (5, "retried")]), json!(5))
    );
    // They die again: without the cursor, the next order would take the same ones.
    let known = world.config.clone();
    world.config = without("announcement", &known);
    world.deliver_ids(&[&ids[3], &ids[4]]).await;
    world.config = known;
    assert_eq!(world.status(&ids[3]).await, "dead_letter");
    assert_eq!(
        retry(&world, &json!({ "limit": 2, "after": 5 })).await,
        (results(&[(6, "retried")]), Json::Null)
    );
    assert_eq!(
        retry(&world, &json!({ "limit": 2, "after": 6 })).await,
        (Vec::new(), Json::Null)
    );
    assert_eq!(
        retry(&world, &json!({ "family": "notice", "limit": 2, "after": 1 })).await,
        (results(&[(2, "still_unreadable"), (3, "still_unreadable")]), Json::Null)
    );
}

#[tokio::test]
async fn a_cursor_belongs_to_a_walk() {
    let mut world = TestWorld::new().await;
    let ids = dead(&mut world, &FAMILIES[..1]).await;
    for body in [
        json!({ "after": 0 }),
        json!({ "seq": 1, "after": 0 }),
        json!({ "ids": ids, "after": 0 }),
    ] {
        assert_eq!(
            refusal(&order(&world, RETRY, &body).await),
            (422, "selection_invalid"),
            "{body}"
        );
    }
    let wrong = order(&world, RETRY, &json!({ "limit": 1, "after": "1" })).await;
    assert_eq!(refusal(&wrong), (422, "order_invalid"));
    let named = order(&world, RETRY, &json!({ "ids": ids })).await.body;
    assert_eq!(named.get("next"), None, "named rows are all there is");
}
