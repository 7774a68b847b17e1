//! Faults that are not the mails' own: no try is burnt, hardly a call is made, and everything leaves afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use sealpost::devstack::provider::fault::{Fault, FaultKind, Match};
use sealpost::ports::Clock as _;

use crate::support::{TestQueue, TestWorld, config_with, integer, notice_with_key, text};

const SECOND: Duration = Duration::from_secs(1);
const HALF_HOUR: Duration = Duration::from_secs(1_800);
const HOUR: Duration = Duration::from_secs(3_600);

async fn most_tries(world: &TestWorld) -> i64 {
    let rows = world.sql("SELECT max(attempt_count) FROM outbox", vec![]).await;
    integer(&rows[0][0])
}

/// 100 rows meet a fault for half an hour, and then nothing more. Returns the calls during the fault.
async fn through_half_an_hour(kind: FaultKind, recovery: Duration) -> (TestWorld, usize) {
    let world = TestWorld::new().await;
    world.notices(100).await;
    world.mailer.fault(kind, -1);
    let queue = TestQueue::default();
    queue.deliver_all(&world).await;
    queue.run_for(&world, HALF_HOUR, 30 * SECOND).await;
    let calls = world.mailer.calls();
    assert_eq!(
        world.count("retry").await + world.count("enqueued").await,
        100,
        "{kind:?}"
    );
    assert_eq!(most_tries(&world).await, 0, "{kind:?} burnt tries");
    world.mailer.clear_faults();
    queue.run_for(&world, recovery, recovery / 40).await;
    assert_eq!(world.count("sent").await, 100, "{kind:?}: {}", world.notes.text());
    assert_eq!(world.mailer.accepted(), 100, "{kind:?}");
    assert_eq!(most_tries(&world).await, 1, "{kind:?}");
    (world, calls)
}

#[tokio::test]
async fn a_rate_limit_of_half_an_hour_burns_no_tries_and_loses_nothing() {
    let (world, _) = through_half_an_hour(FaultKind::RateLimit, Duration::from_secs(300)).await;
    assert!(world.notes.alarms().is_empty());
}

#[tokio::test]
async fn a_quota_that_is_used_up_pauses_everything_with_one_alarm_and_hardly_a_call() {
    for kind in [FaultKind::DailyQuota, FaultKind::MonthlyQuota] {
        // The world begins at midnight, and a quota opens again at the next one.
        let (world, calls) = through_half_an_hour(kind, 25 * HOUR).await;
        assert!(calls <= 5, "{kind:?}: {calls} calls");
        assert_eq!(world.notes.alarms(), ["sending_paused"], "{kind:?}");
    }
}

#[tokio::test]
async fn a_broken_configuration_pauses_everything_with_one_alarm_and_a_handful_of_calls() {
    for kind in [
        FaultKind::UnverifiedDomain,
        FaultKind::InvalidKey,
        FaultKind::InvalidKeyOld,
    ] {
        let (world, calls) = through_half_an_hour(kind, HOUR).await;
        assert!(calls <= 5 + 6, "{kind:?}: {calls} calls");
        assert!(calls > 5, "{kind:?}: it is probed");
        assert_eq!(
            world.notes.alarms(),
            ["sending_paused"],
            "{kind:?}: one alarm for one pause"
        );
    }
}

#[tokio::test]
async fn a_pauses_probe_lets_one_row_through_and_lifts_the_pause_itself() {
    let world = TestWorld::new().await;
    world.notices(10).await;
    world.mailer.fault(FaultKind::InvalidKey, 5);
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    assert_eq!(world.mailer.calls(), 5);
    world.clock.advance(59 * SECOND);
    world.tick().await;
    queue.deliver_all(&world).await;
    assert_eq!(world.mailer.calls(), 5, "paused");
    // The pause is over: one row alone, while nine others of the same batch wait.
    world.clock.advance(20 * SECOND);
    let ids = world.sql("SELECT id FROM outbox ORDER BY seq", vec![]).await;
    let ids: Vec<String> = ids.iter().map(|row| text(&row[0])).collect();
    let all: Vec<&str> = ids.iter().map(String::as_str).collect();
    world
        .sql("UPDATE outbox SET next_attempt_at = 0 WHERE status = 'retry'", vec![])
        .await;
    world.deliver_ids(&all).await;
    assert_eq!(world.mailer.calls(), 6);
    let rows = world.sql("SELECT count(*) FROM pauses", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 0, "lifted by its own probe");
    queue.run_for(&world, 600 * SECOND, 10 * SECOND).await;
    assert_eq!(world.count("sent").await, 10);
}

#[tokio::test]
async fn while_a_probe_is_under_way_the_pause_holds_for_everybody_else() {
    let world = TestWorld::new().await;
    let ids = world.notices(4).await;
    world.mailer.fault(FaultKind::InvalidKey, 1);
    world.deliver_ids(&[&ids[0]]).await;
    world.clock.advance(90 * SECOND);
    world.mailer.hold_next.set(true);
    let other = async {
        while world.mailer.calls() < 2 {
            tokio::task::yield_now().await;
        }
        world.deliver_ids(&[&ids[2], &ids[3]]).await;
        assert_eq!(world.mailer.calls(), 2, "the others wait for the probe");
        world.mailer.let_go.set(true);
    };
    let probe = [&*ids[1]];
    futures_util::join!(world.deliver_ids(&probe), other);
    assert_eq!(world.status(&ids[1]).await, "sent");
    world.run_for(900 * SECOND, 10 * SECOND).await;
    assert_eq!(world.count("sent").await, 4);
}

