//! What is read of the provider's lists, and what is not.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const ID: &str = "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794";

fn answer(status: u16, body: &str) -> MailAnswer {
    MailAnswer::Response {
        status,
        retry_after: Some("7".to_owned()),
        body: Some(body.as_bytes().to_vec()),
    }
}

fn one(body: &Json) -> Mail {
    let Seen::Found(mail) = mail(&answer(200, &body.to_string()), Millis::new(0)) else {
        panic!("no mail: {body}")
    };
    mail
}

#[test]
fn a_mail_is_read_whatever_else_it_has() {
    let read = one(&json!({
        "object": "email", "id": ID, "message_id": "<ntc_10000.test@x.example>", "to": ["a@b.example"], "from": "c@d.example",
        "created_at": "2023-04-03 22:13:42.674981+00", "subject": "S", "html": null, "bcc": null, "new": [1],
        "tags": [{ "name": "sealpost_env", "value": "test" }, { "name": "sealpost_id", "value": "ntc_10000" }, 7],
    }));
    assert_eq!(read.id, ID);
    assert_eq!(read.to, ["a@b.example"]);
    assert_eq!(read.subject.as_deref(), Some("S"));
    assert_eq!(read.created_at.unwrap().to_string(), "2023-04-03T22:13:42.674Z");
    assert_eq!(read.outbox_id.as_deref(), Some("ntc_10000"));
    assert_eq!(read.environment.as_deref(), Some("test"));
    let bare = one(&json!({ "id": ID, "to": "a@b.example", "subject": null, "tags": null }));
    assert_eq!(bare.to, ["a@b.example"]);
    assert!(!bare.has_tags && bare.subject.is_none() && bare.created_at.is_none());
    let object = one(&json!({ "id": ID, "tags": { "sealpost_id": "ntc_10000", "sealpost_env": "test" } }));
    assert_eq!(object.is_of("ntc_10000", "test"), Ours::Yes);
}

#[test]
fn times_come_in_two_spellings() {
    for (text, unix_ms) in [
        ("2023-04-03 22:13:42.674981+00", Some(1_680_560_022_674)),
        ("2023-04-03 22:13:42+00", Some(1_680_560_022_000)),
        ("2023-04-04 00:13:42+02", Some(1_680_560_022_000)),
        ("2023-04-03 22:13:42.674981+00:00", Some(1_680_560_022_674)),
        ("2023-04-03T22:13:42.674Z", Some(1_680_560_022_674)),
        ("2023-04-03T22:13:42", None),
        ("2023-04-03", None),
        ("yesterday", None),
        ("", None),
    ] {
        assert_eq!(read_time(text).map(Millis::get), unix_ms, "{text}");
    }
}

#[test]
fn only_our_tags_or_our_message_id_make_a_mail_ours() {
    let tagged = |id: &str, environment: &str| {
        json!({ "id": ID, "message_id": "<x@provider>",
            "tags": [{ "name": "sealpost_id", "value": id }, { "name": "sealpost_env", "value": environment }] })
    };
    let named = |header: &str| json!({ "id": ID, "message_id": header });
    let headed = |tags: &Json| json!({ "id": ID, "message_id": "<ntc_10000.test@x.example>", "tags": tags });
    let cases = [
        (tagged("ntc_10000", "test"), Ours::Yes),
        (tagged("ntc_20000", "test"), Ours::No),
        (tagged("ntc_10000", "staging"), Ours::No),
        (json!({ "id": ID, "tags": { "sealpost_id": "ntc_10000" } }), Ours::No),
        (json!({ "id": ID, "tags": { "topic": "x" } }), Ours::No),
        (named("<ntc_10000.test@sealpost.example>"), Ours::Yes),
        (named(" ntc_10000.test@sealpost.example "), Ours::Yes),
        (named("<ntc_20000.test@sealpost.example>"), Ours::CannotSay),
        (named("<ntc_10000.staging@sealpost.example>"), Ours::CannotSay),
        (named("<ntc_10000@sealpost.example>"), Ours::CannotSay),
        (named("<ntc_10000.test@>"), Ours::CannotSay),
        (named("<xntc_10000.test@sealpost.example>"), Ours::CannotSay),
        (json!({ "id": ID }), Ours::CannotSay),
        (headed(&json!({ "sealpost_env": "staging" })), Ours::No),
        // One tag of ours without the other: the header does not stand in for it.
        (headed(&json!({ "sealpost_env": "test" })), Ours::No),
        (headed(&json!({ "sealpost_id": "ntc_10000" })), Ours::No),
        (
            headed(&json!({ "sealpost_id": "ntc_20000", "sealpost_env": "test" })),
            Ours::No,
        ),
        (headed(&json!({ "topic": "x" })), Ours::Yes),
        (headed(&json!({})), Ours::Yes),
    ];
    for (body, ours) in cases {
        assert_eq!(one(&body).is_of("ntc_10000", "test"), ours, "{body}");
    }
}

