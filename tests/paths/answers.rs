//! Answers of the provider as rows feel them: what is repeated, what ends, and what is never called success.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::{Fault, FaultKind};

use crate::support::{TestQueue, TestWorld, integer, text};

const SECOND: Duration = Duration::from_secs(1);

/// The outcome of each attempt, oldest first, with its HTTP status (0 for none).
async fn attempts(world: &TestWorld) -> Vec<(String, i64)> {
    world
        .sql(
            "SELECT outcome, coalesce(http_status, 0) FROM attempts ORDER BY opened_at, id",
            vec![],
        )
        .await
        .iter()
        .map(|row| (text(&row[0]), integer(&row[1])))
        .collect()
}

#[tokio::test]
async fn a_conflict_that_says_in_progress_is_repeated_under_its_key_and_ends_sent() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::InProgress, 2);
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    assert_eq!(world.status(&id).await, "retry");
    queue.run_for(&world, 120 * SECOND, SECOND).await;
    assert_eq!(world.status(&id).await, "sent");
    let progress = ("in_progress".to_owned(), 409);
    assert_eq!(
        attempts(&world).await,
        [progress.clone(), progress, ("accepted".to_owned(), 200)]
    );
    assert_eq!(world.mailer.bodies_by_key().len(), 1, "one key");
}

#[tokio::test]
async fn a_conflict_that_says_other_payload_ends_in_alarm_and_never_under_a_fresh_key() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::Conflict, 1);
    let queue = TestQueue::default();
    queue.run_for(&world, 7_200 * SECOND, 60 * SECOND).await;
    assert_eq!(
        world.state(&id).await,
        ("unknown".to_owned(), "payload_conflict".to_owned())
    );
    assert_eq!(world.mailer.calls(), 1);
    assert_eq!(world.notes.count("payload_conflict"), 1);
}

#[tokio::test]
async fn a_conflict_with_an_unreadable_body_is_no_success_and_is_repeated() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::ConflictHtml, 1);
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    assert_eq!(world.status(&id).await, "retry");
    queue.run_for(&world, 120 * SECOND, SECOND).await;
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(attempts(&world).await[0], ("ambiguous".to_owned(), 409));
}

/// Every way in which an answer can be no proof; whether the mail went out all the same; its HTTP status.
const NO_PROOF: &[(FaultKind, Option<bool>, i64)] = &[
    (FaultKind::OkWithoutId, Some(true), 200),
    (FaultKind::OkWithoutId, Some(false), 200),
    (FaultKind::OkNullId, Some(true), 200),
    (FaultKind::OkHtml, Some(true), 200),
    (FaultKind::OkHtml, Some(false), 200),
    (FaultKind::TruncatedJson, None, 200),
    (FaultKind::NoContent, Some(true), 204),
    (FaultKind::NoContent, Some(false), 204),
    (FaultKind::InternalError, Some(true), 500),
    (FaultKind::InternalError, Some(false), 500),
    (FaultKind::ServiceUnavailable, None, 503),
    (FaultKind::BadGatewayHtml, Some(true), 502),
    (FaultKind::BadGatewayHtml, None, 502),
    (FaultKind::AcceptThenDrop, None, 0),
    (FaultKind::RefuseConnection, None, 0),
    (FaultKind::AcceptThenStall, None, 0),
    (FaultKind::Stall, None, 0),
    (FaultKind::StallBodyAccepted, None, 200),
    (FaultKind::StallAfterHeaders, None, 200),
];

#[tokio::test]
async fn an_answer_without_a_usable_id_is_not_sent_and_the_repetition_finds_the_id() {
    for (kind, accepts, http_status) in NO_PROOF {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        let fault = Fault {
            accepts: *accepts,
            ..Fault::once(*kind)
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
        assert_eq!(world.status(&id).await, "retry", "{kind:?}");
        assert_eq!(
            attempts(&world).await,
            [("ambiguous".to_owned(), *http_status)],
            "{kind:?} {accepts:?}"
        );
        queue.run_for(&world, 60 * SECOND, SECOND).await;
        assert_eq!(world.status(&id).await, "sent", "{kind:?}");
        assert_eq!((world.mailer.calls(), world.mailer.accepted()), (2, 1), "{kind:?}");
        for bodies in world.mailer.bodies_by_key().values() {
            assert_eq!(bodies[0], bodies[1], "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_of_one_recipient_fails_its_row_alone_and_pauses_nobody() {
    for kind in [FaultKind::TestingAddress, FaultKind::Refuse] {
        let world = TestWorld::new().await;
        let ids = world.notices(5).await;
        let fault = Fault {
            matches: sealpost::devstack::provider::fault::Match {
                to: Some("n2@".to_owned()),
                key: None,
            },
            ..Fault::once(kind)
        };
        world
            .mailer
            .model
            .borrow_mut()
            .faults()
            .add(vec![fault])
            .expect("a rule");
        assert_eq!(world.deliver().await, [Decision::Acknowledge; 5]);
        assert_eq!(world.status(&ids[2]).await, "failed", "{kind:?}");
        assert_eq!(world.count("sent").await, 4);
        let rows = world.sql("SELECT count(*) FROM pauses", vec![]).await;
        assert_eq!(integer(&rows[0][0]), 0);
        let rows = world
            .sql("SELECT last_error FROM outbox WHERE status = 'failed'", vec![])
            .await;
        assert!(
            !text(&rows[0][0]).contains("example"),
            "a code, not the provider's text"
        );
        assert!(!world.notes.text().contains("example.com"), "no address in the notes");
    }
}