#[tokio::test]
async fn a_pause_set_by_hand_for_a_family_keeps_back_its_rows_alone() {
    let world = TestWorld::new().await;
    let until = world.clock.now().plus(600 * SECOND).get();
    world
        .sql(
            "INSERT INTO pauses (scope, reason, until, created_at) VALUES ('notice', 'by_hand', ?1, 0)",
            vec![until.into()],
        )
        .await;
    let id = world.notices(1).await.remove(0);
    let queue = TestQueue::default();
    queue.run_for(&world, 590 * SECOND, 10 * SECOND).await;
    assert_eq!((world.status(&id).await.as_str(), world.mailer.calls()), ("retry", 0));
    queue.run_for(&world, 120 * SECOND, 10 * SECOND).await;
    assert_eq!(world.status(&id).await, "sent");
}

#[tokio::test]
async fn five_hundred_rows_outlive_an_outage_of_ten_minutes_and_do_not_return_in_one_burst() {
    let world = TestWorld::new().await;
    for hundred in 0..5 {
        let intents: Vec<_> = (0..100).map(|n| notice_with_key(&format!("n{hundred}-{n}"))).collect();
        world.intake(&intents).await.expect("recorded");
    }
    world.mailer.fault(FaultKind::ServiceUnavailable, -1);
    let queue = TestQueue::default();
    queue.run_for(&world, 600 * SECOND, 10 * SECOND).await;
    let during = world.mailer.calls();
    assert!(during < 500 * 8, "{during} calls in ten minutes");
    world.mailer.clear_faults();
    let recovered = world.clock.now();
    queue.run_for(&world, HOUR / 2, 10 * SECOND).await;
    assert_eq!((world.count("sent").await, world.mailer.accepted()), (500, 500));

    let mut by_step: BTreeMap<u64, usize> = BTreeMap::new();
    for seen in world.mailer.model.borrow().ledger().requests() {
        if seen.at >= recovered {
            *by_step.entry(seen.at.since(recovered).as_secs() / 10).or_default() += 1;
        }
    }
    let most = by_step.values().max().copied().unwrap_or_default();
    assert!(most < 60, "{most} of 500 came back within ten seconds");
    assert!(by_step.len() > 15, "spread over {} steps", by_step.len());
}

#[tokio::test]
async fn the_pace_spreads_calls_over_all_batches_and_rows_without_a_slot_burn_no_try() {
    let world = TestWorld::with(config_with(&[
        ("PACE_PER_SECOND", "5"),
        ("PACE_WAIT_MS", "10000"),
        // One after the other, so that the hand-driven clock wakes them in the order of their slots.
        ("CALLS_AT_ONCE", "1"),
        ("PROVIDER_TIMEOUT_MS", "5000"),
        ("LEASE_MS", "840000"),
    ]))
    .await;
    world.mailer.model.borrow_mut().set_pace(5);
    let ids = world.notices(100).await;
    let began = world.clock.now();
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    let first = world.mailer.calls();
    assert_eq!(first, 51, "slots from now to ten seconds on");
    let rows = world
        .sql(
            "SELECT count(*), sum(attempt_count), sum(doubts) FROM outbox WHERE status = 'retry' AND cause = 'paced'",
            vec![],
        )
        .await;
    let found: Vec<i64> = rows[0].iter().map(integer).collect();
    assert_eq!(found, [49, 0, 0]);
    queue.run_for(&world, 120 * SECOND, SECOND).await;
    for id in &ids {
        assert_eq!(world.status(id).await, "sent");
    }
    let mut per_second: BTreeMap<u64, usize> = BTreeMap::new();
    for seen in world.mailer.model.borrow().ledger().requests() {
        assert_ne!(seen.status, Some(429), "the pace keeps below the provider's limit");
        *per_second.entry(seen.at.since(began).as_secs()).or_default() += 1;
    }
    assert!(per_second.values().all(|count| *count <= 5), "{per_second:?}");
}

#[tokio::test]
async fn a_batch_begins_after_the_last_slot_of_the_batch_before_it() {
    let world = TestWorld::with(config_with(&[
        ("PACE_PER_SECOND", "5"),
        ("CALLS_AT_ONCE", "1"),
        ("PROVIDER_TIMEOUT_MS", "5000"),
        ("LEASE_MS", "840000"),
    ]))
    .await;
    world.mailer.latency.set(Duration::ZERO);
    let ids = world.notices(10).await;
    world.broker.take();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for batch in ids.chunks(5) {
        world.deliver_ids(batch).await;
    }
    let model = world.mailer.model.borrow();
    let at: Vec<_> = model.ledger().requests().iter().map(|seen| seen.at).collect();
    assert_eq!(at.len(), 10);
    let gaps: Vec<_> = at.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert_eq!(gaps, [Duration::from_millis(200); 9]);
}

#[tokio::test]
async fn a_rate_limit_in_a_batch_brakes_its_other_calls() {
    let world = TestWorld::with(config_with(&[("CALLS_AT_ONCE", "1"), ("SUBREQUEST_BUDGET", "28")])).await;
    world.notices(20).await;
    let fault = Fault {
        retry_after: Some(sealpost::devstack::provider::fault::RetryAfter::Seconds(30)),
        matches: Match::default(),
        skip: 3,
        ..Fault::once(FaultKind::RateLimit)
    };
    world
        .mailer
        .model
        .borrow_mut()
        .faults()
        .add(vec![fault])
        .expect("a rule");
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    assert_eq!(
        world.mailer.calls(),
        4,
        "nobody calls on after a limit of half a minute"
    );
    let rows = world
        .sql("SELECT min(next_attempt_at) FROM outbox WHERE status = 'retry'", vec![])
        .await;
    assert!(integer(&rows[0][0]) >= world.clock.now().plus(29 * SECOND).get());
    queue.run_for(&world, 120 * SECOND, 5 * SECOND).await;
    assert_eq!(world.count("sent").await, 20);
}
