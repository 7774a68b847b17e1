//! The relay: nothing starves, nothing is unbounded, and what is due is told apart from what is not.

use std::time::Duration;

use sealpost::ports::{Broker, BrokerError, Clock as _, QueueMessage, World as _};
use sealpost::relay::tick;
use sealpost::store::publish::{PageRequest, reserve_page};
use serde_json::json;

use crate::support::{HandClock, TestWorld, config_with, integer, notice_with_key};

/// 2026-01-01T00:00:00Z, the start of a test's clock.
const START: i64 = 1_767_225_600_000;
const PAGE: usize = 100;

/// Rows that intake recorded and the queue refused.
async fn unpublished(world: &TestWorld, prefix: &str, count: usize) -> Vec<String> {
    world.broker.refuse(true);
    let mut ids = Vec::new();
    let list: Vec<_> = (0..count).map(|n| notice_with_key(&format!("{prefix}{n}"))).collect();
    for chunk in list.chunks(100) {
        let accepted = world.intake(chunk).await.expect("recorded");
        ids.extend(accepted.receipts.into_iter().map(|receipt| receipt.id));
    }
    world.broker.refuse(false);
    ids
}

/// Another family's row, which the queue refused.
async fn good_row(world: &TestWorld) -> String {
    world.broker.refuse(true);
    let intent = json!({ "family": "invitation", "idempotencyKey": "good", "to": "ada@example.com", "data": {} });
    let accepted = world.intake(&[intent]).await.expect("recorded");
    world.broker.refuse(false);
    accepted.receipts[0].id.clone()
}

#[tokio::test]
async fn rows_that_can_never_be_published_hold_back_no_row_that_can() {
    let spoils = [
        ("UPDATE outbox SET family = 'gone'", "dead_letter"),
        ("UPDATE outbox SET not_after = created_at + 1", "expired"),
        (
            "INSERT INTO suppressions (recipient_hash, family, reason, created_at)
             SELECT recipient_hash, '*', 'complained', 1 FROM outbox",
            "suppressed",
        ),
        (
            "INSERT INTO pauses (scope, reason, until, created_at) VALUES ('notice', 'x', 9000000000000, 1)",
            "retry",
        ),
    ];
    for (spoil, ends) in spoils {
        let world = TestWorld::new().await;
        unpublished(&world, "bad", PAGE + 1).await;
        world.sql(spoil, Vec::new()).await;
        world.clock.advance(Duration::from_secs(1));
        let good = good_row(&world).await;
        world.clock.advance(Duration::from_secs(31));
        world.tick().await;
        assert_eq!(world.status(&good).await, "enqueued", "{spoil}");
        // Those that the page did not see are judged by the claim.
        world.deliver().await;
        let ended = world
            .sql(
                "SELECT count(*) FROM outbox WHERE status = ?1 AND id <> ?2",
                vec![ends.into(), good.into()],
            )
            .await;
        assert_eq!(integer(&ended[0][0]), 101, "{spoil}");
        world.broker.take();
        assert_eq!(
            world.tick().await.published,
            0,
            "{spoil}: they do not come again and again"
        );
    }
}

#[tokio::test]
async fn a_row_in_retry_is_published_however_many_fresh_rows_come() {
    let world = TestWorld::new().await;
    let retry = world.notices(1).await.remove(0);
    world.broker.take();
    world
        .sql(
            "UPDATE outbox SET status = 'retry', cause = 'x', next_attempt_at = ?1, relay_at = ?1",
            vec![(START + 90_000).into()],
        )
        .await;
    let mut ticks = 0;
    while world.status(&retry).await == "retry" {
        unpublished(&world, &format!("t{ticks}n"), 3 * PAGE).await;
        world.clock.advance(Duration::from_secs(60));
        let tick = world.tick().await;
        assert!(
            tick.published >= 3 * PAGE,
            "the fresh ones are carried as well: {tick:?}"
        );
        ticks += 1;
        assert!(ticks <= 2, "it was due before the second tick");
    }
}

