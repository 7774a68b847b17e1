//! Each type, each tolerance, and everything that must not be taken for more than it says.

use serde_json::{Value, json};

use super::*;

mod named;

const OURS: &str = "inv_0123456789";
const MAIL: &str = "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794";
/// 2026-01-01T00:00:00Z.
const AT: Millis = Millis::new(1_767_225_600_000);

/// An event as the provider writes it, with members of its data laid over; a null takes one out.
fn event(kind: &str, changes: &Value) -> Value {
    let mut data = json!({
        "email_id": MAIL,
        "created_at": "2025-12-31T23:00:00.000Z",
        "from": "Sealpost <mail@example.com>",
        "to": ["a@example.com"],
        "subject": "Hello",
        "tags": { "sealpost_env": "production", "sealpost_id": OURS },
    });
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            data.as_object_mut().unwrap().remove(name);
        } else {
            data[name] = value.clone();
        }
    }
    json!({ "type": kind, "created_at": "2026-01-01T00:00:00.000Z", "data": data })
}

fn read_value(event: &Value) -> Reading {
    read(event.to_string().as_bytes(), "production")
}

/// An event that is about a mail.
fn about(kind: &str, changes: &Value) -> Receipt {
    match read_value(&event(kind, changes)) {
        Reading::About(receipt) => receipt,
        other @ (Reading::OtherEnvironment | Reading::NotAboutAMail | Reading::NotUnderstood(_)) => {
            panic!("{kind} with {changes} is {other:?}")
        }
    }
}

fn not_understood(code: &'static str) -> Reading {
    Reading::NotUnderstood(code)
}

#[test]
fn every_type_about_a_mail_is_read() {
    for (kind, news) in [
        ("email.scheduled", News::Scheduled),
        ("email.sent", News::Sent),
        ("email.delivery_delayed", News::Delayed),
        ("email.delivered", News::Delivered),
        ("email.opened", News::Opened),
        ("email.clicked", News::Clicked),
        ("email.failed", News::Failed),
        ("email.suppressed", News::Suppressed),
        ("email.bounced", News::Bounced),
        ("email.complained", News::Complained),
    ] {
        let expected = Receipt {
            news,
            bounce: (news == News::Bounced).then_some(BounceKind::Undetermined),
            at: AT,
            message_id: MAIL.to_owned(),
            tagged_id: Some(OURS.to_owned()),
            named: Named::One(crate::outbox::address::parse("a@example.com").unwrap()),
        };
        assert_eq!(about(kind, &json!({})), expected);
    }
}

#[test]
fn words_and_ranks_agree_with_the_schema() {
    let words: Vec<_> = News::ALL
        .iter()
        .map(|news| (news.as_str(), news.delivery(), news.rank(), news.is_worse()))
        .collect();
    let expected = [
        ("scheduled", "scheduled", 0, false),
        ("sent", "sent", 1, false),
        ("delayed", "delayed", 2, false),
        ("delivered", "delivered", 3, false),
        ("opened", "delivered", 3, false),
        ("clicked", "delivered", 3, false),
        ("failed", "failed", 4, true),
        ("suppressed", "suppressed", 5, true),
        ("bounced", "bounced", 6, true),
        ("complained", "complained", 7, true),
    ];
    assert_eq!(words, expected);
    let schema = include_str!("../../../../migrations/0002_hearing_back.sql");
    let list = |words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        quoted.join(", ")
    };
    let flat: String = schema.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut deliveries: Vec<&str> = News::ALL.iter().map(|news| news.delivery()).collect();
    deliveries.dedup();
    assert!(flat.contains(&format!("news IN ({})", list(&News::ALL.map(News::as_str)))));
    assert!(flat.contains(&format!("delivery IN ( {})", list(&deliveries))));
    assert!(flat.contains(&format!(
        "detail IN ({})",
        list(&BounceKind::ALL.map(BounceKind::as_str))
    )));
}

#[test]
fn what_is_no_mail_of_ours_is_passed_over() {
    for kind in [
        "email.received",
        "contact.created",
        "contact.deleted",
        "domain.updated",
        "suppression.added",
        "suppression.removed",
    ] {
        assert_eq!(read_value(&json!({ "type": kind })), Reading::NotAboutAMail, "{kind}");
    }
}

#[test]
fn a_type_that_nobody_knows_is_not_guessed() {
    for kind in [
        "email.delayed",
        "email.read",
        "email.",
        "email",
        "Email.sent",
        "email.sent ",
        "sms.sent",
        "",
    ] {
        assert_eq!(
            read_value(&event(kind, &json!({}))),
            not_understood("receipt_type_unknown"),
            "{kind}"
        );
    }
}

