//! Look-ups at the provider: what proves a mail, what does not, and what a look-up costs.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::operate::Answer;
use sealpost::ports::{Clock as _, MailAnswer, MailRequest, Mailer as _};
use sealpost::reconcile::{self, Asked, Report};
use serde_json::{Value as Json, json};

use super::unknown::{order, unknown_row, unknown_rows};
use crate::support::{TestWorld, Wire, config_with, integer, notice_with_key, text};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

async fn look_up(world: &TestWorld, id: &str) -> Answer {
    order(world, &format!("/v1/unknown/{id}/look-up"), &json!({})).await
}

async fn result(world: &TestWorld, id: &str) -> String {
    let answer = look_up(world, id).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let shown = format!("{:?} {}", answer.body, world.notes.text());
    assert!(
        !shown.contains('@') && !shown.contains("Subject"),
        "no personal data: {shown}"
    );
    assert_eq!(answer.body["id"], id);
    assert!(answer.body["why"].as_str().unwrap().len() > 20);
    answer.body["result"].as_str().unwrap().to_owned()
}

/// A look-up as the relay orders it, with so much time for its calls.
async fn by_relay(world: &TestWorld, ids: &[&str], time: Duration) -> Vec<Report> {
    let asked = Asked {
        order: None,
        calls_max: 6,
        ends_at: world.clock.now().plus(time),
    };
    reconcile::look_up(world, &world.config, ids, &asked)
        .await
        .expect("looked up")
}

/// The look-ups so far, without their times.
fn looked(world: &TestWorld) -> Vec<String> {
    world
        .mailer
        .looked_up
        .borrow()
        .iter()
        .map(|(_, query)| query.clone())
        .collect()
}

async fn number(world: &TestWorld, sql: &'static str) -> i64 {
    integer(&world.sql(sql, vec![]).await[0][0])
}

/// A mail that somebody else sends through the same account: a name, a recipient, a subject and tags.
async fn neighbour(world: &TestWorld, key: &str, to: &str, subject: &str, tags: &Json) {
    let body = json!({ "from": "a@b.example", "to": to, "subject": subject, "text": "t", "tags": tags }).to_string();
    let request = MailRequest {
        body: &body,
        idempotency_key: key,
        batch: false,
    };
    let answer = world.mailer.send(request).await;
    assert!(matches!(answer, MailAnswer::Response { status: 200, .. }), "{answer:?}");
}

fn tags(id: &str, environment: &str) -> Json {
    json!([{ "name": "sealpost_id", "value": id }, { "name": "sealpost_env", "value": environment }])
}

/// A row that is unknown although nothing went out.
async fn unknown_and_not_sent(world: &TestWorld) -> String {
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::ServiceUnavailable, 1);
    world.deliver().await;
    world.clock.advance(25 * HOUR);
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.status(&id).await, "unknown");
    id
}

#[tokio::test]
async fn a_mail_that_the_list_has_is_proved_by_its_tags() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let answer = look_up(&world, &id).await;
    let message_id = "00000000-0000-4000-8000-000000000001";
    assert_eq!(answer.body["result"], "sent");
    assert_eq!(answer.body["messageId"], message_id);
    assert_eq!(answer.body["looked"], json!({ "pages": 1, "candidates": 1 }));
    assert_eq!(world.transport.take_requests(), 2, "one round trip before, one after");
    assert_eq!(world.state(&id).await, ("sent".to_owned(), "look_up_found".to_owned()));
    let rows = world
        .sql("SELECT provider_message_id, settled_at FROM outbox", vec![])
        .await;
    assert_eq!(text(&rows[0][0]), message_id);
    assert_eq!(integer(&rows[0][1]), world.clock.now().get());
    let rows = world
        .sql("SELECT action, subject, result, operator FROM operator_log", vec![])
        .await;
    let line: Vec<String> = rows[0].iter().map(text).collect();
    assert_eq!(line, ["unknown_look_up", id.as_str(), "found", "06e55b63"]);
    // Asked again, the row itself knows.
    let calls = looked(&world).len();
    let again = look_up(&world, &id).await;
    assert_eq!((again.status, &again.body["messageId"]), (200, &json!(message_id)));
    assert_eq!(looked(&world).len(), calls);
    assert_eq!(world.mailer.calls(), 1, "nothing was sent");
}

