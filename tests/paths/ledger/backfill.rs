//! What another system sent: known for good, and never sent.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::doors::post;
use super::{number, replay, tally};
use crate::support::{TestWorld, Wire, look, notice_with_key};

fn backfill(intents: &[Json]) -> Json {
    json!({ "batch": "legacy", "mode": "backfill", "intents": intents })
}

#[tokio::test]
async fn a_fact_that_another_system_sent_is_known_and_makes_no_mail() {
    let world = TestWorld::new().await;
    world.transport.take_requests();
    let bare = json!({ "family": "notice", "idempotencyKey": "n1", "to": "a@example.com" });
    let answer = replay(&world, &backfill(&[notice_with_key("n0"), bare])).await;
    assert_eq!(world.transport.take_requests(), 1, "one round trip");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(
        (&answer.body["new"], &answer.body["intents"][0]["status"]),
        (&json!(2), &json!("external"))
    );
    assert!(answer.to_publish.is_empty());
    let id = answer.body["intents"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.state(&id).await, ("external".to_owned(), "backfilled".to_owned()));
    assert_eq!(
        number(&world, "SELECT count(*) FROM letters").await,
        0,
        "no word of the mail is kept"
    );

    for key in ["n0", "n1"] {
        let later = post(&world, &json!({ "intents": [notice_with_key(key)] })).await;
        assert_eq!(
            later.status, 202,
            "whatever it says: nothing is known that it could contradict"
        );
        assert_eq!(later.body["intents"][0]["duplicate"], true);
        assert_eq!(later.body["intents"][0]["status"], "external");
        assert!(later.to_publish.is_empty());
    }
    let replayed = replay(&world, &super::batch("b", &[notice_with_key("n0")])).await;
    assert_eq!(replayed.body["known"], 1);
    world.deliver_ids(&[&id]).await;
    world
        .run_for(Duration::from_secs(8 * 86_400), Duration::from_secs(86_400))
        .await;
    assert_eq!(world.mailer.calls(), 0);
    assert_eq!(
        number(&world, "SELECT count(*) FROM outbox WHERE pruned_at IS NOT NULL").await,
        2
    );
    let late = post(&world, &json!({ "intents": [notice_with_key("n0")] })).await;
    assert_eq!(late.body["intents"][0]["duplicate"], true);
    assert_eq!(
        tally(&world, "duplicate", "notice").await,
        4,
        "what was backfilled is no duplicate"
    );
}

#[tokio::test]
async fn a_known_fact_stays_as_it_is_and_the_answer_says_so() {
    let world = TestWorld::new().await;
    let ids = world.notices(1).await;
    let before = world.sql("SELECT * FROM outbox", vec![]).await;
    let answer = replay(&world, &backfill(&[notice_with_key("n0"), notice_with_key("n0")])).await;
    assert_eq!((&answer.body["known"], &answer.body["new"]), (&json!(2), &json!(0)));
    let item = &answer.body["intents"][0];
    assert_eq!(
        (&item["outcome"], &item["id"], &item["status"]),
        (&json!("known"), &json!(ids[0]), &json!("enqueued"))
    );
    assert_eq!(world.sql("SELECT * FROM outbox", vec![]).await, before);
    assert_eq!(number(&world, "SELECT count(*) FROM letters").await, 1);
    world.deliver().await;
    assert_eq!(world.mailer.accepted(), 1, "it was ours to send");
    let totals = look(&world, "/v1/replays/legacy").await;
    assert_eq!(totals.body["modes"][0]["mode"], "backfill");
}

#[tokio::test]
async fn a_dry_run_of_a_backfill_counts_too() {
    let world = TestWorld::new().await;
    world.notices(1).await;
    let mut body = backfill(&[notice_with_key("n0"), notice_with_key("n1")]);
    body["dryRun"] = json!(true);
    let answer = replay(&world, &body).await;
    let forecast = &answer.body["forecast"];
    assert_eq!(
        (&forecast["new"]["count"], &forecast["known"]["count"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(number(&world, "SELECT count(*) FROM outbox").await, 1);
}

#[tokio::test]
async fn a_lost_answer_backfills_once() {
    let world = TestWorld::new().await;
    world.transport.next(Wire::LoseAnswer);
    let answer = replay(&world, &backfill(&[notice_with_key("n0")])).await;
    assert_eq!(answer.body["new"], 1);
    assert_eq!(number(&world, "SELECT count(*) FROM outbox").await, 1);
}

#[tokio::test]
async fn a_fact_without_its_parts_is_refused() {
    let world = TestWorld::new().await;
    for (intent, path) in [
        (json!({ "family": "notice", "to": "a@example.com" }), "/intents/0/key"),
        (
            json!({ "family": "nobody", "idempotencyKey": "x", "to": "a@example.com" }),
            "/intents/0/family",
        ),
        (json!({ "family": "notice", "idempotencyKey": "x" }), "/intents/0/to"),
        (
            json!({ "family": "notice", "idempotencyKey": "x", "to": "a@example.com", "sent": 1 }),
            "/intents/0/sent",
        ),
    ] {
        let answer = replay(&world, &backfill(&[intent])).await;
        assert_eq!(
            (answer.status, answer.body["errors"][0]["path"].as_str()),
            (422, Some(path))
        );
    }
}
