//! What admission counts, when what it admits is delivered, and that no bulk mail goes past it.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::admission::bulk;
use super::ledger::{scrape, value};
use crate::support::{TestWorld, config_with, integer, look, notice_with_key, policy_with};

const MINUTE: Duration = Duration::from_secs(60);

/// A call a second; nobody keeps quiet.
async fn world_with(changes: &[(&str, &str)]) -> TestWorld {
    let mut settings = changes.to_vec();
    settings.push(("PACE_PER_SECOND", "1"));
    let mut world = TestWorld::with(config_with(&settings)).await;
    world.config.policy = policy_with(|family| family.quiet_hours = None);
    world
}

async fn count(world: &TestWorld, sql: &'static str) -> i64 {
    integer(&world.sql(sql, vec![]).await[0][0])
}

#[tokio::test]
async fn a_hundred_mails_of_a_batch_family_are_one_call() {
    let world = world_with(&[]).await;
    bulk(&world, "campaign", "c", 1_500).await;
    world.transport.take_requests();
    world.broker.batches.set(0);
    assert_eq!(world.tick().await.published, 1_500, "fifteen seconds of calls");
    // Two pages, one that is empty, the record; fifteen chunks.
    let requests = world.transport.take_requests() + world.broker.batches.get();
    assert!(requests <= 4 + 2 * 15, "{requests}");
    // What a refused batch leaves goes out one by one, and is counted so.
    world
        .sql(
            "UPDATE outbox SET status = 'pending', relay_at = 1, batch_refused = 1",
            vec![],
        )
        .await;
    assert_eq!(world.tick().await.published, 120);
}

#[tokio::test]
async fn refused_mails_that_were_admitted_take_the_room_of_calls() {
    let world = world_with(&[]).await;
    bulk(&world, "campaign", "c", 100).await;
    world.tick().await;
    world.sql("UPDATE outbox SET batch_refused = 1", vec![]).await;
    bulk(&world, "announcement", "a", 100).await;
    assert_eq!(world.tick().await.published, 20);
}

#[tokio::test]
async fn a_batch_takes_as_many_places_of_a_domain_as_it_has_mails_for_it() {
    let world = world_with(&[("PACE_PER_DOMAIN_PER_MINUTE", "30")]).await;
    bulk(&world, "campaign", "c", 200).await;
    // Each of them to example.com: one in two seconds, for two minutes.
    assert_eq!(world.tick().await.published, 60);
    let other: Vec<Json> = (0..50)
        .map(|n| {
            let mut intent = notice_with_key(&format!("o{n}"));
            intent["family"] = json!("campaign");
            intent["to"] = json!(format!("o{n}@d{n}.example"));
            intent
        })
        .collect();
    world.intake(&other).await.expect("recorded");
    assert_eq!(world.tick().await.published, 50, "the slow domain holds back no other");
}

#[tokio::test]
async fn never_more_than_ten_thousand_are_admitted() {
    let world = world_with(&[("PACE_PER_SECOND", "0")]).await;
    bulk(&world, "announcement", "a", 1).await;
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9990)
      INSERT INTO outbox (id, family, fingerprint, fingerprint_version, fingerprint_secret_id, recipient_hash,
        idempotency_key, status, cause, relay_at, letter_bytes, created_at, updated_at, bulk, priority)
      SELECT 'ann_bulk' || i, 'announcement', 'f', 1, 'k1', 'h', 'key' || i, 'enqueued', 'published', 9000000000000, 10, 1, 1, 1, 8
      FROM n";
    world.sql(many, vec![]).await;
    bulk(&world, "announcement", "b", 50).await;
    assert_eq!(world.tick().await.published, 10);
}

#[tokio::test]
async fn admitted_mails_are_delivered_in_bursts_as_the_pace_gets_to_them() {
    let mut world = world_with(&[("PACE_WAIT_MS", "30000")]).await;
    world.config.policy = policy_with(|family| {
        family.quiet_hours = None;
        if family.name == "renewal_notice" {
            (family.pace_per_minute, family.template, family.priority) = (20, None, 1);
        }
    });
    bulk(&world, "renewal_notice", "r", 30).await;
    bulk(&world, "announcement", "a", 200).await;
    world.tick().await;
    let messages = world.broker.take();
    assert_eq!(messages.len(), 120);
    let mut bursts: Vec<(u32, usize, usize)> = Vec::new();
    for message in &messages {
        let slow = usize::from(message.body.contains("rnw_"));
        match bursts.last_mut() {
            Some((delay, all, some)) if *delay == message.delay_seconds => (*all, *some) = (*all + 1, *some + slow),
            _ => bursts.push((message.delay_seconds, 1, slow)),
        }
    }
    // A burst is half of what a claimed row may wait; the slow family's share is in each of them until it is through.
    let delays: Vec<u32> = bursts.iter().map(|burst| burst.0).collect();
    assert_eq!(delays, [0, 14, 29, 44, 59, 74, 89, 104], "{bursts:?}");
    assert!(bursts.iter().all(|burst| (12..=18).contains(&burst.1)), "{bursts:?}");
    let slow: Vec<usize> = bursts.iter().map(|burst| burst.2).collect();
    assert_eq!(slow, [5, 5, 5, 5, 5, 5, 0, 0], "{bursts:?}");
}

