//! Addresses as people, forms and attackers write them.

use proptest::prelude::*;

use super::*;

fn email(text: &str) -> String {
    parse(text).map(|address| address.email).unwrap()
}

#[test]
fn takes_addresses_that_strict_checks_refuse() {
    for text in [
        "a+b@example.com",
        "o'brien@example.com",
        "a@b.photography",
        "a@sub.x-y.example",
        "a@r3---x.example",
        "a.b.c@1.example",
        "!#$%&'*+-/=?^_`{|}~@example.com",
    ] {
        assert_eq!(email(text), text);
    }
}

#[test]
fn what_was_validated_is_what_is_kept() {
    assert_eq!(email("  a@example.com "), "a@example.com");
    assert_eq!(email("Reader@EXAMPLE.Com"), "Reader@example.com");
    assert_eq!(email("a@b\u{fc}cher.example"), "a@xn--bcher-kva.example");
    assert_eq!(email("a@B\u{dc}CHER\u{3002}example"), "a@xn--bcher-kva.example");
}

#[test]
fn every_spelling_is_one_recipient_and_a_tag_is_another() {
    let recipient = |text: &str| parse(text).unwrap().hash_input();
    for text in [
        "Reader@B\u{fc}cher.example",
        " reader@b\u{fc}cher.example ",
        "READER@xn--bcher-kva.EXAMPLE",
        "Somebody <reader@b\u{fc}cher.example>",
    ] {
        assert_eq!(recipient(text), "reader@xn--bcher-kva.example");
    }
    assert_eq!(recipient("reader+tag@example.com"), "reader+tag@example.com");
}

#[test]
fn refuses_with_a_code_that_says_why() {
    let long_local = format!("{}@example.com", "a".repeat(65));
    let long_label = format!("a@{}.example", "b".repeat(64));
    let long_whole = format!("{}@{}.example", "a".repeat(64), vec!["b".repeat(60); 3].join("."));
    let long_name = format!("{} <a@b.example>", "a".repeat(257));
    for (text, code) in [
        ("", "address_empty"),
        ("   ", "address_empty"),
        ("<>", "address_empty"),
        ("a@example.com\n", "address_control_character"),
        ("a@example.com\r\nBcc: z@example.com", "address_control_character"),
        ("a\tb@example.com", "address_control_character"),
        ("a\0@example.com", "address_control_character"),
        ("a@example.com\u{2028}", "address_control_character"),
        ("\"A\"\n<a@example.com>", "address_control_character"),
        ("A\u{2029}B <a@example.com>", "address_control_character"),
        ("\u{200b}a@example.com", "address_invisible_character"),
        ("a\u{200d}@example.com", "address_invisible_character"),
        ("a@exam\u{ad}ple.com", "address_invisible_character"),
        ("A\u{202e}B <a@example.com>", "address_invisible_character"),
        ("a@example.com, b@example.com", "address_several"),
        ("a@example.com,", "address_several"),
        ("a@example.com;b@example.com", "address_several"),
        ("A <a@example.com>, B <b@example.com>", "address_several"),
        ("\"A\" <a@example.com>, \"B\" <b@example.com>", "address_several"),
        ("Ada, VP <a@example.com>", "address_several"),
        ("a@exa mple.com", "address_space"),
        ("a @example.com", "address_space"),
        ("a@exa\u{a0}mple.com", "address_space"),
        ("example.com", "address_at_missing"),
        ("a\u{ff20}example.com", "address_at_missing"),
        ("a@@example.com", "address_at_repeated"),
        ("a@b@example.com", "address_at_repeated"),
        ("\"a b\"@example.com", "address_local_quoted"),
        ("a\"b\"@example.com", "address_local_quoted"),
        ("@example.com", "address_local_empty"),
        ("a..b@example.com", "address_local_dots"),
        (".a@example.com", "address_local_dots"),
        ("a.@example.com", "address_local_dots"),
        ("\u{fc}@example.com", "address_local_not_ascii"),
        ("a(b)@example.com", "address_local_character"),
        ("a:b@example.com", "address_local_character"),
        (&long_local, "address_local_too_long"),
        ("a@localhost", "address_domain_without_dot"),
        ("a@", "address_domain_invalid"),
        ("a@.example", "address_domain_invalid"),
        ("a@b..example", "address_domain_invalid"),
        ("a@example.com.", "address_domain_invalid"),
        ("a@-b.example", "address_domain_invalid"),
        ("a@b_c.example", "address_domain_invalid"),
        ("a@xn--\u{fc}.example", "address_domain_invalid"),
        ("a@xn--zzzzzzzz99.example", "address_domain_invalid"),
        ("a@127.0.0.1", "address_domain_invalid"),
        ("a@[127.0.0.1]", "address_domain_invalid"),
        (&long_label, "address_domain_invalid"),
        (&long_whole, "address_too_long"),
        (&long_name, "address_name_too_long"),
        ("x@y.example <a@example.com>", "address_name_needs_quotes"),
        ("Support (Billing) <a@example.com>", "address_name_needs_quotes"),
        ("A <a@example.com> B", "address_malformed"),
        ("A <a@example.com", "address_malformed"),
        ("\"A <a@example.com>", "address_malformed"),
        ("A <<a@example.com>>", "address_malformed"),
    ] {
        assert_eq!(
            parse(text).map_err(|error| error.to_string()),
            Err(code.to_owned()),
            "{text:?}"
        );
    }
    assert_eq!(parse(&"a".repeat(100_000)), Err(AddressError::TooLong));
}

