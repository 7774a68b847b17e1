//! Rows whose worker died: they run alone, after the healthy ones, and do not run for ever.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;

use crate::support::{TestQueue, TestWorld, config_with, die_when, integer};

const SECOND: Duration = Duration::from_secs(1);
const LEASE_AND_SKEW: Duration = Duration::from_secs(302);

/// The requests that a batch of `count` rows makes die at the point `at`: 1 after the claim, 2 after the open.
async fn die_at_request(world: &TestWorld, ids: &[&str], at: usize) {
    let before = world.transport.executed();
    let died = die_when(|| world.transport.executed() >= before + at, world.deliver_ids(ids)).await;
    assert_eq!(died, None);
}

/// A worker that dies whenever it claims a row alone. The first request of an invocation claims the healthy rows and
/// finds none here; the second one claims the suspect.
async fn die_alone_after_claim(world: &TestWorld, id: &str) {
    die_at_request(world, &[id], 2).await;
}

#[tokio::test]
async fn a_worker_that_dies_after_every_claim_leaves_a_visible_dead_letter() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    die_at_request(&world, &[&id], 1).await;
    for death in 1..=5 {
        world.clock.advance(LEASE_AND_SKEW);
        die_alone_after_claim(&world, &id).await;
        assert_eq!(world.status(&id).await, "processing", "lone death {death}");
    }
    world.clock.advance(LEASE_AND_SKEW);
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
    assert_eq!(
        world.state(&id).await,
        ("dead_letter".to_owned(), "claims_exhausted".to_owned())
    );
    assert_eq!(world.mailer.calls(), 0);
    assert_eq!(world.notes.count("dead_lettered"), 1, "{}", world.notes.text());
    world.run_for(3_600 * SECOND, 60 * SECOND).await;
    world.deliver_ids(&[&id]).await;
    assert_eq!(
        world.status(&id).await,
        "dead_letter",
        "nothing drives it again by itself"
    );
    assert_eq!(world.notes.count("dead_lettered"), 1, "one alarm");
}

#[tokio::test]
async fn a_worker_that_dies_after_every_open_leaves_an_unknown() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    die_at_request(&world, &[&id], 2).await;
    for _ in 0..5 {
        world.clock.advance(LEASE_AND_SKEW);
        die_at_request(&world, &[&id], 3).await;
    }
    world.clock.advance(LEASE_AND_SKEW);
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
    assert_eq!(
        world.state(&id).await,
        ("unknown".to_owned(), "claims_exhausted".to_owned())
    );
    assert_eq!(world.mailer.calls(), 0);
    assert_eq!(world.notes.count("outcome_unknown"), 1);
}

#[tokio::test]
async fn deaths_in_company_do_not_count() {
    let world = TestWorld::new().await;
    let ids = world.notices(3).await;
    let all: Vec<&str> = ids.iter().map(String::as_str).collect();
    die_at_request(&world, &all, 1).await;
    world.clock.advance(LEASE_AND_SKEW);
    let rows = world.sql("SELECT sum(lone_deaths) FROM outbox", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 0);
    assert_eq!(world.deliver_ids(&all).await, [Decision::Acknowledge; 3]);
    assert_eq!(world.count("sent").await, 3);
    let rows = world.sql("SELECT sum(lone_deaths) FROM outbox", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 0);
}

#[tokio::test]
async fn suspects_run_alone_after_the_healthy_rows_are_settled() {
    let world = TestWorld::new().await;
    let ids = world.notices(5).await;
    die_at_request(&world, &[&ids[0], &ids[1]], 1).await;
    world.clock.advance(LEASE_AND_SKEW);
    world.transport.take_requests();
    let all: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(world.deliver_ids(&all).await, [Decision::Acknowledge; 5]);
    assert_eq!(
        world.transport.take_requests(),
        3 + 2 * 3,
        "three for all, and three for each suspect"
    );
    assert_eq!(world.count("sent").await, 5);
    let last: Vec<String> = world
        .mailer
        .model
        .borrow()
        .ledger()
        .sent()
        .iter()
        .skip(3)
        .flat_map(|sent| sent.mail.to.clone())
        .collect();
    let both = last.join(" ");
    assert!(both.contains("<n0@") && both.contains("<n1@"), "{both}");
}

