//! A producer calls a mail off: whatever has not begun to leave stays, and nothing is claimed about what may have left.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::operate::{Answer, Request, answer};
use sealpost::ports::Clock as _;

use super::doors::{OPERATOR, PRODUCER};
use crate::support::{TestWorld, config_with, refusal};

const MINUTE: Duration = Duration::from_secs(60);

async fn cancel_as(world: &TestWorld, id: &str, token: &str) -> Answer {
    let path = format!("/v1/intents/{id}/cancel");
    let request = Request {
        method: "POST",
        path: &path,
        authorization: Some(token),
        ..Request::default()
    };
    answer(world, &world.config, &request).await
}

pub(super) async fn cancel(world: &TestWorld, id: &str) -> Answer {
    cancel_as(world, id, PRODUCER).await
}

fn state(status: &str) -> (String, String) {
    (status.to_owned(), "canceled_by_producer".to_owned())
}

#[tokio::test]
async fn what_waits_is_canceled_once_and_never_sent() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.transport.take_requests();
    for _ in 0..2 {
        let answer = cancel(&world, &id).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body["canceled"], true);
        assert_eq!(answer.body["status"], "canceled");
        assert_eq!(world.transport.take_requests(), 1, "one transaction");
        world.clock.advance(MINUTE);
    }
    assert_eq!(world.state(&id).await, state("canceled"));
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    world.run_for(48 * 60 * MINUTE, 60 * MINUTE).await;
    assert_eq!(world.mailer.calls(), 0);
    // The fact is known for ever: the producer's repetition finds the canceled row.
    let again = world.intake(&[crate::support::notice_with_key("n0")]).await.unwrap();
    assert!(again.receipts[0].duplicate);
}

#[tokio::test]
async fn a_row_that_is_sealed_and_known_not_to_have_gone_out_is_canceled() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::RateLimit, 1);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "retry");
    assert_eq!(cancel(&world, &id).await.body["canceled"], true);
    assert_eq!(world.state(&id).await, state("canceled"));
    let seals = world.sql("SELECT outbox_id FROM seals", vec![]).await;
    assert!(seals.is_empty(), "the seal goes with the settling");
}

#[tokio::test]
async fn what_may_have_gone_out_is_unknown_and_not_repeated() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    for _ in 0..2 {
        let answer = cancel(&world, &id).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body["canceled"], false);
        assert_eq!(answer.body["status"], "unknown");
        world.clock.advance(MINUTE);
    }
    assert_eq!(world.state(&id).await, state("unknown"));
    world.run_for(60 * MINUTE, MINUTE).await;
    world.deliver().await;
    assert_eq!(world.mailer.calls(), 1, "nobody sends it again");
}

#[tokio::test]
async fn what_is_being_sent_or_has_ended_is_left_alone() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    // A living claim holds the first one.
    let claim = "UPDATE outbox SET status = 'processing', cause = 'claimed', claim_token = 't', claim_expires_at = ?1,
        relay_at = ?1, claim_count = 1 WHERE id = ?2";
    let end = world.clock.now().get() + 60_000;
    world.sql(claim, vec![end.into(), ids[0].clone().into()]).await;
    let answer = cancel(&world, &ids[0]).await;
    assert_eq!(refusal(&answer), (409, "being_sent"));
    assert_eq!(answer.body["intentStatus"], "processing");
    assert_eq!(world.status(&ids[0]).await, "processing");
    // Its worker died: now it can be called off.
    world.clock.advance(2 * MINUTE);
    assert_eq!(cancel(&world, &ids[0]).await.body["canceled"], true);

    world.deliver().await;
    assert_eq!(world.status(&ids[1]).await, "sent");
    let answer = cancel(&world, &ids[1]).await;
    assert_eq!(refusal(&answer), (409, "too_late"));
    assert_eq!(world.status(&ids[1]).await, "sent");
}

#[tokio::test]
async fn a_dead_letter_is_called_off_and_is_no_longer_parked() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world
        .sql(
            "UPDATE letters SET body = '{}' WHERE outbox_id = ?1",
            vec![id.clone().into()],
        )
        .await;
    world.deliver().await;
    assert_eq!(world.status(&id).await, "dead_letter");
    assert_eq!(cancel(&world, &id).await.body["canceled"], true);
    assert_eq!(world.state(&id).await, state("canceled"));
    let parked = world
        .sql("SELECT hash FROM parking WHERE state = 'parked'", vec![])
        .await;
    assert!(parked.is_empty());
}

#[tokio::test]
async fn the_door_takes_producers_and_ids_that_exist() {
    let world = TestWorld::with(config_with(&[])).await;
    let id = world.notices(1).await.remove(0);
    assert_eq!(
        refusal(&cancel_as(&world, &id, OPERATOR).await),
        (401, "token_required")
    );
    for id in ["ntc_aaaaaaaaaaaaaaaaaaaaaaaa", "x", "ntc_'; DROP TABLE outbox"] {
        assert_eq!(refusal(&cancel(&world, id).await), (404, "no_such_intent"), "{id}");
    }
    assert_eq!(world.status(&id).await, "enqueued");
}