#[test]
fn what_is_no_event_is_unreadable() {
    let deep = format!("{}{}", r#"{"type":"#, "[".repeat(100_000));
    let long = format!("{}{}", event("email.sent", &json!({})), " ".repeat(BODY_BYTES_MAX));
    for body in [
        b"".as_slice(),
        b"null",
        b"[]",
        br#""email.sent""#,
        b"{}",
        br#"{"type":null}"#,
        br#"{"type":5}"#,
        br#"{"type":"email.sent""#,
        br#"{"type":"email.sent"} x"#,
        b"{\"type\":\"email.sent\xff\"}",
        b"\xef\xbb\xbf{}",
        "\u{1f600}".as_bytes(),
        deep.as_bytes(),
        long.as_bytes(),
    ] {
        assert_eq!(read(body, "production"), not_understood("receipt_unreadable"));
    }
}

#[test]
fn a_time_is_read_in_both_forms_and_never_invented() {
    let at = |time: Value| {
        let mut event = event("email.sent", &json!({}));
        event["created_at"] = time;
        match read_value(&event) {
            Reading::About(receipt) => Some(receipt.at.get()),
            other @ (Reading::OtherEnvironment | Reading::NotAboutAMail | Reading::NotUnderstood(_)) => {
                assert_eq!(other, not_understood("receipt_time_invalid"));
                None
            }
        }
    };
    for (time, ms) in [
        ("2023-04-03T22:13:42.674981Z", 1_680_560_022_674),
        ("2023-04-03T22:13:42+00:00", 1_680_560_022_000),
        ("2023-04-03 22:13:42.674981+00", 1_680_560_022_674),
        ("2023-04-03 22:13:42+00", 1_680_560_022_000),
        ("2023-04-03 23:13:42+01", 1_680_560_022_000),
        ("2023-04-03 19:13:42-03", 1_680_560_022_000),
        ("2023-04-04 03:43:42+05:30", 1_680_560_022_000),
    ] {
        assert_eq!(at(json!(time)), Some(ms), "{time}");
    }
    for time in [
        json!(null),
        json!(1_680_560_022),
        json!(""),
        json!("yesterday"),
        json!("2023-04-03"),
        json!("2023-04-03 22:13:42"),
        json!("2023-04-03T22:13:42"),
        json!("2023-04-31 22:13:42+00"),
        json!("2023-04-03 22:13:42+0"),
        json!("2023-04-03 22:13:42+99"),
        json!(["2023-04-03T22:13:42Z"]),
    ] {
        assert_eq!(at(time.clone()), None, "{time}");
    }
    let mut without = event("email.sent", &json!({}));
    without.as_object_mut().unwrap().remove("created_at");
    // The data's own time is that of the mail, not of what happened to it.
    assert_eq!(read_value(&without), not_understood("receipt_time_invalid"));
}

#[test]
fn shapes_that_mean_the_same_are_read_alike() {
    let usual = about("email.bounced", &json!({}));
    for changes in [
        json!({ "tags": [
            { "name": "sealpost_env", "value": "production" },
            { "name": "sealpost_id", "value": OURS },
        ] }),
        json!({ "tags": [null, 5, "x", {}, { "name": 5, "value": "x" }, { "name": "sealpost_id" },
            { "name": "sealpost_id", "value": OURS }] }),
        json!({ "to": "a@example.com" }),
        json!({ "to": ["a@example.com", null] }),
        json!({ "unknown": { "deep": [[[{}]]] }, "subject": 5 }),
        json!({ "bounce": "Permanent" }),
        json!({ "bounce": { "type": 5 } }),
        json!({ "bounce": { "type": "Soft" } }),
        json!({ "bounce": {} }),
        json!({ "from": null, "created_at": null, "subject": null }),
    ] {
        assert_eq!(about("email.bounced", &changes), usual, "{changes}");
    }
    let mut with_members = event("email.bounced", &json!({}));
    with_members["object"] = json!("event");
    with_members["nothing"] = json!(null);
    let spaced = serde_json::to_string_pretty(&with_members).unwrap();
    let read = read(format!("\r\n {spaced}\t\n").as_bytes(), "production");
    assert_eq!(read, Reading::About(usual));
}

#[test]
fn a_bounce_is_of_the_kind_that_it_says() {
    for (kind, expected) in [
        ("Permanent", BounceKind::Permanent),
        ("permanent", BounceKind::Permanent),
        ("TRANSIENT", BounceKind::Transient),
        ("Undetermined", BounceKind::Undetermined),
        ("", BounceKind::Undetermined),
    ] {
        let receipt = about("email.bounced", &json!({ "bounce": { "type": kind } }));
        assert_eq!(receipt.bounce, Some(expected), "{kind}");
    }
    let complained = about("email.complained", &json!({ "bounce": { "type": "Permanent" } }));
    assert_eq!(complained.bounce, None);
}

#[test]
fn the_mail_of_another_environment_is_left_to_it() {
    let read = |kind: &str, tags: Value| read_value(&event(kind, &json!({ "tags": tags })));
    for tags in [
        json!({ "sealpost_env": "staging", "sealpost_id": OURS }),
        json!({ "sealpost_env": "" }),
        json!({ "sealpost_env": "Production" }),
        // No spelling of ours: whoever wrote it, it was not this environment.
        json!({ "sealpost_env": "--70roduction" }),
        json!([{ "name": "sealpost_env", "value": "staging" }]),
    ] {
        assert_eq!(read("email.sent", tags.clone()), Reading::OtherEnvironment, "{tags}");
        // Nor is it for us to wonder at its news.
        assert_eq!(read("email.new_kind", tags), Reading::OtherEnvironment);
    }
    for tags in [
        json!({}),
        json!(null),
        json!("sealpost_env"),
        json!({ "sealpost_env": null }),
        json!({ "sealpost_env": 5 }),
    ] {
        assert!(matches!(read("email.sent", tags), Reading::About(_)));
    }
    // A name with characters that tags do not take travels escaped.
    let escaped = json!({ "tags": { "sealpost_env": "a--2d-b" } });
    let body = event("email.sent", &escaped).to_string();
    assert!(matches!(super::read(body.as_bytes(), "a--b"), Reading::About(_)));
    assert_eq!(super::read(body.as_bytes(), "a--2d-b"), Reading::OtherEnvironment);
}

#[test]
fn a_mail_is_known_by_its_id_and_ours_by_its_tag_or_its_message_id() {
    let ids = |changes: Value| match read_value(&event("email.sent", &changes)) {
        Reading::About(receipt) => (Some(receipt.message_id), receipt.tagged_id),
        other @ (Reading::OtherEnvironment | Reading::NotAboutAMail | Reading::NotUnderstood(_)) => {
            assert_eq!(other, not_understood("receipt_without_mail"), "{changes}");
            (None, None)
        }
    };
    let (mail, ours) = (Some(MAIL.to_owned()), Some(OURS.to_owned()));
    // Somebody else's mail through the same account: nothing but the provider's id.
    assert_eq!(ids(json!({ "tags": null })), (mail.clone(), None));
    // A tag without the provider's id proves nothing.
    for id in [json!(null), json!(5), json!(""), json!("a b"), json!("a".repeat(129))] {
        assert_eq!(ids(json!({ "email_id": id })), (None, None));
    }
    for tag in ["short", "has--20space-and-more", "x.y.z.0123456789", ""] {
        let tags = json!({ "sealpost_id": tag });
        assert_eq!(ids(json!({ "tags": tags })), (mail.clone(), None), "{tag}");
    }
    let message_id = format!("<{OURS}.production@mail.example.com>");
    let of_staging = format!("<{OURS}.staging@mail.example.com>");
    for headers in [
        json!([{ "name": "Message-ID", "value": message_id }]),
        json!([{ "name": "X-A", "value": "1" }, { "name": "message-id", "value": message_id }]),
        json!({ "MESSAGE-ID": message_id }),
        json!({ "Message-Id": format!(" {message_id} ") }),
    ] {
        let changes = json!({ "tags": null, "headers": headers });
        assert_eq!(ids(changes), (mail.clone(), ours.clone()), "{headers}");
        // The tag is the better source.
        let tags = json!({ "sealpost_id": "inv_9876543210" });
        let changes = json!({ "tags": tags, "headers": headers });
        assert_eq!(ids(changes).1.as_deref(), Some("inv_9876543210"));
        let foreign = json!({ "tags": { "sealpost_env": "staging" }, "headers": headers });
        assert_eq!(read_value(&event("email.sent", &foreign)), Reading::OtherEnvironment);
    }
    // A copy of our database elsewhere has the same ids.
    let copied = json!({ "tags": null, "headers": { "Message-ID": of_staging } });
    assert_eq!(read_value(&event("email.sent", &copied)), Reading::OtherEnvironment);
    for value in [
        OURS.to_owned(),
        format!("<{OURS}>"),
        format!("{OURS}@a"),
        format!("<{OURS}@mail.example.com>"),
        format!("<{OURS}.production@a@b>"),
        "<@a>".to_owned(),
        "<a b@c>".to_owned(),
    ] {
        let changes = json!({ "tags": null, "headers": { "Message-ID": value } });
        assert_eq!(ids(changes), (mail.clone(), None), "{value}");
    }
}

#[test]
fn a_new_kind_of_news_about_mails_of_others_is_passed_over() {
    let others = json!({ "tags": null, "headers": null });
    assert_eq!(read_value(&event("email.teleported", &others)), Reading::NotAboutAMail);
    let tagged = json!({ "tags": { "plan": "pro" } });
    assert_eq!(read_value(&event("email.teleported", &tagged)), Reading::NotAboutAMail);
}

#[test]
fn debug_shows_no_address() {
    let shown = format!("{:?}", about("email.bounced", &json!({})));
    assert!(!shown.contains("example.com"), "{shown}");
}
