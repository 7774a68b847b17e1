//! Walks an object from outside member by member and notes what is wrong with each.

use serde_json::{Map, Value};

use super::address::{self, Address};
use super::problem::{Fault, Pointer, Problems};
use super::time::{Millis, TimeError};

/// Bytes of a time as text: the longest RFC 3339 time that keeps its nanoseconds has 35.
const TIME_BYTES_MAX: usize = 64;

const REQUIRED: Fault = Fault::new("required", "Add this field.");
const FIELD_UNKNOWN: Fault = Fault::new("field_unknown", "Remove this field or correct its name.");
const OBJECT_EXPECTED: Fault = Fault::new("object_expected", "Send an object, or leave the field out.");
const STRING_EXPECTED: Fault = Fault::new("string_expected", "Send a string, or leave the field out.");
const ADDRESS_EXPECTED: Fault = Fault::new(
    "address_expected",
    "Send one address, as a string or as an object with email and name.",
);
const TIME_INVALID: Fault = Fault::new("time_invalid", "Send an RFC 3339 time such as 2026-01-31T09:00:00Z.");
const TIME_WITHOUT_OFFSET: Fault = Fault::new(
    "time_without_offset",
    "Add the offset to the time, such as Z or +02:00.",
);
pub(crate) const TIME_OUT_OF_RANGE: Fault =
    Fault::new("time_out_of_range", "Send a time between the years 1970 and 9999.");

/// An object from outside whose member names are all known.
pub(crate) struct Fields<'a> {
    members: &'a Map<String, Value>,
    place: Pointer,
}

impl<'a> Fields<'a> {
    /// Opens an object; members that are not `known` are noted, each under its own path.
    pub(crate) fn open(
        value: &'a Value,
        place: &Pointer,
        known: impl Fn(&str) -> bool,
        problems: &mut Problems,
    ) -> Option<Self> {
        let members = problems.keep(place, object(value))?;
        for name in members.keys().filter(|name| !known(name)) {
            problems.refuse(&place.field(name), FIELD_UNKNOWN);
        }
        Some(Self {
            members,
            place: place.clone(),
        })
    }

    /// Where the member is, or would be.
    pub(crate) fn place(&self, name: &str) -> Pointer {
        self.place.field(name)
    }

    /// The member as it arrived.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name)
    }

    /// Whether the member was sent at all, with whatever value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// A member that may be left out. `None` where it is absent or was refused.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        problems: &mut Problems,
        check: impl FnOnce(&'a Value) -> Result<T, Fault>,
    ) -> Option<T> {
        let value = self.get(name)?;
        problems.keep(&self.place(name), check(value))
    }

    /// A member that must be there.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        problems: &mut Problems,
        check: impl FnOnce(&'a Value) -> Result<T, Fault>,
    ) -> Option<T> {
        if !self.has(name) {
            problems.refuse(&self.place(name), REQUIRED);
        }
        self.optional(name, problems, check)
    }

    /// An address that may be left out.
    pub(crate) fn optional_address(&self, name: &str, problems: &mut Problems) -> Option<Address> {
        address(self.get(name)?, &self.place(name), problems)
    }

    /// An address that must be there.
    pub(crate) fn required_address(&self, name: &str, problems: &mut Problems) -> Option<Address> {
        if !self.has(name) {
            problems.refuse(&self.place(name), REQUIRED);
        }
        self.optional_address(name, problems)
    }
}

/// The members of an object.
pub(crate) fn object(value: &Value) -> Result<&Map<String, Value>, Fault> {
    value.as_object().ok_or(OBJECT_EXPECTED)
}

/// The text of a string.
pub(crate) fn text(value: &Value) -> Result<&str, Fault> {
    value.as_str().ok_or(STRING_EXPECTED)
}

/// An RFC 3339 time with an offset.
pub(crate) fn time(value: &Value) -> Result<Millis, Fault> {
    let text = text(value)?;
    if text.len() > TIME_BYTES_MAX {
        return Err(TIME_INVALID);
    }
    Millis::parse_rfc3339(text).map_err(|error| match error {
        TimeError::Invalid => TIME_INVALID,
        TimeError::WithoutOffset => TIME_WITHOUT_OFFSET,
        TimeError::OutOfRange => TIME_OUT_OF_RANGE,
    })
}

/// One address: a string, or an object with `email` and perhaps `name`.
fn address(value: &Value, place: &Pointer, problems: &mut Problems) -> Option<Address> {
    match value {
        Value::String(text) => problems.keep(place, address::parse(text).map_err(|error| error.fault())),
        Value::Object(_) => {
            let fields = Fields::open(value, place, |name| matches!(name, "email" | "name"), problems)?;
            let email = fields.required("email", problems, text);
            let name = fields.optional("name", problems, text);
            let result = address::from_parts(email?, name).map_err(|error| error.fault());
            problems.keep(place, result)
        }
        Value::Array(_) => {
            problems.refuse(place, address::AddressError::Several.fault());
            None
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            problems.refuse(place, ADDRESS_EXPECTED);
            None
        }
    }
}
