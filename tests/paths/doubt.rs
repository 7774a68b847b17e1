//! The rule of doubt: while an attempt may have been accepted, a row ends as sent or as unknown and in no other way;
//! and it is repeated only for as long as the provider knows its key.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::outbox::envelope::Envelope;
use sealpost::ports::{Clock as _, World as _};
use sealpost::store::database::{Database as _, DatabaseError, Statement, Transaction};

use crate::support::{TestQueue, TestWorld, config_with, die_when, integer};

const HOUR: Duration = Duration::from_secs(3_600);

fn owned(state: &str, cause: &str) -> (String, String) {
    (state.to_owned(), cause.to_owned())
}

/// A row whose first call was accepted and whose answer was lost.
async fn in_doubt(world: &TestWorld) -> String {
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    let decisions = world.deliver().await;
    assert!(matches!(decisions[0], Decision::Retry { .. }), "{decisions:?}");
    assert_eq!(world.status(&id).await, "retry");
    id
}

#[tokio::test]
async fn after_the_providers_window_nothing_sends_again_by_itself() {
    for door in ["queue", "relay", "dead letter queue"] {
        let world = TestWorld::new().await;
        let id = in_doubt(&world).await;
        world.clock.advance(25 * HOUR);
        match door {
            "queue" => assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]),
            "relay" => {
                world.tick().await;
                world.deliver().await;
            }
            _ => {
                let decisions = world.deliver_dead(&[Envelope::to_row(&id).to_body()]).await;
                assert_eq!(decisions, [Decision::Acknowledge]);
                world.run_for(HOUR, Duration::from_secs(60)).await;
            }
        }
        assert_eq!(
            world.state(&id).await,
            owned("unknown", "provider_window_closed"),
            "{door}"
        );
        assert_eq!(world.mailer.calls(), 1, "{door}");
        world.run_for(48 * HOUR, HOUR).await;
        assert_eq!(world.mailer.calls(), 1, "{door}, later");
    }
}

#[tokio::test]
async fn the_providers_window_counts_from_the_first_attempt_and_keeps_its_margin() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::ServiceUnavailable, -1);
    let began = world.clock.now();
    let queue = TestQueue::default();
    queue.deliver_all(&world).await;
    queue.run_for(&world, 30 * HOUR, Duration::from_secs(600)).await;
    assert_eq!(world.state(&id).await, owned("unknown", "provider_window_closed"));
    let last = world
        .mailer
        .model
        .borrow()
        .ledger()
        .requests()
        .back()
        .map(|seen| seen.at.since(began))
        .expect("calls were made");
    assert!(last < 23 * HOUR, "no call after the window less its margin: {last:?}");
    assert!(last > 21 * HOUR, "tries do not run out while in doubt: {last:?}");
    assert!(world.mailer.calls() > 20, "{} calls", world.mailer.calls());
}

#[tokio::test]
async fn a_row_in_doubt_outlives_any_number_of_tries() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::ServiceUnavailable, -1);
    let queue = TestQueue::default();
    queue.run_for(&world, 20 * HOUR, Duration::from_secs(600)).await;
    let rows = world.sql("SELECT attempt_count FROM outbox", vec![]).await;
    assert!(integer(&rows[0][0]) > 12, "more tries than any family's limit");
    world.mailer.clear_faults();
    queue.run_for(&world, 2 * HOUR, Duration::from_secs(60)).await;
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn the_providers_window_is_looked_at_again_just_before_the_call() {
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "1")])).await;
    let id = in_doubt(&world).await;
    // The claim comes in time, the slot of the pace does not.
    world.clock.advance(23 * HOUR - Duration::from_secs(10));
    world
        .sql(
            "UPDATE pace SET next_free_at = ?1",
            vec![world.clock.now().plus(Duration::from_secs(20)).get().into()],
        )
        .await;
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
    assert_eq!(world.state(&id).await, owned("unknown", "provider_window_closed"));
    assert_eq!(world.mailer.calls(), 1);
    let rows = world
        .sql("SELECT count(*) FROM attempts WHERE outcome = 'not_sent'", vec![])
        .await;
    assert_eq!(integer(&rows[0][0]), 1, "the attempt says that no call was made");
}

