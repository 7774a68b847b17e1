//! Svix's published vectors, and the shape of an event.

use super::*;
use crate::devstack::provider::model::{Call, Next, Settings};

#[test]
fn signatures_equal_the_published_ones() {
    let rust = sign(
        "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
        1_649_367_553,
        r#"{"email":"test@example.com","username":"test_user"}"#,
    );
    assert_eq!(rust.unwrap(), "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
    let javascript = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330,
        r#"{"test": 2432232314}"#,
    );
    assert_eq!(javascript.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn what_nobody_could_verify_is_not_signed() {
    assert_eq!(sign("whsec_***", "a", 0, ""), Err(WebhookError::Secret));
    assert_eq!(sign("whsec_", "a", 0, ""), Err(WebhookError::Secret));
    assert_eq!(sign("whsec_QUFB", "a.b", 0, ""), Err(WebhookError::Id));
    assert_eq!(sign("whsec_QUFB", "", 0, ""), Err(WebhookError::Id));
}

fn model_with_one_mail() -> Model {
    let mut model = Model::new(Settings::default());
    let body = br#"{"from":"a@acme.test","to":["b@acme.test"],"subject":"s","text":"x",
        "tags":[{"name":"outbox_id","value":"ord_1"}],"headers":{"X-A":"1"}}"#;
    let call = Call {
        authorization: Some("Bearer re_a"),
        user_agent: Some("t/1"),
        idempotency_key: None,
        body,
        list: None,
    };
    let Next::Running { ticket, .. } = model.arrive(Millis::new(0), &call).next else {
        panic!("a good mail was refused")
    };
    model.finish(Millis::new(0), ticket, "id-1");
    model
}

fn event(model: &mut Model, kind: &str, extra: Value) -> Value {
    let extra = extra.as_object().unwrap().clone();
    serde_json::from_str(&model.event(Millis::new(5_000), "id-1", kind, extra).unwrap()).unwrap()
}

#[test]
fn an_event_carries_the_mail_and_its_tags_as_an_object() {
    let mut model = model_with_one_mail();
    let event = event(&mut model, "email.delivered", json!({}));
    assert_eq!(
        event,
        json!({
            "type": "email.delivered",
            "created_at": "1970-01-01T00:00:05.000Z",
            "data": {
                "email_id": "id-1",
                "created_at": "1970-01-01T00:00:00.000Z",
                "from": "a@acme.test",
                "to": ["b@acme.test"],
                "subject": "s",
                "tags": { "outbox_id": "ord_1" },
                "headers": [{ "name": "X-A", "value": "1" }],
            },
        })
    );
    assert_eq!(model.ledger().find("id-1").unwrap().last_event, "delivered");
}

#[test]
fn details_are_the_plain_ones_unless_the_caller_brings_others() {
    let mut model = model_with_one_mail();
    assert_eq!(
        event(&mut model, "email.bounced", json!({}))["data"]["bounce"]["type"],
        "Permanent"
    );
    let soft = event(
        &mut model,
        "email.bounced",
        json!({ "bounce": { "type": "Transient" }, "subject": null }),
    );
    assert_eq!(soft["data"]["bounce"], json!({ "type": "Transient" }));
    assert!(soft["data"].get("subject").is_none());
}

#[test]
fn unknown_mails_and_types_are_named() {
    let mut model = model_with_one_mail();
    let none = Map::new();
    assert_eq!(
        model.event(Millis::new(0), "id-2", "email.sent", none.clone()),
        Err(WebhookError::UnknownMail)
    );
    assert_eq!(
        model.event(Millis::new(0), "id-1", "email.eaten", none.clone()),
        Err(WebhookError::UnknownType)
    );
    assert_eq!(
        model.event(Millis::new(0), "id-1", "sent", none),
        Err(WebhookError::UnknownType)
    );
}
