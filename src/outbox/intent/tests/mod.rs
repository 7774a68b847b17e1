//! Requests as callers send them, mend them and abuse them.

use proptest::prelude::*;
use serde_json::json;

mod fields;
mod letters;

use super::*;
use crate::outbox::canonical::canonical;
use crate::outbox::identity::KeyValue;
use crate::outbox::keys::{Secret, business_key, fingerprint};
use crate::outbox::problem::FieldError;

fn families() -> Vec<FamilyShape> {
    let family = |name: &str, key_fields: &[&str], has_template| FamilyShape {
        name: name.to_owned(),
        prefix: name.chars().take(3).collect(),
        key_fields: key_fields.iter().map(|field| (*field).to_owned()).collect(),
        has_template,
        window_hours: None,
        attachments: name == "notice",
    };
    vec![
        family("invitation", &["companyId", "inviteeId"], true),
        family("notice", &["noticeId"], false),
        family("keyless", &[], true),
    ]
}

fn invitation() -> Value {
    json!({
        "family": "invitation", "key": {"inviteeId": "u9", "companyId": 7}, "to": "Reader@B\u{fc}cher.example",
        "data": {"name": "Ada"}
    })
}

fn notice() -> Value {
    json!({
        "family": "notice", "idempotencyKey": "order 7", "to": {"email": "a@b.example", "name": "Ada, VP"},
        "content": {"subject": "Hello", "text": "Hi"}
    })
}

/// `intent` with members set; a member set to nothing is taken out.
fn with(mut intent: Value, changes: &[(&str, Option<Value>)]) -> Value {
    let members = intent.as_object_mut().unwrap();
    for (name, value) in changes {
        match value {
            Some(value) => members.insert((*name).to_owned(), value.clone()),
            None => members.remove(*name),
        };
    }
    intent
}

fn parse(intents: &[Value]) -> Result<Vec<Intent>, Problem> {
    parse_intents(json!({ "intents": intents }).to_string().as_bytes(), &families())
}

/// The paths below the intent with their codes.
fn errors(intent: Value) -> Vec<(String, &'static str)> {
    let problem = parse(&[intent]).unwrap_err();
    assert_eq!((problem.status, problem.code), (422, "intents_invalid"));
    let errors = problem.errors.into_iter();
    let below = |error: FieldError| (error.path.strip_prefix("/intents/0").unwrap().to_owned(), error.code);
    errors.map(below).collect()
}

fn one_error(intent: Value) -> (String, &'static str) {
    let mut errors = errors(intent);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

fn body_error(body: &[u8]) -> (u16, &'static str, Vec<(String, &'static str)>) {
    let problem = parse_intents(body, &families()).unwrap_err();
    let errors = problem.errors.into_iter().map(|error| (error.path, error.code));
    (problem.status, problem.code, errors.collect())
}

