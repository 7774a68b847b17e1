//! Bulk mails: admitted as the pace drains them, and never in anybody's way.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use serde_json::{Value as Json, json};

use crate::support::{TestQueue, TestWorld, config_with, integer, look, notice_with_key, policy_with};

const MINUTE: Duration = Duration::from_secs(60);
/// From the beginning of a world to when no family has quiet hours.
const MORNING: Duration = Duration::from_secs(8 * 3_600);

/// A campaign's or another bulk family's mails, recorded.
pub(crate) async fn bulk(world: &TestWorld, family: &str, prefix: &str, count: usize) -> Vec<String> {
    let list: Vec<Json> = (0..count)
        .map(|number| {
            let mut intent = notice_with_key(&format!("{prefix}{number}"));
            intent["family"] = json!(family);
            if family == "renewal_notice" {
                intent["businessAt"] = json!("2026-01-03T12:00:00Z");
            }
            intent
        })
        .collect();
    let mut ids = Vec::new();
    for chunk in list.chunks(100) {
        let accepted = world.intake(chunk).await.expect("recorded");
        ids.extend(accepted.receipts.into_iter().map(|receipt| receipt.id));
    }
    ids
}

async fn paced() -> TestWorld {
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "1")])).await;
    world.clock.advance(MORNING);
    world
}

async fn number(world: &TestWorld, sql: &'static str) -> i64 {
    integer(&world.sql(sql, vec![]).await[0][0])
}

#[tokio::test]
async fn the_relay_admits_what_drains_before_its_next_two_ticks() {
    let world = paced().await;
    bulk(&world, "announcement", "a", 300).await;
    assert_eq!(world.broker.len(), 0, "the intake publishes none of them");
    let tick = world.tick().await;
    assert_eq!((tick.published, tick.remaining, tick.stopped_by), (120, Some(0), None));
    world.clock.advance(MINUTE);
    assert_eq!(world.tick().await.published, 0, "nothing of them has left yet");
    // Others are not kept by them.
    world.broker.refuse(true);
    world.notices(3).await;
    world.broker.refuse(false);
    world.clock.advance(MINUTE);
    assert_eq!(world.tick().await.published, 3);
    // What has left makes room.
    world
        .sql(
            "UPDATE outbox SET status = 'canceled', cause = 'x', relay_at = NULL, settled_at = 1 WHERE bulk = 1
      AND status = 'enqueued' AND seq <= 50",
            vec![],
        )
        .await;
    world.clock.advance(MINUTE);
    assert_eq!(world.tick().await.published, 50);
    let health = look(&world, "/health").await.body;
    assert_eq!(health["bulk"]["waiting"], 130, "{health}");
    assert!(
        health["bulk"]["oldestDueAt"].is_string() && health["oldestDueAt"].is_null(),
        "{health}"
    );
}

#[tokio::test]
async fn the_more_urgent_bulk_family_goes_first_and_a_slow_one_takes_its_own_share_alone() {
    let mut world = paced().await;
    world.config.policy = policy_with(|family| match family.name {
        "campaign" => (family.priority, family.batch) = (9, false),
        "announcement" => family.priority = 8,
        "renewal_notice" => {
            family.priority = 1;
            family.pace_per_minute = 10;
            family.template = None;
        }
        _ => {}
    });
    bulk(&world, "campaign", "c", 150).await;
    bulk(&world, "announcement", "a", 50).await;
    bulk(&world, "renewal_notice", "r", 50).await;
    assert_eq!(world.tick().await.published, 120);
    let of = async |family: &'static str| {
        let rows = world
            .sql(
                "SELECT count(*) FROM outbox WHERE status = 'enqueued' AND family = ?1",
                vec![family.into()],
            )
            .await;
        integer(&rows[0][0])
    };
    assert_eq!(
        (
            of("renewal_notice").await,
            of("announcement").await,
            of("campaign").await
        ),
        (20, 50, 50)
    );
}

#[tokio::test]
async fn without_a_pace_there_is_no_limit_and_a_held_or_paused_family_stays_where_it_is() {
    let mut world = TestWorld::new().await;
    world.clock.advance(MORNING);
    bulk(&world, "announcement", "a", 250).await;
    bulk(&world, "campaign", "c", 120).await;
    world
        .sql(
            "INSERT INTO pauses (scope, reason, until, created_at) VALUES ('campaign', 'manual', 9000000000000, 1)",
            vec![],
        )
        .await;
    let tick = world.tick().await;
    assert_eq!((tick.published, tick.moved, tick.stopped_by), (250, 0, None));
    world.sql("DELETE FROM pauses", vec![]).await;
    world.config.policy = policy_with(|family| {
        if family.name == "campaign" {
            family.mode = sealpost::outbox::family::Mode::Hold;
        }
    });
    assert_eq!(world.tick().await.published, 0);
    assert_eq!(
        number(
            &world,
            "SELECT count(*) FROM outbox WHERE status = 'pending' AND relay_at IS NOT NULL"
        )
        .await,
        120
    );
    world.config.policy = policy_with(|_| {});
    assert_eq!(world.tick().await.published, 120);
}

