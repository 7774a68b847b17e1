//! Events that are not ours, not understood, or not the provider's.

use sealpost::devstack::provider::webhook::sign;
use sealpost::operate::{Request, answer};
use sealpost::ports::Clock as _;
use sealpost::receipts::SignatureHeaders;
use serde_json::{Value as Json, json};

use super::{SECRET, count, delivery, event, hear, one_sent, parked_and_understood, post_event};
use crate::support::{TestWorld, order, text};

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
        r#"{"type":"email.teleported","created_at":"2026-01-01T00:00:00Z","data":{"email_id":"x","tags":{"sealpost_env":"test"}}}"#,
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
    far["created_at"] = json!("2027-01-01T00:00:00Z");
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
