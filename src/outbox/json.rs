//! Reads JSON from outside more strictly than JSON asks: no name twice, no depth, size or number that could hurt later.

use core::cell::{Cell, RefCell};
use core::fmt;
use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::problem::{Fault, FieldError, Pointer};

/// Nesting that template data may have; deeper data is a mistake, and every later reader walks it by recursion.
pub const DATA_DEPTH_MAX: usize = 32;

/// Values (members and elements) of one request: small values cost far more memory parsed than as text,
/// and a Worker has 128 MB.
pub const VALUES_MAX: usize = 50_000;

/// Levels around the data of an intent: the document, the list, the intent.
const LEVELS_AROUND_DATA: usize = 3;

/// Names that a path repeats (`/intents/3/data`); below that, names are the caller's own data.
const PATH_LEVELS_MAX: usize = LEVELS_AROUND_DATA;

/// 2^53: from here on a floating-point number cannot hold every integer.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

const NAME_TWICE: Fault = Fault::new("name_twice", "Send each name of this object once.");
const TOO_DEEP: Fault = Fault::new("too_deep", "Nest this value at most 32 levels deep.");
const TOO_MANY_VALUES: Fault = Fault::new(
    "too_many_values",
    "Send fewer values in one request: at most 50000 members and elements.",
);
const NUMBER_INEXACT: Fault = Fault::new(
    "number_inexact",
    "Send a number that needs more than 64 bits as a string.",
);

/// Why a document was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Not one JSON document in UTF-8.
    #[error("json_invalid")]
    Syntax,
    /// JSON, and refused all the same; only the first such place is named.
    #[error("{}", .0.code)]
    Refused(FieldError),
}

/// Reads one whole JSON document.
///
/// # Errors
/// [`ReadError`]: not JSON, or a name twice in one object (RFC 8259 leaves its meaning open), more than
/// [`DATA_DEPTH_MAX`] levels below an intent's fields, more than [`VALUES_MAX`] values, or a number whose
/// digits would be lost.
pub fn read(bytes: &[u8]) -> Result<Value, ReadError> {
    let state = State::default();
    let place = Pointer::default();
    let node = Node {
        state: &state,
        place: &place,
        depth: 0,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = node
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|_| match state.refused.take() {
        Some(error) => ReadError::Refused(error),
        None => ReadError::Syntax,
    })
}

/// What is shared by all values of one document.
#[derive(Default)]
struct State {
    values: Cell<usize>,
    refused: RefCell<Option<FieldError>>,
}

/// The value that is about to be read.
#[derive(Clone, Copy)]
struct Node<'a> {
    state: &'a State,
    place: &'a Pointer,
    depth: usize,
}

impl Node<'_> {
    /// Ends the reading; the error that serde carries has no text of its own, the state has it.
    fn refuse<E: Error>(self, fault: Fault) -> E {
        self.state.refused.replace(Some(fault.at(self.place)));
        E::custom(fault.code)
    }

    fn count<E: Error>(self) -> Result<(), E> {
        let values = self.state.values.get().saturating_add(1);
        self.state.values.set(values);
        if values > VALUES_MAX {
            return Err(self.refuse(TOO_MANY_VALUES));
        }
        Ok(())
    }

    /// Checked before the members are read, so that depth is bounded while it grows.
    fn enter<E: Error>(self) -> Result<(), E> {
        if self.depth >= DATA_DEPTH_MAX.saturating_add(LEVELS_AROUND_DATA) {
            return Err(self.refuse(TOO_DEEP));
        }
        Ok(())
    }

    fn child_place(&self, step: impl FnOnce(&Pointer) -> Pointer) -> Cow<'_, Pointer> {
        if self.depth < PATH_LEVELS_MAX {
            Cow::Owned(step(self.place))
        } else {
            Cow::Borrowed(self.place)
        }
    }

    fn child<'b>(&'b self, place: &'b Pointer) -> Node<'b> {
        Node {
            state: self.state,
            place,
            depth: self.depth.saturating_add(1),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        match Number::from_f64(value) {
            Some(number) if value.abs() < EXACT_BELOW => Ok(Value::Number(number)),
            Some(_) | None => Err(self.refuse(NUMBER_INEXACT)),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut list = Vec::new();
        loop {
            let place = self.child_place(|place| place.index(list.len()));
            match elements.next_element_seed(self.child(&place))? {
                Some(element) => list.push(element),
                None => return Ok(Value::Array(list)),
            }
            self.count()?;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.count()?;
            if object.contains_key(&name) {
                return Err(self.refuse(NAME_TWICE));
            }
            let place = self.child_place(|place| place.field(&name));
            let value = members.next_value_seed(self.child(&place))?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> (String, &'static str) {
        match read(text.as_bytes()) {
            Err(ReadError::Refused(error)) => (error.path, error.code),
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn reads_what_serde_json_reads() {
        let text = r#"{"a":[1,-2,18446744073709551615,0.5,true,null,"x\u00e9"],"b":{}}"#;
        assert_eq!(
            read(text.as_bytes()).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
    }

    #[test]
    fn what_is_not_one_document_is_not_json() {
        for text in [
            &b""[..],
            b"{",
            b"{} {}",
            b"\xff",
            b"{\"a\":\"\xff\"}",
            b"nul",
            br#""\ud800""#,
        ] {
            assert_eq!(read(text), Err(ReadError::Syntax));
        }
    }

    #[test]
    fn a_name_twice_is_refused_where_it_stands() {
        assert_eq!(refused(r#"{"a":1,"a":1}"#), (String::new(), "name_twice"));
        assert_eq!(
            refused(r#"{"intents":[{},{"to":1,"to":2}]}"#),
            ("/intents/1".into(), "name_twice")
        );
        assert_eq!(
            refused(r#"{"intents":[{"data":{"private":{"x":1,"\u0078":2}}}]}"#),
            ("/intents/0/data".into(), "name_twice")
        );
    }

    #[test]
    fn depth_is_bounded_at_thirty_two_levels_of_data() {
        let nested = |levels: usize| {
            format!(
                r#"{{"intents":[{{"data":{}{}}}]}}"#,
                "[".repeat(levels),
                "]".repeat(levels)
            )
        };
        assert!(read(nested(32).as_bytes()).is_ok());
        assert_eq!(refused(&nested(33)), ("/intents/0/data".into(), "too_deep"));
        assert_eq!(refused(&"[".repeat(1_000_000)).1, "too_deep");
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 1));
        assert!(read(list(VALUES_MAX).as_bytes()).is_ok());
        assert_eq!(refused(&list(VALUES_MAX + 1)).1, "too_many_values");
    }

    #[test]
    fn digits_are_never_lost_in_silence() {
        assert_eq!(
            refused(r#"{"n":18446744073709551616}"#),
            ("/n".into(), "number_inexact")
        );
        assert_eq!(refused("1e300").1, "number_inexact");
        assert!(read(b"-9223372036854775808").is_ok());
    }

    proptest! {
        #[test]
        fn never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
