use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::ports::MailAnswer;

use super::{campaign, deliver, ids_are_right, mails_to, number, requests, states, suppress, world};
use crate::support::{TestQueue, TestWorld};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// A batch of five that was accepted, and whose answer was lost.
async fn in_doubt(world: &TestWorld) -> Vec<String> {
    let ids = campaign(world, 5).await;
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    assert_eq!(states(world, &ids).await, vec!["retry"; 5]);
    ids
}

/// An event about the mail to this contact reaches the provider's door.
async fn hear(world: &TestWorld, contact: &str, kind: &str) {
    let id = {
        let model = world.mailer.model.borrow();
        let address = format!("{contact}@example.com");
        let sent = model.ledger().sent().iter();
        let mail = sent.filter(|sent| sent.mail.to.iter().any(|to| to.contains(&address)));
        mail.map(|sent| sent.id.clone()).next_back().expect("it went out")
    };
    let event = format!("msg_{contact}_{kind}");
    crate::receipts::hear(world, &event, &id, &format!("email.{kind}"), serde_json::json!({})).await;
}

#[tokio::test]
async fn a_lost_answer_is_repeated_with_the_same_bytes_under_the_same_key() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 5]);
    let seen = requests(&world);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
    assert_eq!(world.mailer.accepted(), 5);
    ids_are_right(&world).await;
}

#[tokio::test]
async fn one_message_brings_the_whole_batch() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    world.clock.advance(MINUTE);
    world.deliver_ids(&[&ids[3]]).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 5]);
    assert_eq!(world.mailer.calls(), 2);
}

#[tokio::test]
async fn a_batch_is_claimed_only_when_every_open_member_is_due() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    world.clock.advance(MINUTE);
    world
        .sql(
            "UPDATE outbox SET next_attempt_at = next_attempt_at + 600000 WHERE id = ?1",
            vec![ids[4].clone().into()],
        )
        .await;
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["retry"; 5]);
    assert_eq!(world.mailer.calls(), 1);
    world.clock.advance(Duration::from_secs(700));
    deliver(&world, &ids[..1]).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 5]);
}

#[tokio::test]
async fn the_window_closes_for_all_of_them() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    world.clock.advance(25 * HOUR);
    world.deliver_ids(&[&ids[2]]).await;
    assert_eq!(states(&world, &ids).await, vec!["unknown"; 5]);
    assert_eq!(world.state(&ids[0]).await.1, "provider_window_closed");
    assert_eq!(world.mailer.calls(), 1);
    assert_eq!(
        number(&world, "SELECT count(*) FROM outbox WHERE provider_scope = 'main'").await,
        5
    );
    world.run_for(48 * HOUR, HOUR).await;
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn who_is_suppressed_after_a_doubt_makes_all_of_them_unknown_and_news_closes_them() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    suppress(&world, &ids[1]).await;
    world.clock.advance(MINUTE);
    deliver(&world, &ids[3..4]).await;
    assert_eq!(states(&world, &ids).await, vec!["unknown"; 5]);
    assert_eq!(world.state(&ids[0]).await.1, "batch_stopped");
    assert_eq!(world.state(&ids[1]).await.1, "recipient_suppressed");
    assert_eq!(world.mailer.calls(), 1);
    assert_eq!(
        number(&world, "SELECT count(*) FROM batch_seals").await,
        1,
        "somebody may want to see what it was"
    );
    for contact in ["c0", "c1", "c2", "c3", "c4"] {
        hear(&world, contact, "delivered").await;
    }
    assert_eq!(states(&world, &ids).await, vec!["sent"; 5]);
    assert_eq!(number(&world, "SELECT count(*) FROM batch_seals").await, 0);
    ids_are_right(&world).await;
}

#[tokio::test]
async fn an_unsubscription_after_a_doubt_does_the_same() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    crate::unsubscribe::click(&world, &ids[1]).await;
    assert_eq!(
        world.state(&ids[1]).await,
        ("unknown".to_owned(), "unsubscribed".to_owned())
    );
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["unknown"; 5]);
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn the_proof_of_one_keeps_the_others_together_and_brings_their_ids() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    hear(&world, "c2", "delivered").await;
    assert_eq!(world.status(&ids[2]).await, "sent");
    // Who is sent stops nothing: the repetition sends nothing.
    suppress(&world, &ids[2]).await;
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 5]);
    let seen = requests(&world);
    assert_eq!((seen.len(), seen[0] == seen[1]), (2, true));
    assert_eq!(world.mailer.accepted(), 5);
    ids_are_right(&world).await;
}