#[tokio::test]
async fn tags_may_come_as_an_object_and_times_in_rfc_3339() {
    for rewrite in [
        (|body| {
            let mut body: Json = serde_json::from_str(&body).unwrap();
            if let Some(tags) = body.get("tags").and_then(Json::as_array).cloned() {
                let object = tags.iter().map(|tag| {
                    let name = tag["name"].as_str().unwrap().to_owned();
                    (name, tag["value"].clone())
                });
                body["tags"] = Json::Object(object.collect());
            }
            body.to_string()
        }) as fn(String) -> String,
        |body| body.replace("2026-01-01 00:00:00.020000+00", "2026-01-01T00:00:00.020Z"),
        |body| body.replace("\"bcc\":null", "\"bcc\":null,\"sent_by\":{\"a\":[1]}"),
    ] {
        let world = TestWorld::new().await;
        let id = unknown_row(&world).await;
        world.mailer.rewrite_look_ups.set(rewrite);
        assert_eq!(result(&world, &id).await, "sent");
    }
}

/// A list and mails with the Message-ID of the row in `ID`: the provider model makes its own otherwise.
fn with_our_header(body: &str, environment: &str, tags_stay: bool) -> String {
    let mut body: Json = serde_json::from_str(body).unwrap();
    let header = json!(ID.with(|id| format!("<{}.{environment}@sealpost.example>", id.borrow())));
    let mails = match body.get_mut("data") {
        Some(list) => list.as_array_mut().unwrap().iter_mut().collect(),
        None => vec![&mut body],
    };
    for mail in mails {
        mail["message_id"] = header.clone();
        // Nothing else says that the mail is a candidate.
        mail["subject"] = json!("Something else");
        if !tags_stay {
            mail["tags"] = Json::Null;
        }
    }
    body.to_string()
}

#[tokio::test]
async fn our_message_id_makes_a_mail_a_candidate_and_its_tags_outrank_it() {
    type Rewrite = fn(String) -> String;
    let cases: [(&str, Rewrite, &str, i64); 4] = [
        ("test", |body| with_our_header(&body, "test", true), "sent", 1),
        // A copy of our database, with another environment's name, on the same account.
        ("staging", |body| with_our_header(&body, "test", true), "not_found", 1),
        ("test", |body| with_our_header(&body, "test", false), "sent", 1),
        ("test", |body| with_our_header(&body, "staging", false), "not_found", 0),
    ];
    for (number, (environment, rewrite, expected, candidates)) in cases.into_iter().enumerate() {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.mailer.fault(FaultKind::ServiceUnavailable, 1);
        world.deliver().await;
        neighbour(&world, "k", "x@example.com", "Else", &tags(&id, environment)).await;
        world.clock.advance(25 * HOUR);
        world.deliver_ids(&[&id]).await;
        ID.with(|kept| *kept.borrow_mut() = id.clone());
        world.mailer.rewrite_look_ups.set(rewrite);
        let answer = look_up(&world, &id).await;
        assert_eq!(answer.body["result"], expected, "{number}");
        assert_eq!(
            answer.body["looked"],
            json!({ "pages": 1, "candidates": candidates }),
            "{number}"
        );
        assert_eq!(world.status(&id).await == "sent", expected == "sent", "{number}");
    }
}

#[tokio::test]
async fn an_item_that_cannot_be_read_hides_no_other() {
    for rewrite in [
        (|body| body.replacen("\"data\":[", "\"data\":[{\"id\":null},", 1)) as fn(String) -> String,
        |body| {
            body.replacen(
                "\"data\":[",
                "\"data\":[null,{\"id\":\"m9\",\"created_at\":\"soon\"},",
                1,
            )
        },
        // The mail itself has no time in the list.
        |body| body.replace("2026-01-01 00:00:00.020000+00", "soon"),
    ] {
        let world = TestWorld::new().await;
        let id = unknown_row(&world).await;
        world.mailer.rewrite_look_ups.set(rewrite);
        assert_eq!(result(&world, &id).await, "sent");
    }
    // Where nothing is found, it leaves the question open.
    let world = TestWorld::new().await;
    let id = unknown_and_not_sent(&world).await;
    neighbour(&world, "k", "x@example.com", "Else", &json!([])).await;
    world
        .mailer
        .rewrite_look_ups
        .set(|body| body.replacen("\"data\":[", "\"data\":[{\"id\":null},", 1));
    assert_eq!(result(&world, &id).await, "not_conclusive");
}

