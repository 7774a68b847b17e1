//! One line per rule of a mail's body.

use serde_json::json;

use super::*;

fn good() -> Value {
    json!({
        "from": "Shop <shop@mail.acme.test>",
        "to": ["ada@example.com"],
        "subject": "Hello",
        "html": "<p>Hello</p>",
        "tags": [{ "name": "env", "value": "dev_1-a" }],
        "headers": { "List-Unsubscribe": "<https://acme.test/u>" },
    })
}

/// The good body with one field replaced (`null` takes it out), and what the provider says to it.
fn answer_to(field: &str, value: Value) -> (u16, &'static str) {
    let mut body = good();
    body[field] = value;
    match check(Some(&body), true) {
        Ok(_) => (200, ""),
        Err(refusal) => (refusal.status, refusal.name.as_str()),
    }
}

#[test]
fn a_good_body_is_kept_whole() {
    let mail = check(Some(&good()), true).unwrap();
    assert_eq!(mail.to, ["ada@example.com"]);
    assert_eq!(
        mail.tags,
        [Tag {
            name: "env".into(),
            value: "dev_1-a".into()
        }]
    );
    assert_eq!(mail.headers["List-Unsubscribe"], "<https://acme.test/u>");
}

#[test]
fn every_field_is_judged_as_the_provider_does() {
    const MISSING: (u16, &str) = (422, "missing_required_field");
    const WRONG: (u16, &str) = (422, "validation_error");
    const FINE: (u16, &str) = (200, "");
    let many = |count: usize| Value::from((0..count).map(|n| format!("a{n}@example.com")).collect::<Vec<_>>());
    let tags = |count: usize| Value::from(vec![json!({ "name": "n", "value": "v" }); count]);
    let tag = |name: &str, value: &str| json!([{ "name": name, "value": value }]);
    let cases = [
        ("from", Value::Null, MISSING),
        ("from", json!("shop"), (422, "invalid_from_address")),
        (
            "from",
            json!("Shop <shop@mail.acme.test"),
            (422, "invalid_from_address"),
        ),
        (
            "from",
            json!("A\r\nBcc: x@y.zz <shop@mail.acme.test>"),
            (422, "invalid_from_address"),
        ),
        ("to", Value::Null, MISSING),
        ("to", json!([]), MISSING),
        ("to", json!("ada@example.com"), FINE),
        ("to", json!("Ada Lovelace <ada@example.com>"), FINE),
        ("to", json!("ada"), WRONG),
        ("to", json!("ada@localhost"), WRONG),
        ("to", json!("ädä@example.com"), WRONG),
        ("to", json!(["ada@example.com", 7]), WRONG),
        ("to", json!(7), WRONG),
        ("to", many(RECIPIENTS_MAX), FINE),
        ("to", many(RECIPIENTS_MAX + 1), WRONG),
        ("cc", json!("nobody"), WRONG),
        ("reply_to", json!("help@acme.test"), FINE),
        ("subject", Value::Null, MISSING),
        ("subject", json!(""), MISSING),
        ("subject", json!("a\nb"), WRONG),
        ("html", Value::Null, MISSING),
        ("html", json!(1), WRONG),
        ("headers", json!({ "X-A": 1 }), WRONG),
        ("headers", json!({ "X-A": "a\r\nBcc: b" }), WRONG),
        ("headers", json!({ "X A": "a" }), WRONG),
        ("tags", json!({ "env": "dev" }), WRONG),
        ("tags", tag("env", "a.b"), WRONG),
        ("tags", tag("env:x", "a"), WRONG),
        ("tags", tag("env", "ä"), WRONG),
        ("tags", tag("env", ""), WRONG),
        ("tags", tag("env", &"x".repeat(TAG_CHARS_MAX)), FINE),
        ("tags", tag("env", &"x".repeat(TAG_CHARS_MAX + 1)), WRONG),
        ("tags", tags(TAGS_MAX), FINE),
        ("tags", tags(TAGS_MAX + 1), WRONG),
        ("attachments", json!([{ "filename": "a.pdf", "content": "QQ==" }]), FINE),
        (
            "attachments",
            json!([{ "filename": "a.pdf" }]),
            (422, "invalid_attachment"),
        ),
        (
            "attachments",
            json!([{ "filename": "a.pdf", "content": "QQ" }]),
            (422, "invalid_attachment"),
        ),
        (
            "attachments",
            json!([{ "filename": "a.pdf", "content": "QQ==", "path": "https://a.example/" }]),
            (422, "invalid_attachment"),
        ),
        (
            "attachments",
            json!([{ "filename": "a.pdf", "path": "https://a.example/" }]),
            FINE,
        ),
        (
            "attachments",
            json!([{ "filename": "A.EXE", "content": "QQ==" }]),
            (422, "invalid_attachment"),
        ),
        ("template", json!({ "id": "t" }), WRONG),
    ];
    for (field, value, expected) in cases {
        assert_eq!(answer_to(field, value.clone()), expected, "{field}: {value}");
    }
}

#[test]
fn a_body_that_is_no_object_is_a_400() {
    assert_eq!(check(None, true).unwrap_err().status, 400);
    assert_eq!(check(Some(&json!([])), true).unwrap_err().status, 400);
}

#[test]
fn example_domains_are_refused_only_when_the_switch_says_so() {
    assert!(check(Some(&good()), true).is_ok());
    let refusal = check(Some(&good()), false).unwrap_err();
    assert_eq!((refusal.status, refusal.name), (422, ErrorName::ValidationError));
    let mut hidden = good();
    hidden["to"] = json!("ada@acme.test");
    assert!(check(Some(&hidden), false).is_ok());
    hidden["bcc"] = json!("Ada <ada@TEST.com>");
    assert!(check(Some(&hidden), false).is_err());
}

#[test]
fn recipients_are_read_from_any_body() {
    assert_eq!(recipients(Some(&json!({ "to": "a@b.cc" }))), ["a@b.cc"]);
    assert_eq!(recipients(Some(&json!({ "to": ["a@b.cc", 1] }))), ["a@b.cc"]);
    assert!(recipients(Some(&json!([1]))).is_empty());
    assert!(recipients(None).is_empty());
}
