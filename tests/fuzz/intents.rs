//! Whole requests: `{"intents": [...]}`.

use base64::Engine as _;
use proptest::prelude::*;
use sealpost::outbox::attachment::{ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, Attachment, FILE_NAME_CHARS_MAX};
use sealpost::outbox::canonical::canonical;
use sealpost::outbox::identity::{CALLER_KEY_BYTES_MAX, Identity, KEY_TEXT_BYTES_MAX, KeyValue};
use sealpost::outbox::intent::{DELAY_MS_MAX, FamilyShape, INTENTS_MAX, Intent, TAGS_MAX, parse_intents};
use sealpost::outbox::json::{self, DATA_DEPTH_MAX, VALUES_MAX};
use sealpost::outbox::keys::{KeyRing, keys_for};
use sealpost::outbox::letter::{Body, LETTER_BYTES_MAX, Letter};
use sealpost::outbox::problem::{FIELD_ERRORS_MAX, Problem};
use sealpost::outbox::quiet::is_zone_name;
use sealpost::provider::render::{Draft, DraftBody, Sender, build_request};
use serde_json::{Value, json};

use crate::document::{changed, changes};
use crate::hostile::{self, MARK};

pub const NAMES: &[&str] = &[
    "intents",
    "family",
    "key",
    "idempotencyKey",
    "revision",
    "to",
    "data",
    "content",
    "tags",
    "notBefore",
    "notAfter",
    "businessAt",
    "delay",
    "timeZone",
    "email",
    "name",
    "subject",
    "html",
    "text",
    "from",
    "replyTo",
    "headers",
    "companyId",
    "inviteeId",
    "attachments",
    "filename",
    "contentType",
];

/// Every step of a path, escaped, and the slashes before them.
const PATH_BYTES_MAX: usize = 5 * (2 * 64 + 1);

pub fn families() -> Vec<FamilyShape> {
    let family = |name: &str, key_fields: &[&str], has_template| FamilyShape {
        name: name.to_owned(),
        prefix: name.chars().take(3).collect(),
        key_fields: key_fields.iter().map(|field| (*field).to_owned()).collect(),
        has_template,
        window_hours: (name == "invitation").then_some((-72, -24)),
        attachments: !has_template,
    };
    vec![
        family("invitation", &["companyId", "inviteeId"], true),
        family("notice", &["noticeId"], false),
    ]
}

pub fn request() -> Value {
    json!({ "intents": [
        {
            "family": "invitation", "key": { "inviteeId": "u9", "companyId": 7 }, "revision": 1,
            "to": { "email": "Reader@b\u{fc}cher.example", "name": "Ada, VP" },
            "data": { "name": "Ada", "list": [1, 0.1, -2, { "x": null }], "deep": { "a": { "b": { "c": "d" } } } },
            "tags": { "plan": "pro", "user": "a@b" }, "notBefore": "-PT71H",
            "businessAt": "2026-02-01T00:00:00Z", "delay": 60000, "timeZone": "UTC",
        },
        {
            "family": "notice", "idempotencyKey": "order 7", "to": "Ada <a@b.example>",
            "content": {
                "subject": "Hello", "text": "Hi", "html": "<p>Hi</p>", "from": "Team <t@b.example>",
                "replyTo": { "email": "r@b.example" }, "headers": { "X-A": "1", "References": "<1@b.example>" },
            },
            "notAfter": "2026-03-01T00:00:00+01:00",
            "attachments": [
                { "filename": "a.pdf", "contentType": "application/pdf", "content": "QUJD" },
                { "filename": "b \u{e9}.csv", "content": "QQ==" },
            ],
        },
    ]})
}