#[tokio::test]
async fn a_candidate_that_cannot_be_read_hides_no_other() {
    let items = ["m1", "m2", "m3"].map(|id| {
        json!({ "id": id, "to": ["n0@example.com"], "subject": "Subject of n0",
            "created_at": "2026-01-01 00:00:00+00" })
    });
    let page = json!({ "has_more": false, "data": items });
    let ours = |world_id: &str| response(200, &json!({ "id": "m3", "tags": tags(world_id, "test") }).to_string());
    let garbled = [
        response(200, "<html>"),
        response(500, ""),
        MailAnswer::TimedOut,
        // Larger than what is read.
        MailAnswer::Response {
            status: 200,
            retry_after: None,
            body: None,
        },
    ];
    for garbled in garbled {
        let world = TestWorld::new().await;
        let id = unknown_and_not_sent(&world).await;
        let answers = [
            response(200, &page.to_string()),
            garbled,
            response(404, "{}"),
            ours(&id),
        ];
        world.mailer.look_up_answers.borrow_mut().extend(answers);
        let answer = look_up(&world, &id).await;
        assert_eq!(
            (&answer.body["result"], &answer.body["messageId"]),
            (&json!("sent"), &json!("m3"))
        );
    }
    // What concerns the account still ends it.
    for (answer, expected) in [
        (response(429, r#"{"name":"rate_limit_exceeded"}"#), "not_now"),
        (response(401, r#"{"name":"restricted_api_key"}"#), "restricted_key"),
    ] {
        let world = TestWorld::new().await;
        let id = unknown_and_not_sent(&world).await;
        let answers = [response(200, &page.to_string()), answer];
        world.mailer.look_up_answers.borrow_mut().extend(answers);
        assert_eq!(result(&world, &id).await, expected);
        assert_eq!(looked(&world).len(), 2);
    }
}

thread_local! {
    static ID: std::cell::RefCell<String> = std::cell::RefCell::default();
}

#[tokio::test]
async fn an_id_that_an_attempt_was_given_is_asked_for_first() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let message_id = "00000000-0000-4000-8000-000000000001";
    world
        .sql("UPDATE attempts SET provider_message_id = ?1", vec![message_id.into()])
        .await;
    assert_eq!(result(&world, &id).await, "sent");
    assert_eq!(looked(&world), [format!("Mail({message_id:?})")]);
}

#[tokio::test]
async fn an_accepted_answer_under_anothers_id_is_looked_up_and_stays_a_conflict() {
    let world = TestWorld::new().await;
    world.notices(1).await;
    world.deliver().await;
    // The provider errs: it gives the first mail's id to a second one.
    *world.mailer.next_id.borrow_mut() = Some("00000000-0000-4000-8000-000000000001".to_owned());
    let id = world
        .intake(&[notice_with_key("n1")])
        .await
        .unwrap()
        .receipts
        .remove(0)
        .id;
    world.deliver().await;
    assert_eq!(
        world.state(&id).await,
        ("unknown".to_owned(), "message_id_conflict".to_owned())
    );
    let known = world
        .sql(
            "SELECT provider_message_id FROM attempts WHERE outbox_id = ?1",
            vec![id.as_str().into()],
        )
        .await;
    assert_eq!(text(&known[0][0]), "00000000-0000-4000-8000-000000000001");
    let alarms = world.notes.count("message_id_conflict");
    assert_eq!(result(&world, &id).await, "message_id_conflict");
    assert_eq!(world.notes.count("message_id_conflict"), alarms + 1);
    assert_eq!(
        world.state(&id).await,
        ("unknown".to_owned(), "message_id_conflict".to_owned())
    );
    assert_eq!(
        number(&world, "SELECT look_ups FROM outbox WHERE status = 'unknown'").await,
        0,
        "a person asked"
    );
}

#[tokio::test]
async fn a_neighbour_with_the_same_recipient_and_subject_is_not_taken() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::ServiceUnavailable, 1);
    world.deliver().await;
    let (to, subject) = ("\"Ada\" <n0@example.com>", "Subject of n0");
    neighbour(&world, "k1", to, subject, &tags("ntc_000000000000000000000000", "test")).await;
    neighbour(&world, "k2", to, subject, &tags(&id, "staging")).await;
    neighbour(&world, "k3", to, subject, &json!([{ "name": "topic", "value": "x" }])).await;
    // Ours by its tag, and not among the candidates: another recipient, another subject.
    neighbour(&world, "k4", "n1@example.com", subject, &tags(&id, "test")).await;
    neighbour(&world, "k5", to, "Another subject", &tags(&id, "test")).await;
    world.clock.advance(25 * HOUR);
    world.deliver_ids(&[&id]).await;
    let answer = look_up(&world, &id).await;
    assert_eq!(answer.body["result"], "not_found");
    assert!(answer.body["why"].as_str().unwrap().contains("does not prove"));
    assert_eq!(answer.body["looked"], json!({ "pages": 1, "candidates": 3 }));
    assert_eq!(answer.body["messageId"], Json::Null);
    assert_eq!(
        world.state(&id).await,
        ("unknown".to_owned(), "provider_window_closed".to_owned())
    );
    let row = world
        .sql("SELECT look_ups, look_up_at FROM outbox", vec![])
        .await
        .remove(0);
    assert_eq!(
        integer(&row[0]),
        0,
        "a person's order does not count towards the relay's ten"
    );
    assert_eq!(integer(&row[1]), world.clock.now().plus(10 * MINUTE).get());
}

#[tokio::test]
async fn a_mail_of_another_time_is_not_looked_at() {
    let world = TestWorld::new().await;
    let (to, subject) = ("n0@example.com", "Subject of n0");
    neighbour(&world, "before", to, subject, &json!([])).await;
    world.clock.advance(HOUR);
    let id = unknown_and_not_sent(&world).await;
    neighbour(&world, "after", to, subject, &json!([])).await;
    let answer = look_up(&world, &id).await;
    assert_eq!(answer.body["result"], "not_found");
    assert_eq!(answer.body["looked"], json!({ "pages": 1, "candidates": 0 }));
}

#[tokio::test]
async fn a_candidate_that_cannot_be_told_apart_leaves_the_question_open() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::ServiceUnavailable, 1);
    world.deliver().await;
    neighbour(&world, "k1", "n0@example.com", "Subject of n0", &json!([])).await;
    world.clock.advance(25 * HOUR);
    world.deliver_ids(&[&id]).await;
    assert_eq!(result(&world, &id).await, "not_conclusive");
}

