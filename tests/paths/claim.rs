//! The claim: three answers that one boolean would mix up, and what must never leave.

use std::time::Duration;

use sealpost::consume::{Decision, Delivery, consume};
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::outbox::envelope::Envelope;

use crate::support::{TestQueue, TestWorld, Wire, config_with, die_when, integer, notice_with_key, text};

const LEASE: Duration = Duration::from_secs(300);
const LEASE_AND_SKEW: Duration = Duration::from_secs(302);

/// A row whose worker died right after the claim.
async fn claimed_and_dead(world: &TestWorld) -> String {
    let id = world.notices(1).await.remove(0);
    let before = world.transport.executed();
    let died = die_when(|| world.transport.executed() > before, world.deliver()).await;
    assert_eq!(died, None);
    assert_eq!(world.status(&id).await, "processing");
    id
}

#[tokio::test]
async fn a_claim_that_finds_nothing_because_another_lives_is_retried_past_its_end() {
    let world = TestWorld::new().await;
    let id = claimed_and_dead(&world).await;
    world.clock.advance(Duration::from_secs(30));
    let decisions = world.deliver_ids(&[&id]).await;
    let Decision::Retry { delay_seconds } = decisions[0] else {
        panic!("acknowledged a row that somebody else holds");
    };
    assert!((272..=280).contains(&delay_seconds), "{delay_seconds} s");
    assert_eq!(world.status(&id).await, "processing");
    assert_eq!(world.mailer.calls(), 0);
    world.clock.advance(Duration::from_secs(delay_seconds.into()));
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
    assert_eq!(world.status(&id).await, "sent");
}

#[tokio::test]
async fn a_claim_that_finds_an_ended_claim_takes_it_over_with_the_same_key_and_bytes() {
    let world = TestWorld::new().await;
    let ids = world.notices(1).await;
    let died = die_when(|| world.mailer.accepted() == 1, world.deliver()).await;
    assert_eq!(died, None);
    world.clock.advance(LEASE + Duration::from_millis(1));
    assert_eq!(world.deliver_ids(&[&ids[0]]).await, [Decision::Acknowledge]);
    assert_eq!(world.status(&ids[0]).await, "sent");
    assert_eq!((world.mailer.calls(), world.mailer.accepted()), (2, 1));
    let seen = world.mailer.bodies_by_key();
    assert_eq!(seen.len(), 1, "one key");
    for bodies in seen.values() {
        assert_eq!(bodies[0], bodies[1], "the same bytes");
    }
}

