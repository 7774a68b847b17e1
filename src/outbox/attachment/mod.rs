//! Files that go out with a mail: what intake takes, and what is stored of it, apart from the letter.

use core::fmt;

use serde_json::{Map, Value};

mod file_types;

use self::file_types::is_refused;
use super::address::breaks_a_header;
use super::canonical::canonical;
use super::fields::{self, Fields};
use super::json;
use super::problem::{Fault, Problems};

/// Files of one mail; who has more packs them into one.
pub const ATTACHMENTS_MAX: usize = 5;

/// Bytes of all files of one mail, decoded (2 MiB). In base64 they have to fit into a request of 4 MiB, into a value of
/// the database of 5 MB within a frozen request, and several times into a Worker of 128 MB.
pub const ATTACHMENT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Characters of a file's name: file systems end at 255 bytes, and a header is no place for more.
pub const FILE_NAME_CHARS_MAX: usize = 200;

/// Bytes of a content type with its parameters; the longest registered ones have about 80.
pub const CONTENT_TYPE_BYTES_MAX: usize = 200;

const LIST_EXPECTED: Fault = Fault::new(
    "attachments_expected",
    "Send a list of 1 to 5 attachments, or leave it out.",
);
const UNEXPECTED: Fault = Fault::new(
    "attachments_unexpected",
    "Remove the attachments; this family has none.",
);
const TOO_LARGE: Fault = Fault::new(
    "attachments_too_large",
    "Send files of at most 2 MiB together, or a link to them.",
);
const NAME_INVALID: Fault = Fault::new(
    "file_name_invalid",
    "Send a name of 1 to 200 characters without slashes, control characters and characters that turn the direction.",
);
const TYPE_REFUSED: Fault = Fault::new(
    "file_type_refused",
    "Send another kind of file, or a link to it: the provider refuses files whose names end like this.",
);
const CONTENT_TYPE_INVALID: Fault = Fault::new(
    "content_type_invalid",
    "Send a content type such as application/pdf, or leave it out.",
);
const BASE64_INVALID: Fault = Fault::new(
    "base64_invalid",
    "Send the file in base64 with the standard alphabet and padding, without line breaks.",
);
const EMPTY: Fault = Fault::new("attachment_empty", "Send a file with at least one byte.");

/// One file of a mail. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// What the recipient sees; no path.
    pub file_name: String,
    /// The media type; `None` leaves it to the provider.
    pub content_type: Option<String>,
    /// The bytes in base64, as they were sent: there is one way to write them.
    pub content: String,
}

/// A stored list that is not what [`Attachment::to_json`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attachments_unreadable")]
pub struct Unreadable;

impl Attachment {
    /// The file as it is stored: canonical JSON.
    pub fn to_json(&self) -> String {
        let mut members = Map::new();
        members.insert("filename".to_owned(), Value::from(self.file_name.as_str()));
        members.insert("content".to_owned(), Value::from(self.content.as_str()));
        if let Some(content_type) = &self.content_type {
            members.insert("contentType".to_owned(), Value::from(content_type.as_str()));
        }
        canonical(&Value::Object(members))
    }

    /// Reads a JSON list of what [`Attachment::to_json`] wrote.
    ///
    /// # Errors
    /// [`Unreadable`] where anything is missing, or is there that this version does not know.
    pub fn list_from_json(text: &str) -> Result<Vec<Self>, Unreadable> {
        match json::read(text.as_bytes()) {
            Ok(Value::Array(list)) => list
                .into_iter()
                .map(|value| Self::of(value).ok_or(Unreadable))
                .collect(),
            Ok(_) | Err(_) => Err(Unreadable),
        }
    }

    fn of(value: Value) -> Option<Self> {
        let Value::Object(mut members) = value else {
            return None;
        };
        let mut text = |name: &str| match members.remove(name) {
            Some(Value::String(text)) => Some(Some(text)),
            Some(_) => None,
            None => Some(None),
        };
        let attachment = Self {
            file_name: text("filename")??,
            content_type: text("contentType")?,
            content: text("content")??,
        };
        members.is_empty().then_some(attachment)
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Attachment({} characters)", self.content.len())
    }
}