#[test]
fn a_name_is_quoted_so_that_one_mailbox_results() {
    for (name, mailbox) in [
        ("Ada, VP of Ops", r#""Ada, VP of Ops" <a@b.example>"#),
        (r#"A "B" C"#, r#""A \"B\" C" <a@b.example>"#),
        (r"A \ B", r#""A \\ B" <a@b.example>"#),
        ("Support (Billing)", r#""Support (Billing)" <a@b.example>"#),
        ("x@y.example", r#""x@y.example" <a@b.example>"#),
        ("Bj\u{f6}rn", "\"Bj\u{f6}rn\" <a@b.example>"),
        (
            "\u{639}\u{644}\u{6cc}\u{200c}\u{631}\u{636}\u{627}",
            "\"\u{639}\u{644}\u{6cc}\u{200c}\u{631}\u{636}\u{627}\" <a@b.example>",
        ),
    ] {
        let address = from_parts("a@b.example", Some(name)).unwrap();
        assert_eq!(address.mailbox(), mailbox);
        assert_eq!(parse(mailbox), Ok(address));
    }
    assert_eq!(from_parts("a@b.example", Some("  ")).unwrap().mailbox(), "a@b.example");
    assert_eq!(
        parse("Ada Lovelace <a@b.example>").unwrap().name.as_deref(),
        Some("Ada Lovelace")
    );
}

#[test]
fn a_name_cannot_carry_a_header() {
    assert_eq!(
        from_parts("a@b.example", Some("a\r\nBcc: z@example.com")),
        Err(AddressError::ControlCharacter)
    );
}

#[test]
fn debug_shows_nothing_of_the_person() {
    let address = parse("Ada <ada@b.example>").unwrap();
    assert_eq!(format!("{address:?}"), "Address(..)");
}

proptest! {
    #[test]
    fn never_panics_and_what_passes_is_clean(text in "\\PC*|.*|[a-c@.<>\", \\\\]{0,20}") {
        if let Ok(address) = parse(&text) {
            prop_assert!(address.email.is_ascii());
            prop_assert!(!address.mailbox().contains(breaks_a_header));
        }
    }

    #[test]
    fn a_mailbox_reads_back_as_itself(
        local in "[a-zA-Z0-9+'_-]{1,20}",
        domain in "[a-z\u{e4}\u{f6}\u{fc}]{1,20}\\.[a-z]{2,10}",
        name in prop::option::of(".{0,60}"),
    ) {
        if let Ok(address) = from_parts(&format!("{local}@{domain}"), name.as_deref()) {
            let again = parse(&address.mailbox()).unwrap();
            prop_assert_eq!(&again.email, &address.email);
            prop_assert_eq!(&again.name, &address.name);
        }
    }
}
