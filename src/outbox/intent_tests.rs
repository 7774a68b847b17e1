//! Requests as callers send them, mend them and abuse them.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::outbox::canonical::canonical;
use crate::outbox::identity::KeyValue;

/// 2026-01-01T00:00:00Z.
const NOW: Millis = Millis::new(1_767_225_600_000);

fn families() -> Vec<FamilyShape> {
    let family = |name: &str, key_fields: &[&str], has_template| FamilyShape {
        name: name.to_owned(),
        prefix: name.chars().take(3).collect(),
        key_fields: key_fields.iter().map(|field| (*field).to_owned()).collect(),
        has_template,
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
    parse_intents(json!({ "intents": intents }).to_string().as_bytes(), &families(), NOW)
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
    let problem = parse_intents(body, &families(), NOW).unwrap_err();
    let errors = problem.errors.into_iter().map(|error| (error.path, error.code));
    (problem.status, problem.code, errors.collect())
}

use super::super::problem::FieldError;

#[test]
fn an_intent_for_a_template_is_normalised_once() {
    let intent = with(
        invitation(),
        &[
            ("revision", Some(json!(4_294_967_295_u32))),
            ("tags", Some(json!({"plan": "pro \u{e4}"}))),
            ("notBefore", Some(json!("2026-02-01T09:00:00+01:00"))),
            ("notAfter", Some(json!("2026-02-01T08:00:00.001Z"))),
        ],
    );
    let intents = parse(&[intent]).unwrap();
    let [intent] = intents.as_slice() else {
        panic!("{intents:?}");
    };
    assert_eq!((intent.family.as_str(), intent.prefix.as_str()), ("invitation", "inv"));
    assert!(
        intent.identity
            == Identity::Tuple(vec![
                ("companyId".to_owned(), KeyValue::Integer(7)),
                ("inviteeId".to_owned(), KeyValue::Text("u9".to_owned())),
            ])
    );
    assert_eq!(intent.revision, u32::MAX);
    assert_eq!(intent.to.email, "Reader@xn--bcher-kva.example");
    assert!(intent.letter.to == intent.to);
    assert_eq!(
        intent.letter.to_json(),
        r#"{"data":{"name":"Ada"},"to":{"email":"Reader@xn--bcher-kva.example"},"v":1}"#
    );
    assert_eq!(intent.tags["plan"], "pro \u{e4}");
    assert_eq!(intent.not_before, Some(Millis::new(1_769_932_800_000)));
    assert_eq!(intent.not_after, Some(Millis::new(1_769_932_800_001)));
}

#[test]
fn an_intent_with_ready_content_keeps_all_of_it() {
    let content = json!({
        "subject": "Hello", "html": "<p>Hi</p>", "text": "Hi\r\n\tthere", "from": "\"Ops\" <ops@b.example>",
        "replyTo": {"email": " r@b.example "}, "headers": {"X-Entity-Ref-ID": "7"}
    });
    let intent = parse(&[with(notice(), &[("content", Some(content))])])
        .unwrap()
        .remove(0);
    assert!(intent.identity == Identity::Caller("order 7".to_owned()));
    assert_eq!((intent.revision, intent.tags.len()), (0, 0));
    assert_eq!(
        intent.letter.to_json(),
        concat!(
            r#"{"content":{"from":{"email":"ops@b.example","name":"Ops"},"headers":{"X-Entity-Ref-ID":"7"},"#,
            r#""html":"<p>Hi</p>","replyTo":{"email":"r@b.example"},"subject":"Hello","text":"Hi\r\n\tthere"},"#,
            r#""to":{"email":"a@b.example","name":"Ada, VP"},"v":1}"#
        )
    );
    assert!(Letter::from_json(&intent.letter.to_json()) == Ok(intent.letter));
}

#[test]
fn one_intent_has_one_recipient() {
    for (to, code) in [
        (json!(["a@b.example"]), "address_several"),
        (json!([]), "address_several"),
        (json!("a@b.example, c@d.example"), "address_several"),
        (json!(null), "address_expected"),
        (json!(7), "address_expected"),
        (json!(""), "address_empty"),
        (json!({"email": ""}), "address_empty"),
        (json!({"email": "Ada <a@b.example>"}), "address_malformed"),
        (
            json!({"email": "a@b.example", "name": "a\r\nBcc: z@example.com"}),
            "address_control_character",
        ),
    ] {
        assert_eq!(
            one_error(with(invitation(), &[("to", Some(to))])),
            ("/to".to_owned(), code)
        );
    }
    assert_eq!(
        one_error(with(invitation(), &[("to", None)])),
        ("/to".to_owned(), "required")
    );
    for name in ["cc", "bcc"] {
        let intent = with(invitation(), &[(name, Some(json!("z@example.com")))]);
        assert_eq!(one_error(intent), (format!("/{name}"), "field_unknown"));
    }
    let with_cc = json!({"email": "a@b.example", "cc": "z@example.com"});
    assert_eq!(
        one_error(with(invitation(), &[("to", Some(with_cc))])),
        ("/to/cc".to_owned(), "field_unknown")
    );
    let unnamed = json!({"email": 1, "name": null});
    assert_eq!(
        errors(with(invitation(), &[("to", Some(unnamed))])),
        [
            ("/to/email".to_owned(), "string_expected"),
            ("/to/name".to_owned(), "string_expected")
        ]
    );
}

#[test]
fn the_key_has_exactly_the_declared_fields() {
    let key = |key: Value| with(invitation(), &[("key", Some(key))]);
    assert_eq!(
        errors(key(json!({"companyId": "c1", "extra": 1}))),
        [
            ("/key/extra".to_owned(), "field_unknown"),
            ("/key/inviteeId".to_owned(), "required")
        ]
    );
    assert_eq!(errors(key(json!({}))).len(), 2);
    for value in [
        json!(null),
        json!(true),
        json!(1.5),
        json!(u64::MAX),
        json!([1]),
        json!({}),
    ] {
        assert_eq!(
            one_error(key(json!({"companyId": "c1", "inviteeId": value}))),
            ("/key/inviteeId".to_owned(), "key_part_expected")
        );
    }
    for value in [String::new(), "a\nb".to_owned(), "a".repeat(257)] {
        assert_eq!(
            one_error(key(json!({"companyId": "c1", "inviteeId": value}))),
            ("/key/inviteeId".to_owned(), "key_part_invalid")
        );
    }
    assert_eq!(one_error(key(json!("c1"))), ("/key".to_owned(), "object_expected"));
}

#[test]
fn the_identity_is_the_tuple_or_the_callers_key() {
    let both = with(invitation(), &[("idempotencyKey", Some(json!("k")))]);
    assert_eq!(one_error(both), ("/key".to_owned(), "identity_required"));
    assert_eq!(
        one_error(with(invitation(), &[("key", None)])),
        ("/key".to_owned(), "identity_required")
    );
    let keyless = with(
        invitation(),
        &[("family", Some(json!("keyless"))), ("key", Some(json!({})))],
    );
    assert_eq!(one_error(keyless), ("/key".to_owned(), "key_not_declared"));
    for value in ["", " ", "a ", "a\nb", "\u{e4}", &"k".repeat(257)] {
        assert_eq!(
            one_error(with(notice(), &[("idempotencyKey", Some(json!(value)))])),
            ("/idempotencyKey".to_owned(), "idempotency_key_invalid")
        );
    }
    assert!(parse(&[with(notice(), &[("idempotencyKey", Some(json!("k".repeat(256))))])]).is_ok());
}

#[test]
fn the_family_says_whether_data_or_content_is_due() {
    let content = Some(json!({"subject": "s", "text": "t"}));
    for (intent, expected) in [
        (with(invitation(), &[("data", None)]), vec![("/data", "data_required")]),
        (
            with(invitation(), &[("content", content.clone())]),
            vec![("/content", "content_unexpected")],
        ),
        (
            with(invitation(), &[("data", None), ("content", content)]),
            vec![("/data", "data_required"), ("/content", "content_unexpected")],
        ),
        (
            with(notice(), &[("content", None)]),
            vec![("/content", "content_required")],
        ),
        (
            with(notice(), &[("data", Some(json!({})))]),
            vec![("/data", "data_unexpected")],
        ),
        (
            with(invitation(), &[("data", Some(json!([])))]),
            vec![("/data", "object_expected")],
        ),
        (
            with(invitation(), &[("data", Some(json!(null)))]),
            vec![("/data", "object_expected")],
        ),
        (
            with(invitation(), &[("family", Some(json!("nobody")))]),
            vec![("/family", "family_unknown")],
        ),
        (with(invitation(), &[("family", None)]), vec![("/family", "required")]),
    ] {
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(path, code)| (path.to_owned(), code))
            .collect();
        assert_eq!(errors(intent), expected);
    }
}

