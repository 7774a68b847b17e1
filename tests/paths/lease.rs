//! Leases: one slow call holds nobody up, no tail is sent by two workers, and a late worker proves only what it knows.

use std::time::Duration;

use futures_util::FutureExt as _;
use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::{Fault, FaultKind, Match};

use crate::support::{TestQueue, TestWorld, config_with, integer, text};

const SECOND: Duration = Duration::from_secs(1);

/// Rows `n0` to `n<count-1>` meet this, each once.
fn fault_first(world: &TestWorld, kind: FaultKind, count: usize) {
    let faults = (0..count)
        .map(|number| Fault {
            matches: Match {
                to: Some(format!("n{number}@")),
                key: None,
            },
            ..Fault::once(kind)
        })
        .collect();
    world.mailer.model.borrow_mut().faults().add(faults).expect("rules");
}

#[tokio::test]
async fn six_of_ten_calls_that_stall_hold_up_nobody_and_end_before_the_lease() {
    for kind in [
        FaultKind::Stall,
        FaultKind::AcceptThenStall,
        FaultKind::StallAfterHeaders,
    ] {
        let world = TestWorld::new().await;
        let ids = world.notices(10).await;
        fault_first(&world, kind, 6);
        let began = sealpost::ports::Clock::now(&world.clock);
        let decisions = world.deliver().await;
        let took = sealpost::ports::Clock::now(&world.clock).since(began);
        assert!(
            took <= 2 * 10 * SECOND + SECOND,
            "two rounds of the time limit: {took:?}"
        );
        assert_eq!(world.count("sent").await, 4, "{kind:?}");
        assert_eq!(world.count("retry").await, 6, "{kind:?}");
        for (number, decision) in decisions.iter().enumerate() {
            assert_eq!(
                *decision == Decision::Acknowledge,
                number >= 6,
                "{number}: {decision:?}"
            );
        }
        let rows = world
            .sql("SELECT count(*) FROM attempts WHERE outcome = 'ambiguous'", vec![])
            .await;
        assert_eq!(integer(&rows[0][0]), 6);
        let queue = TestQueue::default();
        let open: Vec<&str> = ids[..6].iter().map(String::as_str).collect();
        queue.push(&world, &open);
        queue.run_for(&world, 120 * SECOND, 5 * SECOND).await;
        assert_eq!((world.count("sent").await, world.mailer.accepted()), (10, 10));
    }
}

#[tokio::test]
async fn calls_run_side_by_side_up_to_the_limit_and_no_further() {
    for at_once in [1, 5, 7] {
        let world = TestWorld::with(config_with(&[
            ("CALLS_AT_ONCE", &at_once.to_string()),
            ("LEASE_MS", "840000"),
            ("PROVIDER_TIMEOUT_MS", "5000"),
        ]))
        .await;
        world.notices(20).await;
        world.deliver().await;
        assert_eq!(world.mailer.most_at_once.get(), at_once);
        assert_eq!(world.count("sent").await, 20);
    }
}

#[tokio::test]
async fn a_slow_provider_does_not_make_two_workers_send_the_tail() {
    let world = TestWorld::with(config_with(&[("CALLS_AT_ONCE", "1"), ("SUBREQUEST_BUDGET", "18")])).await;
    let ids = world.notices(10).await;
    // Far beyond the time limit that the lease was made for.
    world.mailer.latency.set(60 * SECOND);
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    let early = world.mailer.calls();
    assert!((4..=5).contains(&early), "calls within a lease of 300 s: {early}");
    let rows = world
        .sql(
            "SELECT count(*) FROM attempts WHERE outcome = 'not_sent' AND error = 'lease_too_short'",
            vec![],
        )
        .await;
    assert_eq!(
        integer(&rows[0][0]),
        10 - early as i64,
        "the tail was closed as not sent"
    );
    let rows = world
        .sql("SELECT sum(doubts), sum(attempt_count) FROM outbox", vec![])
        .await;
    assert_eq!((integer(&rows[0][0]), integer(&rows[0][1])), (0, early as i64));
    world.mailer.latency.set(SECOND);
    queue.run_for(&world, 600 * SECOND, 5 * SECOND).await;
    for id in &ids {
        assert_eq!(world.status(id).await, "sent");
    }
    assert_eq!(world.mailer.calls(), 10, "each row was called once");
}

/// Runs `meanwhile` while the first worker's call is under way and its claim has ended; then the answer arrives.
async fn overtaken(world: &TestWorld, first: Option<FaultKind>, meanwhile: impl AsyncFnOnce()) {
    if let Some(kind) = first {
        world.mailer.fault(kind, 1);
    }
    world.mailer.hold_next.set(true);
    let other = async {
        while world.mailer.calls() == 0 {
            tokio::task::yield_now().await;
        }
        world.clock.advance(301 * SECOND);
        meanwhile().await;
        world.mailer.let_go.set(true);
    };
    futures_util::join!(world.deliver(), other);
}

