//! Parking: what is kept, who sees it, and what becomes of it when somebody decides.

use std::time::Duration;

use sealpost::outbox::envelope::Envelope;
use serde_json::{Value as Json, json};

use super::queues::without;
use crate::support::{TestWorld, all_pages, check_door, config_with, integer, look, order, refusal, text};

const SECOND: Duration = Duration::from_secs(1);
const PARKING: &str = "/v1/parking";

/// The hash of the only entry.
async fn hash(world: &TestWorld) -> String {
    let rows = world.sql("SELECT hash FROM parking", vec![]).await;
    assert_eq!(rows.len(), 1);
    text(&rows[0][0])
}

async fn body_of(world: &TestWorld) -> String {
    text(&world.sql("SELECT body FROM parking", vec![]).await[0][0])
}

/// A message that a version parked which could not read it.
async fn parked_by_another_version(world: &TestWorld, source: &'static str, id: &str) -> String {
    let body = Envelope::to_row(id).to_body();
    let bytes = i64::try_from(body.len()).unwrap();
    world
        .sql(
            "INSERT INTO parking (hash, source, reason, body, body_bytes, first_seen_at, last_seen_at)
             VALUES (?1, ?2, 'envelope_version_unknown', ?3, ?4, 1, 1)",
            vec!["a".repeat(64).into(), source.into(), body.into(), bytes.into()],
        )
        .await;
    "a".repeat(64)
}

async fn replay(world: &TestWorld, hash: &str) -> (u16, Json) {
    let answer = order(world, &format!("{PARKING}/{hash}/replay"), &json!({ "note": "mended" })).await;
    (answer.status, answer.body)
}

async fn actions(world: &TestWorld) -> Vec<String> {
    let rows = world.sql("SELECT action FROM operator_log ORDER BY seq", vec![]).await;
    rows.iter().map(|row| text(&row[0])).collect()
}

fn not_understood() -> (u16, String) {
    (409, "still_not_understood".to_owned())
}

