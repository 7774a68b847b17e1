//! What must not be possible whoever writes: a program of the schema before, a hand in the database.

use std::time::Duration;

use libsql::Value;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::ports::World as _;
use sealpost::store::database::{Database as _, DatabaseError, Statement, Transaction};

use super::{campaign, deliver, number, states, world};
use crate::support::TestWorld;

async fn in_doubt(world: &TestWorld) -> Vec<String> {
    let ids = campaign(world, 3).await;
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    ids
}

async fn refused(world: &TestWorld, sql: &'static str, args: Vec<Value>) {
    let result = world
        .database()
        .run(Transaction::write(vec![Statement::new(sql, args)]))
        .await;
    assert_eq!(result, Err(DatabaseError::Constraint { statement: 0 }), "{sql}");
}

/// What the claim of the program before looks at.
const CLAIMABLE_BEFORE: &str = "SELECT count(*) FROM outbox o
  WHERE (o.status IN ('pending', 'enqueued', 'retry') OR (o.status = 'processing' AND o.claim_expires_at <= ?1))
    AND (o.seal_sha256 IS NULL OR (o.provider = 'resend' AND o.provider_scope = 'main'))";

#[tokio::test]
async fn a_program_that_knows_no_batches_leaves_their_mails_alone() {
    for fault in [FaultKind::AcceptThenDrop, FaultKind::RateLimit] {
        let world = world().await;
        let ids = campaign(&world, 3).await;
        world.mailer.fault(fault, 1);
        world.deliver().await;
        world.clock.advance(Duration::from_secs(3_600));
        let now = sealpost::ports::Clock::now(&world.clock).get();
        let rows = world.sql(CLAIMABLE_BEFORE, vec![now.into()]).await;
        assert_eq!(crate::support::integer(&rows[0][0]), 0);
        // It puts them aside, and this program goes on after that.
        world
            .sql(
                "UPDATE outbox SET status = 'retry', cause = 'provider_scope_changed', next_attempt_at = ?1 + 3600000,
                   relay_at = ?1 + 3600000, suspect = max(suspect, status = 'processing'), claim_token = NULL,
                   claim_expires_at = NULL, updated_at = ?1 WHERE id = ?2",
                vec![now.into(), ids[1].clone().into()],
            )
            .await;
        world.clock.advance(Duration::from_secs(3_700));
        deliver(&world, &ids).await;
        assert_eq!(states(&world, &ids).await, vec!["sent"; 3]);
        assert_eq!(world.mailer.accepted(), 3);
    }
}

#[tokio::test]
async fn no_attempt_is_opened_beside_the_batch() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    let open =
        "INSERT INTO attempts (id, outbox_id, claim_token, opened_at, planned_at) VALUES ('att_x', ?1, 'c', 1, 1)";
    refused(&world, open, vec![ids[0].clone().into()]).await;
    let other = "INSERT INTO attempts (id, outbox_id, claim_token, opened_at, planned_at, batch_id)
      VALUES ('att_x', ?1, 'c', 1, 1, 'bat_other')";
    refused(&world, other, vec![ids[0].clone().into()]).await;
}

#[tokio::test]
async fn a_batch_in_doubt_or_accepted_is_never_given_up() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    let give_up = "UPDATE provider_batches SET dissolved_at = 9999999999999";
    refused(&world, give_up, vec![]).await;
    let unseal = "UPDATE outbox SET seal_sha256 = NULL, batch_id = NULL, batch_position = NULL WHERE id = ?1";
    refused(&world, unseal, vec![ids[0].clone().into()]).await;
    let reseal = "UPDATE outbox SET seal_sha256 = 'x' WHERE id = ?1";
    refused(&world, reseal, vec![ids[0].clone().into()]).await;
    world.clock.advance(Duration::from_secs(60));
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 3]);
    refused(&world, give_up, vec![]).await;
}

#[tokio::test]
async fn a_member_is_not_called_off_by_itself() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    let cancel = "UPDATE outbox SET status = 'canceled', cause = 'canceled', settled_at = 1, next_attempt_at = NULL,
      relay_at = NULL, claim_token = NULL WHERE id = ?1";
    world.sql(cancel, vec![ids[0].clone().into()]).await;
    assert_eq!(states(&world, &ids).await, vec!["retry"; 3]);
    // Nor by the producer's door: one mail's cancel would leave all of them in doubt.
    let answer = crate::cancel::cancel(&world, &ids[0]).await;
    assert_eq!(crate::support::refusal(&answer), (409, "too_late"));
    assert_eq!(states(&world, &ids).await, vec!["retry"; 3]);
    let alone = world.notices(1).await;
    world.sql(cancel, vec![alone[0].clone().into()]).await;
    assert_eq!(world.status(&alone[0]).await, "canceled");
}

#[tokio::test]
async fn the_window_of_a_mail_counts_from_its_own_key() {
    let world = world().await;
    campaign(&world, 2).await;
    world.mailer.fault(FaultKind::Refuse, 1);
    world.deliver().await;
    assert_eq!(
        number(&world, "SELECT count(*) FROM outbox WHERE window_anchor_at IS NOT NULL").await,
        2
    );
    world.clock.advance(Duration::from_secs(60));
    world.mailer.fault(FaultKind::AcceptThenDrop, -1);
    let now = sealpost::ports::Clock::now(&world.clock).get();
    world.tick().await;
    world.deliver().await;
    assert_eq!(
        number(&world, "SELECT min(window_anchor_at) FROM outbox").await,
        now,
        "the refusal of the batch says nothing about the mail's own key"
    );
}
