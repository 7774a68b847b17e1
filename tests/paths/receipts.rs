//! What the provider says: signed events become proof, delivery news and suppressions, in any order, once.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::devstack::provider::webhook::sign;
use sealpost::operate::{Answer, Request, answer};
use sealpost::ports::Clock as _;
use sealpost::receipts::SignatureHeaders;
use serde_json::{Map, Value as Json, json};

use super::doors::{PRODUCER, get};
use crate::support::{TestWorld, Wire, integer, notice_with_key, order, text};

/// The secret in the settings of the tests.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Posts a signed event.
pub(crate) async fn post_event(world: &TestWorld, event_id: &str, body: &str) -> Answer {
    let now_s = world.clock.now().get().div_euclid(1_000);
    let signature = sign(SECRET, event_id, now_s, body).expect("it signs");
    let timestamp = now_s.to_string();
    let request = Request {
        method: "POST",
        path: "/v1/receipts/resend",
        content_type: Some("application/json"),
        signature: SignatureHeaders {
            id: Some(event_id),
            timestamp: Some(&timestamp),
            signature: Some(&signature),
        },
        body: Some(body.as_bytes()),
        ..Request::default()
    };
    answer(world, &world.config, &request).await
}

/// What the provider model says about a mail it accepted.
pub(crate) fn event(world: &TestWorld, message_id: &str, kind: &str, extra: &Json) -> String {
    let extra: Map<String, Json> = extra.as_object().cloned().unwrap_or_default();
    let mut model = world.mailer.model.borrow_mut();
    model
        .event(world.clock.now(), message_id, kind, extra)
        .expect("the model knows the mail")
}

/// Posts what the provider model says, and expects that it is taken.
pub(crate) async fn hear(world: &TestWorld, event_id: &str, message_id: &str, kind: &str, extra: Json) -> String {
    let body = event(world, message_id, kind, &extra);
    let answer = post_event(world, event_id, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["result"].as_str().expect("a result").to_owned()
}

/// The ids of the mails that the provider accepted, oldest first.
pub(crate) fn message_ids(world: &TestWorld) -> Vec<String> {
    let model = world.mailer.model.borrow();
    model.ledger().sent().iter().map(|sent| sent.id.clone()).collect()
}

async fn column(world: &TestWorld, sql: &'static str, id: &str) -> String {
    let rows = world.sql(sql, vec![id.into()]).await;
    rows.first().map_or_else(|| "no row".to_owned(), |row| text(&row[0]))
}

async fn delivery(world: &TestWorld, id: &str) -> String {
    column(world, "SELECT delivery FROM outbox WHERE id = ?1", id).await
}

async fn count(world: &TestWorld, sql: &'static str) -> i64 {
    integer(&world.sql(sql, Vec::new()).await[0][0])
}

/// A world with one mail that the provider accepted and that we know of.
async fn one_sent() -> (TestWorld, String, String) {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
    let message_id = message_ids(&world).remove(0);
    (world, id, message_id)
}

#[tokio::test]
async fn delivery_news_is_one_round_trip_and_shows_in_the_story() {
    let (world, id, mail) = one_sent().await;
    world.transport.take_requests();
    assert_eq!(
        hear(&world, "msg_1", &mail, "email.delivered", json!({})).await,
        "heard"
    );
    assert_eq!(world.transport.take_requests(), 1, "one transaction");
    assert_eq!(delivery(&world, &id).await, "delivered");
    assert_eq!(world.status(&id).await, "sent");
    let story = get(&world, &format!("/v1/intents/{id}"), Some(PRODUCER)).await;
    assert_eq!(story.body["delivery"], "delivered");
    assert_eq!(story.body["receipts"][0]["news"], "delivered");
    let events = story.body["events"].as_array().expect("events");
    let last = events.last().expect("one");
    assert_eq!(
        (last["from"].as_str(), last["to"].as_str(), last["cause"].as_str()),
        (Some("sent"), Some("sent"), Some("delivery_delivered"))
    );
}

#[tokio::test]
async fn an_event_counts_once_however_often_it_comes() {
    let (world, id, mail) = one_sent().await;
    let body = event(&world, &mail, "email.complained", &json!({}));
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "heard");
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "known");
    // Two at once.
    let (one, other) = tokio::join!(post_event(&world, "msg_2", &body), post_event(&world, "msg_2", &body));
    assert_eq!((one.status, other.status), (200, 200));
    assert_eq!(count(&world, "SELECT count(*) FROM receipts").await, 2);
    assert_eq!(count(&world, "SELECT count(*) FROM suppression_history").await, 1);
    assert_eq!(delivery(&world, &id).await, "complained");
}

