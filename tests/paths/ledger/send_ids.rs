//! The caller's name of a send: while one waits, another records nothing. The business key outranks it.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::doors::post;
use super::{number, replay, tally};
use crate::support::{TestWorld, Wire, notice_with_key};

fn named(key: &str, id: &str) -> Json {
    let mut intent = notice_with_key(key);
    intent["id"] = json!(id);
    intent
}

async fn send(world: &TestWorld, intents: &[Json]) -> Json {
    let answer = post(world, &json!({ "intents": intents })).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.body["intents"].clone()
}

const ROWS: &str = "SELECT count(*) FROM outbox";

#[tokio::test]
async fn a_send_whose_id_waits_records_nothing_and_answers_with_the_first() {
    let world = TestWorld::new().await;
    let first = send(&world, &[named("n0", "welcome-bo")]).await;
    assert_eq!(first[0]["duplicate"], false);
    world.transport.take_requests();
    let mut other = named("n1", "welcome-bo");
    other["content"]["text"] = json!("Other words.");
    other["to"] = json!("somebody.else@example.com");
    let second = send(&world, &[other]).await;
    assert_eq!(world.transport.take_requests(), 1, "one round trip");
    assert_eq!(second[0]["duplicate"], true);
    assert_eq!(
        (&second[0]["id"], &second[0]["seq"]),
        (&first[0]["id"], &first[0]["seq"])
    );
    assert_eq!(number(&world, ROWS).await, 1);
    assert_eq!(
        number(&world, "SELECT count(*) FROM intent_keys").await,
        1,
        "its key stays free"
    );
    assert_eq!(tally(&world, "send_id_duplicate", "notice").await, 1);
    // Being delivered counts as waiting.
    world
        .sql(
            "UPDATE outbox SET status = 'processing', claim_token = 'c', claim_expires_at = 1",
            vec![],
        )
        .await;
    assert_eq!(send(&world, &[named("n2", "welcome-bo")]).await[0]["duplicate"], true);
}

#[tokio::test]
async fn an_id_is_forgotten_once_its_row_is_settled_or_asks_for_a_person() {
    let world = TestWorld::new().await;
    let first = send(&world, &[named("n0", "welcome-bo")]).await;
    world.deliver_ids(&[first[0]["id"].as_str().unwrap()]).await;
    let second = send(&world, &[named("n1", "welcome-bo")]).await;
    assert_eq!(second[0]["duplicate"], false, "the first is sent");
    world
        .sql(
            "UPDATE outbox SET status = 'dead_letter', dead_class = 'pipeline', cause = 'x', relay_at = NULL
             WHERE status = 'pending'",
            vec![],
        )
        .await;
    assert_eq!(send(&world, &[named("n2", "welcome-bo")]).await[0]["duplicate"], false);
    // A dead letter that is driven again has the same name as a row that waits: both go out.
    world
        .sql(
            "UPDATE outbox SET status = 'retry', dead_class = NULL, relay_at = 1, next_attempt_at = 1
             WHERE status = 'dead_letter'",
            vec![],
        )
        .await;
    assert_eq!(
        send(&world, &[named("n3", "welcome-bo")]).await[0]["id"],
        second[0]["id"],
        "the older one answers"
    );
    assert_eq!(number(&world, ROWS).await, 3);
}

#[tokio::test]
async fn a_known_key_answers_with_its_own_row_whatever_the_id() {
    let world = TestWorld::new().await;
    let known = send(&world, &[notice_with_key("n0")]).await;
    send(&world, &[named("n1", "welcome-bo")]).await;
    let answer = send(&world, &[named("n0", "welcome-bo")]).await;
    assert_eq!(answer[0]["id"], known[0]["id"], "no part of the meaning either");
    let mut changed = named("n0", "welcome-bo");
    changed["content"]["text"] = json!("Other words.");
    assert_eq!(post(&world, &json!({ "intents": [changed] })).await.status, 409);
}