#[tokio::test]
async fn a_refusal_after_a_doubt_makes_all_of_them_unknown() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    world.mailer.fault(FaultKind::Refuse, 1);
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["unknown"; 5]);
    world.run_for(HOUR, MINUTE).await;
    assert_eq!(world.mailer.calls(), 2);
}

#[tokio::test]
async fn a_list_of_another_length_is_believed_for_nobody() {
    let world = world().await;
    let ids = campaign(&world, 3).await;
    world
        .mailer
        .answers
        .borrow_mut()
        .push_back(answer(r#"{"data":[{"id":"x1"},{"id":"x2"}]}"#));
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, vec!["retry"; 3]);
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 3]);
    ids_are_right(&world).await;
}

#[tokio::test]
async fn a_place_without_an_id_leaves_that_mail_in_doubt() {
    let world = world().await;
    let ids = campaign(&world, 3).await;
    let all = r#"{"data":[{"id":"x1"},{"id":null},{"id":"x3"}]}"#;
    world.mailer.answers.borrow_mut().push_back(answer(all));
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, ["sent", "retry", "sent"]);
    world.clock.advance(MINUTE);
    deliver(&world, &ids).await;
    assert_eq!(states(&world, &ids).await, vec!["sent"; 3]);
    let seen = requests(&world);
    assert_eq!((seen.len(), seen[0] == seen[1]), (2, true));
    assert_eq!(mails_to(&world, "c1"), 1);
}

#[tokio::test]
async fn one_id_for_two_mails_is_a_conflict() {
    let world = world().await;
    let ids = campaign(&world, 3).await;
    let twice = r#"{"data":[{"id":"x1"},{"id":"x1"},{"id":"x3"}]}"#;
    world.mailer.answers.borrow_mut().push_back(answer(twice));
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, ["sent", "unknown", "sent"]);
    assert_eq!(world.state(&ids[1]).await.1, "message_id_conflict");
    assert_eq!(world.notes.count("message_id_conflict"), 1);
}

#[tokio::test]
async fn a_mail_by_itself_never_gets_an_id_of_a_batch() {
    let world = world().await;
    let ids = campaign(&world, 2).await;
    world
        .mailer
        .answers
        .borrow_mut()
        .push_back(answer(r#"{"data":[{"id":"x1"},{"id":"x2"}]}"#));
    world.deliver().await;
    assert_eq!(states(&world, &ids).await, ["sent", "sent"]);
    world.notices(1).await;
    world.mailer.answers.borrow_mut().push_back(answer(r#"{"id":"x2"}"#));
    world.deliver().await;
    assert_eq!(world.notes.count("message_id_conflict"), 1);
}

fn answer(body: &str) -> MailAnswer {
    MailAnswer::Response {
        status: 200,
        retry_after: None,
        body: Some(body.as_bytes().to_vec()),
    }
}

#[tokio::test]
async fn a_provider_that_is_down_for_long_is_asked_with_the_same_bytes_until_the_window_closes() {
    let world = world().await;
    let ids = campaign(&world, 4).await;
    world.mailer.fault(FaultKind::ServiceUnavailable, -1);
    let queue = TestQueue::default();
    queue.deliver_all(&world).await;
    queue.run_for(&world, 30 * HOUR, Duration::from_secs(600)).await;
    assert_eq!(states(&world, &ids).await, vec!["unknown"; 4]);
    let seen = requests(&world);
    assert!(seen.len() > 20, "{} calls", seen.len());
    assert!(seen.iter().all(|one| *one == seen[0]));
}

#[tokio::test]
async fn each_mail_that_becomes_unknown_with_its_batch_raises_its_alarm() {
    let world = world().await;
    let ids = in_doubt(&world).await;
    world.clock.advance(25 * HOUR);
    // One message alone: the other four are ended by it, too.
    world.deliver_ids(&[&ids[2]]).await;
    assert_eq!(states(&world, &ids).await, vec!["unknown"; 5]);
    assert_eq!(world.notes.count("outcome_unknown"), 5);
    world.clock.advance(MINUTE);
    world.deliver_ids(&[&ids[1]]).await;
    assert_eq!(world.notes.count("outcome_unknown"), 5, "once");
    let path = format!("/v1/intents/{}", ids[2]);
    let story = crate::doors::get(&world, &path, Some(crate::doors::PRODUCER))
        .await
        .body;
    assert!(
        story["batchId"].as_str().is_some_and(|batch| batch.starts_with("bat")),
        "{story}"
    );
}