#[tokio::test]
async fn a_claim_that_finds_a_sent_row_acknowledges_without_a_call() {
    let world = TestWorld::new().await;
    let ids = world.notices(1).await;
    world.deliver().await;
    assert_eq!(world.deliver_ids(&[&ids[0]]).await, [Decision::Acknowledge]);
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn an_answer_lost_at_the_claim_is_recognised_by_its_own_token() {
    for wire in [Wire::LoseAnswer, Wire::GatewayAfterCommit, Wire::Truncate] {
        let world = TestWorld::new().await;
        let ids = world.notices(1).await;
        world.transport.next(wire.clone());
        assert_eq!(world.deliver().await, [Decision::Acknowledge], "{wire:?}");
        assert_eq!(world.status(&ids[0]).await, "sent");
        let rows = world.sql("SELECT claim_count, lone_deaths FROM outbox", vec![]).await;
        assert_eq!((integer(&rows[0][0]), integer(&rows[0][1])), (1, 0), "{wire:?}");
    }
}

#[tokio::test]
async fn an_answer_lost_at_mark_sent_ends_in_one_mail_with_the_first_id() {
    for wire in [Wire::LoseAnswer, Wire::GatewayAfterCommit, Wire::Refuse] {
        let world = TestWorld::new().await;
        let ids = world.notices(1).await;
        // The settle and all of its repetitions.
        for _ in 0..3 {
            world.transport.next_with("UPDATE attempts SET", wire.clone());
        }
        let decisions = world.deliver().await;
        assert!(
            matches!(decisions[0], Decision::Retry { .. }),
            "{wire:?}: {decisions:?}"
        );
        world.clock.advance(LEASE_AND_SKEW);
        assert_eq!(world.deliver_ids(&[&ids[0]]).await, [Decision::Acknowledge]);
        assert_eq!(world.status(&ids[0]).await, "sent", "{wire:?}");
        assert_eq!(world.mailer.accepted(), 1);
        let rows = world.sql("SELECT provider_message_id FROM outbox", vec![]).await;
        assert_eq!(text(&rows[0][0]), "00000000-0000-4000-8000-000000000001", "{wire:?}");
    }
}

#[tokio::test]
async fn one_unreadable_message_sinks_no_batch_and_is_not_dropped_in_silence() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    let good = |id: &str| Some(Envelope::to_row(id).to_body());
    let bodies = [
        good(&ids[0]),
        Some("null".to_owned()),
        Some("text".to_owned()),
        Some(r#"{"v":99,"id":"x"}"#.to_owned()),
        None,
        good(&ids[1]),
    ];
    let deliveries: Vec<Delivery> = bodies.into_iter().map(|body| Delivery { body, attempts: 1 }).collect();
    let decisions = consume(&world, &world.config, &deliveries).await;
    assert_eq!(decisions, [Decision::Acknowledge; 6]);
    assert_eq!(world.count("sent").await, 2);
    assert_eq!(world.notes.count("input_parked"), 4);
    let rows = world
        .sql("SELECT body, reason FROM parking ORDER BY body", vec![])
        .await;
    let kept: Vec<String> = rows.iter().map(|row| text(&row[0])).collect();
    assert_eq!(kept, ["", "null", "text", r#"{"v":99,"id":"x"}"#]);
    assert!(!world.notes.text().contains("\"v\""), "no body in a note");
}

#[tokio::test]
async fn a_batch_in_which_nothing_was_recognised_is_no_silent_success() {
    let world = TestWorld::new().await;
    let decisions = world.deliver_bodies(&["null".into(), "{}".into()]).await;
    assert_eq!(decisions, [Decision::Acknowledge; 2]);
    assert_eq!(world.notes.alarms(), ["input_parked", "input_parked"]);
    let rows = world.sql("SELECT count(*) FROM parking", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 2);
}

#[tokio::test]
async fn an_unreadable_message_that_cannot_be_parked_comes_again() {
    let world = TestWorld::new().await;
    let ids = world.notices(1).await;
    for _ in 0..3 {
        world.transport.next_with("INTO parking", Wire::Refuse);
    }
    let bodies = ["null".to_owned(), Envelope::to_row(&ids[0]).to_body()];
    let decisions = world.deliver_bodies(&bodies).await;
    assert_eq!(decisions, [Decision::Retry { delay_seconds: 5 }, Decision::Acknowledge]);
    assert_eq!(world.status(&ids[0]).await, "sent", "the readable one is not held back");
}

#[tokio::test]
async fn an_envelope_of_a_row_that_never_was_is_parked() {
    let world = TestWorld::new().await;
    assert_eq!(
        world.deliver_ids(&["ntc_nobodyknowsthisone"]).await,
        [Decision::Acknowledge]
    );
    let rows = world.sql("SELECT reason FROM parking", vec![]).await;
    assert_eq!(text(&rows[0][0]), "envelope_without_row");
    assert_eq!(world.notes.alarms(), ["input_parked"]);
}

#[tokio::test]
async fn without_the_database_no_message_is_acknowledged() {
    let world = TestWorld::new().await;
    let ids = world.notices(1).await;
    world.transport.always(Some(Wire::Refuse));
    assert_eq!(world.deliver().await, [Decision::Retry { delay_seconds: 5 }]);
    world.transport.always(None);
    assert_eq!(world.mailer.calls(), 0);
    assert_eq!(world.deliver_ids(&[&ids[0]]).await, [Decision::Acknowledge]);
    assert_eq!(world.status(&ids[0]).await, "sent");
}

#[tokio::test]
async fn the_same_row_many_times_in_one_batch_is_called_once() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    let list = [&*ids[0], &ids[1], &ids[0], &ids[0], &ids[1]];
    assert_eq!(world.deliver_ids(&list).await, [Decision::Acknowledge; 5]);
    assert_eq!(world.mailer.calls(), 2);
}

#[tokio::test]
async fn a_suppression_between_intake_and_claim_is_found_at_the_claim() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    world
        .sql(
            "INSERT INTO suppressions (recipient_hash, family, reason, created_at)
             SELECT recipient_hash, '*', 'bounce', 0 FROM outbox WHERE id = ?1",
            vec![ids[0].clone().into()],
        )
        .await;
    assert_eq!(world.deliver().await, [Decision::Acknowledge; 2]);
    assert_eq!(
        world.state(&ids[0]).await,
        ("suppressed".to_owned(), "recipient_suppressed".to_owned())
    );
    assert_eq!(world.status(&ids[1]).await, "sent");
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn a_row_whose_window_closed_before_the_claim_expires_without_a_call() {
    let world = TestWorld::new().await;
    let mut intent = notice_with_key("late");
    intent["notAfter"] = "2026-01-01T00:10:00Z".into();
    let id = world.intake(&[intent]).await.expect("recorded").receipts.remove(0).id;
    world.clock.advance(Duration::from_secs(600));
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    assert_eq!(
        world.state(&id).await,
        ("expired".to_owned(), "window_missed".to_owned())
    );
    assert_eq!(world.mailer.calls(), 0);
}

#[tokio::test]
async fn a_row_sealed_for_another_account_is_put_aside_and_not_sent() {
    let mut world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    let queue = TestQueue::default();
    world.mailer.fault(FaultKind::RateLimit, 1);
    queue.deliver(&world).await;
    assert_eq!(world.status(&id).await, "retry");
    world.config = config_with(&[("PROVIDER_SCOPE", "other")]);
    queue
        .run_for(&world, Duration::from_secs(7_200), Duration::from_secs(60))
        .await;
    assert_eq!(
        world.state(&id).await,
        ("retry".to_owned(), "provider_scope_changed".to_owned())
    );
    assert_eq!(world.mailer.calls(), 1, "not through another account");
    world.config = config_with(&[]);
    queue
        .run_for(&world, Duration::from_secs(7_200), Duration::from_secs(60))
        .await;
    assert_eq!(world.status(&id).await, "sent");
}

#[tokio::test]
async fn a_claim_brings_at_most_its_share_of_letters_and_leaves_the_rest_unclaimed() {
    let world = TestWorld::new().await;
    let big = "x".repeat(240_000);
    for start in [0, 10] {
        let intents: Vec<_> = (start..start + 10)
            .map(|number| {
                let mut intent = notice_with_key(&format!("n{number}"));
                intent["content"]["text"] = big.clone().into();
                intent
            })
            .collect();
        world.intake(&intents).await.expect("recorded");
    }
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    let sent = world.count("sent").await;
    assert_eq!(sent, 4 * 1024 * 1024 / 240_200, "of letters of about 240,200 bytes");
    assert_eq!(world.count("enqueued").await, 20 - sent, "nobody claimed the rest");
    assert_eq!(queue.len() as i64, 20 - sent, "and its messages come again");
    queue
        .run_for(&world, Duration::from_secs(10), Duration::from_secs(2))
        .await;
    assert_eq!(world.count("sent").await, 20);
}

#[tokio::test]
async fn an_invocation_makes_no_more_requests_than_the_plan_allows() {
    let world = TestWorld::with(config_with(&[("SUBREQUEST_BUDGET", "50")])).await;
    world.notices(100).await;
    world.transport.take_requests();
    let queue = TestQueue::default();
    assert_eq!(queue.deliver(&world).await, 100);
    assert_eq!(world.mailer.calls(), 42);
    assert_eq!(world.transport.take_requests(), 3);
    assert_eq!((world.count("sent").await, world.count("enqueued").await), (42, 58));
    assert_eq!(queue.len(), 58);
    queue
        .run_for(&world, Duration::from_secs(10), Duration::from_secs(2))
        .await;
    assert_eq!(world.count("sent").await, 100);
    assert_eq!(world.mailer.calls(), 100);
}

#[tokio::test]
async fn round_trips_stay_at_three_with_duplicates_suppressed_and_a_bad_row() {
    let world = TestWorld::new().await;
    let ids = world.notices(100).await;
    world
        .sql(
            "INSERT INTO suppressions (recipient_hash, family, reason, created_at)
             SELECT recipient_hash, '*', 'bounce', 0 FROM outbox WHERE seq <= 5",
            vec![],
        )
        .await;
    world
        .sql(
            "UPDATE letters SET body = '{}' WHERE outbox_id = ?1",
            vec![ids[50].clone().into()],
        )
        .await;
    let mut list: Vec<&str> = ids.iter().map(String::as_str).collect();
    list.splice(90.., ids[10..20].iter().map(String::as_str));
    world.transport.take_requests();
    assert_eq!(world.deliver_ids(&list).await, [Decision::Acknowledge; 100]);
    assert_eq!(world.transport.take_requests(), 3);
    assert_eq!(world.count("sent").await, 84);
    assert_eq!(world.count("suppressed").await, 5);
    assert_eq!(
        world.state(&ids[50]).await,
        ("dead_letter".to_owned(), "letter_unreadable".to_owned())
    );

    // A message that has to be parked costs one more.
    let mut bodies: Vec<String> = ids[90..].iter().map(|id| Envelope::to_row(id).to_body()).collect();
    bodies.push("null".to_owned());
    world.transport.take_requests();
    assert_eq!(world.deliver_bodies(&bodies).await, [Decision::Acknowledge; 11]);
    assert_eq!(world.transport.take_requests(), 4);
}
