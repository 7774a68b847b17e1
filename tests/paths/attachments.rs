//! Attachments: stored apart, frozen with the request, sent as they were given, and gone with the letter.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::outbox::attachment::ATTACHMENT_BYTES_MAX;
use sealpost::outbox::intent::BODY_BYTES_MAX;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use super::doors::post;
use crate::support::{TestQueue, TestWorld, Wire, integer, notice_with_key, order, text};

const SECOND: Duration = Duration::from_secs(1);

/// A report of this run with these attachments.
pub(crate) fn report(run: &str, attachments: Json) -> Json {
    json!({
        "family": "report",
        "key": { "reportId": "weekly", "period": run, "readerId": "ada" },
        "to": { "email": "ada@example.com", "name": "Ada" },
        "content": { "subject": format!("Report of {run}"), "text": "See the attachments." },
        "attachments": attachments,
    })
}

/// A file of this many bytes.
pub(crate) fn file(name: &str, bytes: usize) -> Json {
    let content: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect();
    json!({ "filename": name, "contentType": "application/pdf", "content": STANDARD.encode(content) })
}

fn two_files() -> Json {
    json!([file("week.pdf", 1_000), { "filename": "r\u{e9}sum\u{e9} \"1\".csv", "content": "QUJD" }])
}

/// Names, content types and bytes of every mail's attachments, as the provider has them.
fn arrived(world: &TestWorld) -> Vec<Json> {
    let accepted: Json = serde_json::from_str(&world.mailer.model.borrow().ledger().accepted_json()).unwrap();
    let list = accepted.as_array().unwrap();
    list.iter().map(|mail| mail["attachments"].clone()).collect()
}

async fn count(world: &TestWorld, table: &'static str) -> i64 {
    integer(&world.sql(table, vec![]).await[0][0])
}

const ATTACHMENTS: &str = "SELECT count(*) FROM attachments";
const LETTERS: &str = "SELECT count(*) FROM letters";

#[tokio::test]
async fn they_arrive_as_they_were_given_in_as_many_round_trips_as_any_mail() {
    let world = TestWorld::new().await;
    let intents = [
        report("w1", two_files()),
        report("w2", json!([file("a", 3)])),
        notice_with_key("n0"),
    ];
    world.transport.take_requests();
    let accepted = world.intake(&intents).await.expect("recorded");
    assert_eq!(world.transport.take_requests(), 2, "recorded, and marked as published");
    assert_eq!(count(&world, ATTACHMENTS).await, 3);
    world.deliver().await;
    assert_eq!(world.transport.take_requests(), 3);
    for receipt in &accepted.receipts {
        assert_eq!(world.status(&receipt.id).await, "sent");
    }
    let hash = |bytes: &[u8]| -> String { Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect() };
    let week: Vec<u8> = (0..1_000).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let pdf = "application/pdf";
    assert_eq!(
        arrived(&world),
        [
            json!([
                { "filename": "week.pdf", "contentType": pdf, "bytes": 1_000, "sha256": hash(&week) },
                { "filename": "r\u{e9}sum\u{e9} \"1\".csv", "contentType": null, "bytes": 3, "sha256": hash(b"ABC") },
            ]),
            json!([{ "filename": "a", "contentType": pdf, "bytes": 3, "sha256": hash(&[0, 1, 2]) }]),
            Json::Null,
        ]
    );
}

#[tokio::test]
async fn they_are_part_of_what_a_mail_means() {
    let world = TestWorld::new().await;
    let first = world.intake(&[report("w1", two_files())]).await.expect("recorded");
    let again = world.intake(&[report("w1", two_files())]).await.expect("a duplicate");
    assert!(again.receipts[0].duplicate && again.receipts[0].id == first.receipts[0].id);
    let swapped = json!([two_files()[1], two_files()[0]]);
    let mut without = report("w1", json!(null));
    without.as_object_mut().unwrap().remove("attachments");
    let mut renamed = two_files();
    renamed[0]["filename"] = json!("month.pdf");
    let mut retyped = two_files();
    retyped[1]["contentType"] = json!("text/csv");
    let mut rewritten = two_files();
    rewritten[1]["content"] = json!("QUJE");
    let others = [swapped, renamed, retyped, rewritten, json!([two_files()[0]])];
    for other in others.into_iter().map(|files| report("w1", files)).chain([without]) {
        let answer = post(&world, &json!({ "intents": [other] })).await;
        assert_eq!(
            (answer.status, answer.body["code"].as_str()),
            (409, Some("key_known_with_other_meaning"))
        );
    }
    assert_eq!(count(&world, ATTACHMENTS).await, 2, "nothing of the others was kept");
}