/// Reads the `attachments` of an intent; none where there are none. `allowed`: whether the family has any, where the
/// family is known.
pub(crate) fn check(intent: &Fields<'_>, allowed: Option<bool>, problems: &mut Problems) -> Vec<Attachment> {
    if allowed == Some(false) && intent.has("attachments") {
        problems.refuse(&intent.place("attachments"), UNEXPECTED);
        return Vec::new();
    }
    let list = intent.optional("attachments", problems, |value| match value.as_array() {
        Some(list) if (1..=ATTACHMENTS_MAX).contains(&list.len()) => Ok(list),
        Some(_) | None => Err(LIST_EXPECTED),
    });
    let place = intent.place("attachments");
    let mut bytes = 0usize;
    let mut attachments = Vec::new();
    for (index, value) in list.into_iter().flatten().enumerate() {
        let known = |name: &str| matches!(name, "filename" | "contentType" | "content");
        let Some(fields) = Fields::open(value, &place.index(index), known, problems) else {
            continue;
        };
        let file_name = fields.required("filename", problems, file_name);
        let content_type = fields.optional("contentType", problems, content_type);
        let content = fields.required("content", problems, |value| {
            let content = fields::text(value)?;
            match decoded_bytes(content).ok_or(BASE64_INVALID)? {
                0 => Err(EMPTY),
                length => {
                    bytes = bytes.saturating_add(length);
                    Ok(content)
                }
            }
        });
        if let (Some(file_name), Some(content)) = (file_name, content) {
            attachments.push(Attachment {
                file_name,
                content_type,
                content: content.to_owned(),
            });
        }
    }
    if bytes > ATTACHMENT_BYTES_MAX {
        problems.refuse(&place, TOO_LARGE);
    }
    attachments
}

fn file_name(value: &Value) -> Result<String, Fault> {
    let name = fields::text(value)?;
    let hides = |character: char| {
        breaks_a_header(character)
            || matches!(character, '/' | '\\' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    // What some system would cut off a name is not what makes it another file.
    let bare = name.trim_end_matches(|character: char| character == '.' || character.is_whitespace());
    if bare.is_empty() || name.chars().count() > FILE_NAME_CHARS_MAX || name.contains(hides) {
        return Err(NAME_INVALID);
    }
    match bare.rsplit_once('.') {
        Some((_, ending)) if is_refused(ending) => Err(TYPE_REFUSED),
        Some(_) | None => Ok(name.to_owned()),
    }
}

/// `type/subtype`, each a token (RFC 9110, section 5.6.2), and perhaps parameters in printable ASCII.
fn content_type(value: &Value) -> Result<String, Fault> {
    let text = fields::text(value)?;
    let token = |part: &str| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !part.is_empty() && part.bytes().all(is_token)
    };
    let media_type = text
        .split_once(';')
        .map_or(text, |(media_type, _)| media_type.trim_end());
    let has_shape = media_type
        .split_once('/')
        .is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    let is_line = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if has_shape && is_line && text.len() <= CONTENT_TYPE_BYTES_MAX {
        Ok(text.to_owned())
    } else {
        Err(CONTENT_TYPE_INVALID)
    }
}

/// How many bytes a text in base64 stands for; `None` where it is not the one way to write them (RFC 4648, section 4):
/// the standard alphabet, padded, no bit left over.
fn decoded_bytes(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Some(0);
    }
    let padding = bytes.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let (digits, _) = bytes.split_at_checked(bytes.len().checked_sub(padding)?)?;
    let last = digit(*digits.last()?)?;
    // The last digit before the padding has bits that belong to no byte.
    let left_over = match padding {
        0 => 0,
        1 => last & 0b11,
        _ => last & 0b1111,
    };
    let fits = bytes.len().is_multiple_of(4) && left_over == 0 && digits.iter().all(|byte| digit(*byte).is_some());
    fits.then_some((bytes.len() / 4 * 3).saturating_sub(padding))
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
