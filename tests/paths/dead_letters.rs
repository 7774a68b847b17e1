//! The dead-letter queue: the row decides, the queue's exhaustion ends nothing, and nothing is published from here.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::outbox::envelope::Envelope;

use crate::support::{TestWorld, Wire, integer};

fn envelope(id: &str) -> String {
    Envelope::to_row(id).to_body()
}

fn is_retry(decision: &Decision) -> bool {
    matches!(decision, Decision::Retry { .. })
}

#[tokio::test]
async fn a_dead_letter_is_kept_in_its_queue_while_the_database_is_down() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.broker.take();
    let batch = [envelope(&id), "no envelope".to_owned(), envelope("ntc_nobody123")];
    world.transport.always(Some(Wire::Refuse));
    let decisions = world.deliver_dead(&batch).await;
    world.transport.always(None);
    assert!(decisions.iter().all(is_retry), "{decisions:?}");
    assert_eq!(world.status(&id).await, "enqueued");
    let decisions = world.deliver_dead(&batch).await;
    assert_eq!(
        decisions,
        vec![Decision::Acknowledge; 3],
        "once it is back, each is kept before it is forgotten"
    );
    let parked = world.sql("SELECT count(*) FROM parking", Vec::new()).await;
    assert_eq!(integer(&parked[0][0]), 2);
}

#[tokio::test]
async fn a_dead_letter_twice_does_what_it_does_once_and_publishes_nothing() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.broker.take();
    let batches = world.broker.batches.get();
    for _ in 0..2 {
        let decisions = world.deliver_dead(&[envelope(&id), envelope(&id)]).await;
        assert_eq!(decisions, vec![Decision::Acknowledge; 2]);
    }
    assert_eq!(
        world.state(&id).await,
        ("retry".to_owned(), "queue_exhausted".to_owned())
    );
    assert_eq!(world.broker.batches.get(), batches, "only the relay publishes");
    assert_eq!(world.count("retry").await, 1);
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.tick().await.published, 1);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn a_dead_letter_of_a_sent_row_takes_nothing_back() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.deliver().await;
    assert_eq!(world.deliver_dead(&[envelope(&id)]).await, vec![Decision::Acknowledge]);
    assert_eq!(world.state(&id).await, ("sent".to_owned(), "accepted".to_owned()));
    assert_eq!(world.tick().await.published, 0);
}

#[tokio::test]
async fn a_dead_letter_of_a_row_that_asks_for_a_person_leaves_it_to_the_person() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    for sql in [
        "UPDATE outbox SET status = 'unknown', cause = 'x', relay_at = NULL",
        "UPDATE outbox SET status = 'dead_letter', dead_class = 'pipeline', cause = 'x', relay_at = NULL",
    ] {
        world.sql(sql, Vec::new()).await;
        let before = world.state(&id).await;
        assert_eq!(world.deliver_dead(&[envelope(&id)]).await, vec![Decision::Acknowledge]);
        assert_eq!(world.state(&id).await, before);
    }
}

#[tokio::test]
async fn a_dead_letter_of_a_claimed_row_leaves_the_claim_alone() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world
        .sql(
            "UPDATE outbox SET status = 'processing', cause = 'claimed', claim_token = 'clm_other', claim_expires_at = ?1",
            vec![(1_767_225_600_000_i64 + 60_000).into()],
        )
        .await;
    assert_eq!(world.deliver_dead(&[envelope(&id)]).await, vec![Decision::Acknowledge]);
    assert_eq!(world.state(&id).await, ("processing".to_owned(), "claimed".to_owned()));
}

#[tokio::test]
async fn a_dead_letter_without_a_row_is_parked_once_and_loud() {
    let world = TestWorld::new().await;
    for _ in 0..2 {
        let decisions = world.deliver_dead(&[envelope("ntc_nobody123")]).await;
        assert_eq!(decisions, vec![Decision::Acknowledge]);
    }
    let parked = world.sql("SELECT reason, source, times FROM parking", Vec::new()).await;
    assert_eq!(
        parked,
        vec![vec![
            "envelope_without_row".into(),
            "dead_letter_queue".into(),
            2.into()
        ]]
    );
    assert_eq!(world.notes.alarms(), vec!["input_parked"; 2]);
}

#[tokio::test]
async fn a_dead_letter_never_brings_a_row_back_before_its_time() {
    let world = TestWorld::new().await;
    let id = world.notices(2).await.remove(0);
    let tomorrow = 1_767_225_600_000_i64 + 86_400_000;
    world
        .sql(
            "UPDATE outbox SET not_before = ?1 WHERE id = ?2",
            vec![tomorrow.into(), id.clone().into()],
        )
        .await;
    world
        .sql(
            "UPDATE outbox SET status = 'retry', cause = 'x', next_attempt_at = ?1, relay_at = ?1 WHERE id <> ?2",
            vec![tomorrow.into(), id.clone().into()],
        )
        .await;
    let ids = world.sql("SELECT id FROM outbox", Vec::new()).await;
    let bodies: Vec<String> = ids.iter().map(|row| envelope(&crate::support::text(&row[0]))).collect();
    world.deliver_dead(&bodies).await;
    let early = world
        .sql(
            "SELECT count(*) FROM outbox WHERE relay_at < ?1 OR next_attempt_at < ?1",
            vec![tomorrow.into()],
        )
        .await;
    assert_eq!(integer(&early[0][0]), 0);
}