#[test]
fn content_cannot_carry_a_header_of_its_own() {
    let content = |content: Value| with(notice(), &[("content", Some(content))]);
    for subject in ["a\rb", "a\nBcc: z@example.com", "a\u{2028}b", "a\0b"] {
        assert_eq!(
            one_error(content(json!({"subject": subject, "text": "t"}))),
            ("/content/subject".to_owned(), "header_control_character")
        );
    }
    for (name, value, path, code) in [
        (
            "X-A\r\nBcc",
            "z@example.com",
            "/content/headers/X-A??Bcc",
            "header_name_invalid",
        ),
        (
            "X-A",
            "ok\r\nBcc: z@example.com",
            "/content/headers/X-A",
            "header_control_character",
        ),
        ("bCC", "z@example.com", "/content/headers/bCC", "header_reserved"),
        ("From", "z@example.com", "/content/headers/From", "header_reserved"),
        ("Subject", "s", "/content/headers/Subject", "header_reserved"),
    ] {
        let intent = content(json!({"subject": "s", "text": "t", "headers": {name: value}}));
        assert_eq!(one_error(intent), (path.to_owned(), code));
    }
    for reply_to in ["a@example.com, b@example.com", "a@example.com\nBcc: z@example.com"] {
        let (path, code) = one_error(content(json!({"subject": "s", "text": "t", "replyTo": reply_to})));
        assert_eq!(path, "/content/replyTo");
        assert!(
            matches!(code, "address_several" | "address_control_character"),
            "{code}"
        );
    }
}

