//! The publisher: the queue may refuse, lie or be gone, and nobody but the relay notices.

use std::time::Duration;

use sealpost::ports::World as _;
use sealpost::publish::publish_after_intake;
use sealpost::store::publish::{Reservation, mark_published};

use super::doors::{one_intent, post};
use crate::support::{TestWorld, Wire, integer, notice_with_key};

#[tokio::test]
async fn a_queue_that_refuses_changes_nothing_of_the_answer_and_the_relay_carries_on() {
    let world = TestWorld::new().await;
    world.broker.refuse(true);
    let answer = post(&world, &one_intent()).await;
    assert_eq!(answer.status, 202);
    let published = publish_after_intake(&world, &world.broker, &world.config, &answer.to_publish).await;
    assert_eq!(published.taken, 0);
    assert_eq!(world.broker.batches.get(), 3, "three tries");
    assert_eq!(world.notes.count("publish_refused"), 1);
    let id = answer.body["intents"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.status(&id).await, "pending");

    // Two hours of refusals: fewer and fewer, and none of them is a try at sending.
    world.broker.batches.set(0);
    for _ in 0..120 {
        world.clock.advance(Duration::from_secs(60));
        world.tick().await;
    }
    let batches = world.broker.batches.get();
    assert!((8..=24).contains(&batches), "{batches} batches in two hours");
    let counts = world
        .sql(
            "SELECT attempt_count, claim_count, (SELECT count(*) FROM attempts) FROM outbox",
            Vec::new(),
        )
        .await;
    assert_eq!(counts[0], vec![0.into(), 0.into(), 0.into()]);

    // The producer grows impatient: the same row.
    let again = post(&world, &one_intent()).await;
    assert_eq!(
        (again.status, again.body["intents"][0]["id"].as_str()),
        (202, Some(id.as_str()))
    );

    world.broker.refuse(false);
    world.run_for(Duration::from_secs(1_200), Duration::from_secs(60)).await;
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn a_queue_that_takes_the_batch_and_answers_an_error_makes_no_second_mail() {
    let world = TestWorld::new().await;
    world.broker.lies.set(true);
    let ids = world.notices(2).await;
    assert_eq!(world.broker.len(), 6, "three tries, each of which arrived");
    assert_eq!(world.count("pending").await, 2, "as far as anybody knows");
    world.broker.lies.set(false);
    let decisions = world.deliver().await;
    assert!(
        decisions
            .iter()
            .all(|one| *one == sealpost::consume::Decision::Acknowledge),
        "{decisions:?}"
    );
    world.run_for(Duration::from_secs(1_800), Duration::from_secs(60)).await;
    assert_eq!(world.mailer.calls(), 2);
    assert_eq!(world.status(&ids[1]).await, "sent");
}

#[tokio::test]
async fn a_mark_that_fails_leaves_the_rows_to_the_claim() {
    for wire in [Wire::Refuse, Wire::LoseAnswer] {
        let world = TestWorld::new().await;
        let answer = post(&world, &one_intent()).await;
        world.transport.always(Some(wire));
        publish_after_intake(&world, &world.broker, &world.config, &answer.to_publish).await;
        world.transport.always(None);
        assert_eq!(world.notes.count("mark_published_failed"), 1);
        world.deliver().await;
        assert_eq!(world.count("sent").await, 1);
    }
}

#[tokio::test]
async fn a_mark_moves_no_row_that_anybody_has_moved_since() {
    let world = TestWorld::new().await;
    let answer = post(&world, &one_intent()).await;
    let stale = answer.to_publish;
    // Published again by somebody else.
    world.clock.advance(Duration::from_secs(31));
    world.broker.refuse(true);
    world.tick().await;
    let marked = |list: Vec<Reservation>| {
        let world = &world;
        async move {
            let at = world.clock().now();
            mark_published(world.database(), &list, at, at.plus(Duration::from_secs(600)))
                .await
                .expect("ran")
        }
    };
    use sealpost::ports::Clock as _;
    assert_eq!(
        marked(stale.clone()).await,
        Vec::<String>::new(),
        "an older reservation"
    );
    // Claimed and back again.
    let mut current = stale;
    current[0].publish_count = 2;
    world.sql("UPDATE outbox SET claim_count = 1", Vec::new()).await;
    assert_eq!(
        marked(current.clone()).await,
        Vec::<String>::new(),
        "claimed in between"
    );
    current[0].claim_count = 1;
    assert_eq!(marked(current.clone()).await.len(), 1, "what it read is still true");
    assert_eq!(marked(current).await.len(), 0, "once");
}

#[tokio::test]
async fn a_hundred_messages_go_in_one_batch_and_carry_nothing_but_pointers() {
    let world = TestWorld::new().await;
    let intents: Vec<_> = (0..100).map(|n| notice_with_key(&format!("n{n}"))).collect();
    world.intake(&intents).await.expect("recorded");
    assert_eq!(world.broker.batches.get(), 1);
    let messages = world.broker.take();
    assert_eq!(messages.len(), 100);
    for message in messages {
        let body: serde_json::Value = serde_json::from_str(&message.body).unwrap();
        let names: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(names, ["kind", "outboxId", "version"]);
    }
    let publications = world.sql("SELECT sum(publish_count) FROM outbox", Vec::new()).await;
    assert_eq!(integer(&publications[0][0]), 100);
}