#[tokio::test]
async fn a_late_workers_settle_that_hits_nothing_is_noted_as_a_lost_claim() {
    // The late one was refused; the second one's doubt stands, and its retry time is its own.
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    overtaken(&world, Some(FaultKind::Refuse), async || {
        world.mailer.fault(FaultKind::ServiceUnavailable, 1);
        world.deliver_ids(&[&id]).await;
    })
    .await;
    assert_eq!(world.status(&id).await, "retry", "{}", world.notes.text());
    assert_eq!(world.notes.count("claim_lost"), 1, "{}", world.notes.text());
    let rows = world
        .sql("SELECT outcome FROM attempts ORDER BY opened_at", vec![])
        .await;
    let outcomes: Vec<String> = rows.iter().map(|row| text(&row[0])).collect();
    assert_eq!(outcomes, ["refused", "ambiguous"], "each closed its own attempt");
}

#[tokio::test]
async fn a_late_worker_that_lost_its_row_to_a_stop_is_noted_as_well() {
    for stop in [
        "INSERT INTO suppressions (recipient_hash, family, reason, created_at)
         SELECT recipient_hash, '*', 'bounce', 0 FROM outbox",
        "INSERT INTO pauses (scope, reason, until, created_at) VALUES ('*', 'by_hand', 9000000000000, 0)",
    ] {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        overtaken(&world, Some(FaultKind::ServiceUnavailable), async || {
            world.sql(stop, vec![]).await;
            world.deliver_ids(&[&id]).await;
        })
        .await;
        let (state, _) = world.state(&id).await;
        assert!(state == "unknown" || state == "retry", "{state}");
        assert_eq!(world.notes.count("claim_lost"), 1, "{stop}: {}", world.notes.text());
    }
}

/// Another worker claims the row while the first one, whose claim has ended, is about to open its attempt.
#[tokio::test]
async fn a_late_workers_proof_of_acceptance_lands_whatever_the_claim() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    overtaken(&world, None, async || {
        world.mailer.fault(FaultKind::InProgress, 1);
        world.deliver_ids(&[&id]).await;
        assert_eq!(world.status(&id).await, "retry");
    })
    .await;
    assert_eq!(world.status(&id).await, "sent", "{}", world.notes.text());
    assert_eq!(world.mailer.accepted(), 1);
    world.run_for(3_600 * SECOND, 60 * SECOND).await;
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn a_worker_that_slept_past_its_lease_before_it_opened_forgets_no_message_of_another() {
    // Once with a letter that can be sent, once with one that cannot be read.
    for spoil in ["SELECT 1", "UPDATE letters SET body = '{\"unreadable\":' || body"] {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.sql(spoil, vec![]).await;
        let (before, mut late) = (world.transport.executed(), Box::pin(world.deliver()));
        while world.transport.executed() == before {
            assert!(late.as_mut().now_or_never().is_none(), "it is on its way");
        }
        world
            .sql(
                "UPDATE letters SET body = replace(body, '{\"unreadable\":', '')",
                vec![],
            )
            .await;
        world.clock.advance(301 * SECOND);
        world.mailer.hold_next.set(true);
        let ids = [id.as_str()];
        let mut successor = Box::pin(world.deliver_ids(&ids));
        for _ in 0..20 {
            assert!(successor.as_mut().now_or_never().is_none(), "its claim is alive");
        }
        let decisions = late.await;
        assert!(
            matches!(decisions[..], [Decision::Retry { delay_seconds: 300.. }]),
            "{spoil}: {decisions:?}"
        );
        assert_eq!(world.notes.count("claim_lost"), 1, "{}", world.notes.text());
        assert_eq!(world.notes.count("rows_without_slot"), 0);
        world.mailer.let_go.set(true);
        successor.await;
    }
}

#[tokio::test]
async fn a_worker_that_slept_until_its_row_was_sent_notes_a_lost_claim_and_no_missing_slot() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    let (before, mut late) = (world.transport.executed(), Box::pin(world.deliver()));
    while world.transport.executed() == before {
        assert!(late.as_mut().now_or_never().is_none(), "it is on its way");
    }
    world.clock.advance(301 * SECOND);
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(late.await, [Decision::Acknowledge]);
    assert_eq!(
        (world.notes.count("claim_lost"), world.notes.count("rows_without_slot")),
        (1, 0),
        "{}",
        world.notes.text()
    );
    assert_eq!(world.mailer.calls(), 1);
}
