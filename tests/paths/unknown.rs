//! The quarantine and its verdicts: what a person says about an outcome that nobody knows is carried out once, is
//! written down, and yields to evidence.

use std::time::Duration;

use libsql::Value;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::operate::{Answer, Request, answer};
use sealpost::ports::Clock as _;
use sealpost::publish::publish_after_intake;
use serde_json::{Value as Json, json};

use super::doors::{OPERATOR, PRODUCER, get};
use crate::support::{TestWorld, Wire, integer, notice_with_key, text};

const HOUR: Duration = Duration::from_secs(3_600);

/// So many rows whose mails were accepted, whose answers were lost, and whose keys the provider has forgotten since.
pub(crate) async fn unknown_rows(world: &TestWorld, count: usize) -> Vec<String> {
    let ids = world.notices(count).await;
    world.mailer.fault(FaultKind::AcceptThenDrop, -1);
    world.deliver().await;
    world.mailer.clear_faults();
    world.clock.advance(25 * HOUR);
    let list: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.deliver_ids(&list).await;
    assert_eq!(world.count("unknown").await, i64::try_from(count).unwrap());
    world.transport.take_requests();
    ids
}

pub(crate) async fn unknown_row(world: &TestWorld) -> String {
    unknown_rows(world, 1).await.remove(0)
}

/// An operator's order; what it makes is published after the answer, as the Worker does.
pub(crate) async fn order(world: &TestWorld, path: &str, body: &Json) -> Answer {
    let body = body.to_string();
    let request = Request {
        method: "POST",
        path,
        authorization: Some(OPERATOR),
        content_type: Some("application/json"),
        body: Some(body.as_bytes()),
        ..Request::default()
    };
    let answer = answer(world, &world.config, &request).await;
    publish_after_intake(world, &world.broker, &world.config, &answer.to_publish).await;
    answer
}

async fn resolve(world: &TestWorld, id: &str, body: &Json) -> Answer {
    order(world, &format!("/v1/unknown/{id}/resolve"), body).await
}

fn sent(message_id: &str) -> Json {
    json!({ "verdict": "sent", "messageId": message_id, "note": "seen in the provider's dashboard" })
}

fn not_sent() -> Json {
    json!({ "verdict": "not_sent", "note": "the provider's support says so" })
}

fn send_again() -> Json {
    json!({ "verdict": "send_again", "note": "the recipient has nothing" })
}

fn code(answer: &Answer) -> (u16, Option<&str>) {
    (answer.status, answer.body["code"].as_str())
}

async fn quarantine(world: &TestWorld, query: &'static str) -> Json {
    let request = Request {
        method: "GET",
        path: "/v1/unknown",
        query: Some(query),
        authorization: Some(OPERATOR),
        ..Request::default()
    };
    let answer = answer(world, &world.config, &request).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    answer.body
}

/// Everything that tells of a change.
async fn prints(world: &TestWorld) -> Vec<Vec<Value>> {
    let mut all = Vec::new();
    for sql in [
        "SELECT * FROM outbox",
        "SELECT * FROM attempts",
        "SELECT * FROM events",
        "SELECT * FROM letters",
        "SELECT * FROM operator_log",
    ] {
        all.extend(world.sql(sql, vec![]).await);
    }
    all
}

async fn causes(world: &TestWorld, id: &str) -> Vec<String> {
    let rows = world
        .sql(
            "SELECT cause FROM events WHERE outbox_id = ?1 ORDER BY seq",
            vec![id.into()],
        )
        .await;
    rows.iter().map(|row| text(&row[0])).collect()
}

/// Action, subject, result and note of every line of the operators' log.
async fn log(world: &TestWorld) -> Vec<[String; 4]> {
    let rows = world
        .sql(
            "SELECT action, subject, result, note, operator FROM operator_log ORDER BY seq",
            vec![],
        )
        .await;
    rows.iter()
        .map(|row| {
            assert_eq!(text(&row[4]), "06e55b63", "the beginning of the token's hash");
            [text(&row[0]), text(&row[1]), text(&row[2]), text(&row[3])]
        })
        .collect()
}