#[tokio::test]
async fn a_poisonous_row_takes_the_healthy_ones_down_once_and_no_more() {
    let world = TestWorld::new().await;
    let ids = world.notices(11).await;
    let poison = ids[4].clone();
    let queue = TestQueue::default();
    // Whoever gets it through the claim dies: with all others first, then alone.
    let in_company = std::cell::Cell::new(true);
    let deadly = |world: &TestWorld| {
        // The first claim of an invocation takes the healthy rows; each later one takes a suspect.
        let bodies = world.transport.bodies();
        let alone = bodies.iter().skip(1).any(|body| {
            let is_claim = body.contains("UPDATE pauses SET probe_token = ?3");
            is_claim && body.contains(&poison)
        });
        alone || (!bodies.is_empty() && in_company.take())
    };
    for _ in 0..50 {
        world.clock.advance(60 * SECOND);
        world.tick().await;
        world.transport.take_requests();
        queue.die_in_batch_when(&world, || deadly(&world), 60 * SECOND).await;
    }
    assert_eq!(
        world.state(&poison).await,
        ("dead_letter".to_owned(), "claims_exhausted".to_owned())
    );
    assert_eq!((world.count("sent").await, world.mailer.calls()), (10, 10));
    let rows = world
        .sql("SELECT max(lone_deaths) FROM outbox WHERE status = 'sent'", vec![])
        .await;
    assert_eq!(integer(&rows[0][0]), 0);
}

#[tokio::test]
async fn a_pause_does_not_lock_suspects_out() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    die_at_request(&world, &[&id], 1).await;
    world.mailer.fault(FaultKind::InvalidKey, 1);
    let other = world
        .intake(&[crate::support::notice_with_key("other")])
        .await
        .expect("recorded")
        .receipts
        .remove(0)
        .id;
    let queue = TestQueue::default();
    queue.deliver_all(&world).await;
    // Its worker dies as well; what is left are suspects alone, behind a pause.
    world
        .sql("UPDATE outbox SET suspect = 1 WHERE status = 'retry'", vec![])
        .await;
    queue.run_for(&world, 1_800 * SECOND, 5 * SECOND).await;
    assert_eq!(world.status(&other).await, "sent", "{:?}", world.state(&other).await);
    assert_eq!(world.status(&id).await, "sent", "{:?}", world.state(&id).await);
}

#[tokio::test]
async fn a_suspect_that_was_put_aside_and_published_again_still_runs() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    die_at_request(&world, &[&id], 1).await;
    world.clock.advance(LEASE_AND_SKEW);
    let until = sealpost::ports::Clock::now(&world.clock).plus(600 * SECOND).get();
    world
        .sql(
            "INSERT INTO pauses (scope, reason, until, created_at) VALUES ('notice', 'by_hand', ?1, 0)",
            vec![until.into()],
        )
        .await;
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
    assert_eq!(world.state(&id).await, ("retry".to_owned(), "paused".to_owned()));
    let queue = TestQueue::default();
    queue.run_for(&world, 900 * SECOND, 30 * SECOND).await;
    assert_eq!(world.status(&id).await, "sent");
}

#[tokio::test]
async fn a_suspect_without_a_slot_stays_a_suspect() {
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "1")])).await;
    let id = world.notices(1).await.remove(0);
    die_at_request(&world, &[&id], 1).await;
    world.clock.advance(LEASE_AND_SKEW);
    world
        .sql(
            "INSERT INTO pace (name, next_free_at) VALUES ('resend', 9000000000000)",
            vec![],
        )
        .await;
    world.deliver_ids(&[&id]).await;
    let rows = world
        .sql("SELECT suspect FROM outbox WHERE status = 'retry'", vec![])
        .await;
    assert_eq!(integer(&rows[0][0]), 1);
}

