//! Mailboxes, as text and in two parts.

use proptest::prelude::*;
use sealpost::outbox::address::{self, Address, EMAIL_BYTES_MAX, LOCAL_BYTES_MAX, NAME_BYTES_MAX};

use crate::hostile::{self, MARK};

fn local() -> BoxedStrategy<String> {
    prop_oneof![
        12 => "[a-zA-Z0-9+'_/=-]{1,12}(\\.[a-z0-9]{1,5})?",
        2 => "[!#$%&'*+/=?^_`{|}~a-z-]{1,66}",
        1 => "[a-z.]{1,6}",
        1 => Just(MARK.to_owned()),
        1 => hostile::text(),
    ]
    .boxed()
}

/// Mostly one label out of the ordinary: many change their length or their letters on the way to ASCII.
fn domain() -> BoxedStrategy<String> {
    let label = prop_oneof![
        2 => "[a-zA-Z0-9-]{1,12}",
        5 => "[a-z\u{e4}\u{df}\u{130}\u{131}\u{17f}\u{212a}\u{3b1}\u{3c2}\u{4e2d}\u{fb01}]{1,20}",
        2 => "[a-z]{1,5}\u{301}{1,4}|[\u{5d0}-\u{5ea}]{1,8}|[\u{627}-\u{63a}]{1,8}|[\u{905}-\u{914}]{1,8}",
        1 => "[a-z\u{1f600}\u{200c}\u{200d}\u{ad}\u{2060}]{1,8}",
        1 => "(xn|XN)--[a-z0-9-]{0,12}",
        1 => prop::sample::select(vec!["xn--bcher-kva", "XN--BCHER-KVA", "xn--fiqs8s", "xn--strae-oqa"]).prop_map(str::to_owned),
        1 => "[0-9]{1,4}|0x[0-9a-f]{1,4}",
        1 => "[a-z]{60,64}",
        1 => "\\PC{1,6}",
    ];
    let dot = prop::sample::select(vec![
        ".", ".", ".", ".", ".", ".", "\u{3002}", "\u{ff0e}", "\u{ff61}", "..",
    ]);
    let rest = prop_oneof![
        8 => "[a-z][a-z0-9]{1,8}(\\.[a-z]{2,6}){0,3}".boxed(),
        1 => label.clone().boxed(),
        1 => prop::collection::vec("[a-z]{50,63}", 3..5).prop_map(|labels| labels.join(".")).boxed(),
    ];
    (label, dot, rest)
        .prop_map(|(label, dot, rest)| format!("{label}{dot}{rest}"))
        .boxed()
}

pub fn email() -> BoxedStrategy<String> {
    prop_oneof![
        12 => (local(), domain()).prop_map(|(local, domain)| format!("{local}@{domain}")),
        1 => hostile::text(),
    ]
    .boxed()
}

pub fn name() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "[A-Za-z ]{0,20}",
        2 => "[ \"\\\\,;<>()@:.a]{0,20}",
        1 => Just(format!("{MARK}, \"{MARK}\"")),
        2 => hostile::text(),
        2 => (0_usize..260, prop::sample::select(vec!["\\", "\"", "a", "\u{e9}"])).prop_map(|(bytes, of)| of.repeat(bytes / of.len())),
    ]
    .boxed()
}

/// An address as text: in its forms, with pieces of other forms around it.
pub fn text() -> impl Strategy<Value = String> {
    let around = || {
        let piece = prop::sample::select(vec![" ", "<", ">", "\"", ",", ";", "\r\n", "\t", "\\", "\u{a0}"]);
        prop_oneof![12 => Just(""), 1 => piece]
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