#[test]
fn a_recipient_is_recognised_with_or_without_a_name() {
    let read = one(&json!({ "id": ID, "to": ["\"Ada L.\" <Ada@Example.com>"], "subject": " Hello " }));
    assert!(read.looks_like("Ada@example.com", "Hello"));
    assert!(read.looks_like("Somebody <Ada@EXAMPLE.com>", "Hello"));
    assert!(!read.looks_like("bob@example.com", "Hello"));
    assert!(!read.looks_like("Ada@example.com", "Hello again"));
    assert!(!one(&json!({ "id": ID, "to": ["a@b.example"] })).looks_like("a@b.example", ""));
}

#[test]
fn a_page_counts_what_it_cannot_read() {
    let body = json!({ "object": "list", "has_more": true, "data": [
        { "id": ID, "to": ["a@b.example"], "subject": "S", "created_at": "2023-04-03 22:13:42+00" },
        { "id": ID, "created_at": "soon" },
        { "id": "..", "created_at": "2023-04-03 22:13:42+00" },
        null,
    ] });
    let Seen::Found(read) = page(&answer(200, &body.to_string()), Millis::new(0)) else {
        panic!("a page")
    };
    assert_eq!((read.mails.len(), read.unreadable, read.has_more), (2, 3, true));
    assert_eq!(read.mails[1].created_at, None, "it can still be read whole");
}

#[test]
fn what_is_no_mail_is_no_proof_of_anything() {
    let wait = Seen::Throttled(Duration::from_secs(7));
    let cases = [
        (404, r#"{"statusCode":404,"name":"not_found"}"#, Seen::NotFound),
        (401, r#"{"name":"restricted_api_key"}"#, Seen::Restricted),
        (401, "<html>", Seen::Restricted),
        (403, "error code: 1010", Seen::Restricted),
        (
            400,
            r#"{"name":"validation_error","message":"API key is invalid"}"#,
            Seen::Restricted,
        ),
        (400, r#"{"name":"validation_error","message":"limit"}"#, Seen::NotNow),
        (429, r#"{"name":"rate_limit_exceeded"}"#, wait),
        (500, "", Seen::NotNow),
        (302, "", Seen::NotNow),
        (405, "", Seen::NotNow),
        (200, "", Seen::NotNow),
        (200, "{", Seen::NotNow),
        (200, "[]", Seen::NotNow),
        (200, r#"{"id":null}"#, Seen::NotNow),
        (200, r#"{"id":"a/../b"}"#, Seen::NotNow),
    ];
    for (status, body, seen) in cases {
        assert_eq!(mail(&answer(status, body), Millis::new(0)), seen, "{status} {body}");
    }
    assert_eq!(page(&answer(200, r#"{"data":{}}"#), Millis::new(0)), Seen::NotNow);
    for lost in [MailAnswer::TimedOut, MailAnswer::Disconnected] {
        assert_eq!(mail(&lost, Millis::new(0)), Seen::NotNow);
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(time in ".{0,40}", header in ".{0,40}", to in ".{0,40}", tag in ".{0,40}") {
        let body = json!({ "id": ID, "created_at": time, "message_id": header, "to": [to], "subject": tag,
            "tags": { "sealpost_id": tag, "sealpost_env": tag } });
        let read = one(&body);
        prop_assert_eq!(read.is_of("ntc_10000", "test") == Ours::Yes, false);
        let _ = read.looks_like("a@b.example", "S");
    }
}