#[test]
fn content_says_something_and_nothing_unknown() {
    let content = |content: Value| with(notice(), &[("content", Some(content))]);
    for (value, path, code) in [
        (json!({"subject": "s"}), "/content", "content_required"),
        (json!({"text": "t"}), "/content/subject", "required"),
        (
            json!({"subject": "", "text": "t"}),
            "/content/subject",
            "header_value_empty",
        ),
        (json!({"subject": "s", "text": ""}), "/content/text", "content_empty"),
        (
            json!({"subject": "s", "text": "t", "html": "a\0"}),
            "/content/html",
            "content_nul",
        ),
        (
            json!({"subject": "s", "text": "t", "cc": "a@b.example"}),
            "/content/cc",
            "field_unknown",
        ),
        (
            json!({"subject": "s", "text": "t", "headers": {"X-A": 1}}),
            "/content/headers/X-A",
            "string_expected",
        ),
        (
            json!({"subject": "s", "text": "t", "headers": {"X-A": "1", "x-a": "2"}}),
            "/content/headers/x-a",
            "header_twice",
        ),
        (json!([]), "/content", "object_expected"),
    ] {
        assert_eq!(one_error(content(value)), (path.to_owned(), code));
    }
    let headers: serde_json::Map<_, _> = (0..21).map(|index| (format!("X-{index}"), json!("1"))).collect();
    assert_eq!(
        one_error(content(json!({"subject": "s", "text": "t", "headers": headers}))),
        ("/content/headers".to_owned(), "headers_too_many")
    );
}

