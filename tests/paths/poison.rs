//! Rows that no version here can read: visible before the message is forgotten, and driven again by one that can.

use std::time::Duration;

use sealpost::consume::Decision;
use serde_json::json;

use crate::support::{TestQueue, TestWorld};

const SECOND: Duration = Duration::from_secs(1);

fn state(state: &str, cause: &str) -> (String, String) {
    (state.to_owned(), cause.to_owned())
}

#[tokio::test]
async fn a_row_of_an_unknown_family_is_a_dead_letter_before_its_message_is_forgotten() {
    let world = TestWorld::new().await;
    let ids = world.notices(3).await;
    world
        .sql(
            "UPDATE outbox SET family = 'of_tomorrow' WHERE id = ?1",
            vec![ids[1].clone().into()],
        )
        .await;
    assert_eq!(world.deliver().await, [Decision::Acknowledge; 3]);
    assert_eq!(world.state(&ids[1]).await, state("dead_letter", "outbox_id_unclaimed"));
    assert_eq!(world.count("sent").await, 2);
    assert_eq!(world.notes.alarms(), ["dead_lettered"], "{}", world.notes.text());
    world.run_for(3_600 * SECOND, 60 * SECOND).await;
    assert_eq!(world.state(&ids[1]).await, state("dead_letter", "outbox_id_unclaimed"));

    // A version that knows it.
    world
        .sql(
            "UPDATE outbox SET family = 'notice' WHERE id = ?1",
            vec![ids[1].clone().into()],
        )
        .await;
    world.run_for(120 * SECOND, 30 * SECOND).await;
    assert_eq!(world.status(&ids[1]).await, "sent");
}

#[tokio::test]
async fn a_row_whose_template_was_removed_waits_for_a_version_that_has_it() {
    let world = TestWorld::new().await;
    let intent = json!({
        "family": "pledge_receipt", "key": { "pledgeId": "p-1" }, "to": { "email": "ada@example.com" },
        "data": { "company": "Northwind", "donorName": "Ada", "amount": "EUR 50.00", "beneficiary": "the Fund",
            "reference": "P-1", "pledgedOn": "21 October 2026" },
    });
    let id = world.intake(&[intent]).await.expect("recorded").receipts.remove(0).id;
    world.sql("UPDATE outbox SET template = 'of_yesterday'", vec![]).await;
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    assert_eq!(world.state(&id).await, state("dead_letter", "outbox_id_unclaimed"));
    world.sql("UPDATE outbox SET template = 'pledge_receipt'", vec![]).await;
    // A dead letter rests for ten minutes before another version tries it.
    world.run_for(630 * SECOND, 30 * SECOND).await;
    assert_eq!(world.status(&id).await, "sent");
}

#[tokio::test]
async fn a_template_that_could_not_be_filled_is_tried_again_by_another_version_of_it() {
    let world = TestWorld::new().await;
    let intent = json!({
        "family": "pledge_receipt", "key": { "pledgeId": "p-1" }, "to": { "email": "ada@example.com" },
        "data": { "company": "Northwind" },
    });
    let id = world.intake(&[intent]).await.expect("recorded").receipts.remove(0).id;
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    assert_eq!(world.status(&id).await, "dead_letter", "{:?}", world.state(&id).await);
    assert_eq!(world.notes.count("row_unreadable"), 1);
    world.run_for(3_600 * SECOND, 60 * SECOND).await;
    assert_eq!(
        world.notes.count("row_unreadable"),
        1,
        "the same version does not try again"
    );
    world
        .sql("UPDATE outbox SET template_version = 'another'", vec![])
        .await;
    world.run_for(120 * SECOND, 30 * SECOND).await;
    assert_eq!(world.notes.count("row_unreadable"), 2, "another one does");
    assert_eq!(world.mailer.calls(), 0);
}

#[tokio::test]
async fn an_unreadable_letter_is_a_dead_letter_and_touches_no_neighbour() {
    for (harm, code) in [
        (
            "UPDATE letters SET body = '{}' WHERE outbox_id = ?1",
            "letter_unreadable",
        ),
        (
            "UPDATE letters SET body = 'no json' WHERE outbox_id = ?1",
            "letter_unreadable",
        ),
        ("DELETE FROM letters WHERE outbox_id = ?1", "letter_missing"),
    ] {
        let world = TestWorld::new().await;
        let ids = world.notices(3).await;
        world.sql(harm, vec![ids[0].clone().into()]).await;
        let queue = TestQueue::default();
        queue.deliver(&world).await;
        assert_eq!(queue.len(), 0, "acknowledged after the write");
        assert_eq!(world.state(&ids[0]).await, state("dead_letter", code));
        assert_eq!(world.count("sent").await, 2);
        assert_eq!(world.notes.alarms(), ["row_unreadable"]);
        assert!(!world.notes.text().contains("example.com"));
    }
}

#[tokio::test]
async fn an_unreadable_row_whose_write_fails_is_not_forgotten() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.sql("DELETE FROM letters", vec![]).await;
    for _ in 0..3 {
        world
            .transport
            .next_with("INSERT INTO attempts", crate::support::Wire::Refuse);
    }
    let decisions = world.deliver().await;
    assert!(matches!(decisions[0], Decision::Retry { .. }), "{decisions:?}");
    world.clock.advance(302 * SECOND);
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
    assert_eq!(world.state(&id).await, state("dead_letter", "letter_missing"));
}