/// What must hold however a worker died, once time has run: one mail for each key at most, the same bytes under it,
/// every row sent, or unknown where it was in doubt.
async fn check_after_death(world: &TestWorld, rows: i64, point: usize) {
    let sent = world.count("sent").await;
    let unknown = world.count("unknown").await;
    let broken = world
        .sql(
            "SELECT id, status, cause FROM outbox WHERE status NOT IN ('sent', 'unknown')",
            vec![],
        )
        .await;
    assert_eq!(
        sent + unknown,
        rows,
        "death {point}: {broken:?}\n{}",
        world.notes.text()
    );
    for bodies in world.mailer.bodies_by_key().values() {
        assert!(
            bodies.iter().all(|body| *body == bodies[0]),
            "death {point}: other bytes"
        );
    }
    let model = world.mailer.model.borrow();
    let mut keys: Vec<_> = model
        .ledger()
        .sent()
        .iter()
        .map(|sent| sent.idempotency_key.clone())
        .collect();
    let mails = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), mails, "death {point}: two mails under one key");
    assert!(mails as i64 >= sent, "death {point}: sent without a mail");
}

/// Kills a worker at every await of a batch of three, once each, and lets time run.
async fn die_everywhere(settings: &[(&str, &str)], faults: &[FaultKind], expect_unknown: bool) -> usize {
    let mut points = 0;
    let mut unknowns = 0;
    for point in 1.. {
        let world = TestWorld::with(config_with(settings)).await;
        for kind in faults {
            world.mailer.fault(*kind, 1);
        }
        world.notices(3).await;
        let queue = TestQueue::default();
        let died = queue.die_in_batch(&world, point, 60 * SECOND).await;
        queue.run_for(&world, 2_400 * SECOND, 120 * SECOND).await;
        check_after_death(&world, 3, point).await;
        let unknown = world.count("unknown").await;
        if !expect_unknown {
            assert_eq!(unknown, 0, "death {point}: the provider's window was open");
        }
        unknowns += unknown;
        points = point;
        if !died {
            break;
        }
    }
    assert_eq!(expect_unknown, unknowns > 0);
    points
}

#[tokio::test]
async fn a_death_at_any_await_of_a_batch_ends_in_one_mail_for_each_row() {
    let points = die_everywhere(&[], &[], false).await;
    assert!(points > 8, "{points} points");
}

#[tokio::test]
async fn a_death_at_any_await_after_bad_answers_ends_in_one_mail_for_each_row() {
    let faults = [
        FaultKind::AcceptThenDrop,
        FaultKind::ServiceUnavailable,
        FaultKind::OkWithoutId,
    ];
    die_everywhere(
        &[
            ("CALLS_AT_ONCE", "1"),
            ("LEASE_MS", "840000"),
            ("PROVIDER_TIMEOUT_MS", "5000"),
        ],
        &faults,
        false,
    )
    .await;
}

#[tokio::test]
async fn a_death_at_any_await_with_a_provider_without_keys_never_sends_twice() {
    die_everywhere(
        &[
            ("PROVIDER_WINDOW_MS", "0"),
            ("CALLS_AT_ONCE", "2"),
            ("LEASE_MS", "840000"),
        ],
        &[],
        true,
    )
    .await;
}

#[tokio::test]
async fn dying_in_company_does_not_count_towards_the_limit() {
    let world = TestWorld::new().await;
    let ids = world.notices(1).await;
    world
        .sql(
            "UPDATE outbox SET status = 'processing', claim_token = 'clm_dead', claim_expires_at = 1 WHERE id = ?1",
            vec![ids[0].as_str().into()],
        )
        .await;
    // Its next claim runs alone, and what it comes to is never written: the counter is seen as the claim left it.
    for _ in 0..3 {
        world
            .transport
            .next_with("UPDATE attempts SET", crate::support::Wire::Refuse);
    }
    world.deliver().await;
    let rows = world
        .sql(
            "SELECT lone_claim, lone_deaths FROM outbox WHERE id = ?1",
            vec![ids[0].as_str().into()],
        )
        .await;
    assert_eq!(rows, vec![vec![1.into(), 0.into()]]);
}
