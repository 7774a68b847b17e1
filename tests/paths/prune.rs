//! Retention: personal data goes, the memory that prevents a second mail stays.

use std::time::Duration;

use crate::support::{TestWorld, integer, notice_with_key};

const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

#[tokio::test]
async fn a_purge_keeps_the_memory_that_prevents_a_second_send() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    let envelope = world.broker.take();
    world.deliver_bodies(&[envelope[0].body.clone()]).await;
    world.clock.advance(WEEK);
    world.tick().await;
    let left = |table: &'static str| world.sql(table, vec![]);
    assert_eq!(
        integer(&left("SELECT count(*) FROM letters").await[0][0]),
        1,
        "the open row keeps its letter"
    );
    assert_eq!(integer(&left("SELECT count(*) FROM attempts").await[0][0]), 0);
    let events =
        left("SELECT count(*), max(to_status) FROM events WHERE outbox_id LIKE 'ntc%' GROUP BY outbox_id").await;
    assert!(
        events.iter().any(|row| integer(&row[0]) == 1),
        "one event stays as the snapshot"
    );
    // The envelope may still be in a queue, and the producer may repeat: neither makes a second mail.
    world.deliver_bodies(&[envelope[0].body.clone()]).await;
    let again = world.intake(&[notice_with_key("n0")]).await.expect("a duplicate");
    assert!(again.receipts[0].duplicate && again.receipts[0].id == ids[0]);
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn a_purge_never_touches_what_is_open_or_asks_for_a_person() {
    let world = TestWorld::new().await;
    let ids = world.notices(1).await;
    world
        .sql(
            "UPDATE outbox SET status = 'unknown', cause = 'payload_conflict', relay_at = NULL WHERE id = ?1",
            vec![ids[0].as_str().into()],
        )
        .await;
    world.clock.advance(WEEK * 20);
    world.tick().await;
    assert_eq!(
        integer(&world.sql("SELECT count(*) FROM letters", vec![]).await[0][0]),
        1
    );
}