#[tokio::test]
async fn pages_are_read_back_to_the_first_attempt_and_no_further_than_five() {
    for (mails, expected, pages) in [(0, "sent", 1), (150, "sent", 2), (600, "not_conclusive", 5)] {
        let world = TestWorld::new().await;
        world.mailer.latency.set(Duration::from_millis(1));
        let id = unknown_row(&world).await;
        for count in 0..mails {
            neighbour(&world, &format!("k{count}"), "c@example.com", "Other", &json!([])).await;
        }
        let answer = look_up(&world, &id).await;
        assert_eq!(answer.body["result"], expected, "{mails}");
        assert_eq!(answer.body["looked"]["pages"], pages, "{mails}");
        assert!(looked(&world)[0].contains("after: None"));
    }
    // A mail from before the first attempt ends the reading, although more pages follow.
    let world = TestWorld::new().await;
    world.mailer.latency.set(Duration::from_millis(1));
    for count in 0..150 {
        neighbour(&world, &format!("k{count}"), "c@example.com", "Other", &json!([])).await;
    }
    world.clock.advance(HOUR);
    let id = unknown_and_not_sent(&world).await;
    let answer = look_up(&world, &id).await;
    assert_eq!(answer.body["result"], "not_found");
    assert_eq!(answer.body["looked"]["pages"], 1);
}

/// Two rows whose attempts failed at the same time: the answer of the first was lost, and so was that of the second
/// where its mail is to be an old one. The second is sent half an hour later, and many mails follow.
async fn with_a_later_mail_of_ours(second_is_old: bool) -> (TestWorld, String) {
    let world = TestWorld::new().await;
    world.mailer.latency.set(Duration::from_millis(1));
    let keys: &[&str] = if second_is_old { &["n0", "n1"] } else { &["n0"] };
    let intents: Vec<Json> = keys.iter().map(|key| notice_with_key(key)).collect();
    let mut ids: Vec<String> = Vec::new();
    for receipt in world.intake(&intents).await.unwrap().receipts {
        ids.push(receipt.id);
    }
    world.mailer.fault(FaultKind::AcceptThenDrop, -1);
    world.deliver().await;
    world.mailer.clear_faults();
    world.clock.advance(HOUR / 2);
    if !second_is_old {
        let receipt = world.intake(&[notice_with_key("n1")]).await.unwrap().receipts.remove(0);
        ids.push(receipt.id);
    }
    world.deliver_ids(&[&ids[1]]).await;
    assert_eq!(world.status(&ids[1]).await, "sent");
    for count in 0..600 {
        neighbour(&world, &format!("k{count}"), "c@example.com", "Other", &json!([])).await;
    }
    world.clock.advance(25 * HOUR);
    world.deliver_ids(&[&ids[0]]).await;
    assert_eq!(world.status(&ids[0]).await, "unknown");
    (world, ids.swap_remove(0))
}

