//! Ready content: a mail whose words the caller wrote itself.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::address::Address;
use super::fields::{self, Fields};
use super::headers::{self, HEADERS_MAX};
use super::problem::{Fault, Problems};

const PART_REQUIRED: Fault = Fault::new("content_required", "Send html, text or both.");
const PART_EMPTY: Fault = Fault::new("content_empty", "Send something or leave the field out.");
const PART_NUL: Fault = Fault::new("content_nul", "Remove the NUL characters.");
const HEADERS_TOO_MANY: Fault = Fault::new("headers_too_many", "Send at most 20 headers.");
const HEADER_TWICE: Fault = Fault::new(
    "header_twice",
    "Send each header once; upper and lower case are the same name.",
);

/// A mail whose words the caller wrote itself. It is sent as it is.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Content {
    /// One line.
    pub subject: String,
    /// The HTML part. At least one of the two parts is there.
    #[serde(default)]
    pub html: Option<String>,
    /// The plain part.
    #[serde(default)]
    pub text: Option<String>,
    /// The sender, where it is not the family's.
    #[serde(default)]
    pub from: Option<Address>,
    /// Where answers go, where it is not the family's.
    #[serde(default)]
    pub reply_to: Option<Address>,
    /// Headers beside the ones that the other fields make; no name twice in any case.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

impl Content {
    /// The content as it is stored and fingerprinted; what is absent is left out.
    pub(crate) fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("subject".to_owned(), Value::from(self.subject.as_str()));
        for (name, part) in [("html", &self.html), ("text", &self.text)] {
            if let Some(part) = part {
                members.insert(name.to_owned(), Value::from(part.as_str()));
            }
        }
        for (name, address) in [("from", &self.from), ("replyTo", &self.reply_to)] {
            if let Some(address) = address {
                members.insert(name.to_owned(), address_value(address));
            }
        }
        if !self.headers.is_empty() {
            members.insert("headers".to_owned(), texts_value(&self.headers));
        }
        Value::Object(members)
    }
}

/// Texts by name as they are stored.
pub(crate) fn texts_value(texts: &BTreeMap<String, String>) -> Value {
    let mut members = Map::new();
    members.extend(
        texts
            .iter()
            .map(|(name, text)| (name.clone(), Value::from(text.as_str()))),
    );
    Value::Object(members)
}

/// An address as it is stored.
pub(crate) fn address_value(address: &Address) -> Value {
    let mut members = Map::new();
    members.insert("email".to_owned(), Value::from(address.email.as_str()));
    if let Some(name) = &address.name {
        members.insert("name".to_owned(), Value::from(name.as_str()));
    }
    Value::Object(members)
}

/// Reads the `content` of an intent.
pub(crate) fn check(intent: &Fields<'_>, problems: &mut Problems) -> Option<Content> {
    let known = |name: &str| matches!(name, "subject" | "html" | "text" | "from" | "replyTo" | "headers");
    let place = intent.place("content");
    let fields = Fields::open(intent.get("content")?, &place, known, problems)?;
    let subject = fields.required("subject", problems, |value| {
        let subject = fields::text(value)?;
        headers::check_value(subject).map(|()| subject.to_owned())
    });
    if !fields.has("html") && !fields.has("text") {
        problems.refuse(&place, PART_REQUIRED);
    }
    let html = fields.optional("html", problems, part);
    let text = fields.optional("text", problems, part);
    let from = fields.optional_address("from", problems);
    let reply_to = fields.optional_address("replyTo", problems);
    let headers = check_headers(&fields, problems);
    Some(Content {
        subject: subject?,
        html,
        text,
        from,
        reply_to,
        headers,
    })
}

fn part(value: &Value) -> Result<String, Fault> {
    let part = fields::text(value)?;
    if part.is_empty() {
        return Err(PART_EMPTY);
    }
    if part.contains('\0') {
        return Err(PART_NUL);
    }
    Ok(part.to_owned())
}

fn check_headers(content: &Fields<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(members) = content.optional("headers", problems, fields::object) else {
        return BTreeMap::new();
    };
    let place = content.place("headers");
    if members.len() > HEADERS_MAX {
        problems.refuse(&place, HEADERS_TOO_MANY);
        return BTreeMap::new();
    }
    let mut seen = BTreeSet::new();
    let mut kept = BTreeMap::new();
    for (name, value) in members {
        let place = place.field(name);
        problems.keep(&place, headers::check_name(name));
        if !seen.insert(name.to_ascii_lowercase()) {
            problems.refuse(&place, HEADER_TWICE);
        }
        let value = fields::text(value).and_then(|value| headers::check_value(value).map(|()| value));
        if let Some(value) = problems.keep(&place, value) {
            kept.insert(name.clone(), value.to_owned());
        }
    }
    kept
}
