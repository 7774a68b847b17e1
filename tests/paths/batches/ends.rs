use std::time::Duration;

use sealpost::devstack::provider::fault::{Fault, FaultKind};

use super::{campaign, deliver, ids_are_right, mails_to, number, requests, states, suppress, world};
use crate::support::config_with;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn who_is_suppressed_before_the_seal_is_left_out() {
    let world = world().await;
    let ids = campaign(&world, 4).await;
    suppress(&world, &ids[1]).await;
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, ["sent", "suppressed", "sent", "sent"]);
    assert_eq!(mails_to(&world, "c1"), 0);
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn who_is_suppressed_after_a_429_leaves_and_the_others_go_together() {
    let world = world().await;
    let ids = campaign(&world, 4).await;
    world.mailer.fault(FaultKind::RateLimit, 1);
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, vec!["retry"; 4]);
    suppress(&world, &ids[1]).await;
    world.clock.advance(5 * MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, ["sent", "suppressed", "sent", "sent"]);
    assert_eq!(mails_to(&world, "c1"), 0);
    let seen = requests(&world);
    assert_eq!(seen.len(), 2);
    assert_ne!(seen[0].1, seen[1].1, "another batch, another key");
    assert_eq!(seen[1].0, "/emails/batch");
    assert_eq!(
        number(&world, "SELECT count(*) FROM events WHERE cause = 'batch_dissolved'").await,
        4
    );
    ids_are_right(&world).await;
}

#[tokio::test]
async fn a_429_alone_keeps_the_batch() {
    let world = world().await;
    let ids = campaign(&world, 4).await;
    world.mailer.fault(FaultKind::RateLimit, 1);
    world.deliver().await;
    world.clock.advance(5 * MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 4]);
    let seen = requests(&world);
    assert_eq!((seen.len(), seen[0] == seen[1]), (2, true));
}

#[tokio::test]
async fn a_refused_batch_is_given_up_once_and_its_mails_go_out_one_by_one() {
    let world = world().await;
    let ids = campaign(&world, 4).await;
    let mut refusal = Fault::once(FaultKind::Refuse);
    refusal.count = -1;
    refusal.matches.to = Some("c2@".to_owned());
    world
        .mailer
        .model
        .borrow_mut()
        .faults()
        .add(vec![refusal])
        .expect("a rule fits");
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, vec!["retry"; 4]);
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, ["sent", "sent", "failed", "sent"]);
    let doors: Vec<String> = requests(&world).into_iter().map(|(path, _, _)| path).collect();
    assert_eq!(doors, ["/emails/batch", "/emails", "/emails", "/emails", "/emails"]);
    assert_eq!(
        number(&world, "SELECT count(*) FROM outbox WHERE batch_refused = 1").await,
        4
    );
    assert_eq!(
        number(&world, "SELECT count(*) FROM provider_batches WHERE refused = 1").await,
        1
    );
    assert_eq!(number(&world, "SELECT count(*) FROM batch_seals").await, 0);
    ids_are_right(&world).await;
}

#[tokio::test]
async fn a_security_error_of_a_batch_gives_each_mail_its_own_tries() {
    let world = world().await;
    let ids = campaign(&world, 2).await;
    world.mailer.fault(FaultKind::SecurityError, 1);
    world.deliver().await;
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, ["sent", "sent"]);
    assert_eq!(world.mailer.calls(), 3);
}

#[tokio::test]
async fn a_sender_of_one_mail_that_is_not_verified_pauses_nobody() {
    let world = world().await;
    let mut other = super::mail("c1");
    other["content"]["from"] = serde_json::json!("Other <post@other.example>");
    let accepted = world.intake(&[super::mail("c0"), other]).await.expect("recorded");
    let ids: Vec<String> = accepted.receipts.into_iter().map(|one| one.id).collect();
    world.tick().await;
    let mut refusal = Fault::once(FaultKind::UnverifiedDomain);
    refusal.count = -1;
    refusal.matches.to = Some("c1@".to_owned());
    world
        .mailer
        .model
        .borrow_mut()
        .faults()
        .add(vec![refusal])
        .expect("a rule fits");
    world.deliver().await;
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, ["sent", "failed"]);
    assert_eq!(number(&world, "SELECT count(*) FROM pauses").await, 0);
}

#[tokio::test]
async fn a_broken_key_pauses_and_the_batch_waits_whole() {
    let world = world().await;
    let ids = campaign(&world, 3).await;
    world.mailer.fault(FaultKind::InvalidKey, 1);
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, vec!["retry"; 3]);
    world.run_for(HOUR, MINUTE).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 3]);
    let seen = requests(&world);
    assert_eq!((seen.len(), seen[0] == seen[1]), (2, true));
}

#[tokio::test]
async fn a_member_that_is_too_late_leaves_a_batch_that_was_never_accepted() {
    let world = world().await;
    let end = sealpost::ports::Clock::now(&world.clock).plus(3 * MINUTE);
    let mut late = super::mail("c1");
    late["notAfter"] = serde_json::json!(end.to_string());
    let accepted = world
        .intake(&[super::mail("c0"), late, super::mail("c2")])
        .await
        .expect("recorded");
    let ids: Vec<String> = accepted.receipts.into_iter().map(|one| one.id).collect();
    world.tick().await;
    world.mailer.fault(FaultKind::RateLimit, 1);
    world.deliver().await;
    world.clock.advance(5 * MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, ["sent", "expired", "sent"]);
}

#[tokio::test]
async fn another_account_leaves_the_batch_alone() {
    let mut world = world().await;
    let ids = campaign(&world, 3).await;
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    world.clock.advance(MINUTE);
    let first = world.config.clone();
    world.config.provider_scope = config_with(&[("PROVIDER_SCOPE", "other")]).provider_scope;
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["retry"; 3]);
    assert_eq!(world.state(&ids[0]).await.1, "provider_scope_changed");
    assert_eq!(world.mailer.calls(), 1);
    world.config = first;
    world.clock.advance(2 * HOUR);
    deliver(&world, &ids[..1]).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 3]);
}

#[tokio::test]
async fn a_failed_settle_of_one_member_touches_no_other() {
    let world = world().await;
    let ids = campaign(&world, 4).await;
    // A constraint that only one row breaks.
    world
        .sql(
            "CREATE TRIGGER poison BEFORE UPDATE OF status ON outbox WHEN NEW.status = 'sent' AND OLD.batch_position = 2
             BEGIN SELECT raise(ABORT, 'poison'); END",
            vec![],
        )
        .await;
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, ["sent", "sent", "processing", "sent"]);
    world.sql("DROP TRIGGER poison", vec![]).await;
    world.clock.advance(HOUR);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 4]);
    let seen = requests(&world);
    assert_eq!((seen.len(), seen[0] == seen[1]), (2, true));
    assert_eq!(world.mailer.accepted(), 4);
    ids_are_right(&world).await;
}
