//! Reports that somebody asked for by hand: a test send, and the backfill of a run that was missed. Once such mails
//! reached a queue, were acknowledged by a program that did not recognise their ids, and stood as enqueued for two weeks.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::outbox::envelope::Envelope;
use serde_json::{Value as Json, json};

use super::attachments::{file, report};
use super::doors::post;
use crate::support::{TestQueue, TestWorld, order, text};

const SECOND: Duration = Duration::from_secs(1);

fn test_send(test_id: &str) -> Json {
    json!({
        "family": "report_test",
        "key": { "reportId": "weekly", "testId": test_id },
        "to": "ada@example.com",
        "content": { "subject": "Test: weekly report", "text": "See the attachments." },
        "attachments": [file("weekly.pdf", 500)],
    })
}

/// A run, whoever starts it.
fn run(period: &str) -> Json {
    report(period, json!([file("weekly.pdf", 500)]))
}

async fn recorded(world: &TestWorld, intent: Json) -> (String, bool) {
    let receipt = world.intake(&[intent]).await.expect("recorded").receipts.remove(0);
    (receipt.id, receipt.duplicate)
}

#[tokio::test]
async fn the_scheduled_run_the_test_send_and_the_backfill_all_go_out() {
    let world = TestWorld::new().await;
    let queue = TestQueue::default();
    for (intent, prefix) in [(run("w1"), "rpt_"), (test_send("t1"), "rpx_"), (run("w0"), "rpt_")] {
        let (id, duplicate) = recorded(&world, intent).await;
        assert!(!duplicate && id.starts_with(prefix), "{id}");
        queue.deliver_all(&world).await;
        assert_eq!(world.status(&id).await, "sent");
    }
    assert_eq!((queue.len(), world.mailer.accepted()), (0, 3));
}

#[tokio::test]
async fn a_backfill_of_a_run_that_was_not_missed_after_all_sends_nothing() {
    let world = TestWorld::new().await;
    let (id, _) = recorded(&world, run("w1")).await;
    assert_eq!(
        recorded(&world, run("w1")).await,
        (id.clone(), true),
        "while the run is on its way"
    );
    world.deliver().await;
    assert_eq!(recorded(&world, run("w1")).await, (id.clone(), true), "after it");
    world.clock.advance(30 * 86_400 * SECOND);
    world.tick().await;
    assert_eq!(
        recorded(&world, run("w1")).await,
        (id, true),
        "a month later, when letter and files are gone"
    );
    world.run_for(3_600 * SECOND, 60 * SECOND).await;
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn each_test_send_is_one_of_its_own_and_none_stands_in_for_a_run() {
    let world = TestWorld::new().await;
    let (first, _) = recorded(&world, test_send("t1")).await;
    assert_eq!(recorded(&world, test_send("t1")).await, (first, true), "a second click");
    for intent in [test_send("t2"), run("w1")] {
        assert!(!recorded(&world, intent).await.1);
    }
    world.deliver().await;
    assert_eq!(world.mailer.accepted(), 3);
}

#[tokio::test]
async fn the_relay_carries_what_the_queue_refused() {
    for intent in [run("w1"), test_send("t1")] {
        let world = TestWorld::new().await;
        world.broker.refuse(true);
        let (id, _) = recorded(&world, intent).await;
        assert_eq!(world.broker.len(), 0);
        world.broker.refuse(false);
        world.run_for(120 * SECOND, 30 * SECOND).await;
        assert_eq!(world.status(&id).await, "sent");
    }
}

#[tokio::test]
async fn the_dead_letter_queue_ends_none_of_them() {
    for intent in [run("w1"), test_send("t1")] {
        let world = TestWorld::new().await;
        let (id, _) = recorded(&world, intent).await;
        let bodies: Vec<String> = world.broker.take().into_iter().map(|message| message.body).collect();
        assert_eq!(world.deliver_dead(&bodies).await, [Decision::Acknowledge]);
        assert_eq!(
            world.state(&id).await,
            ("retry".to_owned(), "queue_exhausted".to_owned())
        );
        world.run_for(120 * SECOND, 30 * SECOND).await;
        assert_eq!(world.status(&id).await, "sent");
    }
}

#[tokio::test]
async fn a_version_that_does_not_know_the_family_says_so_and_the_next_one_that_does_sends() {
    let world = TestWorld::new().await;
    let (id, _) = recorded(&world, test_send("t1")).await;
    let family = |name: &str| vec![id.clone().into(), name.to_owned().into()];
    let rename = "UPDATE outbox SET family = ?2 WHERE id = ?1";
    world.sql(rename, family("report_of_tomorrow")).await;
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    let state = world.state(&id).await;
    assert_eq!(
        state,
        ("dead_letter".to_owned(), "outbox_id_unclaimed".to_owned()),
        "not acknowledged in silence"
    );
    assert_eq!(world.notes.alarms(), ["dead_lettered"]);
    // As long as nobody knows it, it is shown, and an order to retry says why not.
    let all = json!({ "limit": 1 });
    let retried = order(&world, "/v1/queues/outbox/retry-dead", &all).await;
    assert_eq!(
        retried.body["items"][0]["why"],
        json!("outbox_id_unclaimed"),
        "{:?}",
        retried.body
    );
    world.sql(rename, family("report_test")).await;
    world.run_for(1_200 * SECOND, 60 * SECOND).await;
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn an_envelope_whose_id_no_family_made_is_parked_and_never_dropped() {
    let world = TestWorld::new().await;
    let body = Envelope::to_row("rpt_no-such_row").to_body();
    assert_eq!(
        world.deliver_bodies(&[body.clone(), "rpt".to_owned()]).await,
        [Decision::Acknowledge; 2]
    );
    let parked = world.sql("SELECT source FROM parking", vec![]).await;
    assert_eq!(
        parked.len(),
        2,
        "{:?}",
        parked.iter().map(|row| text(&row[0])).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn another_content_under_the_key_of_a_run_is_refused_and_a_revision_is_a_second_mail() {
    let world = TestWorld::new().await;
    recorded(&world, run("w1")).await;
    let mut corrected = report("w1", json!([file("corrected.pdf", 500)]));
    let refused = post(&world, &json!({ "intents": [corrected] })).await;
    assert_eq!(refused.status, 409);
    corrected["revision"] = json!(1);
    assert!(!recorded(&world, corrected).await.1);
    world.deliver().await;
    assert_eq!(world.mailer.accepted(), 2);
}