#[tokio::test]
async fn an_event_that_the_database_could_not_take_leaves_no_trace_and_comes_again() {
    let (world, _, mail) = one_sent().await;
    let body = event(&world, &mail, "email.complained", &json!({}));
    world.transport.always(Some(Wire::Refuse));
    let refused = post_event(&world, "msg_1", &body).await;
    assert!(refused.status >= 500, "{}", refused.status);
    world.transport.always(None);
    assert_eq!(count(&world, "SELECT count(*) FROM receipts").await, 0);
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "heard");
    assert_eq!(count(&world, "SELECT count(*) FROM suppressions").await, 1);
}

#[tokio::test]
async fn worse_news_stays_and_later_news_outranks_earlier_in_every_order() {
    // What is said, in the order in which it happened; and what must be known in the end.
    let cases: [(&[&str], &str); 6] = [
        (
            &["email.sent", "email.delivery_delayed", "email.delivered"],
            "delivered",
        ),
        (&["email.delivered", "email.bounced", "email.delivered"], "bounced"),
        (&["email.complained", "email.delivered", "email.opened"], "complained"),
        (&["email.bounced", "email.complained", "email.bounced"], "complained"),
        (&["email.delivered", "email.delivery_delayed"], "delayed"),
        (&["email.sent", "email.clicked"], "delivered"),
    ];
    for (kinds, wanted) in cases {
        for turn in 0..kinds.len() {
            let (world, id, mail) = one_sent().await;
            let mut bodies = Vec::new();
            for kind in kinds {
                world.clock.advance(Duration::from_secs(60));
                bodies.push(event(&world, &mail, kind, &json!({})));
            }
            bodies.rotate_left(turn);
            for order in [bodies.clone(), bodies.iter().rev().cloned().collect()] {
                for (number, body) in order.iter().enumerate() {
                    post_event(&world, &format!("msg_{number}"), body).await;
                }
                assert_eq!(delivery(&world, &id).await, wanted, "{kinds:?} turned by {turn}");
            }
        }
    }
}

#[tokio::test]
async fn at_the_same_time_the_news_that_says_more_counts() {
    for kinds in [["email.sent", "email.delivered"], ["email.delivered", "email.sent"]] {
        let (world, id, mail) = one_sent().await;
        for (number, kind) in kinds.iter().enumerate() {
            hear(&world, &format!("msg_{number}"), &mail, kind, json!({})).await;
        }
        assert_eq!(delivery(&world, &id).await, "delivered", "{kinds:?}");
    }
}

#[tokio::test]
async fn news_before_our_own_write_proves_the_mail_and_the_late_answer_changes_nothing() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.hold_next.set(true);
    let talk = async {
        while message_ids(&world).is_empty() {
            tokio::task::yield_now().await;
        }
        let mail = message_ids(&world).remove(0);
        assert_eq!(
            hear(&world, "msg_1", &mail, "email.delivered", json!({})).await,
            "heard"
        );
        assert_eq!(
            world.state(&id).await,
            ("sent".to_owned(), "proved_by_receipt".to_owned())
        );
        world.mailer.let_go.set(true);
    };
    let (decisions, ()) = tokio::join!(world.deliver(), talk);
    assert_eq!(decisions, [sealpost::consume::Decision::Acknowledge]);
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(delivery(&world, &id).await, "delivered");
    assert_eq!(world.notes.count("message_id_conflict"), 0);
}

#[tokio::test]
async fn news_without_our_tag_waits_and_is_joined_when_the_answer_is_written() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.hold_next.set(true);
    let talk = async {
        while message_ids(&world).is_empty() {
            tokio::task::yield_now().await;
        }
        let mail = message_ids(&world).remove(0);
        let bare = json!({ "tags": null, "headers": null });
        assert_eq!(hear(&world, "msg_1", &mail, "email.complained", bare).await, "waits");
        assert_eq!(world.status(&id).await, "processing");
        world.mailer.let_go.set(true);
    };
    tokio::join!(world.deliver(), talk);
    assert_eq!(delivery(&world, &id).await, "complained");
    assert_eq!(
        count(&world, "SELECT count(*) FROM suppressions WHERE reason = 'complained'").await,
        1
    );
    assert_eq!(
        count(&world, "SELECT count(*) FROM receipts WHERE processed_at IS NULL").await,
        0
    );
}