#[test]
fn a_request_is_bounded_and_is_a_list_of_intents() {
    let expected = |path: &str, code| vec![(path.to_owned(), code)];
    assert_eq!(
        body_error(&vec![b' '; BODY_BYTES_MAX + 1]),
        (413, "body_too_large", vec![])
    );
    assert_eq!(
        body_error(&vec![b' '; BODY_BYTES_MAX]),
        (400, "json_invalid", expected("", "json_invalid"))
    );
    for (body, path, code) in [
        ("[]", "", "object_expected"),
        ("{}", "/intents", "required"),
        (r#"{"intents":[]}"#, "/intents", "intents_expected"),
        (r#"{"intents":{}}"#, "/intents", "intents_expected"),
        (r#"{"intents":[7]}"#, "/intents/0", "object_expected"),
        (
            r#"{"intents":[{"to":"a@b.example","to":"c@d.example"}]}"#,
            "/intents/0",
            "name_twice",
        ),
    ] {
        assert_eq!(
            body_error(body.as_bytes()),
            (422, "intents_invalid", expected(path, code))
        );
    }
    let hundred: Vec<Value> = vec![invitation(); INTENTS_MAX];
    assert_eq!(parse(&hundred).unwrap().len(), INTENTS_MAX);
    assert_eq!(
        parse(&vec![invitation(); INTENTS_MAX + 1]).unwrap_err().errors[0].code,
        "intents_expected"
    );
}

#[test]
fn everything_wrong_is_told_at_once_up_to_twenty() {
    let broken = with(
        invitation(),
        &[
            ("to", Some(json!("a@@b"))),
            ("nope", Some(json!(1))),
            ("revision", Some(json!(-1))),
        ],
    );
    let problem = parse(&[invitation(), broken.clone()]).unwrap_err();
    let paths: Vec<_> = problem.errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(paths, ["/intents/1/nope", "/intents/1/revision", "/intents/1/to"]);
    assert_eq!(parse(&vec![broken; 100]).unwrap_err().errors.len(), 20);
}

#[test]
fn a_problem_repeats_nothing_of_the_request() {
    let intent = with(
        invitation(),
        &[
            ("to", Some(json!("secret@@value.example"))),
            ("data", Some(json!("secret value"))),
            ("notAfter", Some(json!("secret value"))),
            ("family", Some(json!("secret value"))),
        ],
    );
    let problem = parse(&[intent]).unwrap_err();
    assert_eq!(problem.errors.len(), 4);
    assert!(!serde_json::to_string(&problem).unwrap().contains("secret"));
}

#[test]
fn the_order_of_members_has_no_meaning() {
    let secret = Secret::parse("a:YWFhYWFhYWFhYWFhYWFhYQ==").unwrap();
    let meaning = |intent: &str| {
        let body = format!(r#"{{"intents":[{intent}]}}"#);
        let intent = parse_intents(body.as_bytes(), &families()).unwrap().remove(0);
        let key = business_key(&secret, &intent.family, &intent.identity, intent.revision);
        (key, fingerprint(&secret, &intent), intent.letter.to_json())
    };
    assert_eq!(
        meaning(
            r#"{"family":"invitation","key":{"companyId":"c","inviteeId":1},"to":{"email":"a@b.example","name":"A"},
                "data":{"x":{"a":1,"b":[{"c":1,"d":2}]},"y":0},"tags":{"s":"1","t":"2"}}"#
        ),
        meaning(
            r#"{"tags":{"t":"2","s":"1"},"data":{"y":0,"x":{"b":[{"d":2,"c":1}],"a":1}},
                "to":{"name":"A","email":"a@B.example"},"key":{"inviteeId":1,"companyId":"c"},"family":"invitation"}"#
        )
    );
}

#[test]
fn a_program_makes_an_intent_by_the_same_rules() {
    let value = invitation();
    let intent = IntentRequest::new(&value).into_intent(&families()).unwrap();
    assert!(intent == parse(&[invitation()]).unwrap()[0]);
    let broken = with(invitation(), &[("to", None)]);
    let problem = IntentRequest::new(&broken).into_intent(&families()).unwrap_err();
    assert_eq!(problem.errors[0].path, "/to");
}

#[test]
fn debug_shows_nothing_personal() {
    let shown = format!("{:?}", parse(&[notice()]).unwrap());
    for word in ["Ada", "b.example", "Hello", "order 7"] {
        assert!(!shown.contains(word), "{shown}");
    }
}

/// Requests that are nearly right: every member is one of a few values, right and wrong.
fn nearly() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!(1)),
        Just(json!([])),
        Just(json!({})),
        Just(json!("notice")),
        Just(json!("invitation")),
        Just(json!({"companyId": "c1", "inviteeId": 1})),
        Just(json!({"subject": "s", "text": "t", "headers": {"X-A": "1"}})),
        Just(json!("a@b.example")),
        Just(json!("2026-02-01T00:00:00Z")),
        any::<String>().prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
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
        "x",
    ]);
    prop::collection::btree_map(name, value, 0..8).prop_map(|changes| {
        let changes: Vec<_> = changes.into_iter().map(|(name, value)| (name, Some(value))).collect();
        with(invitation(), &changes)
    })
}

proptest! {
    #[test]
    fn never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_intents(&bytes, &families());
    }

    #[test]
    fn a_nearly_right_request_is_taken_or_its_fields_are_named(intent in nearly()) {
        match parse(&[intent]) {
            Ok(intents) => {
                let stored = intents[0].letter.to_json();
                prop_assert_eq!(intents.len(), 1);
                prop_assert!(Letter::from_json(&stored).is_ok());
                prop_assert_eq!(&canonical(&serde_json::from_str(&stored).unwrap()), &stored);
            }
            Err(problem) => prop_assert!(!problem.errors.is_empty()),
        }
    }
}