#[tokio::test]
async fn the_quarantine_lists_what_asks_page_by_page_and_without_personal_data() {
    let world = TestWorld::new().await;
    let ids = unknown_rows(&world, 3).await;
    let page = quarantine(&world, "limit=2").await;
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    let item = &items[0];
    assert_eq!(item["id"], ids[0].as_str());
    assert_eq!(item["family"], "notice");
    assert_eq!(item["cause"], "provider_window_closed");
    assert_eq!(
        (&item["doubts"], &item["attemptCount"], &item["lookUps"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(item["firstDoubtAt"], "2026-01-01T00:00:00.000Z");
    assert_eq!(item["since"], "2026-01-02T01:00:00.020Z");
    assert_eq!(item["lookUpAt"], Json::Null);
    let query: &'static str = format!("after={}", page["next"].as_str().unwrap()).leak();
    let rest = quarantine(&world, query).await;
    assert_eq!(rest["items"][0]["id"], ids[2].as_str());
    assert_eq!(rest["next"], Json::Null);
    let shown = format!("{page}{rest}");
    assert!(!shown.contains('@') && !shown.contains("Subject"), "{shown}");
    // Who is decided about no longer asks.
    assert_eq!(resolve(&world, &ids[0], &not_sent()).await.status, 200);
    assert_eq!(resolve(&world, &ids[1], &send_again()).await.status, 202);
    assert_eq!(quarantine(&world, "").await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn only_operators_get_in_and_wrong_orders_are_refused() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let before = prints(&world).await;
    assert_eq!(
        code(&get(&world, "/v1/unknown", Some(PRODUCER)).await),
        (401, Some("token_required"))
    );
    for (query, status) in [
        ("limit=0", 422),
        ("limit=101", 422),
        ("after=x", 422),
        ("limit=100", 200),
    ] {
        let request = Request {
            method: "GET",
            path: "/v1/unknown",
            query: Some(query),
            authorization: Some(OPERATOR),
            ..Request::default()
        };
        assert_eq!(answer(&world, &world.config, &request).await.status, status, "{query}");
    }
    let long = "x".repeat(1_001);
    let cases = [
        (json!({}), "order_invalid"),
        (json!({ "verdict": "not_sent" }), "order_invalid"),
        (json!({ "verdict": "maybe", "note": "n" }), "order_invalid"),
        (
            json!({ "verdict": "not_sent", "note": "n", "force": true }),
            "order_invalid",
        ),
        (json!({ "verdict": "not_sent", "note": "" }), "note_required"),
        (json!({ "verdict": "not_sent", "note": "  " }), "note_required"),
        (json!({ "verdict": "not_sent", "note": long }), "note_too_long"),
        (json!({ "verdict": "sent", "note": "n" }), "message_id_invalid"),
        (
            json!({ "verdict": "sent", "note": "n", "messageId": "a b" }),
            "message_id_invalid",
        ),
        (
            json!({ "verdict": "sent", "note": "n", "messageId": ".." }),
            "message_id_invalid",
        ),
        (
            json!({ "verdict": "sent", "note": "n", "messageId": "" }),
            "message_id_invalid",
        ),
        (
            json!({ "verdict": "not_sent", "note": "n", "messageId": "m1" }),
            "message_id_invalid",
        ),
        (
            json!({ "verdict": "send_again", "note": "n", "messageId": "m1" }),
            "message_id_invalid",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(
            code(&resolve(&world, &id, &body).await),
            (422, Some(expected)),
            "{body}"
        );
    }
    for stranger in ["ntc_000000000000000000000000", "nobody", "ntc-00000000", "a b"] {
        for body in [sent("m1"), not_sent(), send_again()] {
            let answer = resolve(&world, stranger, &body).await;
            assert_eq!(code(&answer), (404, Some("no_such_intent")), "{stranger}");
        }
    }
    assert_eq!(prints(&world).await, before);
    assert_eq!(
        resolve(
            &world,
            &id,
            &json!({ "verdict": "not_sent", "note": "ü".repeat(1_000) })
        )
        .await
        .status,
        200
    );
}

#[tokio::test]
async fn sent_needs_a_message_id_and_the_same_word_again_is_no_error() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let answer = resolve(&world, &id, &sent("msg-1")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.body,
        json!({ "id": id, "status": "sent", "messageId": "msg-1", "duplicate": false })
    );
    assert_eq!(world.transport.take_requests(), 1, "one round trip");
    assert_eq!(world.state(&id).await, ("sent".to_owned(), "verdict_sent".to_owned()));
    let row = world
        .sql("SELECT provider_message_id, settled_at, last_error FROM outbox", vec![])
        .await
        .remove(0);
    assert_eq!(text(&row[0]), "msg-1");
    assert_eq!(integer(&row[1]), world.clock.now().get());
    assert_eq!(row[2], Value::Null);
    let before = prints(&world).await;
    let again = resolve(&world, &id, &sent("msg-1")).await;
    assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)));
    for other in [sent("msg-2"), not_sent(), send_again()] {
        let refused = resolve(&world, &id, &other).await;
        assert_eq!(code(&refused), (409, Some("not_unknown")));
        assert_eq!(refused.body["intentStatus"], "sent");
        assert_eq!(refused.body["cause"], "verdict_sent");
    }
    assert_eq!(prints(&world).await, before, "nothing more was written");
    let note = "seen in the provider's dashboard".to_owned();
    assert_eq!(
        log(&world).await,
        [["unknown_resolve".to_owned(), id, "sent".to_owned(), note]]
    );
    assert!(!world.notes.text().contains('@'));
}

#[tokio::test]
async fn a_message_id_of_another_row_is_no_proof_of_this_one() {
    let world = TestWorld::new().await;
    let ids = unknown_rows(&world, 2).await;
    assert_eq!(resolve(&world, &ids[0], &sent("msg-1")).await.status, 200);
    let before = prints(&world).await;
    let refused = resolve(&world, &ids[1], &sent("msg-1")).await;
    assert_eq!(code(&refused), (409, Some("message_id_conflict")));
    assert_eq!(prints(&world).await, before);
    assert_eq!(resolve(&world, &ids[1], &sent("msg-2")).await.status, 200);
}

#[tokio::test]
async fn not_sent_rules_the_doubts_out_and_ends_the_row() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let answer = resolve(&world, &id, &not_sent()).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("failed")));
    assert_eq!(
        world.state(&id).await,
        ("failed".to_owned(), "verdict_not_sent".to_owned())
    );
    let row = world
        .sql("SELECT doubts, settled_at FROM outbox", vec![])
        .await
        .remove(0);
    assert_eq!(integer(&row[0]), 0);
    assert_eq!(integer(&row[1]), world.clock.now().get());
    let rows = world.sql("SELECT ruled_out_at FROM attempts", vec![]).await;
    assert_eq!(integer(&rows[0][0]), world.clock.now().get());
    let again = resolve(&world, &id, &not_sent()).await;
    assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)));
    for other in [sent("m1"), send_again()] {
        let refused = resolve(&world, &id, &other).await;
        assert_eq!(code(&refused), (409, Some("not_unknown")));
        assert_eq!(refused.body["intentStatus"], "failed");
    }
    assert_eq!(log(&world).await.len(), 1);
    world.run_for(48 * HOUR, HOUR).await;
    assert_eq!(world.mailer.calls(), 1, "nothing sends it again");
}