/// More rows come than a tick can carry; a row that was published before waits its turn, not for ever.
#[tokio::test]
async fn a_row_that_was_published_before_gets_its_turn_among_rows_that_never_were() {
    let world = TestWorld::with(config_with(&[
        ("SUBREQUEST_BUDGET", "13"),
        ("ENQUEUED_PATIENCE_MS", "60000"),
    ]))
    .await;
    let again = world.notices(1).await.remove(0);
    world.broker.take();
    world.sql("UPDATE outbox SET publish_count = 5", Vec::new()).await;
    let mut ticks = 0;
    while world.broker.take().iter().all(|message| !message.body.contains(&again)) {
        unpublished(&world, &format!("t{ticks}n"), 6 * PAGE).await;
        world.clock.advance(Duration::from_secs(60));
        world.tick().await;
        assert!(world.broker.len() < 6 * PAGE, "a tick carries less than comes");
        ticks += 1;
        assert!(ticks <= 20, "it was due for {ticks} ticks");
    }
}

#[tokio::test]
async fn a_hundred_thousand_due_rows_meet_a_bounded_tick_that_says_what_is_left() {
    let world = TestWorld::new().await;
    unpublished(&world, "n", 1).await;
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
      INSERT INTO outbox (id, family, fingerprint, fingerprint_version, fingerprint_secret_id, recipient_hash,
        idempotency_key, status, cause, relay_at, letter_bytes, created_at, updated_at)
      SELECT 'ntc_bulk' || i, 'notice', 'f', 1, 'k1', 'h', 'key' || i, 'pending', 'recorded', ?1 + i, 10, ?1, ?1 FROM n";
    world.sql(many, vec![(START - 200_000).into()]).await;
    world.clock.advance(Duration::from_secs(31));
    let tick = world.tick().await;
    assert_eq!(tick.published, 10_000, "a hundred pages of a hundred");
    assert_eq!(tick.stopped_by, Some("pages_used_up"));
    assert_eq!(tick.remaining, Some(1_000), "at least a thousand: counted no further");
    let bodies = world.transport.bodies();
    assert!(bodies.len() <= 2 * 100 + 1, "{} requests", bodies.len());
    for body in bodies {
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        for step in body["requests"][0]["batch"]["steps"].as_array().unwrap() {
            let variables = step["stmt"]["args"].as_array().map_or(0, Vec::len);
            assert!(variables <= 16, "{variables} variables in a statement");
        }
    }
    let oldest = world
        .sql(
            "SELECT count(*) FROM outbox WHERE status = 'enqueued' AND relay_at < ?1",
            vec![START.into()],
        )
        .await;
    assert_eq!(integer(&oldest[0][0]), 0);
    let first = world
        .sql("SELECT status FROM outbox WHERE id = 'ntc_bulk1'", Vec::new())
        .await;
    assert_eq!(first[0][0], "enqueued".into(), "the oldest first");
}

#[tokio::test]
async fn a_tick_keeps_to_its_budget_of_requests() {
    let world = TestWorld::with(config_with(&[("SUBREQUEST_BUDGET", "50")])).await;
    unpublished(&world, "n", 2_000).await;
    world.clock.advance(Duration::from_secs(31));
    world.transport.take_requests();
    world.broker.batches.set(0);
    let tick = world.tick().await;
    let requests = world.transport.take_requests() + world.broker.batches.get();
    assert!(requests <= 50, "{requests} requests");
    assert_eq!(tick.published, 1_600);
    assert_eq!((tick.stopped_by, tick.remaining), (Some("pages_used_up"), Some(400)));
    let rest = world.tick().await;
    assert_eq!((rest.published, rest.stopped_by, rest.remaining), (400, None, Some(0)));
}

/// A queue that takes its time.
struct SlowQueue(HandClock);

impl Broker for SlowQueue {
    async fn send_batch(&self, _messages: Vec<QueueMessage>) -> Result<(), BrokerError> {
        self.0.sleep(Duration::from_secs(20)).await;
        Ok(())
    }
}

#[tokio::test]
async fn a_tick_ends_in_time_behind_a_slow_queue() {
    let world = TestWorld::new().await;
    unpublished(&world, "n", 600).await;
    world.clock.advance(Duration::from_secs(31));
    let began = world.clock.now();
    let tick = tick(&world, &SlowQueue(world.clock.clone()), &world.config).await;
    assert_eq!((tick.published, tick.stopped_by), (300, Some("tick_time_over")));
    assert!(world.clock.now().since(began) <= Duration::from_secs(60));
}

#[tokio::test]
async fn two_ticks_at_once_publish_each_row_once() {
    let world = TestWorld::new().await;
    unpublished(&world, "n", 300).await;
    world.clock.advance(Duration::from_secs(31));
    let (one, other) = tokio::join!(world.tick(), world.tick());
    assert_eq!(one.published + other.published, 300);
    let mut bodies: Vec<String> = world.broker.take().into_iter().map(|message| message.body).collect();
    assert_eq!(bodies.len(), 300);
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 300, "no row twice");
}