#[tokio::test]
async fn only_families_that_have_them_take_them_and_faults_are_told_field_by_field() {
    let world = TestWorld::new().await;
    let mut notice = notice_with_key("n0");
    notice["attachments"] = two_files();
    let wrong = json!([{ "filename": "a.exe", "content": "QQ==" }, { "filename": "../a", "content": "Q" }]);
    let answer = post(
        &world,
        &json!({ "intents": [notice, report("w1", wrong), report("w2", json!([]))] }),
    )
    .await;
    assert_eq!(answer.status, 422);
    let errors = answer.body["errors"].as_array().unwrap();
    let errors: Vec<(&str, &str)> = errors
        .iter()
        .map(|error| (error["path"].as_str().unwrap(), error["code"].as_str().unwrap()))
        .collect();
    assert_eq!(
        errors,
        [
            ("/intents/0/attachments", "attachments_unexpected"),
            ("/intents/1/attachments/0/filename", "file_type_refused"),
            ("/intents/1/attachments/1/filename", "file_name_invalid"),
            ("/intents/1/attachments/1/content", "base64_invalid"),
            ("/intents/2/attachments", "attachments_expected"),
        ]
    );
    assert_eq!(world.count("pending").await, 0);
}

/// The largest report that the intake takes: its letter is made of what JSON writes longest.
fn largest(run: &str) -> Json {
    let mut intent = report(run, json!([file("large.bin", ATTACHMENT_BYTES_MAX)]));
    intent["content"]["text"] = json!("\"".repeat(130_000));
    intent
}

#[tokio::test]
async fn the_largest_mail_fits_every_limit_on_its_way() {
    let world = TestWorld::new().await;
    let intent = largest("w1");
    let body = json!({ "intents": [intent] });
    assert!(body.to_string().len() < BODY_BYTES_MAX);
    assert_eq!(post(&world, &body).await.status, 202);
    world.transport.take_requests();
    let id = text(&world.sql("SELECT id FROM outbox", vec![]).await[0][0]);
    world.mailer.fault(FaultKind::BadGatewayHtml, 1);
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.transport.take_requests(), 3);
    assert_eq!(world.status(&id).await, "retry");
    world.clock.advance(60 * SECOND);
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.transport.take_requests(), 3, "sealed, it costs no more");
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(arrived(&world)[0][0]["bytes"], json!(ATTACHMENT_BYTES_MAX));
    let bodies = world.mailer.bodies_by_key();
    let hashes = bodies.values().next().unwrap();
    assert!(hashes.len() == 2 && hashes[0] == hashes[1]);
}

#[tokio::test]
async fn large_mails_travel_one_by_one_and_none_is_left_behind() {
    let world = TestWorld::new().await;
    for run in ["w1", "w2", "w3"] {
        world.intake(&[largest(run)]).await.expect("recorded");
    }
    let queue = TestQueue::default();
    for sent in 1..=3 {
        assert!(queue.deliver(&world).await > 0);
        assert_eq!(world.count("sent").await, sent, "two of them do not fit into one claim");
        world.clock.advance(SECOND);
    }
    assert_eq!((queue.len(), world.mailer.calls()), (0, 3));
}

#[tokio::test]
async fn mails_of_ordinary_size_travel_together() {
    let world = TestWorld::new().await;
    let intents: Vec<Json> = (0..20)
        .map(|number| {
            report(
                &format!("w{number}"),
                json!([file("a.pdf", 60_000), file("b.pdf", 40_000)]),
            )
        })
        .collect();
    world.intake(&intents).await.expect("recorded");
    world.transport.take_requests();
    world.deliver().await;
    assert_eq!(world.transport.take_requests(), 3);
    assert_eq!(world.count("sent").await, 20);
}