#[tokio::test]
async fn an_answer_that_comes_after_not_sent_still_proves_the_mail() {
    for fault in [None, Some(FaultKind::BadGatewayHtml)] {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.mailer.hold_next.set(true);
        if let Some(fault) = fault {
            world.mailer.fault(fault, 1);
        }
        let body = world.broker.take().remove(0).body;
        let late = world.deliver_bodies(std::slice::from_ref(&body));
        let meanwhile = async {
            while world.mailer.calls() == 0 {
                tokio::task::yield_now().await;
            }
            world.clock.advance(25 * HOUR);
            world.deliver_ids(&[&id]).await;
            assert_eq!(world.status(&id).await, "unknown");
            assert_eq!(resolve(&world, &id, &not_sent()).await.status, 200);
            assert_eq!(world.status(&id).await, "failed");
            world.mailer.let_go.set(true);
        };
        tokio::join!(late, meanwhile);
        let expected = match fault {
            None => ("sent", "accepted"),
            // No proof: the attempt is closed as ambiguous, and stays ruled out.
            Some(_) => ("failed", "verdict_not_sent"),
        };
        let (status, cause) = world.state(&id).await;
        assert_eq!((status.as_str(), cause.as_str()), expected);
        let rows = world.sql("SELECT closed_at IS NULL FROM attempts", vec![]).await;
        assert_eq!(integer(&rows[0][0]), 0, "the attempt is closed by its own id");
    }
}