#[tokio::test]
async fn a_long_list_is_begun_behind_a_mail_of_ours_that_is_younger() {
    let (world, id) = with_a_later_mail_of_ours(false).await;
    let answer = look_up(&world, &id).await;
    assert_eq!(answer.body["result"], "sent");
    assert_eq!(answer.body["looked"], json!({ "pages": 1, "candidates": 1 }));
    let behind = "Page { after: Some(\"00000000-0000-4000-8000-000000000002\") }";
    assert_eq!(looked(&world)[0], behind);
}

#[tokio::test]
async fn a_mail_that_may_be_older_or_is_not_known_is_no_place_to_begin_at() {
    // It was settled later, and its key was used before.
    let (world, id) = with_a_later_mail_of_ours(true).await;
    assert_eq!(result(&world, &id).await, "not_conclusive");
    assert_eq!(looked(&world)[0], "Page { after: None }");
    for unusable in [
        "UPDATE outbox SET cause = 'verdict_sent' WHERE status = 'sent'",
        "UPDATE outbox SET provider_scope = 'other' WHERE status = 'sent'",
    ] {
        let (world, id) = with_a_later_mail_of_ours(false).await;
        world.sql(unusable, Vec::new()).await;
        assert_eq!(result(&world, &id).await, "not_conclusive");
        assert_eq!(looked(&world)[0], "Page { after: None }", "{unusable}");
    }
    // The provider does not know it, does not say so, or fails: the newest page is still asked for.
    for answer in [
        response(404, r#"{"name":"not_found"}"#),
        response(422, r#"{"name":"validation_error"}"#),
        response(200, r#"{"data":[],"has_more":false}"#),
    ] {
        let (world, id) = with_a_later_mail_of_ours(false).await;
        world.mailer.look_up_answers.borrow_mut().push_back(answer);
        assert_eq!(result(&world, &id).await, "not_conclusive");
        assert_eq!(looked(&world)[1], "Page { after: None }");
        assert_eq!(looked(&world).len(), 6);
    }
}

#[tokio::test]
async fn more_than_ten_candidates_are_no_case_for_a_program() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::ServiceUnavailable, 1);
    world.deliver().await;
    let other = tags("ntc_000000000000000000000000", "test");
    for count in 0..11 {
        neighbour(&world, &format!("k{count}"), "n0@example.com", "Subject of n0", &other).await;
    }
    world.clock.advance(25 * HOUR);
    world.deliver_ids(&[&id]).await;
    let answer = look_up(&world, &id).await;
    assert_eq!(answer.body["result"], "not_conclusive");
    assert_eq!(answer.body["looked"], json!({ "pages": 1, "candidates": 10 }));
}

fn response(status: u16, body: &str) -> MailAnswer {
    MailAnswer::Response {
        status,
        retry_after: Some("120".to_owned()),
        body: Some(body.as_bytes().to_vec()),
    }
}

#[tokio::test]
async fn what_cannot_be_read_proves_nothing() {
    let cases = [
        (
            response(429, r#"{"name":"rate_limit_exceeded"}"#),
            "not_now",
            0,
            2 * MINUTE,
        ),
        (response(500, "<html>"), "not_now", 1, 10 * MINUTE),
        (response(404, r#"{"name":"not_found"}"#), "not_now", 1, 10 * MINUTE),
        (response(200, "<html>"), "not_now", 1, 10 * MINUTE),
        (
            response(200, r#"{"data":[null],"has_more":false}"#),
            "not_conclusive",
            1,
            10 * MINUTE,
        ),
        (
            response(200, r#"{"data":[],"has_more":true}"#),
            "not_conclusive",
            1,
            10 * MINUTE,
        ),
        (
            response(401, r#"{"name":"restricted_api_key"}"#),
            "restricted_key",
            0,
            10 * MINUTE,
        ),
        (MailAnswer::TimedOut, "not_now", 1, 10 * MINUTE),
        (MailAnswer::Disconnected, "not_now", 1, 10 * MINUTE),
        (
            MailAnswer::Response {
                status: 200,
                retry_after: None,
                body: None,
            },
            "not_now",
            1,
            10 * MINUTE,
        ),
    ];
    for (answer, expected, counted, wait) in cases {
        let world = TestWorld::new().await;
        let id = unknown_row(&world).await;
        let shown = format!("{answer:?}");
        world.mailer.look_up_answers.borrow_mut().push_back(answer);
        let report = by_relay(&world, &[&id], MINUTE).await.remove(0);
        assert_eq!(report.conclusion.code(), expected, "{shown}");
        assert_eq!(looked(&world).len(), 1, "{shown}: no second call");
        assert_eq!(world.status(&id).await, "unknown");
        let row = world
            .sql("SELECT look_ups, look_up_at FROM outbox", vec![])
            .await
            .remove(0);
        assert_eq!(integer(&row[0]), counted, "{shown}");
        assert_eq!(integer(&row[1]), world.clock.now().plus(wait).get(), "{shown}");
        // Another time it works.
        assert_eq!(result(&world, &id).await, "sent", "{shown}");
    }
}

#[tokio::test]
async fn a_mail_under_another_id_than_the_one_asked_for_is_no_proof() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let page = r#"{"data":[{"id":"m1","to":["n0@example.com"],"subject":"Subject of n0","created_at":"2026-01-01 00:00:00+00"}]}"#;
    let mail = json!({ "id": "m2", "tags": tags(&id, "test") }).to_string();
    world
        .mailer
        .look_up_answers
        .borrow_mut()
        .extend([response(200, page), response(200, &mail)]);
    assert_eq!(result(&world, &id).await, "not_conclusive");
}

#[tokio::test]
async fn a_key_that_may_only_send_is_named_as_such() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    world.mailer.reading_key.set("Bearer re_sending_1");
    assert_eq!(result(&world, &id).await, "restricted_key");
    assert_eq!(world.notes.count("look_up_refused"), 1);
    assert_eq!(world.status(&id).await, "unknown");
}

#[tokio::test]
async fn look_ups_take_slots_of_the_pace_and_give_back_what_they_do_not_need() {
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "1")])).await;
    let id = unknown_row(&world).await;
    let began = world.clock.now();
    let ahead = Duration::from_secs(7);
    world
        .sql(
            "UPDATE pace SET next_free_at = ?1",
            vec![began.plus(ahead).get().into()],
        )
        .await;
    assert_eq!(result(&world, &id).await, "sent");
    let times: Vec<i64> = world.mailer.looked_up.borrow().iter().map(|(at, _)| *at).collect();
    let slot = |seconds: u64| began.plus(Duration::from_secs(seconds)).get();
    assert_eq!(times, [slot(7), slot(8)], "at their slots");
    assert_eq!(number(&world, "SELECT next_free_at FROM pace").await, slot(9));
    // While it ran, nobody else could have had its slots; behind them, what was taken stays taken.
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "1")])).await;
    let id = unknown_row(&world).await;
    let free = world.clock.now().plus(Duration::from_secs(500)).get();
    let engine = world.transport.clone();
    assert_eq!(engine.take_requests(), 0);
    let (answer, ()) = tokio::join!(look_up(&world, &id), async {
        while world.mailer.looked_up.borrow().is_empty() {
            tokio::task::yield_now().await;
        }
        world.sql("UPDATE pace SET next_free_at = ?1", vec![free.into()]).await;
    });
    assert_eq!(answer.body["result"], "sent");
    assert_eq!(number(&world, "SELECT next_free_at FROM pace").await, free);
}

