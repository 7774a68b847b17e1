use std::time::Duration;

use sealpost::consume::Decision;

use super::{campaign, deliver, ids_are_right, number, requests, states, suppress, world};
use crate::support::die_when;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_death_after_each_step_sends_nothing_twice_and_loses_nothing() {
    for step in 1..=3usize {
        let world = world().await;
        let ids = campaign(&world, 6).await;
        let before = world.transport.executed();
        let list: Vec<&str> = ids.iter().map(String::as_str).collect();
        die_when(|| world.transport.executed() == before + step, world.deliver_ids(&list)).await;
        world.clock.advance(HOUR);
        // Whoever died, each row runs alone, and a frozen batch as a whole.
        for _ in 0..6 {
            deliver(&world, &ids).await;
            world.clock.advance(Duration::from_secs(5));
        }
        assert_eq!(states(&world, &ids).await, vec!["sent"; 6], "dead after step {step}");
        assert_eq!(world.mailer.accepted(), 6, "dead after step {step}");
        ids_are_right(&world).await;
    }
}

#[tokio::test]
async fn a_batch_whose_worker_died_runs_alone_and_whole() {
    let world = world().await;
    let ids = campaign(&world, 6).await;
    let before = world.transport.executed();
    let list: Vec<&str> = ids.iter().map(String::as_str).collect();
    die_when(|| world.transport.executed() == before + 2, world.deliver_ids(&list)).await;
    world.clock.advance(HOUR);
    world.transport.take_requests();
    let decisions = world.deliver_ids(&[&ids[0], &ids[5]]).await;
    assert_eq!(decisions, [Decision::Acknowledge; 2]);
    assert_eq!(states(&world, &ids).await, vec!["sent"; 6]);
    assert_eq!(world.mailer.accepted(), 6);
}

#[tokio::test]
async fn two_workers_with_messages_of_one_batch_make_one_call() {
    let world = world().await;
    let ids = campaign(&world, 4).await;
    world
        .mailer
        .fault(sealpost::devstack::provider::fault::FaultKind::RateLimit, 1);
    world.deliver().await;
    world.clock.advance(Duration::from_secs(300));
    let (first, second) = ([ids[0].as_str(), &ids[1]], [ids[2].as_str(), &ids[3]]);
    let (one, two) = tokio::join!(world.deliver_ids(&first), world.deliver_ids(&second));
    assert_eq!(states(&world, &ids).await, vec!["sent"; 4]);
    assert_eq!(requests(&world).len(), 2);
    let all: Vec<Decision> = one.into_iter().chain(two).collect();
    assert_eq!(
        all.iter()
            .filter(|decision| **decision == Decision::Acknowledge)
            .count(),
        2
    );
}

#[tokio::test]
async fn a_batch_that_was_frozen_and_never_opened_can_be_given_up() {
    let world = super::world_with(&[("PACE_PER_SECOND", "1"), ("PACE_WAIT_MS", "1000")]).await;
    let ids = campaign(&world, 4).await;
    world
        .sql(
            "INSERT INTO pace (name, next_free_at) VALUES ('resend', ?1)",
            vec![
                sealpost::ports::Clock::now(&world.clock)
                    .plus(Duration::from_secs(20))
                    .get()
                    .into(),
            ],
        )
        .await;
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, vec!["retry"; 4]);
    assert_eq!(number(&world, "SELECT count(*) FROM attempts").await, 0);
    suppress(&world, &ids[0]).await;
    world.clock.advance(Duration::from_secs(60));
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, ["suppressed", "sent", "sent", "sent"]);
}