#[tokio::test]
async fn with_a_provider_that_knows_no_keys_a_doubt_is_unknown_at_once() {
    let world = TestWorld::with(config_with(&[("PROVIDER_WINDOW_MS", "0")])).await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    assert_eq!(world.status(&id).await, "unknown");
    world.run_for(HOUR, Duration::from_secs(60)).await;
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.mailer.calls(), 1);
    assert_eq!(world.notes.count("outcome_unknown"), 1);
}

#[tokio::test]
async fn with_a_provider_that_knows_no_keys_an_open_attempt_of_the_dead_is_unknown() {
    let world = TestWorld::with(config_with(&[("PROVIDER_WINDOW_MS", "0")])).await;
    let id = world.notices(1).await.remove(0);
    assert_eq!(die_when(|| world.mailer.accepted() == 1, world.deliver()).await, None);
    world.run_for(HOUR, Duration::from_secs(60)).await;
    assert_eq!(world.state(&id).await, owned("unknown", "provider_window_closed"));
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn a_refusal_of_the_second_attempt_does_not_relabel_the_firsts_doubt_as_failed() {
    for refusal in [FaultKind::Refuse, FaultKind::TestingAddress, FaultKind::Conflict] {
        let world = TestWorld::new().await;
        let id = in_doubt(&world).await;
        world.mailer.fault(refusal, 1);
        world.clock.advance(Duration::from_secs(60));
        assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
        assert_eq!(world.status(&id).await, "unknown", "{refusal:?}");
        world.run_for(HOUR, Duration::from_secs(60)).await;
        assert_eq!(world.status(&id).await, "unknown", "{refusal:?}");
        assert_eq!(world.mailer.calls(), 2);
    }
}

#[tokio::test]
async fn whatever_stops_a_row_in_doubt_makes_it_unknown() {
    for (stop, cause) in [
        (
            "INSERT INTO suppressions (recipient_hash, family, reason, created_at)
             SELECT recipient_hash, 'notice', 'unsubscribed', 0 FROM outbox",
            "recipient_suppressed",
        ),
        ("UPDATE outbox SET not_after = next_attempt_at", "window_missed"),
        ("DELETE FROM seals", "seal_missing"),
        ("UPDATE seals SET body = body || ' '", "seal_corrupt"),
    ] {
        for door in ["queue", "relay"] {
            let world = TestWorld::new().await;
            let id = in_doubt(&world).await;
            world.sql(stop, vec![]).await;
            world.clock.advance(Duration::from_secs(120));
            if door == "queue" {
                assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
            } else {
                world.tick().await;
                world.deliver().await;
            }
            assert_eq!(world.state(&id).await, owned("unknown", cause), "{door}");
            assert_eq!(world.mailer.calls(), 1, "{cause}");
        }
    }
}

#[tokio::test]
async fn the_schema_refuses_to_call_a_doubt_a_failure() {
    let world = TestWorld::new().await;
    in_doubt(&world).await;
    for (state, more) in [
        ("failed", "settled_at = 1"),
        ("suppressed", "settled_at = 1"),
        ("expired", "settled_at = 1"),
        ("canceled", "settled_at = 1"),
        ("dead_letter", "dead_class = 'pipeline'"),
    ] {
        let sql = format!(
            "UPDATE outbox SET status = '{state}', {more}, claim_token = NULL, claim_expires_at = NULL,
             next_attempt_at = NULL, relay_at = NULL"
        );
        let statement = Statement::new(sql.leak(), vec![]);
        let refused = world.database().run(Transaction::write(vec![statement])).await;
        assert_eq!(
            refused.map(|_| ()),
            Err(DatabaseError::Constraint { statement: 0 }),
            "{state}"
        );
    }
}