#[tokio::test]
async fn where_the_pace_has_no_slot_in_time_nobody_is_called() {
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "1")])).await;
    let id = unknown_row(&world).await;
    let free = world.clock.now().plus(Duration::from_secs(31)).get();
    world.sql("UPDATE pace SET next_free_at = ?1", vec![free.into()]).await;
    assert_eq!(result(&world, &id).await, "not_now");
    world.clock.advance(10 * MINUTE);
    let free = world.clock.now().plus(Duration::from_secs(31)).get();
    world.sql("UPDATE pace SET next_free_at = ?1", vec![free.into()]).await;
    let report = by_relay(&world, &[&id], MINUTE).await.remove(0);
    assert_eq!(report.conclusion.code(), "not_now");
    assert!(looked(&world).is_empty());
    assert_eq!(number(&world, "SELECT next_free_at FROM pace").await, free);
    assert_eq!(number(&world, "SELECT look_ups FROM outbox").await, 0);
}

#[tokio::test]
async fn a_row_that_does_not_ask_is_not_looked_up() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    let refused = look_up(&world, &id).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("not_unknown")));
    assert_eq!(refused.body["intentStatus"], "enqueued");
    assert_eq!(look_up(&world, "ntc_000000000000000000000000").await.status, 404);
    assert_eq!(look_up(&world, "x").await.status, 404);
    assert!(looked(&world).is_empty());
}

#[tokio::test]
async fn a_verdict_that_comes_between_yields_to_proof() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let verdict = json!({ "verdict": "not_sent", "note": "n" });
    let path = format!("/v1/unknown/{id}/resolve");
    let (answer, ()) = tokio::join!(look_up(&world, &id), async {
        while world.mailer.looked_up.borrow().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(order(&world, &path, &verdict).await.status, 200);
    });
    assert_eq!(answer.body["result"], "sent");
    assert_eq!(world.state(&id).await, ("sent".to_owned(), "look_up_found".to_owned()));
}

