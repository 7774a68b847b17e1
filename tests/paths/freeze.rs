//! The frozen request: one key, one body, whatever changes around it.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::ports::Clock as _;
use serde_json::json;

use crate::support::{TestQueue, TestWorld, config_with, die_when, integer, notice_with_key};

const SECOND: Duration = Duration::from_secs(1);

fn invitation() -> serde_json::Value {
    json!({
        "family": "invitation",
        "key": { "invitationId": "i-1" },
        "to": { "email": "ada@example.com", "name": "Ada" },
        "data": {
            "company": "Northwind", "inviterName": "Grace", "programme": "Mentoring",
            "acceptUrl": "https://example.com/i-1", "recipientName": "Ada"
        },
    })
}

/// Settings of another deployment: other sender, other environment, other answers' address.
fn changed() -> sealpost::config::Config {
    config_with(&[
        ("MAIL_FROM", "Another <other@example.com>"),
        ("MAIL_REPLY_TO", "answers@example.com"),
        ("ENVIRONMENT", "elsewhere"),
    ])
}

#[tokio::test]
async fn the_frozen_payload_is_the_same_after_sender_environment_and_template_changed() {
    for intent in [notice_with_key("n1"), invitation()] {
        let mut world = TestWorld::new().await;
        let accepted = world.intake(&[intent]).await.expect("recorded");
        let id = &accepted.receipts[0].id;
        world.mailer.fault(FaultKind::ServiceUnavailable, 2);
        let queue = TestQueue::default();
        queue.deliver(&world).await;
        assert_eq!(world.status(id).await, "retry", "{}", world.notes.text());

        world.config = changed();
        // Another version of the template, and of everything that the letter would say.
        world
            .sql("UPDATE outbox SET template_version = 'another'", vec![])
            .await;
        world
            .sql("UPDATE letters SET body = replace(body, 'Ada', 'Eve')", vec![])
            .await;
        queue.run_for(&world, 120 * SECOND, SECOND).await;
        assert_eq!(world.status(id).await, "sent");
        let seen = world.mailer.bodies_by_key();
        assert_eq!(seen.len(), 1, "one key");
        for bodies in seen.values() {
            assert_eq!(bodies.len(), 3);
            assert!(bodies.iter().all(|body| *body == bodies[0]), "the same bytes");
        }
        let model = world.mailer.model.borrow();
        let mail = &model.ledger().sent()[0].mail;
        assert!(mail.from.contains("<mail@example.com>"), "{}", mail.from);
    }
}

#[tokio::test]
async fn a_mail_that_was_never_sealed_is_rendered_by_the_version_that_runs() {
    let mut world = TestWorld::new().await;
    world.notices(1).await;
    world.config = changed();
    world.deliver().await;
    let model = world.mailer.model.borrow();
    let from = &model.ledger().sent()[0].mail.from;
    assert!(from.contains("<other@example.com>"), "{from}");
}

#[tokio::test]
async fn the_deadline_that_passes_between_freeze_and_call_is_seen_at_the_call() {
    // By the pace: the slot lies after the deadline.
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "1")])).await;
    let mut intent = notice_with_key("late");
    intent["notAfter"] = "2026-01-01T00:00:10Z".into();
    let id = world.intake(&[intent]).await.expect("recorded").receipts.remove(0).id;
    world
        .sql(
            "INSERT INTO pace (name, next_free_at) VALUES ('resend', ?1)",
            vec![world.clock.now().plus(15 * SECOND).get().into()],
        )
        .await;
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    assert_eq!(
        world.state(&id).await,
        ("expired".to_owned(), "window_missed".to_owned())
    );
    assert_eq!(world.mailer.calls(), 0);
    let rows = world.sql("SELECT count(*) FROM seals", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 0, "the seal goes with the settled row");
}

#[tokio::test]
async fn the_deadline_that_passes_between_two_attempts_ends_the_row() {
    let world = TestWorld::new().await;
    let mut intent = notice_with_key("late");
    intent["notAfter"] = "2026-01-01T00:01:00Z".into();
    let id = world.intake(&[intent]).await.expect("recorded").receipts.remove(0).id;
    world.mailer.fault(FaultKind::RateLimit, -1);
    let queue = TestQueue::default();
    queue.run_for(&world, 120 * SECOND, SECOND).await;
    assert_eq!(
        world.state(&id).await,
        ("expired".to_owned(), "window_missed".to_owned())
    );
    let last = world
        .mailer
        .model
        .borrow()
        .ledger()
        .requests()
        .back()
        .map(|seen| seen.at);
    assert!(last.expect("a call").to_string() < "2026-01-01T00:01:00Z".to_owned());
}

#[tokio::test]
async fn a_row_that_was_sealed_and_lost_its_seal_is_never_rendered_again() {
    for (harm, code) in [
        ("DELETE FROM seals", "seal_missing"),
        ("UPDATE seals SET body = replace(body, 'Good', 'Bad')", "seal_corrupt"),
    ] {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.mailer.fault(FaultKind::RateLimit, 1);
        world.deliver().await;
        assert_eq!(world.mailer.calls(), 1);
        world.sql(harm, vec![]).await;
        world.run_for(7_200 * SECOND, 60 * SECOND).await;
        assert_eq!(world.state(&id).await, ("dead_letter".to_owned(), code.to_owned()));
        assert_eq!(world.mailer.calls(), 1, "no second request");
        assert_eq!(world.notes.count("row_unreadable"), 1);
    }
}

#[tokio::test]
async fn a_death_between_freeze_and_call_leaves_bytes_that_are_sent_later() {
    let mut world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    let before = world.transport.executed();
    let died = die_when(|| world.transport.executed() == before + 2, world.deliver()).await;
    assert_eq!(died, None);
    let rows = world.sql("SELECT sha256 FROM seals", vec![]).await;
    assert_eq!(world.mailer.calls(), 0);
    world.config = changed();
    world.run_for(900 * SECOND, 30 * SECOND).await;
    assert_eq!(world.status(&id).await, "sent");
    let sealed = crate::support::text(&rows[0][0]);
    let seen = world.mailer.bodies_by_key();
    let bodies: Vec<&String> = seen.values().flatten().collect();
    assert_eq!(bodies, [&format!("{sealed:?}")], "what was frozen is what went out");
}