#[tokio::test]
async fn admitted_mails_whose_messages_vanish_come_again_and_keep_no_room_for_ever() {
    let world = paced().await;
    bulk(&world, "announcement", "a", 200).await;
    assert_eq!(world.tick().await.published, 120);
    world.broker.take();
    // The patience of ten minutes counts from the delivery, which is two minutes away for the last of them.
    world.clock.advance(MINUTE * 13);
    assert_eq!(world.tick().await.published, 120, "the same, once they are overdue");
    let again = number(&world, "SELECT count(*) FROM outbox WHERE publish_count = 2").await;
    assert_eq!(again, 120);
}

#[tokio::test]
async fn a_bulk_mail_in_doubt_waits_for_no_admission() {
    let world = paced().await;
    bulk(&world, "announcement", "a", 1).await;
    world.tick().await;
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    assert_eq!(number(&world, "SELECT doubts FROM outbox").await, 1);
    bulk(&world, "announcement", "b", 300).await;
    world.tick().await;
    world.broker.take();
    world.clock.advance(MINUTE);
    assert_eq!(
        world.tick().await.published,
        1,
        "the one in doubt, though there is no room"
    );
}

#[tokio::test]
async fn a_waiting_mail_that_must_not_be_sent_ends_within_bounded_ticks_though_the_pace_never_gets_to_it() {
    let world = paced().await;
    let ids = bulk(&world, "announcement", "a", 2_300).await;
    world
        .sql(
            "UPDATE outbox SET not_after = created_at + 1 WHERE seq IN (150, 1500, 2290)",
            vec![],
        )
        .await;
    let mut ticks = 0;
    while number(&world, "SELECT count(*) FROM outbox WHERE status = 'expired'").await < 3 {
        world.clock.advance(MINUTE);
        world.tick().await;
        ticks += 1;
        assert!(ticks <= 3, "2,300 rows, a thousand at each tick");
    }
    assert_eq!(world.status(&ids[2_289]).await, "expired");
}

#[tokio::test]
async fn a_tick_beside_forty_thousand_waiting_mails_reads_no_more_than_beside_a_thousand() {
    let mut cost = Vec::new();
    for waiting in [2_000_i64, 40_000] {
        let world = paced().await;
        bulk(&world, "announcement", "a", 1).await;
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
          INSERT INTO outbox (id, family, fingerprint, fingerprint_version, fingerprint_secret_id, recipient_hash,
            idempotency_key, status, cause, relay_at, letter_bytes, created_at, updated_at, bulk, priority)
          SELECT 'ann_bulk' || i, 'announcement', 'f', 1, 'k1', 'h', 'key' || i, 'pending', 'recorded', 1 + i, 10, 1, 1, 1, 8 FROM n";
        world.sql(many, vec![waiting.into()]).await;
        let before = world.transport.engine().rows().read;
        assert_eq!(world.tick().await.published, 120);
        cost.push(world.transport.engine().rows().read - before);
    }
    assert!(cost[0] > 0 && cost[1] * 10 <= cost[0] * 11, "{cost:?}");
}

#[tokio::test]
async fn bulk_and_urgent_mails_share_a_page_and_cost_three_requests_for_a_hundred() {
    let world = paced().await;
    let queue = TestQueue::default();
    bulk(&world, "announcement", "a", 300).await;
    world.broker.refuse(true);
    let list: Vec<Json> = (0..60).map(|n| notice_with_key(&format!("n{n}"))).collect();
    world.intake(&list).await.expect("recorded");
    world.broker.refuse(false);
    world.clock.advance(MINUTE);
    world.transport.take_requests();
    world.broker.batches.set(0);
    let tick = world.tick().await;
    assert_eq!(tick.published, 60 + 120);
    let requests = world.transport.take_requests() + world.broker.batches.get();
    assert!(
        requests <= 2 * 3 + 2,
        "{requests}: two pages, one that is empty, and the record"
    );
    let first = world.broker.take().remove(0).body;
    assert!(first.contains("ntc_"), "the urgent ones first: {first}");
    assert_eq!(queue.len(), 0);
}
