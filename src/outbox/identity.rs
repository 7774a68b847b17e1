//! What makes two intents the same fact: the family's tuple, or a key of the caller's own.

use core::fmt;

use serde_json::Value;

use super::fields::{self, Fields};
use super::intent::FamilyShape;
use super::problem::{Fault, Problems};

/// Bytes of one text in a tuple; identifiers are short, and the longest common ones have 36.
pub const KEY_TEXT_BYTES_MAX: usize = 256;

/// Bytes of a caller's own key; as long as the provider allows its idempotency keys to be.
pub const CALLER_KEY_BYTES_MAX: usize = 256;

const ONE_OF_TWO: Fault = Fault::new(
    "identity_required",
    "Send exactly one of key and idempotencyKey; it tells a repetition from a new fact.",
);
const NOT_DECLARED: Fault = Fault::new(
    "key_not_declared",
    "Send idempotencyKey; this family declares no key fields.",
);
const PART_EXPECTED: Fault = Fault::new(
    "key_part_expected",
    "Send a string or an integer of 64 bits with its sign.",
);
const PART_INVALID: Fault = Fault::new(
    "key_part_invalid",
    "Send 1 to 256 bytes of text without control characters.",
);
const CALLER_INVALID: Fault = Fault::new(
    "idempotency_key_invalid",
    "Send 1 to 256 printable ASCII characters without a space at either end.",
);

/// What makes two intents of one family the same fact. Its `Debug` shows no value: a key may name a person.
#[derive(Clone, PartialEq, Eq)]
pub enum Identity {
    /// The family's key fields with their values, in the order in which the family declares them.
    Tuple(Vec<(String, KeyValue)>),
    /// The caller's own key.
    Caller(String),
}

/// One value of a tuple. The text `1` and the number 1 are two values.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyValue {
    /// 1 to [`KEY_TEXT_BYTES_MAX`] bytes without control characters, compared byte for byte.
    Text(String),
    /// A whole number.
    Integer(i64),
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tuple(_) => "Tuple(..)",
            Self::Caller(_) => "Caller(..)",
        })
    }
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Text(_) => "Text(..)",
            Self::Integer(_) => "Integer(..)",
        })
    }
}

/// Reads `key` or `idempotencyKey`. Without a family (`None`: nobody knows it) a tuple cannot be judged.
pub(crate) fn check(intent: &Fields<'_>, family: Option<&FamilyShape>, problems: &mut Problems) -> Option<Identity> {
    match (intent.get("key"), intent.has("idempotencyKey")) {
        (Some(_), true) | (None, false) => {
            problems.refuse(&intent.place("key"), ONE_OF_TWO);
            None
        }
        (None, true) => intent
            .optional("idempotencyKey", problems, caller_key)
            .map(Identity::Caller),
        (Some(key), false) => tuple(key, intent, family?, problems).map(Identity::Tuple),
    }
}

fn tuple(
    key: &Value,
    intent: &Fields<'_>,
    family: &FamilyShape,
    problems: &mut Problems,
) -> Option<Vec<(String, KeyValue)>> {
    let place = intent.place("key");
    if family.key_fields.is_empty() {
        // An empty tuple would make every intent of the family the same fact.
        problems.refuse(&place, NOT_DECLARED);
        return None;
    }
    let declared = |name: &str| family.key_fields.iter().any(|field| field == name);
    let parts = Fields::open(key, &place, declared, problems)?;
    // Every field is looked at before the first missing one ends the tuple.
    let values: Vec<_> = family
        .key_fields
        .iter()
        .map(|field| Some((field.clone(), parts.required(field, problems, key_value)?)))
        .collect();
    values.into_iter().collect()
}

fn key_value(value: &Value) -> Result<KeyValue, Fault> {
    match value {
        Value::String(text) => {
            if text.is_empty() || text.len() > KEY_TEXT_BYTES_MAX || text.contains(char::is_control) {
                return Err(PART_INVALID);
            }
            Ok(KeyValue::Text(text.clone()))
        }
        Value::Number(number) => number.as_i64().map(KeyValue::Integer).ok_or(PART_EXPECTED),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(PART_EXPECTED),
    }
}

fn caller_key(value: &Value) -> Result<String, Fault> {
    let key = fields::text(value)?;
    let printable = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if key.is_empty() || key.len() > CALLER_KEY_BYTES_MAX || !printable || key.trim_matches(' ') != key {
        return Err(CALLER_INVALID);
    }
    Ok(key.to_owned())
}