fn sound(intents: &[Intent]) -> Result<(), TestCaseError> {
    prop_assert!((1..=INTENTS_MAX).contains(&intents.len()));
    for intent in intents {
        let stored = intent.letter.to_json();
        prop_assert!(stored.len() <= LETTER_BYTES_MAX && intent.letter.tags.len() <= TAGS_MAX);
        prop_assert!(intent.to == intent.letter.to);
        prop_assert_eq!(intent.letter.attachments, intent.attachments.len());
        attached(&intent.attachments)?;
        let read = Letter::from_json(&stored);
        prop_assert!(
            read.as_ref() == Ok(&intent.letter),
            "the letter comes back otherwise: {stored}"
        );
        prop_assert_eq!(canonical(&json::read(stored.as_bytes()).unwrap()), stored);
        match &intent.identity {
            Identity::Caller(key) => prop_assert!((1..=CALLER_KEY_BYTES_MAX).contains(&key.len())),
            Identity::Tuple(parts) => {
                for (_, value) in parts {
                    match value {
                        KeyValue::Text(text) => prop_assert!((1..=KEY_TEXT_BYTES_MAX).contains(&text.len())),
                        KeyValue::Integer(_) => {}
                    }
                }
            }
        }
        prop_assert!(
            intent
                .not_before
                .is_none_or(|start| intent.not_after.is_none_or(|end| start < end))
        );
        let (opens, closes) = (intent.window.opens, intent.window.closes);
        prop_assert!(opens.is_none_or(|start| closes.is_none_or(|end| start < end)));
        prop_assert!(
            intent.not_before <= opens,
            "the window is no wider than it was asked for"
        );
        prop_assert!(
            intent
                .not_after
                .is_none_or(|end| closes.is_some_and(|closes| closes <= end))
        );
        prop_assert!(
            intent
                .delay
                .is_none_or(|delay| delay.as_millis() <= u128::from(DELAY_MS_MAX))
        );
        prop_assert!(intent.letter.time_zone.as_deref().is_none_or(is_zone_name));
        prop_assert!(hostile::debug_is_quiet(&intent));
        is_sent(intent)?;
    }
    Ok(())
}

/// What was accepted comes back from where it is stored, and every file can be saved under its name.
fn attached(attachments: &[Attachment]) -> Result<(), TestCaseError> {
    prop_assert!(attachments.len() <= ATTACHMENTS_MAX);
    let stored: Vec<String> = attachments.iter().map(Attachment::to_json).collect();
    let read = Attachment::list_from_json(&format!("[{}]", stored.join(",")));
    prop_assert!(read.as_deref() == Ok(attachments));
    let mut bytes = 0;
    for attachment in attachments {
        let name = &attachment.file_name;
        prop_assert!((1..=FILE_NAME_CHARS_MAX).contains(&name.chars().count()), "{name:?}");
        prop_assert!(
            !name.contains(|one: char| one.is_control() || "/\\".contains(one)),
            "{name:?}"
        );
        let content = base64::engine::general_purpose::STANDARD.decode(&attachment.content);
        prop_assert!(
            content.as_ref().is_ok_and(|content| !content.is_empty()),
            "{:?}",
            attachment.content
        );
        bytes += content.map_or(0, |content| content.len());
    }
    prop_assert!(bytes <= ATTACHMENT_BYTES_MAX);
    Ok(())
}

/// What was accepted with ready content can be sent: nothing of it is refused later, when nobody can mend it.
fn is_sent(intent: &Intent) -> Result<(), TestCaseError> {
    let Body::Content(content) = &intent.letter.body else {
        return Ok(());
    };
    let sender = Sender {
        from: "Us <us@b.example>".to_owned(),
        reply_to: None,
        environment: "test".to_owned(),
        message_id: true,
    };
    let mailbox = |address: &Option<sealpost::outbox::address::Address>| address.as_ref().map(|one| one.mailbox());
    let (from, reply_to) = (mailbox(&content.from), mailbox(&content.reply_to));
    let draft = Draft {
        to: &intent.to.mailbox(),
        from: from.as_deref(),
        reply_to: reply_to.as_deref(),
        headers: &content.headers,
        tags: &intent.letter.tags,
        outbox_id: "ntc_0123456789",
        unsubscribe: Some("https://mail.example/v1/unsubscribe/x"),
        body: DraftBody::Content {
            subject: &content.subject,
            html: content.html.as_deref(),
            text: content.text.as_deref(),
        },
        attachments: &intent.attachments,
    };
    let body = build_request(&sender, &draft);
    prop_assert!(body.is_ok(), "{:?}", body);
    let sent: Value = serde_json::from_str(&body.unwrap()).unwrap();
    prop_assert_eq!(sent["subject"].as_str(), Some(content.subject.as_str()));
    prop_assert_eq!(sent["html"].as_str(), content.html.as_deref());
    prop_assert_eq!(sent["text"].as_str(), content.text.as_deref());
    prop_assert_eq!(
        sent["attachments"].as_array().map_or(0, Vec::len),
        intent.attachments.len()
    );
    Ok(())
}

/// Codes and sentences are ours; of the request only names are repeated, cut and in ASCII, in the path.
fn says_nothing(problem: &Problem) -> Result<(), TestCaseError> {
    prop_assert!([400, 413, 422].contains(&problem.status));
    prop_assert!(problem.errors.len() <= FIELD_ERRORS_MAX);
    prop_assert!(problem.status == 413 || !problem.errors.is_empty());
    for error in &problem.errors {
        prop_assert!(!error.code.contains(MARK) && !error.detail.contains(MARK));
        prop_assert!(error.path.len() <= PATH_BYTES_MAX, "{}", error.path.len());
        prop_assert!(error.path.is_empty() || error.path.starts_with('/'));
        prop_assert!(
            error.path.bytes().all(|byte| matches!(byte, b' '..=b'~')),
            "{}",
            error.path
        );
    }
    prop_assert!(!problem.to_string().contains(MARK));
    Ok(())
}

