//! Mailboxes, as text and in two parts.

use proptest::prelude::*;
use sealpost::outbox::address::{self, Address, EMAIL_BYTES_MAX, LOCAL_BYTES_MAX, NAME_BYTES_MAX};

use crate::hostile::{self, MARK};

fn local() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9+'_.=/-]{1,12}",
        "[!#$%&'*+/=?^_`{|}~a-z-]{1,66}",
        Just(MARK.to_owned()),
        hostile::text()
    ]
}

/// Labels that change their length or their letters on the way to ASCII.
fn domain() -> impl Strategy<Value = String> {
    let label = prop_oneof![
        4 => "[a-zA-Z0-9-]{1,12}",
        2 => "[a-z\u{e4}\u{df}\u{130}\u{131}\u{17f}\u{212a}\u{3b1}\u{3c2}\u{5d0}\u{627}\u{4e2d}\u{fb01}\u{301}]{1,20}",
        1 => "[a-z\u{1f600}\u{200c}\u{200d}\u{ad}\u{2060}]{1,8}",
        1 => "(xn|XN)--[a-z0-9-]{0,12}",
        1 => "[0-9]{1,4}|0x[0-9a-f]{1,4}",
        1 => "[a-z]{60,66}",
        1 => "\\PC{1,6}",
    ];
    let dot = prop::sample::select(vec![".", ".", ".", "\u{3002}", "\u{ff0e}", ".."]);
    (prop::collection::vec(label, 1..7), dot).prop_map(|(labels, dot)| labels.join(dot))
}

fn email() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (local(), domain()).prop_map(|(local, domain)| format!("{local}@{domain}")),
        1 => hostile::text(),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z ]{0,20}",
        "[ \"\\\\,;<>()@:.a]{0,20}",
        Just(format!("{MARK}, \"{MARK}\"")),
        hostile::text(),
        (0_usize..300, prop::sample::select(vec!["\\", "\"", "a", "\u{e9}"])).prop_map(|(times, of)| of.repeat(times)),
    ]
}

/// An address as text: in its forms, with pieces of other forms around it.
fn text() -> impl Strategy<Value = String> {
    let around = || {
        prop::sample::select(vec![
            "", "", "", "", " ", "<", ">", "\"", ",", ";", "\r\n", "\t", "\\", "\u{a0}",
        ])
    };
    let whole = prop_oneof![
        3 => email(),
        3 => (name(), email()).prop_map(|(name, email)| format!("{name} <{email}>")),
        3 => (name(), email()).prop_map(|(name, email)| {
            format!("\"{}\" <{email}>", name.replace('\\', "\\\\").replace('"', "\\\""))
        }),
        1 => (name(), email()).prop_map(|(name, email)| format!("\"{name}\"<{email}>")),
        1 => hostile::text(),
    ];
    (around(), whole, around()).prop_map(|(before, whole, after)| format!("{before}{whole}{after}"))
}

/// What every accepted address is, however it came in.
fn sound(address: &Address) -> Result<(), TestCaseError> {
    let email = &address.email;
    prop_assert!(email.len() <= EMAIL_BYTES_MAX && email.is_ascii());
    prop_assert!(!email.contains(|c: char| c.is_control() || c.is_whitespace() || "<>,;\"".contains(c)));
    let (local, domain) = email.split_once('@').unwrap();
    prop_assert!((1..=LOCAL_BYTES_MAX).contains(&local.len()));
    prop_assert!(domain.contains('.') && !domain.contains('@') && !domain.starts_with('.') && !domain.ends_with('.'));
    prop_assert_eq!(domain.to_ascii_lowercase(), domain);
    if let Some(name) = &address.name {
        prop_assert!((1..=NAME_BYTES_MAX).contains(&name.len()) && name.trim_matches(' ') == name);
        let turns = name.contains('\u{202e}');
        prop_assert!(hostile::is_one_line(name) && !turns);
    }
    // Normalised once is normalised for good, by either way in, and whatever the case of letters.
    let again = address::parse(&address.mailbox());
    prop_assert!(
        again.as_ref() == Ok(address),
        "{:?} came back otherwise",
        address.mailbox()
    );
    prop_assert!(address::from_parts(email, address.name.as_deref()).as_ref() == Ok(address));
    let upper = address::from_parts(&email.to_ascii_uppercase(), None).map(|upper| upper.hash_input());
    prop_assert_eq!(upper, Ok(address.hash_input()));
    Ok(())
}

proptest! {
    #[test]
    fn an_accepted_text_is_one_sound_mailbox(text in text()) {
        match address::parse(&text) {
            Ok(address) => sound(&address)?,
            Err(error) => prop_assert!(hostile::is_quiet(&error)),
        }
    }

    #[test]
    fn an_accepted_pair_is_one_sound_mailbox(email in email(), name in prop::option::of(name())) {
        match address::from_parts(&email, name.as_deref()) {
            Ok(address) => {
                sound(&address)?;
                let stored = serde_json::json!({ "email": address.email, "name": address.name });
                prop_assert!(serde_json::from_value::<Address>(stored).unwrap() == address);
            }
            Err(error) => prop_assert!(hostile::is_quiet(&error)),
        }
    }
}