#[tokio::test]
async fn send_again_makes_one_more_mail_of_the_same_letter_under_the_next_key() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let answer = resolve(&world, &id, &send_again()).await;
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    let new = answer.body["id"].as_str().unwrap().to_owned();
    assert_ne!(new, id);
    assert!(new.starts_with("ntc_") && new.len() == id.len());
    assert_eq!(answer.body["mayDuplicate"], true);
    assert_eq!(answer.body["resendOf"], id.as_str());
    assert_eq!(
        (&answer.body["duplicate"], &answer.body["status"]),
        (&json!(false), &json!("pending"))
    );
    // Nobody knows more of the first mail than before.
    assert_eq!(world.state(&id).await, ("unknown".to_owned(), "sent_again".to_owned()));
    assert_eq!(causes(&world, &id).await.last().unwrap(), "sent_again");
    assert_eq!(causes(&world, &new).await, ["sent_again", "published"]);
    let rows = world
        .sql(
            "SELECT old.resolved_at, new.resend, new.resend_of, old.idempotency_key, new.idempotency_key,
               old.fingerprint = new.fingerprint AND old.recipient_hash = new.recipient_hash
                 AND old.revision = new.revision AND old.letter_bytes = new.letter_bytes
             FROM outbox old, outbox new WHERE old.id = ?1 AND new.id = ?2",
            vec![id.as_str().into(), new.as_str().into()],
        )
        .await;
    let row = &rows[0];
    assert_eq!(integer(&row[0]), world.clock.now().get());
    assert_eq!((integer(&row[1]), text(&row[2])), (1, id.clone()));
    let (old_key, new_key) = (text(&row[3]), text(&row[4]));
    assert_eq!(old_key.strip_suffix("-0").unwrap(), new_key.strip_suffix("-1").unwrap());
    assert_eq!(integer(&row[5]), 1);
    world.deliver().await;
    assert_eq!(world.status(&new).await, "sent");
    assert_eq!(world.mailer.accepted(), 2, "exactly one more");
    let model = world.mailer.model.borrow();
    let mails: Vec<_> = model.ledger().sent().iter().collect();
    assert_eq!(mails[0].idempotency_key.as_deref(), Some(old_key.as_str()));
    assert_eq!(mails[1].idempotency_key.as_deref(), Some(new_key.as_str()));
    assert_eq!(mails[0].mail.to, mails[1].mail.to);
    assert_eq!(mails[0].mail.subject, mails[1].mail.subject);
    assert_eq!(mails[0].mail.text, mails[1].mail.text);
}

#[tokio::test]
async fn a_second_click_finds_what_the_first_one_made() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let verdict = send_again();
    let (one, other) = tokio::join!(resolve(&world, &id, &verdict), resolve(&world, &id, &verdict));
    let mut both = [one, other];
    both.sort_by_key(|answer| answer.status);
    assert_eq!(both.each_ref().map(|answer| answer.status), [200, 202]);
    assert_eq!(both[0].body["id"], both[1].body["id"]);
    assert_eq!(both[0].body["duplicate"], true);
    assert_eq!(both[0].body["mayDuplicate"], true);
    let third = resolve(&world, &id, &verdict).await;
    assert_eq!((third.status, &third.body["id"]), (200, &both[1].body["id"]));
    for other in [sent("m1"), not_sent()] {
        let refused = resolve(&world, &id, &other).await;
        assert_eq!(code(&refused), (409, Some("not_unknown")));
        assert_eq!(refused.body["intentStatus"], "unknown");
        assert_eq!(refused.body["cause"], "sent_again");
    }
    assert_eq!(world.broker.len(), 1, "published once");
    world.deliver().await;
    world.run_for(2 * HOUR, HOUR).await;
    assert_eq!(world.mailer.accepted(), 2);
    assert_eq!(log(&world).await.len(), 1, "one order was carried out");
}

#[tokio::test]
async fn a_lost_answer_is_never_repeated_by_the_program_and_the_order_finds_its_result() {
    for (verdict, status) in [(sent("m1"), "sent"), (not_sent(), "failed"), (send_again(), "unknown")] {
        let world = TestWorld::new().await;
        let id = unknown_row(&world).await;
        world.transport.next(Wire::LoseAnswer);
        let lost = resolve(&world, &id, &verdict).await;
        assert_eq!(code(&lost), (503, Some("database_ambiguous")), "{verdict}");
        assert!(lost.to_publish.is_empty());
        assert_eq!(world.status(&id).await, status);
        let again = resolve(&world, &id, &verdict).await;
        assert_eq!(
            (again.status, &again.body["duplicate"]),
            (200, &json!(true)),
            "{verdict}"
        );
        assert_eq!(log(&world).await.len(), 1);
        if status == "unknown" {
            // Whoever publishes died with the answer: the relay takes over.
            assert_eq!(world.broker.len(), 0);
            world.run_for(HOUR, Duration::from_secs(60)).await;
            assert_eq!(world.status(again.body["id"].as_str().unwrap()).await, "sent");
            assert_eq!(world.mailer.accepted(), 2);
        }
    }
}