/// Values at the limits: many, deep, long.
fn large() -> impl Strategy<Value = Value> {
    prop_oneof![
        (1_usize..=40).prop_map(|levels| (0..levels).fold(json!(1), |inner, _| json!([inner]))),
        (VALUES_MAX - 60..VALUES_MAX + 5).prop_map(|values| json!(vec![0; values])),
        (LETTER_BYTES_MAX - 200..LETTER_BYTES_MAX + 5).prop_map(|bytes| json!("a".repeat(bytes))),
        (LETTER_BYTES_MAX / 6 - 50..LETTER_BYTES_MAX / 6 + 5).prop_map(|times| json!("\u{1}".repeat(times))),
    ]
}

proptest! {
    #[test]
    fn a_nearly_right_request_is_sound_or_its_fields_are_named(changes in changes(NAMES)) {
        let body = changed(&request(), &changes);
        match parse_intents(&body, &families()) {
            Ok(intents) => sound(&intents)?,
            Err(problem) => says_nothing(&problem)?,
        }
    }

    #[test]
    fn values_are_never_repeated(changes in changes(NAMES), member in prop::sample::select(NAMES), at in 0_usize..2) {
        // The mark is a value and never a name.
        let mut request = request();
        request["intents"][at][member] = json!(format!("a{MARK}\n"));
        let body = String::from_utf8_lossy(&changed(&request, &changes)).replace(&format!("\"{MARK}\":"), "\"x\":");
        if let Err(problem) = parse_intents(body.as_bytes(), &families())
            && !body.contains(&format!("{MARK}\\n\":")) && !body.contains(&format!("{MARK}{MARK}\":"))
        {
            prop_assert!(!serde_json::to_string(&problem).unwrap().contains(MARK));
        }
    }

    #[test]
    fn the_same_request_has_the_same_keys_and_letters(changes in changes(NAMES)) {
        let ring = KeyRing::parse("b:YmJiYmJiYmJiYmJiYmJiYg==,a:YWFhYWFhYWFhYWFhYWFhYQ==").unwrap();
        let body = changed(&request(), &changes);
        if let Ok(intents) = parse_intents(&body, &families()) {
            // Written with spaces by another library, in another order.
            let other = serde_json::to_string_pretty(&json::read(&body).unwrap()).unwrap();
            let again = parse_intents(other.as_bytes(), &families()).unwrap();
            for (one, two) in intents.iter().zip(&again) {
                let keys = keys_for(&ring, one);
                prop_assert_eq!(&keys, &keys_for(&ring, two));
                prop_assert!(keys.iter().all(|key| key.key.len() == 64 && key.fingerprint.len() == 64));
                prop_assert!(one == two);
            }
        }
    }

    #[test]
    fn json_is_read_as_a_plain_reader_reads_it_or_not_at_all(changes in changes(NAMES)) {
        let body = changed(&request(), &changes);
        if let Ok(value) = json::read(&body) {
            let text = canonical(&value);
            prop_assert_eq!(&json::read(text.as_bytes()).unwrap(), &value, "{}", text);
            prop_assert_eq!(canonical(&json::read(text.as_bytes()).unwrap()), text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn what_is_large_is_bounded(value in large(), (at, member) in prop::sample::select(vec![(0_usize, "data"), (1, "content"), (0, "tags"), (0, "to")])) {
        let mut request = request();
        request["intents"][at][member]["name"] = value.clone();
        request["intents"][at][member]["text"] = value;
        match parse_intents(request.to_string().as_bytes(), &families()) {
            Ok(intents) => {
                sound(&intents)?;
                for intent in &intents {
                    let Body::Data(data) = &intent.letter.body else { continue };
                    prop_assert!(depth(&Value::Object(data.clone())) <= DATA_DEPTH_MAX);
                }
            }
            Err(problem) => says_nothing(&problem)?,
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

proptest! {
    #[test]
    fn bytes_that_are_no_text_are_refused(at in 0_usize..900, bytes in prop::collection::vec(0x80_u8..=0xff, 1..3), text in hostile::text()) {
        let mut body = request().to_string().into_bytes();
        let at = at.min(body.len());
        body.splice(at..at, text.bytes().chain(bytes));
        if std::str::from_utf8(&body).is_err() {
            prop_assert_eq!(parse_intents(&body, &families()).unwrap_err().status / 100, 4);
        }
    }
}