fn refused((status, body): (u16, Json)) -> (u16, String) {
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_list_shows_no_body_and_one_entry_does_and_is_written_down() {
    let world = TestWorld::new().await;
    for _ in 0..2 {
        world
            .deliver_bodies(&[r#"{"to":"needle@example.com"}"#.to_owned()])
            .await;
        world.clock.advance(SECOND);
    }
    let list = look(&world, PARKING).await.body;
    let hash = hash(&world).await;
    assert_eq!(
        list,
        json!({ "next": null, "items": [{ "hash": hash, "source": "queue", "reason": "envelope_kind_unknown",
            "origin": null, "bodyBytes": 27, "bodyGone": false, "times": 2, "firstSeenAt": "2026-01-01T00:00:00.000Z",
            "lastSeenAt": "2026-01-01T00:00:01.000Z", "state": "parked", "closedAt": null }] })
    );
    assert!(actions(&world).await.is_empty());
    let one = look(&world, &format!("{PARKING}/{hash}")).await;
    assert_eq!(
        (one.status, &one.body["body"]),
        (200, &json!(r#"{"to":"needle@example.com"}"#))
    );
    assert_eq!(actions(&world).await, ["parking_shown"]);
    assert!(!world.notes.text().contains("needle"));
}

#[tokio::test]
async fn entries_that_are_not_there_are_not_written_down() {
    let world = TestWorld::new().await;
    for name in [
        "needle@example.com",
        "row-",
        "row-needle",
        "0",
        &"f".repeat(64),
        "row-ntc_0123456789",
    ] {
        let path = format!("{PARKING}/{name}");
        assert_eq!(refusal(&look(&world, &path).await), (404, "no_such_entry"), "{name}");
        for (verb, body) in [("discard", json!({ "note": "x" })), ("replay", json!({}))] {
            let answer = order(&world, &format!("{path}/{verb}"), &body).await;
            assert_eq!(refusal(&answer), (404, "no_such_entry"), "{name}");
        }
    }
    assert!(actions(&world).await.is_empty());
}

#[tokio::test]
async fn the_list_is_walked_by_pages_in_each_state() {
    let world = TestWorld::new().await;
    let bodies: Vec<String> = (0..5).map(|n| format!("what? {n}")).collect();
    world.deliver_bodies(&bodies).await;
    let open = all_pages(&world, PARKING, 2).await;
    assert_eq!(open.len(), 5);
    for entry in &open[..3] {
        let path = format!("{PARKING}/{}/discard", entry["hash"].as_str().unwrap());
        assert_eq!(order(&world, &path, &json!({ "note": "a test" })).await.status, 200);
    }
    assert_eq!(all_pages(&world, "/v1/parking?state=parked", 1).await.len(), 2);
    assert_eq!(all_pages(&world, "/v1/parking?state=discarded", 2).await.len(), 3);
    assert_eq!(all_pages(&world, "/v1/parking?state=replayed", 2).await.len(), 0);
    for wrong in ["?state=needle", "?after=needle", "?after=x.y", "?limit=1000"] {
        let answer = look(&world, &format!("{PARKING}{wrong}")).await;
        assert_eq!(refusal(&answer), (422, "query_invalid"), "{wrong}");
    }
}

#[tokio::test]
async fn discarding_needs_a_reason_and_empties_the_body_until_it_comes_again() {
    let world = TestWorld::new().await;
    world.deliver_bodies(&["needle".to_owned()]).await;
    let path = format!("{PARKING}/{}/discard", hash(&world).await);
    for body in [json!({}), json!({ "note": " " })] {
        assert_eq!(refusal(&order(&world, &path, &body).await), (422, "note_required"));
    }
    assert_eq!(body_of(&world).await, "needle");
    let gone = order(&world, &path, &json!({ "note": "a test of the producer's" })).await;
    assert_eq!((gone.status, &gone.body["state"]), (200, &json!("discarded")));
    assert_eq!(gone.body["closedAt"], "2026-01-01T00:00:00.000Z");
    assert_eq!(body_of(&world).await, "");
    assert_eq!(
        refusal(&order(&world, &path, &json!({ "note": "again" })).await),
        (409, "entry_closed")
    );
    let replayed = replay(&world, &hash(&world).await).await;
    assert_eq!(refused(replayed), (409, "entry_closed".to_owned()));
    assert_eq!(actions(&world).await, ["parking_discarded"], "only what happened");
    assert_eq!(look(&world, PARKING).await.body["items"], json!([]));

    world.deliver_bodies(&["needle".to_owned()]).await;
    let again = look(&world, PARKING).await.body;
    assert_eq!(
        (
            &again["items"][0]["state"],
            &again["items"][0]["times"],
            &again["items"][0]["closedAt"]
        ),
        (&json!("parked"), &json!(2), &Json::Null)
    );
    assert_eq!(body_of(&world).await, "needle");
}

#[tokio::test]
async fn an_envelope_that_this_version_reads_brings_its_row() {
    for source in ["queue", "dead_letter_queue"] {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.broker.take();
        let hash = parked_by_another_version(&world, source, &id).await;
        assert_eq!(world.tick().await.published, 0, "the relay would wait");
        let (status, body) = replay(&world, &hash).await;
        assert_eq!(
            (status, &body["state"], &body["origin"]),
            (200, &json!("replayed"), &json!(id)),
            "{body}"
        );
        assert_eq!(world.status(&id).await, "enqueued", "the state stays");
        assert_eq!(world.tick().await.published, 1);
        world.deliver().await;
        assert_eq!(world.status(&id).await, "sent");
        assert_eq!(actions(&world).await, ["parking_replayed"]);
    }
}

#[tokio::test]
async fn a_replay_never_brings_a_row_before_its_time_and_leaves_claims_and_settled_rows_alone() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    for change in [
        "UPDATE outbox SET status = 'retry', next_attempt_at = updated_at + 5000, relay_at = updated_at + 5000, cause = 'x'",
        "UPDATE outbox SET status = 'processing', claim_token = 'x', claim_expires_at = updated_at + 5000,
           next_attempt_at = NULL, cause = 'claimed'",
        "UPDATE outbox SET status = 'failed', claim_token = NULL, claim_expires_at = NULL, relay_at = NULL,
           settled_at = updated_at, cause = 'x'",
    ] {
        world.sql(change, vec![]).await;
        let before = world
            .sql("SELECT status, relay_at, next_attempt_at FROM outbox", vec![])
            .await;
        let hash = parked_by_another_version(&world, "queue", &id).await;
        assert_eq!(replay(&world, &hash).await.0, 200);
        let after = world
            .sql("SELECT status, relay_at, next_attempt_at FROM outbox", vec![])
            .await;
        assert_eq!(after, before, "{change}");
        world.sql("DELETE FROM parking", vec![]).await;
    }
}

#[tokio::test]
async fn what_is_still_not_understood_stays() {
    let world = TestWorld::new().await;
    world.deliver_bodies(&["what?".to_owned()]).await;
    assert_eq!(refused(replay(&world, &hash(&world).await).await), not_understood());
    world.sql("DELETE FROM parking", vec![]).await;

    world.deliver_dead(&[Envelope::to_row("ntc_nobody123").to_body()]).await;
    let list = look(&world, PARKING).await.body;
    assert_eq!(list["items"][0]["origin"], "ntc_nobody123", "the row that is missing");
    assert_eq!(refused(replay(&world, &hash(&world).await).await), not_understood());
    assert_eq!(look(&world, PARKING).await.body["items"][0]["state"], "parked");
    assert!(actions(&world).await.is_empty());
    world.sql("DELETE FROM parking", vec![]).await;

    world.deliver_bodies(&["x".repeat(17 * 1_024)]).await;
    assert_eq!(
        refused(replay(&world, &hash(&world).await).await),
        (409, "body_was_cut".to_owned())
    );
}

#[tokio::test]
async fn a_row_that_no_version_could_read_is_parked_and_goes_on_when_one_can() {
    let mut world = TestWorld::new().await;
    let known = world.config.clone();
    let id = world.notices(1).await.remove(0);
    world.config = without("notice", &known);
    world.deliver().await;
    let list = look(&world, PARKING).await.body;
    let entry = &list["items"][0];
    assert_eq!(
        (&entry["hash"], &entry["source"], &entry["reason"], &entry["origin"]),
        (
            &json!(format!("row-{id}")),
            &json!("outbox"),
            &json!("outbox_id_unclaimed"),
            &json!(id)
        )
    );
    let hash = format!("row-{id}");
    assert_eq!(refused(replay(&world, &hash).await), not_understood());
    assert_eq!(world.status(&id).await, "dead_letter");

    world.config = known;
    let (status, body) = replay(&world, &hash).await;
    assert_eq!(
        (status, &body["state"], &body["row"]["result"]),
        (200, &json!("replayed"), &json!("retried")),
        "{body}"
    );
    world.tick().await;
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
}

#[tokio::test]
async fn a_row_that_dies_again_is_parked_again() {
    let world = TestWorld::new().await;
    let intent =
        json!({ "family": "pledge_receipt", "key": { "pledgeId": "p-1" }, "to": "ada@example.com", "data": {} });
    let id = world.intake(&[intent]).await.expect("recorded").receipts.remove(0).id;
    world.deliver().await;
    assert_eq!(world.state(&id).await.1, "template_data_incomplete");
    assert_eq!(replay(&world, &format!("row-{id}")).await.0, 200);
    world.tick().await;
    world.deliver().await;
    let list = look(&world, PARKING).await.body;
    assert_eq!(
        (&list["items"][0]["times"], &list["items"][0]["state"]),
        (&json!(2), &json!("parked"))
    );
}

#[tokio::test]
async fn a_replay_does_not_go_round_a_suppression() {
    let mut world = TestWorld::new().await;
    let known = world.config.clone();
    let id = world.notices(1).await.remove(0);
    world.config = without("notice", &known);
    world.deliver().await;
    world.config = known;
    order(&world, "/v1/suppressions", &json!({ "address": "n0@example.com" })).await;
    let (status, body) = replay(&world, &format!("row-{id}")).await;
    assert_eq!((status, &body["row"]["result"]), (200, &json!("suppressed")));
    assert_eq!(world.status(&id).await, "suppressed");
    world.run_for(600 * SECOND, 60 * SECOND).await;
    assert_eq!(world.mailer.calls(), 0);
}

async fn troubles(world: &TestWorld) -> Json {
    look(world, "/health").await.body["troubles"].clone()
}

#[tokio::test]
async fn health_complains_where_enough_is_parked() {
    for (at, parked, complains) in [
        ("1", 0, false),
        ("1", 1, true),
        ("3", 2, false),
        ("3", 3, true),
        ("0", 9, false),
    ] {
        let world = TestWorld::with(config_with(&[("PARKED_ALARM_AT", at)])).await;
        world.tick().await;
        let bodies: Vec<String> = (0..parked).map(|n| format!("what? {n}")).collect();
        world.deliver_bodies(&bodies).await;
        let wanted = if complains { json!(["input_parked"]) } else { json!([]) };
        assert_eq!(troubles(&world).await, wanted, "{at} {parked}");
    }
    let world = TestWorld::new().await;
    world.tick().await;
    world.deliver_bodies(&["what?".to_owned()]).await;
    assert_eq!(
        troubles(&world).await,
        json!(["input_parked"]),
        "one is enough by default"
    );
    let path = format!("{PARKING}/{}/discard", hash(&world).await);
    order(&world, &path, &json!({ "note": "a test" })).await;
    assert_eq!(troubles(&world).await, json!([]));
    let health = look(&world, "/health").await.body;
    assert_eq!(health["parked"], 0, "what is closed does not wait");
    let rows = world.sql("SELECT count(*) FROM parking", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 1, "and is still on record");
}

#[tokio::test]
async fn the_doors_open_to_operators_alone() {
    let world = TestWorld::new().await;
    let hash = "a".repeat(64);
    check_door(&world, "GET", PARKING, "GET").await;
    check_door(&world, "GET", &format!("{PARKING}/{hash}"), "GET").await;
    check_door(&world, "POST", &format!("{PARKING}/{hash}/discard"), "POST").await;
    check_door(&world, "POST", &format!("{PARKING}/{hash}/replay"), "POST").await;
    assert_eq!(
        refusal(&look(&world, &format!("{PARKING}/{hash}/needle")).await),
        (404, "no_such_door")
    );
    let unread = order(&world, &format!("{PARKING}/{hash}/replay"), &json!({ "needle": 1 })).await;
    assert_eq!(refusal(&unread), (422, "order_invalid"));
    let closed = TestWorld::with(config_with(&[("OPERATOR_TOKENS", "")])).await;
    assert_eq!(refusal(&look(&closed, PARKING).await), (403, "door_closed"));
}