#[tokio::test]
async fn the_relay_joins_news_whose_row_got_its_id_in_another_way() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    let mail = message_ids(&world).remove(0);
    let bare = json!({ "tags": null, "headers": null });
    assert_eq!(hear(&world, "msg_1", &mail, "email.delivered", bare).await, "waits");
    world
        .sql(
            "UPDATE outbox SET status = 'sent', cause = 'accepted', provider_message_id = ?2, settled_at = 1,
               relay_at = NULL, next_attempt_at = NULL WHERE id = ?1",
            vec![id.clone().into(), mail.into()],
        )
        .await;
    world.tick().await;
    assert_eq!(delivery(&world, &id).await, "delivered");
}

#[tokio::test]
async fn evidence_outranks_every_state() {
    // What became of the row after its answer was lost; CHECKs let a row in doubt be no more than these.
    let endings = [
        "UPDATE outbox SET status = 'unknown', cause = 'provider_window_closed', relay_at = NULL, next_attempt_at = NULL WHERE id = ?1",
        "UPDATE outbox SET status = 'pending', cause = 'recorded', next_attempt_at = NULL WHERE id = ?1",
        "UPDATE outbox SET status = 'enqueued', cause = 'published', next_attempt_at = NULL WHERE id = ?1",
        "UPDATE outbox SET status = 'processing', cause = 'claimed', claim_token = 'x', claim_expires_at = 9e15, next_attempt_at = NULL WHERE id = ?1",
        "UPDATE outbox SET status = 'failed', cause = 'verdict_not_sent', settled_at = 1, relay_at = NULL, next_attempt_at = NULL, doubts = 0 WHERE id = ?1",
        "UPDATE outbox SET status = 'dead_letter', cause = 'claims_exhausted', dead_class = 'pipeline', relay_at = NULL, next_attempt_at = NULL, doubts = 0 WHERE id = ?1",
        "UPDATE outbox SET status = 'expired', cause = 'window_missed', settled_at = 1, relay_at = NULL, next_attempt_at = NULL, doubts = 0 WHERE id = ?1",
        "UPDATE outbox SET status = 'suppressed', cause = 'recipient_suppressed', settled_at = 1, relay_at = NULL, next_attempt_at = NULL, doubts = 0 WHERE id = ?1",
    ];
    for ending in endings {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.mailer.fault(FaultKind::AcceptThenDrop, 1);
        world.deliver().await;
        assert_eq!(world.status(&id).await, "retry");
        world.sql(ending, vec![id.clone().into()]).await;
        let mail = message_ids(&world).remove(0);
        hear(&world, "msg_1", &mail, "email.sent", json!({})).await;
        assert_eq!(
            world.state(&id).await,
            ("sent".to_owned(), "proved_by_receipt".to_owned()),
            "{ending}"
        );
        assert_eq!(
            column(&world, "SELECT provider_message_id FROM outbox WHERE id = ?1", &id).await,
            mail
        );
        assert!((world.notes.count("sent_by_receipt") > 0));
        // Nothing is sent again, whatever is still in the queue.
        world.deliver_ids(&[&id]).await;
        world.run_for(Duration::from_secs(600), Duration::from_secs(60)).await;
        assert_eq!(world.mailer.accepted(), 1);
        assert_eq!(world.status(&id).await, "sent");
    }
}

#[tokio::test]
async fn another_message_id_under_our_tag_is_proof_of_a_second_mail() {
    let (world, id, mail) = one_sent().await;
    let body = event(&world, &mail, "email.delivered", &json!({ "email_id": "another-mail" }));
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "heard");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(post_event(&world, "msg_2", &body).await.body["result"], "heard");
    let seen = count(&world, "SELECT count(*) FROM events WHERE cause = 'duplicate_seen'").await;
    assert_eq!(seen, 1, "written down once");
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(delivery(&world, &id).await, "Null", "it is the other mail's news");
    assert_eq!(world.notes.count("duplicate_seen"), 1);
}

