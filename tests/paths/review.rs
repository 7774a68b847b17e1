//! Ways to strand a row or to starve the others, each of which was open once.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::{Fault, FaultKind, RetryAfter};

use crate::support::{TestWorld, config_with, notice_with_key};

const SECOND: Duration = Duration::from_secs(1);

/// A row whose worker died after the claim, its claim long over.
async fn suspect(world: &TestWorld) -> String {
    let id = world.notices(1).await.remove(0);
    world.broker.take();
    world
        .sql(
            "UPDATE outbox SET status = 'processing', cause = 'claimed', claim_token = 'dead', claim_count = 1,
               claim_expires_at = updated_at - 1, relay_at = updated_at",
            vec![],
        )
        .await;
    id
}

/// A pause of everything that has just run out.
async fn pause_that_ran_out(world: &TestWorld) {
    world
        .sql(
            "INSERT INTO pauses (scope, reason, until, created_at) SELECT '*', 'invalid_api_key', max(updated_at) - 1, 0
             FROM outbox",
            vec![],
        )
        .await;
}

#[tokio::test]
async fn a_suspect_that_was_put_aside_and_published_again_still_runs() {
    let world = TestWorld::new().await;
    let id = suspect(&world).await;
    world
        .sql(
            "INSERT INTO pauses (scope, reason, until, created_at) SELECT '*', 'invalid_api_key', updated_at + 60000, 0
             FROM outbox",
            vec![],
        )
        .await;
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.state(&id).await, ("retry".to_owned(), "paused".to_owned()));
    world.sql("DELETE FROM pauses", vec![]).await;
    world.clock.advance(61 * SECOND);
    assert_eq!(world.tick().await.published, 1);
    assert_eq!(world.status(&id).await, "enqueued");
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent", "{}", world.notes.text());
}

#[tokio::test]
async fn a_pause_whose_only_due_row_is_a_suspect_is_probed_by_it_and_lifted() {
    let world = TestWorld::new().await;
    let id = suspect(&world).await;
    pause_that_ran_out(&world).await;
    world.run_for(1_800 * SECOND, 60 * SECOND).await;
    world.deliver_ids(&[&id]).await;
    assert_eq!(
        world.status(&id).await,
        "sent",
        "{:?} {}",
        world.state(&id).await,
        world.notes.text()
    );
    assert!(world.sql("SELECT 1 FROM pauses", vec![]).await.is_empty());
}

#[tokio::test]
async fn a_row_that_cannot_be_sent_does_not_use_up_the_probe_of_a_pause() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    // Sealed for another account.
    world
        .sql(
            "UPDATE outbox SET seal_sha256 = 'x', seal_bytes = 1, provider = 'resend', provider_scope = 'old' WHERE seq = 1",
            vec![],
        )
        .await;
    pause_that_ran_out(&world).await;
    world.deliver_ids(&[&ids[0]]).await;
    assert_eq!(
        world.state(&ids[0]).await,
        ("retry".to_owned(), "provider_scope_changed".to_owned())
    );
    world.deliver_ids(&[&ids[1]]).await;
    assert_eq!(world.status(&ids[1]).await, "sent", "{:?}", world.state(&ids[1]).await);
}

#[tokio::test]
async fn a_small_plan_still_runs_suspects() {
    for budget in ["9", "10", "12", "50"] {
        let world = TestWorld::with(config_with(&[("SUBREQUEST_BUDGET", budget)])).await;
        let id = suspect(&world).await;
        world.deliver_ids(&[&id]).await;
        assert_eq!(world.status(&id).await, "sent", "with {budget}");
    }
}

#[tokio::test]
async fn full_batches_of_healthy_rows_do_not_starve_a_suspect() {
    let world = TestWorld::with(config_with(&[("SUBREQUEST_BUDGET", "50")])).await;
    let id = suspect(&world).await;
    for round in 0..3 {
        let intents: Vec<_> = (0..99).map(|n| notice_with_key(&format!("r{round}-{n}"))).collect();
        let accepted = world.intake(&intents).await.expect("recorded");
        world.broker.take();
        let mut ids = vec![id.as_str()];
        ids.extend(accepted.receipts.iter().map(|receipt| receipt.id.as_str()));
        world.deliver_ids(&ids).await;
    }
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
}

/// A letter whose every character is written as two bytes in JSON, and as more in JSON within JSON.
fn quotes(key: &str, bytes: usize) -> serde_json::Value {
    let mut intent = notice_with_key(key);
    intent["content"]["text"] = "\"".repeat(bytes).into();
    intent
}

#[tokio::test]
async fn a_full_request_of_letters_that_double_in_json_is_recorded_and_sent() {
    let world = TestWorld::new().await;
    // 4 MB as the request writes them.
    let intents: Vec<_> = (0..40).map(|n| quotes(&format!("q{n}"), 50_000)).collect();
    let accepted = world.intake(&intents).await.expect("recorded");
    assert_eq!(accepted.receipts.len(), 40);
    let bytes: usize = world
        .transport
        .bodies()
        .iter()
        .map(String::len)
        .max()
        .expect("a request");
    assert!(bytes < 20_000_000, "a request of {bytes} bytes");
    let ids: Vec<&str> = accepted.receipts.iter().map(|receipt| receipt.id.as_str()).collect();
    world.mailer.fault(FaultKind::ServiceUnavailable, 40);
    for _ in 0..4 {
        world.transport.take_requests();
        world.deliver_ids(&ids).await;
        let bytes: usize = world
            .transport
            .bodies()
            .iter()
            .map(String::len)
            .max()
            .expect("a request");
        assert!(bytes < 20_000_000, "a request of {bytes} bytes");
        world.clock.advance(60 * SECOND);
    }
    assert_eq!(world.count("sent").await, 40, "{}", world.notes.text());
}

#[tokio::test]
async fn a_long_wait_named_to_a_row_in_doubt_does_not_use_up_its_window() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    let fault = Fault {
        retry_after: Some(RetryAfter::Seconds(86_400)),
        ..Fault::once(FaultKind::ServiceUnavailable)
    };
    world
        .mailer
        .model
        .borrow_mut()
        .faults()
        .add(vec![fault])
        .expect("a rule fits");
    world.deliver().await;
    assert_eq!(world.status(&id).await, "retry");
    world.run_for(7_200 * SECOND, 60 * SECOND).await;
    assert_eq!(world.status(&id).await, "sent", "{:?}", world.state(&id).await);
}

#[tokio::test]
async fn one_mail_with_a_sender_of_its_own_that_is_not_verified_stops_nobody_else() {
    let world = TestWorld::new().await;
    let mut own = notice_with_key("own");
    own["content"]["from"] = "Stranger <mail@stranger.example>".into();
    let bad = world.intake(&[own]).await.expect("recorded").receipts.remove(0).id;
    world.mailer.fault(FaultKind::UnverifiedDomain, 1);
    world.deliver().await;
    let good = world.notices(1).await.remove(0);
    world.deliver().await;
    assert_eq!(world.status(&good).await, "sent", "{:?}", world.state(&good).await);
    assert_eq!(
        world.state(&bad).await,
        ("failed".to_owned(), "domain_not_verified".to_owned())
    );
    assert!(world.sql("SELECT 1 FROM pauses", vec![]).await.is_empty());
}