#[tokio::test]
async fn what_is_sealed_is_not_read_again() {
    let world = TestWorld::new().await;
    let id = world
        .intake(&[report("w1", two_files())])
        .await
        .expect("recorded")
        .receipts
        .remove(0)
        .id;
    world.mailer.fault(FaultKind::BadGatewayHtml, 1);
    world.deliver().await;
    world.sql("UPDATE attachments SET body = 'no json'", vec![]).await;
    world.clock.advance(60 * SECOND);
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.status(&id).await, "sent");
    let sealed = "SELECT count(*) FROM seals";
    assert_eq!(
        count(&world, sealed).await,
        0,
        "the frozen request went when the row was settled"
    );
}

#[tokio::test]
async fn a_mail_never_goes_out_without_what_belongs_to_it() {
    for (harm, code) in [
        ("DELETE FROM attachments", "attachments_missing"),
        ("DELETE FROM attachments WHERE position = 0", "attachments_missing"),
        (
            "UPDATE attachments SET body = '{}' WHERE position = 1",
            "attachments_unreadable",
        ),
        (
            "UPDATE attachments SET body = 'no json' WHERE position = 0",
            "attachments_unreadable",
        ),
        (
            "INSERT INTO attachments SELECT outbox_id, 2, body FROM attachments WHERE position = 0",
            "attachments_missing",
        ),
        // What a program that knows of no attachments makes of such a letter: nothing.
        (
            "UPDATE letters SET body = replace(body, '\"attachments\":2,', '\"files\":2,')",
            "letter_unreadable",
        ),
    ] {
        let world = TestWorld::new().await;
        let intents = [report("w1", two_files()), notice_with_key("n0")];
        let ids = world.intake(&intents).await.expect("recorded").receipts;
        world.sql(harm, vec![]).await;
        world.deliver().await;
        assert_eq!(
            world.state(&ids[0].id).await,
            ("dead_letter".to_owned(), code.to_owned()),
            "{harm}"
        );
        assert_eq!(world.status(&ids[1].id).await, "sent", "a neighbour");
        assert_eq!(world.mailer.calls(), 1);
    }
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_set() {
    let world = TestWorld::new().await;
    world.transport.next(Wire::LoseAnswer);
    world.intake(&[report("w1", two_files())]).await.expect("asked again");
    assert_eq!(count(&world, ATTACHMENTS).await, 2);
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    assert_eq!(arrived(&world)[0].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_sent_again_has_them_too_and_both_rows_lose_them_with_their_letters() {
    let world = TestWorld::new().await;
    let id = world
        .intake(&[report("w1", two_files())])
        .await
        .expect("recorded")
        .receipts
        .remove(0)
        .id;
    world.mailer.fault(FaultKind::AcceptThenDrop, -1);
    world.deliver().await;
    world.mailer.clear_faults();
    world.clock.advance(90_000 * SECOND);
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.status(&id).await, "unknown");
    let verdict = json!({ "verdict": "send_again", "note": "the reader has nothing" });
    let answer = order(&world, &format!("/v1/unknown/{id}/resolve"), &verdict).await;
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    assert_eq!(count(&world, ATTACHMENTS).await, 4);
    world.deliver_ids(&[answer.body["id"].as_str().unwrap()]).await;
    let arrived = arrived(&world);
    assert!(arrived.len() == 2 && arrived[0] == arrived[1], "{arrived:?}");
    assert_eq!(arrived[1].as_array().unwrap().len(), 2);
    world.clock.advance(8 * 86_400 * SECOND);
    world.tick().await;
    assert_eq!((count(&world, ATTACHMENTS).await, count(&world, LETTERS).await), (0, 0));
}

#[tokio::test]
async fn an_open_row_keeps_them_and_a_settled_one_loses_them() {
    let world = TestWorld::new().await;
    let later = json!("2026-02-01T00:00:00Z");
    let mut waiting = report("w2", two_files());
    waiting["notBefore"] = later;
    world
        .intake(&[report("w1", two_files()), waiting])
        .await
        .expect("recorded");
    world.deliver().await;
    world.clock.advance(8 * 86_400 * SECOND);
    world.tick().await;
    assert_eq!((count(&world, ATTACHMENTS).await, count(&world, LETTERS).await), (2, 1));
}