#[tokio::test]
async fn a_lost_answer_leaves_the_row_for_the_next_look() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    world.transport.next(Wire::LoseAnswer);
    assert_eq!(look_up(&world, &id).await.status, 503);
    assert!(looked(&world).is_empty(), "nothing was called");
    assert_eq!(result(&world, &id).await, "sent");
}

fn reading() -> sealpost::config::Config {
    config_with(&[("RESEND_READ_KEY", "re_full")])
}

#[tokio::test]
async fn the_relay_looks_up_one_row_a_tick_where_a_key_may_read() {
    let without = TestWorld::new().await;
    unknown_row(&without).await;
    without.run_for(HOUR, MINUTE).await;
    assert!(looked(&without).is_empty(), "no key, no look-up");

    let world = TestWorld::with(reading()).await;
    let ids = unknown_rows(&world, 2).await;
    world.tick().await;
    let states = |list: Vec<(String, String)>| list.into_iter().map(|(status, _)| status).collect::<Vec<_>>();
    let mut seen = Vec::new();
    for id in &ids {
        seen.push(world.state(id).await);
    }
    assert_eq!(states(seen), ["sent", "unknown"]);
    world.tick().await;
    assert_eq!(
        world.state(&ids[1]).await,
        ("sent".to_owned(), "look_up_found".to_owned())
    );
    assert_eq!(
        number(&world, "SELECT count(*) FROM operator_log").await,
        0,
        "nobody gave an order"
    );
    world.transport.take_requests();
    world.tick().await;
    let quiet = world.transport.take_requests();
    let plain = TestWorld::new().await;
    plain.tick().await;
    assert_eq!(
        quiet,
        plain.transport.take_requests() + 1,
        "a tick without work asks once"
    );
}

#[tokio::test]
async fn a_look_up_that_asked_nobody_about_a_row_does_not_count() {
    let world = TestWorld::with(reading()).await;
    let ids = unknown_rows(&world, 2).await;
    for _ in 0..12 {
        world.clock.advance(25 * HOUR);
        let reports = by_relay(&world, &[&ids[0]], Duration::from_secs(1)).await;
        assert_eq!(reports[0].conclusion.code(), "not_conclusive");
    }
    assert!(looked(&world).is_empty());
    assert_eq!(number(&world, "SELECT max(look_ups) FROM outbox").await, 0);
    // The first row takes the time that there is: only that one was asked about.
    world.clock.advance(25 * HOUR);
    world
        .mailer
        .look_up_answers
        .borrow_mut()
        .push_back(MailAnswer::TimedOut);
    world.mailer.latency.set(Duration::from_secs(10));
    let reports = by_relay(&world, &[&ids[0], &ids[1]], Duration::from_secs(15)).await;
    let results: Vec<&str> = reports.iter().map(|report| report.conclusion.code()).collect();
    assert_eq!(results, ["not_now", "not_conclusive"]);
    assert_eq!(looked(&world).len(), 1);
    let rows = world
        .sql("SELECT look_ups, look_up_at FROM outbox ORDER BY seq", vec![])
        .await;
    assert_eq!([integer(&rows[0][0]), integer(&rows[1][0])], [1, 0]);
    assert_eq!(integer(&rows[1][1]), world.clock.now().plus(10 * MINUTE).get());
}

#[tokio::test]
async fn a_row_that_says_too_little_to_be_asked_about_is_in_nobodys_way() {
    let world = TestWorld::with(reading()).await;
    let ids = unknown_rows(&world, 2).await;
    let gone = "UPDATE seals SET body = 'gone' WHERE outbox_id = ?1";
    world.sql(gone, vec![ids[0].as_str().into()]).await;
    world.tick().await;
    assert!(looked(&world).is_empty());
    let row = world
        .sql("SELECT look_ups, look_up_at FROM outbox ORDER BY seq", vec![])
        .await
        .remove(0);
    assert_eq!(integer(&row[0]), 0);
    assert_eq!(integer(&row[1]), world.clock.now().plus(24 * HOUR).get());
    world.tick().await;
    assert_eq!(world.status(&ids[1]).await, "sent");
}

