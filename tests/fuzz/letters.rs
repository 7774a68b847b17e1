//! Letters as they are stored, tags, canonical JSON and keys.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sealpost::outbox::canonical::canonical;
use sealpost::outbox::identity::{Identity, KeyValue};
use sealpost::outbox::json;
use sealpost::outbox::keys::{Secret, business_key};
use sealpost::outbox::letter::{Letter, LetterError};
use sealpost::outbox::tags::{self, TAG_CHARS_MAX};
use serde_json::{Value, json};

use crate::document::{changed, changes};
use crate::hostile::{self, MARK};

pub const NAMES: &[&str] = &[
    "v", "to", "data", "content", "tags", "email", "name", "subject", "html", "from", "replyTo", "headers", "timeZone",
];

pub fn letter() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(
            json!({ "v": 1, "to": { "email": "a@b.example", "name": "A" }, "data": { "n": [1, 0.1, null], "s": { "t": "u" } }, "tags": { "a": "b" }, "timeZone": "UTC" })
        ),
        Just(json!({ "v": 1, "to": { "email": "a@b.example" }, "content": {
            "subject": "s", "text": "t", "html": "h", "from": { "email": "f@b.example" }, "replyTo": { "email": "r@b.example", "name": "R" }, "headers": { "X-A": "1" },
        }})),
        Just(json!({ "v": 2, "to": { "email": "a@b.example" }, "pages": [] })),
    ]
}

/// Any JSON value, with the numbers that are hard to write.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        prop::num::f64::SUBNORMAL.prop_map(Value::from),
        (-1e15..1e15_f64).prop_map(Value::from),
        (-10.0..10.0_f64).prop_map(Value::from),
        Just(json!(-0.0)),
        hostile::text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((hostile::text(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    let part = prop_oneof![
        "[ab1-]{0,3}".prop_map(KeyValue::Text),
        hostile::text().prop_map(KeyValue::Text),
        any::<i64>().prop_map(KeyValue::Integer),
        (-2_i64..3).prop_map(KeyValue::Integer),
    ];
    prop_oneof![
        prop::collection::vec(("[ab]{0,2}", part), 0..4).prop_map(Identity::Tuple),
        prop_oneof!["[abt1-]{0,4}".boxed(), hostile::text().boxed()].prop_map(Identity::Caller),
    ]
}

proptest! {
    #[test]
    fn a_stored_letter_is_its_own_normal_form_or_is_not_read((letter, changes) in (letter(), changes(NAMES))) {
        let text = String::from_utf8_lossy(&changed(&letter, &changes)).into_owned();
        match Letter::from_json(&text) {
            Ok(letter) => {
                let stored = letter.to_json();
                prop_assert!(Letter::from_json(&stored).as_ref() == Ok(&letter), "{stored}");
                prop_assert_eq!(letter.to_json(), stored.as_str());
                // Nothing of a letter is left out in silence.
                let plain = json::read(text.as_bytes()).map(|plain| canonical(&plain));
                prop_assert_eq!(plain.as_deref(), Ok(stored.as_str()), "{}", text);
                prop_assert!(hostile::debug_is_quiet(&letter));
            }
            Err(error) => {
                prop_assert!(matches!(error, LetterError::Unreadable | LetterError::VersionUnknown));
                prop_assert!(hostile::is_quiet(&error));
            }
        }
    }

    #[test]
    fn canonical_text_is_the_value_and_its_own_normal_form(value in value()) {
        let text = canonical(&value);
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(canonical(&read), text.as_str());
        prop_assert_eq!(read, value);
    }

    #[test]
    fn equal_facts_and_no_others_have_equal_keys(
        one in identity(), two in identity(), families in ("[ab]{1,2}", "[ab]{1,2}"), revisions in (0_u32..2, 0_u32..2),
    ) {
        let secret = Secret::parse("a:YWFhYWFhYWFhYWFhYWFhYQ==").unwrap();
        let first = business_key(&secret, &families.0, &one, revisions.0);
        let second = business_key(&secret, &families.1, &two, revisions.1);
        let same = families.0 == families.1 && revisions.0 == revisions.1 && one == two;
        prop_assert_eq!(first == second, same);
        prop_assert!(first.len() == 64 && first.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        prop_assert!(hostile::debug_is_quiet(&one));
    }

    #[test]
    fn tags_are_legal_and_come_back(pairs in prop::collection::btree_map(hostile::text(), hostile::text(), 0..5)) {
        let pairs: BTreeMap<String, String> = pairs;
        match tags::clean_user(&pairs) {
            Ok(cleaned) => {
                prop_assert_eq!(cleaned.len(), pairs.len());
                let restored: BTreeMap<String, String> = cleaned.iter()
                    .map(|tag| (tags::restore(&tag.name).unwrap(), tags::restore(&tag.value).unwrap()))
                    .collect();
                prop_assert_eq!(restored, pairs);
                for text in cleaned.iter().flat_map(|tag| [&tag.name, &tag.value]) {
                    prop_assert!((1..=TAG_CHARS_MAX).contains(&text.len()));
                    prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')));
                }
            }
            Err(error) => prop_assert!(!error.to_string().contains(MARK)),
        }
    }

    #[test]
    fn a_tag_from_outside_is_restored_to_what_would_be_cleaned_to_it(cleaned in prop_oneof![hostile::text(), "[-2ef_aA]{0,20}"]) {
        if let Some(text) = tags::restore(&cleaned) {
            prop_assert_eq!(tags::clean(&text), Ok(cleaned));
        }
    }
}
