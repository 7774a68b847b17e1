//! The settle: proof that contradicts itself, and writes that fail.

use std::time::Duration;

use sealpost::consume::Decision;

use crate::support::{TestQueue, TestWorld, Wire, integer};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn an_id_that_another_row_has_proves_nothing_and_makes_the_row_unknown() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    world.deliver_ids(&[&ids[0]]).await;
    world
        .mailer
        .next_id
        .replace(Some("00000000-0000-4000-8000-000000000001".to_owned()));
    assert_eq!(world.deliver_ids(&[&ids[1]]).await, [Decision::Acknowledge]);
    assert_eq!(world.status(&ids[0]).await, "sent");
    assert_eq!(
        world.state(&ids[1]).await,
        ("unknown".to_owned(), "message_id_conflict".to_owned())
    );
    assert!(world.notes.alarms().contains(&"message_id_conflict"));
    world.run_for(3_600 * SECOND, 60 * SECOND).await;
    assert_eq!(world.mailer.calls(), 2, "nobody tries again by himself");
}

#[tokio::test]
async fn one_id_for_two_rows_of_a_batch_is_the_first_ones() {
    let world = TestWorld::new().await;
    let ids = world.notices(3).await;
    world
        .mailer
        .next_id
        .replace(Some("00000000-0000-4000-8000-000000000003".to_owned()));
    assert_eq!(world.deliver().await, [Decision::Acknowledge; 3]);
    assert_eq!((world.count("sent").await, world.count("unknown").await), (2, 1));
    assert_eq!(world.status(&ids[1]).await, "sent", "the neighbours are untouched");
}

#[tokio::test]
async fn a_second_id_for_a_sent_row_is_written_down_and_takes_nothing_back() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.hold_next.set(true);
    let other = async {
        while world.mailer.calls() == 0 {
            tokio::task::yield_now().await;
        }
        world.clock.advance(301 * SECOND);
        // The other worker's proof is there first, under another id.
        world
            .sql(
                "UPDATE outbox SET status = 'sent', cause = 'accepted', provider_message_id = 'first-id', settled_at = 1,
                 relay_at = NULL, claim_token = NULL, claim_expires_at = NULL",
                vec![],
            )
            .await;
        world.mailer.let_go.set(true);
    };
    futures_util::join!(world.deliver(), other);
    let rows = world
        .sql(
            "SELECT count(*) FROM outbox WHERE provider_message_id = 'first-id'",
            vec![],
        )
        .await;
    assert_eq!(integer(&rows[0][0]), 1);
    assert_eq!(world.status(&id).await, "sent");
    let rows = world
        .sql("SELECT count(*) FROM events WHERE cause = 'duplicate_seen'", vec![])
        .await;
    assert_eq!(integer(&rows[0][0]), 1);
    assert!(world.notes.alarms().contains(&"message_id_conflict"));
}

#[tokio::test]
async fn one_row_that_cannot_be_settled_is_cornered_and_touches_no_other() {
    let world = TestWorld::new().await;
    let ids = world.notices(40).await;
    world
        .sql(
            "CREATE TRIGGER spoil BEFORE UPDATE OF status ON outbox
             WHEN NEW.status = 'sent' AND OLD.seq = 17
             BEGIN SELECT raise(ABORT, 'spoilt'); END",
            vec![],
        )
        .await;
    let decisions = world.deliver().await;
    for (number, decision) in decisions.iter().enumerate() {
        assert_eq!(
            *decision == Decision::Acknowledge,
            number != 16,
            "{number}: {decision:?}"
        );
    }
    assert_eq!(world.count("sent").await, 39);
    assert_eq!(world.status(&ids[16]).await, "processing", "left to its lease");
    world.sql("DROP TRIGGER spoil", vec![]).await;
    world.run_for(900 * SECOND, 30 * SECOND).await;
    assert_eq!(world.status(&ids[16]).await, "sent");
    assert_eq!(world.mailer.accepted(), 40);
}

#[tokio::test]
async fn a_settle_that_meets_a_dead_database_is_not_halved() {
    let world = TestWorld::new().await;
    world.notices(40).await;
    for _ in 0..100 {
        world.transport.next_with("UPDATE attempts SET", Wire::Refuse);
    }
    world.transport.take_requests();
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    let requests = world.transport.take_requests();
    assert!(
        requests <= 8,
        "{requests} requests, more than are kept for the database"
    );
    assert_eq!(queue.len(), 40, "all come again");
}

#[tokio::test]
async fn an_open_that_fails_calls_nobody_and_loses_nothing() {
    for wire in [Wire::Refuse, Wire::LoseAnswer] {
        let world = TestWorld::new().await;
        world.notices(3).await;
        for _ in 0..3 {
            world.transport.next_with("INSERT INTO attempts", wire.clone());
        }
        let queue = TestQueue::default();
        queue.deliver(&world).await;
        assert_eq!((world.mailer.calls(), queue.len()), (0, 3), "{wire:?}");
        queue.run_for(&world, 900 * SECOND, 10 * SECOND).await;
        assert_eq!(world.count("sent").await, 3, "{wire:?}");
        assert_eq!(world.mailer.calls(), 3);
    }
}

#[tokio::test]
async fn an_answer_lost_at_the_open_sends_once() {
    let world = TestWorld::new().await;
    world.notices(3).await;
    world.transport.next_with("INSERT INTO attempts", Wire::LoseAnswer);
    assert_eq!(world.deliver().await, [Decision::Acknowledge; 3]);
    assert_eq!(world.mailer.calls(), 3);
    let rows = world.sql("SELECT count(*) FROM attempts", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 3);
}
