//! The personal part of an intent, as it is stored.

use core::fmt;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::address::Address;
use super::canonical::canonical;
use super::content::{Content, address_value, texts_value};
use super::json;

/// Bytes of a letter as it is stored (256 KiB): mail clients cut longer mails, and a batch of letters has to fit
/// into one answer of the database.
pub const LETTER_BYTES_MAX: usize = 256 * 1024;

/// The version that is written. A reader refuses the versions that it does not know.
pub const LETTER_VERSION: u32 = 1;

/// The member of a letter that holds its secret, and the name under which a template sees it.
pub const SECRET: &str = "secret";

/// Who gets a mail and what it says. Its `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Letter {
    /// The one recipient.
    pub to: Address,
    /// What the mail is made of.
    pub body: Body,
    /// The caller's tags as they were sent; they are fitted to the provider's character set when sealed.
    pub tags: BTreeMap<String, String>,
    /// The zone whose clock the recipient lives by, as the caller named it. An option of the send: no part of what the
    /// letter means.
    pub time_zone: Option<String>,
    /// One-time codes and links, which the template sees as `secret`. No part of what the mail means: a repetition that
    /// minted others is the same mail.
    pub secret: BTreeMap<String, String>,
    /// How many attachments belong to it. They are stored apart; without all of them the mail is not whole.
    pub attachments: usize,
}

/// What a mail is made of.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// What the family's template is filled with.
    Data(Map<String, Value>),
    /// Ready content.
    Content(Box<Content>),
}

/// Why a stored letter was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LetterError {
    /// Not the JSON of a letter.
    #[error("letter_unreadable")]
    Unreadable,
    /// A letter of another version: a newer program wrote it.
    #[error("letter_version_unknown")]
    VersionUnknown,
}

impl Letter {
    /// The letter as it is stored: canonical JSON, so that equal letters are equal texts.
    pub fn to_json(&self) -> String {
        let mut members = Map::new();
        members.insert("v".to_owned(), Value::from(LETTER_VERSION));
        members.insert("to".to_owned(), address_value(&self.to));
        members.insert(self.body.kind().to_owned(), self.body.to_value());
        if !self.tags.is_empty() {
            members.insert("tags".to_owned(), texts_value(&self.tags));
        }
        if let Some(zone) = &self.time_zone {
            members.insert("timeZone".to_owned(), Value::from(zone.as_str()));
        }
        if !self.secret.is_empty() {
            members.insert(SECRET.to_owned(), texts_value(&self.secret));
        }
        if self.attachments > 0 {
            members.insert("attachments".to_owned(), Value::from(self.attachments));
        }
        canonical(&Value::Object(members))
    }

    /// Reads what [`Letter::to_json`] wrote: a text that says anything more or less than it would write is unreadable.
    ///
    /// # Errors
    /// [`LetterError`]; the caller parks the row as unreadable, it never guesses.
    pub fn from_json(text: &str) -> Result<Self, LetterError> {
        let value = json::read(text.as_bytes()).map_err(|_| LetterError::Unreadable)?;
        let version = value.get("v").and_then(Value::as_u64).ok_or(LetterError::Unreadable)?;
        if version != u64::from(LETTER_VERSION) {
            return Err(LetterError::VersionUnknown);
        }
        let says = canonical(&value);
        let letter = Self::of(value).ok_or(LetterError::Unreadable)?;
        if letter.to_json() == says {
            Ok(letter)
        } else {
            Err(LetterError::Unreadable)
        }
    }

    /// The letter of a value of this version. Lenient: its caller sees whether anything was left out.
    fn of(value: Value) -> Option<Self> {
        let Value::Object(mut members) = value else {
            return None;
        };
        // The data is taken as it is. Read once more by the library's own types, it could come out otherwise: some of
        // the library's features give meaning to certain names.
        let data = members.remove("data");
        let stored: Stored = serde_json::from_value(Value::Object(members)).ok()?;
        let body = match (data, stored.content) {
            (Some(Value::Object(data)), None) => Body::Data(data),
            (None, Some(content)) => Body::Content(content),
            (Some(_), _) | (None, None) => return None,
        };
        Some(Self {
            to: stored.to,
            body,
            tags: stored.tags,
            time_zone: stored.time_zone,
            secret: stored.secret,
            attachments: stored.attachments,
        })
    }

    /// The secret as it stands in the stored letter; `None` where there is none.
    pub fn secret_json(&self) -> Option<String> {
        (!self.secret.is_empty()).then(|| canonical(&texts_value(&self.secret)))
    }

    /// What the template is filled with: the data, and beside them the secret.
    pub fn template_data(&self, data: &Map<String, Value>) -> Value {
        let mut members = data.clone();
        if !self.secret.is_empty() {
            members.insert(SECRET.to_owned(), texts_value(&self.secret));
        }
        Value::Object(members)
    }
}

impl Body {
    /// The member of a stored letter that holds this body.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Data(_) => "data",
            Self::Content(_) => "content",
        }
    }

    /// The body as it is stored and fingerprinted.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Data(data) => Value::Object(data.clone()),
            Self::Content(content) => content.to_value(),
        }
    }
}

