//! Recipient, key, window, tags: what each field of an intent takes.

use super::*;

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
fn a_window_has_a_length_and_names_instants() {
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
    // A closed window is recorded, and counted as expired: the repetition of an old request must find its row.
    assert!(parse(&[window("2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z")]).is_ok());
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
