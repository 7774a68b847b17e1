//! One text per JSON value: what is stored and what fingerprints are made of.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// Writes a value without spaces, members sorted by the bytes of their names, so that the order in which a
/// caller wrote them has no meaning. Integers and floating-point numbers stay apart: `1` is not `1.0`.
///
/// Fingerprints are made of this text, so it must never change. It calls itself once per level: the depth of
/// what comes from outside is bounded where it is read.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Array(elements) => {
            text.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, element);
            }
            text.push(']');
        }
        Value::Object(members) => write_object(text, members),
    }
}

fn write_object(text: &mut String, members: &Map<String, Value>) {
    write_members(text, members.iter().collect());
}

/// Sorted here and not left to the map: a feature of the JSON library, turned on by any other crate of a build,
/// makes its map keep the order of insertion.
fn write_members(text: &mut String, mut members: Vec<(&String, &Value)>) {
    members.sort_unstable_by_key(|(name, _)| name.as_bytes());
    text.push('{');
    for (index, (name, value)) in members.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_string(text, name);
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}

/// Writing to a `String` cannot fail, so the results are not looked at.
fn write_number(text: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        let _ = write!(text, "{integer}");
    } else if let Some(integer) = number.as_u64() {
        let _ = write!(text, "{integer}");
    } else if let Some(float) = number.as_f64() {
        // The shortest digits that read back as the same number, always with a point or an exponent.
        let _ = write!(text, "{float:?}");
    }
}

/// Escapes what JSON requires and nothing else (RFC 8259, section 7).
fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\u{1f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_is_fixed() {
        let value: Value =
            serde_json::from_str(r#"{"b":[1, -2, 1.0, 0.1, 1e-7, true, null], "a":"\"\\\n\u0001é/", "B":{}}"#).unwrap();
        assert_eq!(
            canonical(&value),
            r#"{"B":{},"a":"\"\\\n\u0001é/","b":[1,-2,1.0,0.1,1e-7,true,null]}"#
        );
    }

    #[test]
    fn sorts_members_that_a_map_would_leave_unsorted() {
        let (a, b, value) = ("a".to_owned(), "b".to_owned(), Value::from(1));
        let mut text = String::new();
        write_members(&mut text, vec![(&b, &value), (&a, &value)]);
        assert_eq!(text, r#"{"a":1,"b":1}"#);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            prop::num::f64::NORMAL.prop_map(Value::from),
            (-10.0..10.0_f64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// A text of the same value with the members of every object in the opposite order.
    fn reversed(value: &Value) -> String {
        match value {
            Value::Object(members) => {
                let members: Vec<String> = members
                    .iter()
                    .rev()
                    .map(|(name, value)| format!("{} : {}", Value::from(name.as_str()), reversed(value)))
                    .collect();
                format!("{{ {} }}", members.join(" , "))
            }
            Value::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(reversed).collect();
                format!("[ {} ]", elements.join(" , "))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        }
    }

    proptest! {
        #[test]
        fn reads_back_as_the_same_value(value in json()) {
            prop_assert_eq!(serde_json::from_str::<Value>(&canonical(&value)).unwrap(), value);
        }

        #[test]
        fn the_order_of_members_has_no_meaning(value in json()) {
            let other: Value = serde_json::from_str(&reversed(&value)).unwrap();
            prop_assert_eq!(canonical(&other), canonical(&value));
        }
    }
}
