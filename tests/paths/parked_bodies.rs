//! Parked events name people: their bodies go after the retention, the entries stay.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::receipts::{event, one_sent, post_event};
use crate::support::{TestWorld, look, order, refusal, text};

const DAY: Duration = Duration::from_secs(86_400);
/// Longer than the retention, a week.
const LONG: Duration = Duration::from_secs(8 * 86_400);
const PARKING: &str = "/v1/parking";

/// The only entry of a list, without a body.
async fn entry(world: &TestWorld) -> Json {
    let list = look(world, PARKING).await.body;
    let items = list["items"].as_array().expect("a list");
    assert_eq!(items.len(), 1, "{list}");
    items[0].clone()
}

/// A sent mail and an event about it that no version knows, parked.
async fn parked() -> (TestWorld, String, String) {
    let (world, _, message_id) = one_sent().await;
    let body = event(&world, &message_id, "email.delivered", &json!({})).replace("email.delivered", "email.teleported");
    assert_eq!(post_event(&world, "msg_new", &body).await.body["result"], "parked");
    let hash = entry(&world).await["hash"].as_str().expect("a hash").to_owned();
    (world, body, format!("{PARKING}/{hash}"))
}

#[tokio::test]
async fn an_event_loses_its_body_and_keeps_its_entry() {
    let (world, body, path) = parked().await;
    let before = entry(&world).await;
    assert_eq!(before["bodyGone"], json!(false));
    world.clock.advance(6 * DAY);
    world.tick().await;
    assert_eq!(
        look(&world, &path).await.body["body"],
        json!(body),
        "within the retention"
    );
    world.clock.advance(2 * DAY);
    world.tick().await;
    let mut after = entry(&world).await;
    assert_eq!(after["bodyGone"], json!(true));
    after["bodyGone"] = json!(false);
    assert_eq!(
        after, before,
        "hash, source, reason, origin, length, times and state stay"
    );
    let shown = look(&world, &path).await;
    assert_eq!(
        (shown.status, &shown.body["body"], &shown.body["bodyGone"]),
        (200, &json!(""), &json!(true))
    );
}

#[tokio::test]
async fn what_has_no_body_any_more_is_not_replayed_and_can_be_discarded() {
    let (world, _, path) = parked().await;
    world.clock.advance(LONG);
    world.tick().await;
    let answer = order(&world, &format!("{path}/replay"), &json!({})).await;
    assert_eq!(refusal(&answer), (409, "body_gone"));
    assert_eq!(entry(&world).await["state"], "parked", "it still asks");
    let answer = order(&world, &format!("{path}/discard"), &json!({ "note": "too old" })).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn the_same_event_again_brings_its_body_back_and_starts_the_time_anew() {
    let (world, body, path) = parked().await;
    world.clock.advance(LONG);
    world.tick().await;
    assert_eq!(post_event(&world, "msg_new", &body).await.body["result"], "parked");
    let shown = look(&world, &path).await.body;
    assert_eq!(
        (&shown["body"], &shown["bodyGone"], &shown["times"]),
        (&json!(body), &json!(false), &json!(2))
    );
    world.clock.advance(6 * DAY);
    world.tick().await;
    assert_eq!(entry(&world).await["bodyGone"], json!(false), "last seen six days ago");
    world.clock.advance(2 * DAY);
    world.tick().await;
    assert_eq!(entry(&world).await["bodyGone"], json!(true));
}

#[tokio::test]
async fn messages_of_a_queue_and_dead_letters_keep_what_they_have() {
    let world = TestWorld::new().await;
    world.deliver_bodies(&["what?".to_owned()]).await;
    let id = world.notices(1).await.remove(0);
    world.sql("DELETE FROM letters", vec![]).await;
    world.deliver().await;
    assert_eq!(world.status(&id).await, "dead_letter");
    world.clock.advance(LONG);
    world.tick().await;
    let list = look(&world, PARKING).await.body;
    let gone: Vec<&Json> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["bodyGone"])
        .collect();
    assert_eq!(gone, [&json!(false), &json!(false)], "a row's entry never had one");
    let bodies = world.sql("SELECT body FROM parking ORDER BY source DESC", vec![]).await;
    assert_eq!(
        bodies.iter().map(|row| text(&row[0])).collect::<Vec<_>>(),
        ["what?", ""]
    );
}

#[tokio::test]
async fn a_tick_forgets_a_bounded_number_the_oldest_first() {
    let world = TestWorld::new().await;
    world
        .sql(
            "INSERT INTO parking (hash, source, reason, body, body_bytes, first_seen_at, last_seen_at)
             SELECT 'h' || value, 'receipts', 'event_type_unknown', 'x', 1, value, value
             FROM (WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 450)
               SELECT value FROM n)",
            vec![],
        )
        .await;
    let left = "SELECT count(*), min(last_seen_at) FROM parking WHERE body = 'x'";
    let mut seen = Vec::new();
    for _ in 0..3 {
        world.tick().await;
        seen.push(world.sql(left, vec![]).await[0].clone());
    }
    assert_eq!(
        seen,
        [
            vec![250.into(), 201.into()],
            vec![50.into(), 401.into()],
            vec![0.into(), libsql::Value::Null]
        ]
    );
}