#[tokio::test]
async fn a_message_id_that_belongs_to_another_row_makes_the_row_unknown() {
    let (world, _, mail) = one_sent().await;
    let accepted = world.intake(&[notice_with_key("other")]).await.expect("recorded");
    let other = accepted.receipts[0].id.clone();
    let tags = json!({ "tags": { "sealpost_env": "test", "sealpost_id": other } });
    hear(&world, "msg_1", &mail, "email.delivered", tags).await;
    assert_eq!(
        world.state(&other).await,
        ("unknown".to_owned(), "message_id_conflict".to_owned())
    );
    assert!((world.notes.count("message_id_conflict") > 0));
}

#[tokio::test]
async fn only_what_is_permanent_suppresses() {
    let cases = [
        (
            "email.bounced",
            json!({ "bounce": { "type": "Permanent" } }),
            Some("bounced"),
        ),
        ("email.bounced", json!({ "bounce": { "type": "Transient" } }), None),
        ("email.bounced", json!({ "bounce": { "type": "Undetermined" } }), None),
        ("email.bounced", json!({ "bounce": null }), None),
        ("email.complained", json!({}), Some("complained")),
        ("email.complained", json!({ "to": null }), Some("complained")),
        ("email.delivered", json!({}), None),
        ("email.failed", json!({}), None),
        ("email.suppressed", json!({}), None),
        ("email.delivery_delayed", json!({}), None),
    ];
    for (kind, extra, reason) in cases {
        let (world, id, mail) = one_sent().await;
        hear(&world, "msg_1", &mail, kind, extra.clone()).await;
        let rows = world
            .sql(
                "SELECT s.reason FROM suppressions s JOIN outbox o ON o.recipient_hash = s.recipient_hash AND s.family = '*'
                 WHERE o.id = ?1",
                vec![id.into()],
            )
            .await;
        let found = rows.first().map(|row| text(&row[0]));
        assert_eq!(found.as_deref(), reason, "{kind} {extra}");
    }
}

#[tokio::test]
async fn of_several_recipients_only_the_one_that_is_named_is_suppressed() {
    let both = json!(["n0@example.com", "b@example.com"]);
    let cases = [
        (
            json!({ "to": both, "bounce": { "type": "Permanent", "diagnosticCode": ["550 <N0@example.com>"] } }),
            1,
        ),
        (json!({ "to": both, "bounce": { "type": "Permanent" } }), 0),
    ];
    for (extra, wanted) in cases {
        let (world, id, mail) = one_sent().await;
        hear(&world, "msg_1", &mail, "email.bounced", extra).await;
        assert_eq!(count(&world, "SELECT count(*) FROM suppressions").await, wanted);
        assert_eq!(delivery(&world, &id).await, "bounced");
        let unclear = world.notes.count("receipt_recipient_unclear") > 0;
        assert_eq!(unclear, wanted == 0);
    }
}