#[tokio::test]
async fn the_relay_keeps_six_slots_of_the_pace_from_mails_and_no_more() {
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "1"), ("RESEND_READ_KEY", "re_full")])).await;
    world.mailer.latency.set(Duration::from_millis(1));
    unknown_rows(&world, 2).await;
    for count in 0..600 {
        neighbour(&world, &format!("k{count}"), "c@example.com", "Other", &json!([])).await;
    }
    world.clock.advance(MINUTE);
    let began = world.clock.now();
    let free = "SELECT next_free_at FROM pace";
    let (_, taken) = tokio::join!(world.tick(), async {
        while looked(&world).is_empty() {
            tokio::task::yield_now().await;
        }
        number(&world, free).await
    });
    assert_eq!(taken, began.plus(Duration::from_secs(6)).get());
    assert_eq!(looked(&world).len(), 5, "the last call is kept for a candidate");
    assert_eq!(number(&world, free).await, began.plus(Duration::from_secs(5)).get());
    assert_eq!(number(&world, "SELECT sum(look_ups) FROM outbox").await, 1);
}

#[tokio::test]
async fn the_relay_waits_longer_each_time_and_gives_up_after_ten() {
    let world = TestWorld::with(reading()).await;
    let id = unknown_and_not_sent(&world).await;
    let mut times = Vec::new();
    for count in 1..=10 {
        world.tick().await;
        assert_eq!(looked(&world).len(), count);
        times.push(world.clock.now().get() / 60_000);
        let due_at = number(&world, "SELECT look_up_at FROM outbox").await;
        if count < 10 {
            let wait = Duration::from_millis(u64::try_from(due_at - world.clock.now().get()).unwrap());
            world.clock.advance(wait - Duration::from_secs(1));
            world.tick().await;
            assert_eq!(looked(&world).len(), count, "not before it is due");
            world.clock.advance(Duration::from_secs(1));
        }
    }
    let waits: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_280, 1_440], "in minutes");
    assert_eq!(number(&world, "SELECT look_ups FROM outbox").await, 10);
    // A person may still ask, and the relay stays away.
    assert_eq!(result(&world, &id).await, "not_found");
    let before = looked(&world).len();
    world.run_for(72 * HOUR, 12 * HOUR).await;
    assert_eq!(looked(&world).len(), before);
}

#[tokio::test]
async fn a_key_that_may_not_read_ends_the_look_up_for_every_row() {
    let world = TestWorld::with(reading()).await;
    let ids = unknown_rows(&world, 2).await;
    world.mailer.reading_key.set("Bearer re_sending_1");
    by_relay(&world, &[&ids[0], &ids[1]], MINUTE).await;
    assert_eq!(looked(&world).len(), 1, "one refusal says enough");
    assert!(world.notes.count("look_up_refused") >= 1);
    assert_eq!(number(&world, "SELECT max(look_ups) FROM outbox").await, 0);
    world.mailer.reading_key.set("Bearer re_full");
    world.run_for(HOUR, MINUTE).await;
    assert_eq!(world.count("sent").await, 2, "once the key may read, they are found");
}

#[tokio::test]
async fn look_ups_stay_within_the_requests_of_an_invocation() {
    let world = TestWorld::with(config_with(&[
        ("RESEND_READ_KEY", "re_full"),
        ("SUBREQUEST_BUDGET", "12"),
    ]))
    .await;
    let ids = unknown_rows(&world, 2).await;
    world.transport.take_requests();
    world.tick().await;
    let used = world.transport.take_requests() + looked(&world).len();
    assert!(used <= 12, "{used} requests");
    assert_eq!(world.status(&ids[0]).await, "sent");
    let least = TestWorld::with(config_with(&[
        ("RESEND_READ_KEY", "re_full"),
        ("SUBREQUEST_BUDGET", "9"),
    ]))
    .await;
    unknown_rows(&least, 1).await;
    least.transport.take_requests();
    least.tick().await;
    assert!(least.transport.take_requests() + looked(&least).len() <= 9);
}

#[tokio::test]
async fn two_ticks_at_once_do_not_look_up_the_same_row_twice() {
    let world = TestWorld::with(reading()).await;
    unknown_and_not_sent(&world).await;
    let (_, _) = tokio::join!(world.tick(), world.tick());
    assert_eq!(looked(&world).len(), 1);
    assert_eq!(number(&world, "SELECT look_ups FROM outbox").await, 1);
}

#[tokio::test]
async fn a_tick_that_dies_in_a_look_up_leaves_the_row_to_a_later_one() {
    let world = TestWorld::with(reading()).await;
    let id = unknown_row(&world).await;
    let died = crate::support::die_when(|| !world.mailer.looked_up.borrow().is_empty(), world.tick()).await;
    assert!(died.is_none());
    assert_eq!(world.status(&id).await, "unknown");
    world.tick().await;
    assert_eq!(looked(&world).len(), 1, "put off");
    world.clock.advance(11 * MINUTE);
    world.tick().await;
    assert_eq!(world.status(&id).await, "sent");
}