#[tokio::test]
async fn of_one_request_the_first_new_send_of_an_id_is_recorded() {
    let world = TestWorld::new().await;
    let known = send(&world, &[notice_with_key("n0")]).await;
    let answer = send(
        &world,
        &[
            named("n0", "a"),
            named("n1", "a"),
            named("n2", "a"),
            named("n3", "b"),
            notice_with_key("n4"),
        ],
    )
    .await;
    let duplicates: Vec<bool> = (0..5).map(|at| answer[at]["duplicate"].as_bool().unwrap()).collect();
    assert_eq!(duplicates, [true, false, true, false, false]);
    assert_eq!(answer[0]["id"], known[0]["id"]);
    assert_eq!(answer[2]["id"], answer[1]["id"]);
    assert_eq!(number(&world, ROWS).await, 4);
}

#[tokio::test]
async fn an_id_belongs_to_its_family() {
    let world = TestWorld::new().await;
    send(&world, &[named("n0", "a")]).await;
    let mut other = named("n0", "a");
    other["family"] = json!("announcement");
    assert_eq!(send(&world, &[other]).await[0]["duplicate"], false);
    let stored = world.sql("SELECT send_id FROM outbox", vec![]).await;
    assert!(stored[0] != stored[1]);
    assert!(crate::support::text(&stored[0][0]).len() == 64, "a hash");
}

#[tokio::test]
async fn a_lost_answer_finds_its_own_rows_again() {
    for wire in [Wire::LoseAnswer, Wire::GatewayAfterCommit] {
        let world = TestWorld::new().await;
        world.transport.next(wire);
        let answer = send(&world, &[named("n0", "a"), named("n1", "a")]).await;
        assert_eq!(
            (&answer[0]["duplicate"], &answer[1]["duplicate"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(answer[0]["id"], answer[1]["id"]);
        assert_eq!(number(&world, ROWS).await, 1);
        assert_eq!(tally(&world, "send_id_duplicate", "notice").await, 1, "counted once");
    }
}

/// The row may be settled between the two runs of one request: its name still keeps back what it kept back before.
#[tokio::test]
async fn a_second_run_records_nothing_that_the_first_one_kept_back() {
    let world = TestWorld::new().await;
    world
        .sql(
            "CREATE TRIGGER at_once AFTER INSERT ON letters BEGIN
               UPDATE outbox SET status = 'canceled', cause = 'x', relay_at = NULL, settled_at = 1 WHERE id = NEW.outbox_id;
             END",
            vec![],
        )
        .await;
    world.transport.next(Wire::LoseAnswer);
    let answer = send(&world, &[named("n0", "a"), named("n1", "a")]).await;
    assert_eq!(answer[0]["id"], answer[1]["id"]);
    assert_eq!(number(&world, ROWS).await, 1);
}

#[tokio::test]
async fn an_id_that_is_no_name_is_refused() {
    let world = TestWorld::new().await;
    for id in [
        json!(""),
        json!("x".repeat(129)),
        json!("b\u{e9}"),
        json!("a\nb"),
        json!(7),
        Json::Null,
    ] {
        let mut intent = notice_with_key("n0");
        intent["id"] = id.clone();
        let answer = post(&world, &json!({ "intents": [intent] })).await;
        assert_eq!(answer.status, 422, "{id}");
        assert_eq!(answer.body["errors"][0]["path"], "/intents/0/id");
    }
    assert_eq!(
        send(&world, &[named("n0", &"~".repeat(128))]).await[0]["duplicate"],
        false
    );
}

#[tokio::test]
async fn a_replay_respects_the_ids_that_wait() {
    let world = TestWorld::new().await;
    let first = send(&world, &[named("n0", "a")]).await;
    let answer = replay(&world, &super::batch("b1", &[named("n1", "a"), named("n2", "b")])).await;
    assert_eq!(answer.body["intents"][0]["outcome"], "known");
    assert_eq!(answer.body["intents"][0]["id"], first[0]["id"]);
    assert_eq!(answer.body["intents"][1]["outcome"], "new");
    let dry =
        json!({ "batch": "b1", "dryRun": true, "intents": [named("n3", "a"), named("n4", "c"), named("n5", "c")] });
    let forecast = replay(&world, &dry).await.body["forecast"].clone();
    assert_eq!(
        (&forecast["known"]["count"], &forecast["new"]["count"]),
        (&json!(2), &json!(1))
    );
    world.clock.advance(Duration::from_secs(40));
    world.tick().await;
    world.deliver().await;
    assert_eq!(world.mailer.accepted(), 2);
}