#[tokio::test]
async fn a_complaint_between_intake_and_send_stops_the_mail() {
    let (world, _, mail) = one_sent().await;
    let mut again = notice_with_key("again");
    again["to"] = json!("N0@Example.COM");
    let accepted = world.intake(&[again]).await.expect("recorded");
    hear(&world, "msg_1", &mail, "email.complained", json!({})).await;
    world.deliver().await;
    let id = &accepted.receipts[0].id;
    assert_eq!(
        world.state(id).await,
        ("suppressed".to_owned(), "recipient_suppressed".to_owned())
    );
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn a_lift_is_undone_by_newer_facts_only() {
    let (world, _, mail) = one_sent().await;
    let old = event(&world, &mail, "email.complained", &json!({}));
    post_event(&world, "msg_1", &old).await;
    world.clock.advance(Duration::from_secs(3_600));
    world
        .sql(
            "UPDATE suppressions SET lifted_at = ?1",
            vec![world.clock.now().get().into()],
        )
        .await;
    // The same event, replayed by hand under a new id, and again after its receipt is gone.
    world.clock.advance(Duration::from_secs(60));
    post_event(&world, "msg_2", &old).await;
    world.sql("DELETE FROM receipts", Vec::new()).await;
    post_event(&world, "msg_1", &old).await;
    let lifted = "SELECT count(*) FROM suppressions WHERE lifted_at IS NOT NULL";
    assert_eq!(count(&world, lifted).await, 1, "still lifted");
    let new = event(&world, &mail, "email.complained", &json!({}));
    post_event(&world, "msg_3", &new).await;
    assert_eq!(count(&world, lifted).await, 0, "a newer complaint counts");
    let history = world
        .sql("SELECT change FROM suppression_history ORDER BY seq", Vec::new())
        .await;
    let history: Vec<String> = history.iter().map(|row| text(&row[0])).collect();
    assert_eq!(history, ["suppressed", "lifted", "suppressed"]);
}

#[tokio::test]
async fn what_is_not_ours_is_skipped_and_what_nobody_understands_is_parked() {
    let (world, id, mail) = one_sent().await;
    let foreign = json!({ "tags": { "sealpost_env": "staging", "sealpost_id": id } });
    assert_eq!(hear(&world, "msg_1", &mail, "email.bounced", foreign).await, "skipped");
    for body in [
        r#"{"type":"contact.created","created_at":"2026-01-01T00:00:00Z","data":{}}"#,
        r#"{"type":"email.received","created_at":"2026-01-01T00:00:00Z","data":{"email_id":"x"}}"#,
    ] {
        assert_eq!(
            post_event(&world, "msg_2", body).await.body["result"],
            "skipped",
            "{body}"
        );
    }
    assert_eq!(count(&world, "SELECT count(*) FROM receipts").await, 0);
    assert_eq!(count(&world, "SELECT count(*) FROM parking").await, 0);
    for (number, body) in [
        "\u{0}",
        "[]",
        r#"{"type":"email.teleported","created_at":"2026-01-01T00:00:00Z","data":{"email_id":"x"}}"#,
        r#"{"type":"email.delivered","created_at":"yesterday","data":{"email_id":"x"}}"#,
        r#"{"type":"email.delivered","created_at":"2026-01-01T00:00:00Z","data":{}}"#,
    ]
    .iter()
    .enumerate()
    {
        let answer = post_event(&world, &format!("msg_p{number}"), body).await;
        assert_eq!(
            (answer.status, answer.body["result"].as_str()),
            (200, Some("parked")),
            "{body}"
        );
    }
    assert_eq!(
        count(
            &world,
            "SELECT count(*) FROM parking WHERE source = 'receipts' AND origin LIKE 'msg_p%'"
        )
        .await,
        5
    );
    assert_eq!(delivery(&world, &id).await, "Null");
}

/// Parks an event of a kind that nobody knows, and lets a later version know it: returns the entry's hash.
pub(crate) async fn parked_and_understood(world: &TestWorld, mail: &str) -> String {
    let body = event(world, mail, "email.delivered", &json!({})).replace("email.delivered", "email.teleported");
    assert_eq!(post_event(world, "msg_new", &body).await.body["result"], "parked");
    world
        .sql(
            "UPDATE parking SET body = replace(body, 'email.teleported', 'email.delivered'),
               body_bytes = length(replace(body, 'email.teleported', 'email.delivered')) WHERE source = 'receipts'",
            Vec::new(),
        )
        .await;
    let rows = world
        .sql("SELECT hash FROM parking WHERE source = 'receipts'", Vec::new())
        .await;
    text(&rows[0][0])
}

#[tokio::test]
async fn a_parked_event_is_heard_once_when_a_version_understands_it() {
    let (world, id, mail) = one_sent().await;
    let hash = parked_and_understood(&world, &mail).await;
    let path = format!("/v1/parking/{hash}/replay");
    let replayed = order(&world, &path, &json!({})).await;
    assert_eq!(
        (replayed.status, replayed.body["event"].as_str()),
        (200, Some("heard")),
        "{}",
        replayed.body
    );
    assert_eq!(delivery(&world, &id).await, "delivered");
    assert_eq!(order(&world, &path, &json!({})).await.body["code"], "entry_closed");
    assert_eq!(
        count(&world, "SELECT count(*) FROM receipts WHERE event_id = 'msg_new'").await,
        1
    );
    assert_eq!(
        count(
            &world,
            "SELECT count(*) FROM parking WHERE state = 'replayed' AND body = ''"
        )
        .await,
        1
    );
    assert_eq!(
        count(
            &world,
            "SELECT count(*) FROM operator_log WHERE action = 'parking_replayed'"
        )
        .await,
        1
    );
}

#[tokio::test]
async fn an_event_that_nobody_understands_yet_stays_parked() {
    let (world, _, mail) = one_sent().await;
    let body = event(&world, &mail, "email.delivered", &json!({})).replace("email.delivered", "email.teleported");
    post_event(&world, "msg_new", &body).await;
    let rows = world.sql("SELECT hash FROM parking", Vec::new()).await;
    let path = format!("/v1/parking/{}/replay", text(&rows[0][0]));
    assert_eq!(
        order(&world, &path, &json!({})).await.body["code"],
        "still_not_understood"
    );
    assert_eq!(
        count(&world, "SELECT count(*) FROM parking WHERE state = 'parked'").await,
        1
    );
}

#[tokio::test]
async fn an_event_from_far_ahead_is_parked_and_outranks_nothing() {
    let (world, id, mail) = one_sent().await;
    let mut far: Json = serde_json::from_str(&event(&world, &mail, "email.delivered", &json!({}))).expect("JSON");
    far["created_at"] = json!("9999-12-31T00:00:00Z");
    assert_eq!(
        post_event(&world, "msg_far", &far.to_string()).await.body["result"],
        "parked"
    );
    hear(&world, "msg_1", &mail, "email.delivery_delayed", json!({})).await;
    assert_eq!(delivery(&world, &id).await, "delayed");
}

#[tokio::test]
async fn an_orphan_is_kept_and_answered_well() {
    let world = TestWorld::new().await;
    let body = json!({
        "type": "email.bounced", "created_at": "2026-01-01T00:00:00Z",
        "data": { "email_id": "never-seen", "to": ["a@example.com"], "bounce": { "type": "Permanent" } },
    });
    let answer = post_event(&world, "msg_1", &body.to_string()).await;
    assert_eq!((answer.status, answer.body["result"].as_str()), (200, Some("waits")));
    assert_eq!(
        count(&world, "SELECT count(*) FROM receipts WHERE outbox_id IS NULL").await,
        1
    );
    assert_eq!(count(&world, "SELECT count(*) FROM suppressions").await, 0);
    assert!((world.notes.count("receipt_waits") > 0));
}

#[tokio::test]
async fn a_receipt_for_a_mail_that_was_pruned_is_heard_and_goes_by_its_own_age() {
    let (world, id, mail) = one_sent().await;
    world.clock.advance(Duration::from_secs(8 * 86_400));
    world.tick().await;
    assert_eq!(
        count(&world, "SELECT count(*) FROM outbox WHERE pruned_at IS NOT NULL").await,
        1
    );
    assert_eq!(
        hear(&world, "msg_1", &mail, "email.complained", json!({})).await,
        "heard"
    );
    assert_eq!(delivery(&world, &id).await, "complained");
    world.clock.advance(Duration::from_secs(8 * 86_400));
    world.tick().await;
    assert_eq!(count(&world, "SELECT count(*) FROM receipts").await, 0);
    assert_eq!(
        count(&world, "SELECT count(*) FROM suppressions").await,
        1,
        "suppressions survive"
    );
}

#[tokio::test]
async fn who_cannot_sign_changes_nothing() {
    let (world, _, mail) = one_sent().await;
    let body = event(&world, &mail, "email.complained", &json!({}));
    let now_s = world.clock.now().get().div_euclid(1_000);
    let good = sign(SECRET, "msg_1", now_s, &body).expect("signs");
    let stamp = now_s.to_string();
    let cases = [
        (None, Some(stamp.as_str()), Some(good.as_str()), 400),
        (Some("msg_1"), None, Some(good.as_str()), 400),
        (Some("msg_1"), Some(stamp.as_str()), None, 400),
        (Some("msg_1"), Some("abc"), Some(good.as_str()), 400),
        (Some("msg_2"), Some(stamp.as_str()), Some(good.as_str()), 401),
        (Some("msg_1"), Some("1"), Some(good.as_str()), 401),
        (Some("msg_1"), Some(stamp.as_str()), Some("v1,AAAA"), 401),
    ];
    world.transport.take_requests();
    for (id, timestamp, signature, status) in cases {
        let request = Request {
            method: "POST",
            path: "/v1/receipts/resend",
            signature: SignatureHeaders {
                id,
                timestamp,
                signature,
            },
            body: Some(body.as_bytes()),
            ..Request::default()
        };
        let refused = answer(&world, &world.config, &request).await;
        assert_eq!(refused.status, status, "{}", refused.body);
    }
    assert_eq!(world.transport.take_requests(), 0, "the database was not asked");
}
