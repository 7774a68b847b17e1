//! Waves: where little or nothing of the provider's window is left, a death must leave few doubts.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;

use crate::support::{TestQueue, TestWorld, config_with, die_when, integer};

const SECOND: Duration = Duration::from_secs(1);

async fn keyless(budget: &str) -> TestWorld {
    TestWorld::with(config_with(&[
        ("PROVIDER_WINDOW_MS", "0"),
        ("SUBREQUEST_BUDGET", budget),
    ]))
    .await
}

#[tokio::test]
async fn without_keys_attempts_open_in_waves_of_as_many_as_are_called_at_once() {
    let world = keyless("1000").await;
    world.notices(12).await;
    world.transport.take_requests();
    let died = die_when(|| world.mailer.accepted() > 5, world.deliver()).await;
    assert_eq!(died, None);
    let rows = world
        .sql("SELECT count(*) FROM attempts WHERE closed_at IS NULL", vec![])
        .await;
    let open = integer(&rows[0][0]);
    assert!(open <= 5, "{open} doubts by one death");
    assert_eq!(world.count("sent").await, 5, "the wave before is settled");
}

#[tokio::test]
async fn waves_cost_one_request_each_and_stay_within_the_plan() {
    for (count, budget) in [(12, "1000"), (100, "50"), (100, "1000")] {
        let world = keyless(budget).await;
        world.notices(count).await;
        world.transport.take_requests();
        let queue = TestQueue::default();
        queue.deliver(&world).await;
        let calls = world.mailer.calls();
        let requests = world.transport.take_requests();
        assert_eq!(requests, 2 + calls.div_ceil(5), "{count} with {budget}");
        assert!(
            requests + calls <= budget.parse().expect("a number"),
            "{requests} and {calls} of {budget}"
        );
        assert!(calls >= count.min(30), "{calls} calls");
        // Nobody was left behind in a claim.
        assert_eq!(world.count("processing").await, 0, "{count} with {budget}");
        queue.run_for(&world, 300 * SECOND, 5 * SECOND).await;
        assert_eq!(world.count("sent").await, count as i64);
        assert_eq!(world.mailer.calls(), count);
    }
}

#[tokio::test]
async fn a_pause_between_two_waves_gives_the_rest_back() {
    let world = keyless("1000").await;
    world.notices(20).await;
    world.mailer.fault(FaultKind::InvalidKey, 5);
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    assert_eq!(world.mailer.calls(), 5);
    assert_eq!(world.count("processing").await, 0, "no claim is kept for nothing");
    let rows = world
        .sql(
            "SELECT sum(suspect), sum(doubts), sum(attempt_count) FROM outbox",
            vec![],
        )
        .await;
    assert_eq!(
        (integer(&rows[0][0]), integer(&rows[0][1]), integer(&rows[0][2])),
        (0, 0, 0)
    );
    queue.run_for(&world, 900 * SECOND, 10 * SECOND).await;
    assert_eq!(world.count("sent").await, 20);
}

#[tokio::test]
async fn near_the_windows_end_a_doubtful_row_runs_in_a_wave_and_fresh_ones_do_not() {
    let world = TestWorld::new().await;
    let ids = world.notices(8).await;
    world.mailer.fault(FaultKind::ServiceUnavailable, 8);
    world.deliver().await;
    // Six minutes before the window less its margin ends for the eight: within a lease.
    world.clock.advance(Duration::from_secs(23 * 3_600 - 200));
    for number in 0..8 {
        world
            .intake(&[crate::support::notice_with_key(&format!("fresh{number}"))])
            .await
            .expect("recorded");
    }
    let mut all: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.broker.take();
    let fresh = world.sql("SELECT id FROM outbox WHERE seq > 8", vec![]).await;
    let fresh: Vec<String> = fresh.iter().map(|row| crate::support::text(&row[0])).collect();
    all.extend(fresh.iter().map(String::as_str));
    world.transport.take_requests();
    world.deliver_ids(&all).await;
    assert_eq!(
        world.transport.take_requests(),
        2 + 1 + 2,
        "claim, fresh, two waves, settle"
    );
    assert_eq!(world.count("sent").await, 16);
}
