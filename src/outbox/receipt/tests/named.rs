//! Whom an event names, and whom it must not be taken to name.

use super::*;

/// Whom a bounce names.
fn bounced(changes: &Value) -> Option<String> {
    match about("email.bounced", changes).named {
        Named::One(address) => Some(address.hash_input()),
        Named::Several => None,
        Named::Nobody => Some("nobody".to_owned()),
    }
}

#[test]
fn one_recipient_is_named_however_it_is_written() {
    for to in [
        json!("a@example.com"),
        json!(["a@example.com"]),
        json!(["A <A@Example.com>"]),
        json!(["a@example.com", " A@EXAMPLE.COM ", "\"A\" <a@example.com>"]),
    ] {
        assert_eq!(bounced(&json!({ "to": to })).as_deref(), Some("a@example.com"), "{to}");
    }
    let idn = bounced(&json!({ "to": "a@b\u{fc}cher.example" }));
    assert_eq!(idn.as_deref(), Some("a@xn--bcher-kva.example"));
    for to in [
        json!(null),
        json!([]),
        json!([null]),
        json!(["x"]),
        json!([5]),
        json!(""),
    ] {
        assert_eq!(bounced(&json!({ "to": to })).as_deref(), Some("nobody"), "{to}");
    }
}

#[test]
fn of_several_recipients_only_the_one_that_the_bounce_mentions_is_named() {
    let to = json!(["a@example.com", "b@example.com"]);
    let by = |bounce: Value| bounced(&json!({ "to": to, "bounce": bounce }));
    for text in [
        "smtp; 550 5.1.1 <A@example.com>: no such user",
        "a@example.com",
        "user a@example.com.",
        "\na@example.com\n",
        "(a@example.com)",
    ] {
        assert_eq!(
            by(json!({ "message": text })).as_deref(),
            Some("a@example.com"),
            "{text}"
        );
        assert_eq!(
            by(json!({ "diagnosticCode": [text] })).as_deref(),
            Some("a@example.com")
        );
        assert_eq!(by(json!({ text: { "status": 5 } })).as_deref(), Some("a@example.com"));
    }
    for bounce in [
        json!(null),
        json!({}),
        json!({ "message": "no such user" }),
        json!({ "message": "a@example.com and b@example.com" }),
        // Longer addresses that end or begin with it.
        json!({ "message": "ba@example.com" }),
        json!({ "message": "x.a@example.com" }),
        json!({ "message": "a@example.com.au" }),
        json!({ "message": "a@example.company" }),
        json!({ "message": "\u{e9}a@example.com" }),
        json!({ "message": "c@example.com" }),
    ] {
        assert_eq!(by(bounce.clone()), None, "{bounce}");
    }
    // Who complained stands in its own detail; a bounce's says nothing about it.
    let complained = |detail: Value| about("email.complained", &detail).named;
    let named = complained(json!({ "to": to, "complaint": { "recipient": "b@example.com" } }));
    assert!(matches!(named, Named::One(address) if address.email == "b@example.com"));
    let named = complained(json!({ "to": to, "bounce": { "recipient": "b@example.com" } }));
    assert_eq!(named, Named::Several);
}

#[test]
fn a_recipient_that_cannot_be_read_is_somebody_all_the_same() {
    for other in [
        json!("not an address"),
        json!(5),
        json!({ "email": "b@example.com" }),
        json!(["b@example.com"]),
    ] {
        let to = json!(["a@example.com", other]);
        assert_eq!(bounced(&json!({ "to": to })), None, "{to}");
        let bounce = json!({ "message": "<a@example.com> is unknown" });
        let named = bounced(&json!({ "to": to, "bounce": bounce }));
        assert_eq!(named.as_deref(), Some("a@example.com"));
    }
}

#[test]
fn more_recipients_than_anybody_sends_to_are_several() {
    let to = |count: usize, entry: &str| json!({ "to": vec![entry; count] });
    let one = "a@example.com";
    assert_eq!(bounced(&to(RECIPIENTS_MAX, one)).as_deref(), Some(one));
    assert_eq!(bounced(&to(RECIPIENTS_MAX + 1, one)), None);
}