#[test]
fn a_window_is_open_and_lies_ahead() {
    let window = |from: &str, to: &str| {
        with(
            invitation(),
            &[("notBefore", Some(json!(from))), ("notAfter", Some(json!(to)))],
        )
    };
    for (intent, path, code) in [
        (
            window("2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z"),
            "/notAfter",
            "window_empty",
        ),
        (
            window("2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            "/notAfter",
            "not_after_passed",
        ),
        (
            window("2026-02-01T00:00:00", "2026-03-01T00:00:00Z"),
            "/notBefore",
            "time_without_offset",
        ),
        (window("tomorrow", "2026-03-01T00:00:00Z"), "/notBefore", "time_invalid"),
        (
            window("1969-01-01T00:00:00Z", "2026-03-01T00:00:00Z"),
            "/notBefore",
            "time_out_of_range",
        ),
        (
            with(invitation(), &[("notAfter", Some(json!(1_800_000_000)))]),
            "/notAfter",
            "string_expected",
        ),
    ] {
        assert_eq!(one_error(intent), (path.to_owned(), code));
    }
    assert!(parse(&[window("2025-01-01T00:00:00Z", "2026-01-01T00:00:00.001Z")]).is_ok());
}

#[test]
fn tags_and_revision_are_bounded() {
    let tags = |tags: Value| with(invitation(), &[("tags", Some(tags))]);
    let numbered = |count: usize| {
        (0..count)
            .map(|index| (format!("t{index}"), json!("v")))
            .collect::<serde_json::Map<_, _>>()
    };
    assert!(parse(&[tags(json!(numbered(20)))]).is_ok());
    assert_eq!(
        one_error(tags(json!(numbered(21)))),
        ("/tags".to_owned(), "tags_too_many")
    );
    assert!(parse(&[tags(json!({"t": "v".repeat(80)}))]).is_ok());
    for value in [json!(""), json!("v".repeat(81))] {
        assert_eq!(
            one_error(tags(json!({"t": value}))),
            ("/tags/t".to_owned(), "tag_invalid")
        );
    }
    assert_eq!(one_error(tags(json!({"": "v"}))), ("/tags/".to_owned(), "tag_invalid"));
    assert_eq!(
        one_error(tags(json!({"t": null}))),
        ("/tags/t".to_owned(), "string_expected")
    );
    for revision in [json!(-1), json!(1.0), json!("1"), json!(4_294_967_296_u64), json!(null)] {
        assert_eq!(
            one_error(with(invitation(), &[("revision", Some(revision))])),
            ("/revision".to_owned(), "revision_invalid")
        );
    }
}

#[test]
fn a_letter_is_bounded_as_it_is_stored() {
    let overhead = r#"{"data":{"x":""},"to":{"email":"a@b.example"},"v":1}"#.len();
    let data = |bytes: usize| {
        with(
            invitation(),
            &[
                ("to", Some(json!("a@b.example"))),
                ("data", Some(json!({"x": "x".repeat(bytes)}))),
            ],
        )
    };
    assert!(parse(&[data(LETTER_BYTES_MAX - overhead)]).is_ok());
    assert_eq!(
        one_error(data(LETTER_BYTES_MAX - overhead + 1)),
        ("/data".to_owned(), "letter_too_large")
    );
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
fn a_program_makes_an_intent_by_the_same_rules() {
    let value = invitation();
    let intent = IntentRequest::new(&value).into_intent(&families(), NOW).unwrap();
    assert!(intent == parse(&[invitation()]).unwrap()[0]);
    let broken = with(invitation(), &[("to", None)]);
    let problem = IntentRequest::new(&broken).into_intent(&families(), NOW).unwrap_err();
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
    prop::collection::btree_map(name, value, 0..8).prop_map(|members| {
        let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
        with(
            invitation(),
            &members
                .map(|(name, value)| (name, Some(value)))
                .collect::<Vec<_>>()
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone()))
                .collect::<Vec<_>>(),
        )
    })
}

proptest! {
    #[test]
    fn never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_intents(&bytes, &families(), NOW);
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