#[tokio::test]
async fn what_an_operator_sends_again_is_admitted_as_any_other_bulk_mail() {
    let world = world_with(&[]).await;
    let id = bulk(&world, "announcement", "a", 1).await.remove(0);
    world
        .sql(
            "UPDATE outbox SET status = 'unknown', cause = 'x', relay_at = NULL, updated_at = 1",
            vec![],
        )
        .await;
    bulk(&world, "announcement", "b", 120).await;
    world.tick().await;
    world.broker.take();
    let path = format!("/v1/unknown/{id}/resolve");
    let order = json!({ "verdict": "send_again", "note": "a test" });
    let answer = super::unknown::order(&world, &path, &order).await;
    assert_eq!((answer.status, answer.body["status"].as_str()), (202, Some("pending")));
    assert_eq!(world.broker.len(), 0, "the door publishes nothing");
    world.clock.advance(MINUTE);
    assert_eq!(world.tick().await.published, 0, "and the pace has no room");
    let again = super::unknown::order(&world, &path, &order).await;
    assert_eq!(
        (again.status, again.body["id"].clone()),
        (200, answer.body["id"].clone())
    );
    world
        .sql(
            "UPDATE outbox SET status = 'canceled', cause = 'x', relay_at = NULL, settled_at = 1 WHERE status = 'enqueued'",
            vec![],
        )
        .await;
    assert_eq!(world.tick().await.published, 1);
    assert_eq!(
        count(
            &world,
            "SELECT count(*) FROM outbox WHERE resend = 1 AND status = 'enqueued'"
        )
        .await,
        1
    );
}

#[tokio::test]
async fn what_comes_back_from_a_dead_letter_or_a_pause_is_admitted_too() {
    let world = world_with(&[]).await;
    let ids = bulk(&world, "announcement", "a", 200).await;
    assert_eq!(world.tick().await.published, 120);
    world
        .sql(
            "UPDATE outbox SET status = 'dead_letter', dead_class = 'recipient', cause = 'x', relay_at = NULL WHERE status = 'pending'",
            vec![],
        )
        .await;
    let order = json!({ "ids": &ids[120..] });
    let answer = crate::support::order(&world, "/v1/queues/outbox/retry-dead", &order).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    assert_eq!(
        count(&world, "SELECT count(*) FROM outbox WHERE status = 'retry'").await,
        80
    );
    assert_eq!(world.tick().await.published, 0);
    world
        .sql("UPDATE outbox SET cause = 'paused' WHERE status = 'retry'", vec![])
        .await;
    let path = "/v1/pauses/announcement/lift";
    assert_eq!(crate::support::order(&world, path, &json!({})).await.status, 200);
    world.clock.advance(MINUTE);
    assert_eq!(world.tick().await.published, 0);
}

#[tokio::test]
async fn bulk_mails_that_wait_for_the_pace_are_no_late_ones_and_have_a_figure_of_their_own() {
    let world = world_with(&[]).await;
    bulk(&world, "announcement", "a", 300).await;
    let ages = async || {
        let text = scrape(&world).await;
        let stats = look(&world, "/v1/queues/outbox/stats").await.body;
        (
            value(&text, "sealpost_pending_age_seconds").expect("a figure"),
            value(&text, "sealpost_bulk_pending_age_seconds").expect("a figure"),
            stats["pendingAgeMs"].clone(),
        )
    };
    world.clock.advance(MINUTE * 10);
    assert_eq!(ages().await, (0.0, 600.0, json!(null)));
    world.tick().await;
    world.clock.advance(MINUTE);
    assert_eq!(
        ages().await,
        (60.0, 660.0, json!(60_000)),
        "an admitted one counts from then on"
    );
    world.broker.refuse(true);
    world.notices(1).await;
    world.clock.advance(MINUTE * 2);
    assert_eq!(ages().await.0, 180.6, "the intake tried three times to publish it");
    world
        .sql("UPDATE outbox SET status = 'canceled', cause = 'x', relay_at = NULL, settled_at = 1 WHERE bulk = 0 OR status = 'enqueued'", vec![])
        .await;
    assert_eq!(ages().await, (0.0, 780.6, json!(null)));
}
