//! `GET /metrics`: one round trip, a bounded number of rows, and figures that are right.

use std::time::Duration;

use sealpost::outbox::family::Mode;

use super::super::doors::{OPERATOR, get};
use super::in_mode;
use crate::support::{TestWorld, check_door, notice_with_key};

pub(crate) async fn scrape(world: &TestWorld) -> String {
    let answer = get(world, "/metrics", Some(OPERATOR)).await;
    assert_eq!(
        (answer.status, answer.content_type),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    String::from_utf8(answer.bytes()).unwrap()
}

/// The value of one sample.
pub(crate) fn value(text: &str, sample: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == sample))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test]
async fn the_figures_are_those_of_the_ledger() {
    let mut world = TestWorld::new().await;
    let nothing = scrape(&world).await;
    assert_eq!(value(&nothing, "sealpost_claims_minted_total"), Some(0.0));
    assert_eq!(value(&nothing, "sealpost_pending_age_seconds"), Some(0.0));
    assert_eq!(value(&nothing, "sealpost_claim_to_settle_p99_seconds"), None);
    world.notices(4).await;
    world.notices(3).await;
    world.clock.advance(Duration::from_secs(12));
    world.transport.take_requests();
    let waiting = scrape(&world).await;
    assert_eq!(world.transport.take_requests(), 1, "one round trip");
    assert_eq!(value(&waiting, "sealpost_pending_age_seconds"), Some(12.0));
    world.mailer.latency.set(Duration::from_millis(1_500));
    world.deliver().await;
    let text = scrape(&world).await;
    assert_eq!(value(&text, "sealpost_claims_minted_total"), Some(4.0));
    assert_eq!(
        value(
            &text,
            r#"sealpost_duplicates_suppressed_total{family="notice",by="key"}"#
        ),
        Some(3.0)
    );
    assert_eq!(value(&text, "sealpost_pending_age_seconds"), Some(0.0));
    assert_eq!(value(&text, "sealpost_claim_to_settle_claims"), Some(4.0));
    let gap = value(&text, "sealpost_claim_to_settle_p99_seconds").unwrap();
    assert!((1.5..10.0).contains(&gap), "{gap}");
    world.sql("UPDATE outbox SET status = 'unknown', cause = 'x', settled_at = NULL, provider_message_id = NULL WHERE seq = 1", vec![]).await;
    world.config = in_mode(&world.config, "notice", Mode::Shadow);
    world.notices(2).await;
    let text = scrape(&world).await;
    assert_eq!(value(&text, "sealpost_quarantine"), Some(1.0));
    assert_eq!(
        value(
            &text,
            r#"sealpost_shadow_would_suppress_total{family="notice",reason="duplicate"}"#
        ),
        Some(2.0)
    );
    assert!(!text.contains('@'));
    for line in text.lines() {
        assert!(
            line.starts_with("# HELP sealpost_")
                || line.starts_with("# TYPE sealpost_")
                || line.starts_with("sealpost_")
        );
    }
}

#[tokio::test]
async fn what_waits_on_purpose_is_not_late_and_a_claim_that_ended_is() {
    let mut world = TestWorld::new().await;
    let mut later = notice_with_key("n9");
    later["notBefore"] = serde_json::json!("2026-02-01T00:00:00Z");
    world.intake(&[later]).await.expect("recorded");
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(value(&scrape(&world).await, "sealpost_pending_age_seconds"), Some(0.0));
    let live = world.config.clone();
    world.config = in_mode(&live, "notice", Mode::Hold);
    world.notices(1).await;
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(value(&scrape(&world).await, "sealpost_pending_age_seconds"), Some(0.0));
    world.config = live;
    assert_eq!(value(&scrape(&world).await, "sealpost_pending_age_seconds"), Some(60.0));
    world.clock.advance(Duration::from_secs(7));
    let now = sealpost::ports::Clock::now(&world.clock).get();
    world
        .sql(
            "UPDATE outbox SET status = 'processing', claim_token = 'c', claim_expires_at = ?1 WHERE not_before IS NULL",
            vec![(now - 5_000).into()],
        )
        .await;
    assert_eq!(value(&scrape(&world).await, "sealpost_pending_age_seconds"), Some(5.0));
}

#[tokio::test]
async fn the_gap_is_the_nearest_rank_of_the_newest_claims() {
    let world = TestWorld::new().await;
    // 200 claims of 1 to 200 ms; the 198th is the one that 99 of 100 did not exceed.
    let claims = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
      INSERT INTO events (outbox_id, from_status, to_status, cause, at)
      SELECT 'ntc_' || i, iif(e = 1, 'enqueued', 'processing'), iif(e = 1, 'processing', 'sent'), 'x', iif(e = 1, 0, i)
      FROM n, (SELECT 1 AS e UNION ALL SELECT 2) ORDER BY i * 7919 % 201, e";
    world.sql(claims, vec![]).await;
    let text = scrape(&world).await;
    assert_eq!(value(&text, "sealpost_claim_to_settle_claims"), Some(200.0));
    assert_eq!(value(&text, "sealpost_claim_to_settle_p99_seconds"), Some(0.198));
}

#[tokio::test]
async fn a_long_history_makes_a_scrape_no_dearer() {
    let mut costs = Vec::new();
    for rows in [3_000_i64, 30_000] {
        let world = TestWorld::new().await;
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
          INSERT INTO events (outbox_id, from_status, to_status, cause, at)
          SELECT 'ntc_' || (i / 2), iif(i % 2, 'processing', 'enqueued'), iif(i % 2, 'sent', 'processing'), 'x', i FROM n";
        world.sql(many, vec![rows.into()]).await;
        let before = world.transport.engine().rows().read;
        scrape(&world).await;
        costs.push(world.transport.engine().rows().read - before);
    }
    assert!(
        costs[0] > 0 && costs[0] < 10_000 && costs[1] * 10 <= costs[0] * 11,
        "{costs:?}"
    );
}

#[tokio::test]
async fn the_door_is_the_operators() {
    let world = TestWorld::new().await;
    check_door(&world, "GET", "/metrics", "GET").await;
}