/// A minute before and a minute after, on the same day: an order of texts would tell the wrong ones apart.
#[tokio::test]
async fn what_is_due_is_told_apart_from_what_is_due_in_a_minute() {
    let world = TestWorld::new().await;
    let ids = unpublished(&world, "n", 8).await;
    world.clock.advance(Duration::from_secs(3_600));
    let now = START + 3_600_000;
    let set = async |at: usize, sql: &'static str, minutes: i64| {
        world
            .sql(sql, vec![ids[at].clone().into(), (now + minutes * 60_000).into()])
            .await;
    };
    let retry = "UPDATE outbox SET status = 'retry', cause = 'x', next_attempt_at = ?2, relay_at = ?2 WHERE id = ?1";
    set(0, retry, -1).await;
    set(1, retry, 1).await;
    let claimed =
        "UPDATE outbox SET status = 'processing', cause = 'x', claim_token = 'clm_other', claim_expires_at = ?2,
      relay_at = ?2 WHERE id = ?1";
    set(2, claimed, -1).await;
    set(3, claimed, 1).await;
    set(4, "UPDATE outbox SET not_after = ?2 WHERE id = ?1", -1).await;
    set(5, "UPDATE outbox SET not_after = ?2 WHERE id = ?1", 1).await;
    let suppressed = "INSERT INTO suppressions (recipient_hash, family, reason, until, created_at)
      SELECT recipient_hash, '*', 'bounced', ?2, 1 FROM outbox WHERE id = ?1";
    set(6, suppressed, -1).await;
    set(7, suppressed, 1).await;

    let all: Vec<&str> = ids.iter().map(String::as_str).collect();
    let tick = world.tick().await;
    assert_eq!((tick.published, tick.moved), (4, 2), "{}", world.notes.text());
    world.broker.take();
    world.deliver_ids(&all).await;
    let mut states = Vec::new();
    for id in &ids {
        states.push(world.status(id).await);
    }
    assert_eq!(
        states,
        [
            "sent",
            "retry",
            "sent",
            "processing",
            "expired",
            "sent",
            "sent",
            "suppressed"
        ]
    );
}

#[tokio::test]
async fn a_row_of_a_held_family_waits_without_burning_anything() {
    let world = TestWorld::new().await;
    let id = unpublished(&world, "n", 1).await.remove(0);
    world.clock.advance(Duration::from_secs(31));
    let now = world.clock.now();
    let page = PageRequest {
        now,
        rows_max: PAGE,
        republish_base_ms: 30_000,
        republish_cap_ms: 600_000,
        put_aside_ms: 3_600_000,
        window_ms: 82_800_000,
        known_templates: r#"[{"family":"notice","template":null,"version":null}]"#,
        held_families: r#"["notice"]"#,
        drain_ms: 120_000,
        pace_interval_ms: 0,
        family_intervals: "{}",
        batch_families: "[]",
        domain_interval_ms: 0,
        provider: "resend",
        rows_max_with_bulk: PAGE,
        burst_ms: 1_000,
    };
    let held = reserve_page(world.database(), &page).await.expect("a page");
    assert_eq!((held.reserved.len(), held.moved), (0, 1));
    assert_eq!(world.state(&id).await, ("retry".to_owned(), "held".to_owned()));
    let counts = world
        .sql("SELECT attempt_count, claim_count FROM outbox", Vec::new())
        .await;
    assert_eq!(counts[0], vec![0.into(), 0.into()]);
    world.clock.advance(Duration::from_secs(3_600));
    world.tick().await;
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent", "once the family is live");
}

#[tokio::test]
async fn a_dead_letter_that_a_later_version_can_read_is_driven_again() {
    let world = TestWorld::new().await;
    let id = unpublished(&world, "n", 1).await.remove(0);
    world.sql("UPDATE outbox SET family = 'gone'", Vec::new()).await;
    world.deliver_ids(&[&id]).await;
    assert_eq!(
        world.state(&id).await,
        ("dead_letter".to_owned(), "outbox_id_unclaimed".to_owned())
    );
    assert_eq!(world.tick().await.published, 0, "this version still cannot");
    world.sql("UPDATE outbox SET family = 'notice'", Vec::new()).await;
    world.clock.advance(Duration::from_millis(599_000));
    assert_eq!(
        world.tick().await.published,
        0,
        "two versions do not hand it to each other at every tick"
    );
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(world.tick().await.published, 1);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
}