#[tokio::test]
async fn what_is_sent_again_and_becomes_unknown_can_be_sent_again() {
    let world = TestWorld::new().await;
    let first = unknown_row(&world).await;
    let second = resolve(&world, &first, &send_again()).await.body["id"]
        .as_str()
        .unwrap()
        .to_owned();
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    world.clock.advance(25 * HOUR);
    world.deliver_ids(&[&second]).await;
    assert_eq!(world.status(&second).await, "unknown");
    let listed = quarantine(&world, "").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(listed["items"][0]["resendOf"], first.as_str());
    let third = resolve(&world, &second, &send_again()).await;
    assert_eq!(third.status, 202);
    assert_eq!(third.body["resendOf"], second.as_str());
    let rows = world
        .sql("SELECT idempotency_key, resend FROM outbox ORDER BY seq", vec![])
        .await;
    let ends: Vec<String> = rows
        .iter()
        .map(|row| text(&row[0]).rsplit('-').next().unwrap().to_owned())
        .collect();
    assert_eq!(ends, ["0", "1", "2"]);
    assert_eq!(integer(&rows[2][1]), 2);
    // The first one's second click still finds the first one's row.
    assert_eq!(resolve(&world, &first, &send_again()).await.body["id"], second.as_str());
}

#[tokio::test]
async fn the_tenth_resend_keeps_its_key_apart() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let ninth = "UPDATE outbox SET resend = 9, idempotency_key = 'sealpost-abc-9'";
    world.sql(ninth, vec![]).await;
    let new = resolve(&world, &id, &send_again()).await.body["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let rows = world
        .sql(
            "SELECT idempotency_key FROM outbox WHERE id = ?1",
            vec![new.as_str().into()],
        )
        .await;
    assert_eq!(text(&rows[0][0]), "sealpost-abc-10");
}

#[tokio::test]
async fn an_intake_that_is_repeated_still_answers_with_the_first_row() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    assert_eq!(resolve(&world, &id, &send_again()).await.status, 202);
    world.deliver().await;
    for _ in 0..2 {
        let accepted = world.intake(&[notice_with_key("n0")]).await.unwrap();
        assert_eq!(accepted.receipts[0].id, id);
        assert!(accepted.receipts[0].duplicate);
        assert!(accepted.to_publish.is_empty());
        world.clock.advance(400 * 24 * HOUR);
    }
    assert_eq!(world.mailer.accepted(), 2);
}

#[tokio::test]
async fn without_a_letter_nothing_can_be_sent_again() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    world.sql("DELETE FROM letters", vec![]).await;
    let before = prints(&world).await;
    let refused = resolve(&world, &id, &send_again()).await;
    assert_eq!(code(&refused), (409, Some("letter_gone")));
    assert_eq!(prints(&world).await, before);
    assert_eq!(
        resolve(&world, &id, &not_sent()).await.status,
        200,
        "the other verdicts need none"
    );
}

#[tokio::test]
async fn what_is_sent_again_obeys_suppressions_and_windows_like_any_other() {
    for (stop, status) in [
        (
            "INSERT INTO suppressions (recipient_hash, family, reason, created_at)
             SELECT recipient_hash, '*', 'complained', 0 FROM outbox",
            "suppressed",
        ),
        ("UPDATE outbox SET not_after = updated_at", "expired"),
    ] {
        let world = TestWorld::new().await;
        let id = unknown_row(&world).await;
        world.sql(stop, vec![]).await;
        let new = resolve(&world, &id, &send_again()).await.body["id"]
            .as_str()
            .unwrap()
            .to_owned();
        world.deliver().await;
        assert_eq!(world.status(&new).await, status);
        assert_eq!(world.mailer.accepted(), 1);
    }
}

#[tokio::test]
async fn proof_of_the_first_mail_lifts_its_row_also_after_it_was_sent_again() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.hold_next.set(true);
    let body = world.broker.take().remove(0).body;
    let late = world.deliver_bodies(std::slice::from_ref(&body));
    let meanwhile = async {
        while world.mailer.calls() == 0 {
            tokio::task::yield_now().await;
        }
        world.clock.advance(25 * HOUR);
        world.deliver_ids(&[&id]).await;
        assert_eq!(resolve(&world, &id, &send_again()).await.status, 202);
        world.mailer.let_go.set(true);
    };
    tokio::join!(late, meanwhile);
    assert_eq!(world.state(&id).await, ("sent".to_owned(), "accepted".to_owned()));
    let rows = world.sql("SELECT provider_message_id FROM attempts", vec![]).await;
    assert!(
        text(&rows[0][0]).starts_with("0000"),
        "the attempt keeps what it was answered"
    );
}