impl fmt::Debug for Letter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Letter({:?})", self.body)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Data(_) => "Data(..)",
            Self::Content(_) => "Content(..)",
        })
    }
}

/// Version 1 without its data. A member that it does not have makes the letter unreadable: nothing of a letter is left
/// out in silence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(rename = "v")]
    _v: u32,
    to: Address,
    content: Option<Box<Content>>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(rename = "timeZone")]
    time_zone: Option<String>,
    #[serde(default)]
    secret: BTreeMap<String, String>,
    #[serde(default)]
    attachments: usize,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::outbox::address::parse;

    fn with_data(data: Value) -> Letter {
        Letter {
            to: parse("Ada <ada@b.example>").unwrap(),
            body: Body::Data(data.as_object().unwrap().clone()),
            tags: [("plan".to_owned(), "pro".to_owned())].into(),
            time_zone: None,
            secret: BTreeMap::new(),
            attachments: 0,
        }
    }

    fn with_content() -> Letter {
        let content = json!({
            "subject": "Hi", "text": "t", "replyTo": {"email": "r@b.example"}, "headers": {"X-A": "1"}
        });
        Letter {
            to: parse("ada@b.example").unwrap(),
            body: Body::Content(serde_json::from_value(content).unwrap()),
            tags: BTreeMap::new(),
            time_zone: None,
            secret: BTreeMap::new(),
            attachments: 2,
        }
    }

    fn with_zone() -> Letter {
        Letter {
            time_zone: Some("Europe/Kiev".to_owned()),
            ..with_data(json!({}))
        }
    }

    fn with_secret() -> Letter {
        Letter {
            secret: [("code".to_owned(), "81 \"27\"".to_owned())].into(),
            ..with_data(json!({ "a": 1 }))
        }
    }

    #[test]
    fn a_secret_stands_beside_the_data_and_the_template_sees_both() {
        let letter = with_secret();
        assert!(letter.to_json().contains(r#""secret":{"code":"81 \"27\""}"#));
        assert_eq!(letter.secret_json().unwrap(), r#"{"code":"81 \"27\""}"#);
        assert_eq!(with_content().secret_json(), None);
        let data = json!({ "a": 1 });
        assert_eq!(
            letter.template_data(data.as_object().unwrap()),
            json!({ "a": 1, "secret": { "code": "81 \"27\"" } })
        );
    }

    #[test]
    fn the_stored_form_is_fixed() {
        assert_eq!(
            with_data(json!({"b": 1, "a": null})).to_json(),
            r#"{"data":{"a":null,"b":1},"tags":{"plan":"pro"},"to":{"email":"ada@b.example","name":"Ada"},"v":1}"#
        );
        assert_eq!(
            with_content().to_json(),
            r#"{"attachments":2,"content":{"headers":{"X-A":"1"},"replyTo":{"email":"r@b.example"},"subject":"Hi","text":"t"},"to":{"email":"ada@b.example"},"v":1}"#
        );
    }

    #[test]
    fn a_zone_is_named_as_it_was_sent() {
        assert_eq!(
            with_zone().to_json(),
            r#"{"data":{},"tags":{"plan":"pro"},"timeZone":"Europe/Kiev","to":{"email":"ada@b.example","name":"Ada"},"v":1}"#
        );
    }

    #[test]
    fn reads_back_what_was_written() {
        for letter in [
            with_data(json!({})),
            with_data(json!({"n": [1, 0.5, "\u{0}"]})),
            // A name that the JSON library gives a meaning of its own when some other crate of a build asks for it.
            with_data(json!({"n": {"$serde_json::private::RawValue": "[1]"}})),
            // Numbers whose last digit a fast reader gets wrong.
            with_data(json!({"n": [-0.9737921478692171, 0.30000000000000004, -2.764583629991671e-292]})),
            with_content(),
            with_zone(),
            with_secret(),
        ] {
            assert!(Letter::from_json(&letter.to_json()) == Ok(letter));
        }
    }

    #[test]
    fn what_is_not_a_letter_is_told_apart_from_a_newer_one() {
        for text in [
            "",
            "null",
            "{}",
            r#"{"v":1}"#,
            r#"{"v":1,"to":{"email":"a@b.example"}}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{},"content":{"subject":"s"}}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{},"cc":[]}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"content":{"subject":"s","bcc":"x"}}"#,
            // A list in place of an object, a name twice, and what would not come back.
            r#"{"v":1,"to":["a@b.example"],"data":{}}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"content":["s"]}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{"a":1,"a":2}}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{},"tags":{"a":"1","a":"2"}}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{},"content":null}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{},"timeZone":null}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{},"timeZone":7}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{},"attachments":0}"#,
            r#"{"v":1,"to":{"email":"a@b.example"},"data":{},"attachments":-1}"#,
            r#"[2]"#,
        ] {
            assert!(Letter::from_json(text) == Err(LetterError::Unreadable), "{text}");
        }
        assert!(Letter::from_json(r#"{"v":2,"pages":[]}"#) == Err(LetterError::VersionUnknown));
    }

    #[test]
    fn debug_shows_nothing_of_the_letter() {
        assert_eq!(
            format!("{:?} {:?}", with_data(json!({})), with_content()),
            "Letter(Data(..)) Letter(Content(..))"
        );
    }
}
