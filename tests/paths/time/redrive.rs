//! A window that has closed stays closed, whoever brings the row again.

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::outbox::envelope::Envelope;

use super::*;
use crate::queues::without;
use crate::support::order;
use crate::unknown;

const CLOSES: &str = "2026-01-01T02:00:00Z";

/// A row of a version that does not know its family.
async fn dead(world: &mut TestWorld) -> String {
    let id = record(world, "n1", json!({ "notAfter": CLOSES })).await;
    let known = world.config.clone();
    world.config = without("notice", &known);
    world.deliver().await;
    world.config = known;
    assert_eq!(world.state(&id).await, owned("dead_letter", "outbox_id_unclaimed"));
    id
}

async fn never_sent(world: &TestWorld, id: &str) {
    world.run_for(HOUR, 10 * MINUTE).await;
    assert_eq!(world.state(id).await, owned("expired", "window_missed"));
    assert_eq!(world.mailer.accepted(), 0);
}

#[tokio::test]
async fn an_operators_retry_of_a_dead_letter_finds_its_window_closed() {
    let mut world = TestWorld::new().await;
    let id = dead(&mut world).await;
    go_to(&world, CLOSES);
    let answer = order(&world, "/v1/queues/outbox/retry-dead", &json!({ "ids": [id] })).await;
    assert_eq!(answer.body["items"][0]["result"], "expired");
    assert_eq!(answer.body["items"][0]["why"], "window_missed");
    never_sent(&world, &id).await;
}

#[tokio::test]
async fn a_version_that_can_read_the_row_drives_it_into_a_closed_window() {
    let mut world = TestWorld::new().await;
    let id = dead(&mut world).await;
    go_to(&world, CLOSES);
    never_sent(&world, &id).await;
}

#[tokio::test]
async fn a_parked_row_that_is_replayed_finds_its_window_closed() {
    let mut world = TestWorld::new().await;
    let id = dead(&mut world).await;
    go_to(&world, CLOSES);
    let answer = order(&world, &format!("/v1/parking/row-{id}/replay"), &json!({})).await;
    assert_eq!(answer.body["row"]["result"], "expired", "{}", answer.body);
    never_sent(&world, &id).await;
}

#[tokio::test]
async fn a_message_of_the_dead_letter_queue_finds_its_window_closed() {
    let world = TestWorld::new().await;
    let id = record(&world, "n1", json!({ "notAfter": CLOSES })).await;
    world.broker.take();
    go_to(&world, CLOSES);
    world.deliver_dead(&[Envelope::to_row(&id).to_body()]).await;
    never_sent(&world, &id).await;
}

#[tokio::test]
async fn a_mail_that_is_sent_again_keeps_its_window() {
    let world = TestWorld::new().await;
    let id = record(&world, "n1", json!({ "notAfter": "2026-01-03T00:00:00Z" })).await;
    world.mailer.fault(FaultKind::AcceptThenDrop, -1);
    world.deliver().await;
    world.mailer.clear_faults();
    go_to(&world, "2026-01-03T00:00:00Z");
    world.tick().await;
    assert_eq!(world.state(&id).await, owned("unknown", "provider_window_closed"));
    let verdict = json!({ "verdict": "send_again", "note": "the recipient has nothing" });
    let answer = unknown::order(&world, &format!("/v1/unknown/{id}/resolve"), &verdict).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let again = answer.body["id"].as_str().expect("an id").to_owned();
    let before = world.mailer.calls();
    world.deliver().await;
    world.run_for(HOUR, 10 * MINUTE).await;
    assert_eq!(world.state(&again).await, owned("expired", "window_missed"));
    assert_eq!(world.mailer.calls(), before);
}

#[tokio::test]
async fn a_request_that_is_repeated_after_its_window_is_a_duplicate_and_a_new_one_is_missed() {
    let world = TestWorld::new().await;
    let id = record(&world, "n1", json!({ "notAfter": CLOSES })).await;
    world.broker.take();
    go_to(&world, CLOSES);
    let said = json!({ "notAfter": CLOSES });
    let accepted = world
        .intake(&[notice("n1", &said), notice("n2", &said)])
        .await
        .expect("recorded");
    assert_eq!((&accepted.receipts[0].id, accepted.receipts[0].duplicate), (&id, true));
    assert_eq!(accepted.receipts[1].status, sealpost::outbox::status::Status::Expired);
    assert!(accepted.to_publish.is_empty());
    never_sent(&world, &id).await;
    assert_eq!(world.count("expired").await, 2);
}

#[tokio::test]
async fn a_night_counts_for_whatever_is_driven_again() {
    let mut world = quiet_world("2026-01-05T20:00:00Z").await;
    let id = record(&world, "n1", json!({})).await;
    let known = world.config.clone();
    world.config = without("notice", &known);
    world.deliver().await;
    world.config = known;
    go_to(&world, "2026-01-05T22:00:00Z");
    let answer = order(&world, "/v1/queues/outbox/retry-dead", &json!({ "ids": [id] })).await;
    assert_eq!(answer.body["items"][0]["result"], "retried");
    world.run_for(8 * HOUR, 10 * MINUTE).await;
    assert_eq!(
        (world.state(&id).await, world.mailer.calls()),
        (owned("retry", "outside_hours"), 0)
    );
    world.run_for(2 * HOUR, 10 * MINUTE).await;
    assert_eq!(world.status(&id).await, "sent");
}
