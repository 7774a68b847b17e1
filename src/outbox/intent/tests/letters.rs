//! What the mail is made of, and what it cannot carry.

use super::*;

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
        r#"{"data":{"name":"Ada"},"tags":{"plan":"pro ä"},"to":{"email":"Reader@xn--bcher-kva.example"},"v":1}"#
    );
    assert_eq!(intent.letter.tags["plan"], "pro \u{e4}");
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
    assert_eq!((intent.revision, intent.letter.tags.len()), (0, 0));
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
