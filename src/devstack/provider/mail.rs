//! The body of `POST /emails`: what the provider refuses, field by field, and what it keeps.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use email_address::{EmailAddress, Options};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::answer::{ErrorName, Refusal};

/// Resend's limit on each of `to`, `cc` and `bcc`.
pub const RECIPIENTS_MAX: usize = 50;
/// Resend's limit on the tags of one mail.
pub const TAGS_MAX: usize = 75;
/// Resend's limit on a tag's name and on its value, in characters.
pub const TAG_CHARS_MAX: usize = 256;
/// RFC 5321 section 4.5.3.1.3: the longest path, less its angle brackets.
const ADDRESS_BYTES_MAX: usize = 254;
/// Recipient domains that Resend refuses, so that nobody's tests reach them.
const EXAMPLE_DOMAINS: [&str; 2] = ["example.com", "test.com"];

/// Some endings of file names of the many that Resend refuses.
const FILE_TYPES_REFUSED: [&str; 8] = ["bat", "cmd", "com", "exe", "js", "msi", "scr", "vbs"];

/// One tag of a mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tag {
    /// ASCII letters, digits, `_` and `-`.
    pub name: String,
    /// The same characters.
    pub value: String,
}

/// What is kept of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    /// The file's name.
    pub filename: String,
    /// As the request has it.
    pub content_type: Option<String>,
    /// How many bytes it has; unknown where the request only says where it is.
    pub bytes: Option<usize>,
    /// SHA-256 of these bytes in hexadecimal digits.
    pub sha256: Option<String>,
}

/// A mail as the provider took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The sender, with or without a name.
    pub from: String,
    /// 1 to 50 recipients.
    pub to: Vec<String>,
    /// Up to 50.
    pub cc: Vec<String>,
    /// Up to 50.
    pub bcc: Vec<String>,
    /// Where answers go.
    pub reply_to: Vec<String>,
    /// Never empty.
    pub subject: String,
    /// At least one of `html` and `text` is there.
    pub html: Option<String>,
    /// The plain text.
    pub text: Option<String>,
    /// Extra mail headers.
    pub headers: BTreeMap<String, String>,
    /// In the order of the request.
    pub tags: Vec<Tag>,
    /// When the mail is to go out, as the request wrote it; the model does not wait for it.
    pub scheduled_at: Option<String>,
    /// What is kept of the attachments: their content is checked and forgotten.
    pub attachments: Vec<Attached>,
}

/// The recipients of a body nobody has checked yet, for the request log and for fault rules.
pub fn recipients(body: Option<&Value>) -> Vec<String> {
    match body.and_then(|value| value.get("to")) {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    }
}

/// Checks the body of a send.
///
/// # Errors
/// The first thing wrong, with the status, name and text that Resend answers.
pub fn check(body: Option<&Value>, example_domains_allowed: bool) -> Result<Mail, Refusal> {
    let Some(fields) = body.and_then(Value::as_object) else {
        return Err(Refusal::new(
            400,
            ErrorName::ValidationError,
            "The request body is not a JSON object.",
        ));
    };
    if present(fields, "template").is_some() {
        return Err(Refusal::field("Template not found: this model keeps no templates."));
    }
    let from = required_text(fields, "from")?;
    if !is_mailbox(&from) {
        return Err(Refusal::new(422, ErrorName::InvalidFromAddress, format_hint("from")));
    }
    let to = mailboxes(fields, "to")?;
    if to.is_empty() {
        return Err(missing("to"));
    }
    let subject = required_text(fields, "subject")?;
    if subject.chars().any(|found| found == '\r' || found == '\n') {
        return Err(Refusal::field("The `subject` field must be a single line."));
    }
    let (html, text) = (optional_text(fields, "html")?, optional_text(fields, "text")?);
    if html.is_none() && text.is_none() {
        return Err(Refusal::new(
            422,
            ErrorName::MissingRequiredField,
            "Missing `html` or `text` field.",
        ));
    }
    let mail = Mail {
        from,
        to,
        cc: mailboxes(fields, "cc")?,
        bcc: mailboxes(fields, "bcc")?,
        reply_to: mailboxes(fields, "reply_to")?,
        subject,
        html,
        text,
        headers: headers(fields)?,
        tags: tags(fields)?,
        scheduled_at: optional_text(fields, "scheduled_at")?,
        attachments: attachments(fields)?,
    };
    let mut recipients = mail.to.iter().chain(&mail.cc).chain(&mail.bcc);
    if !example_domains_allowed && recipients.any(|recipient| has_example_domain(recipient)) {
        return Err(Refusal::field(
            "Invalid `to` field. Please use our testing email address instead of domains like `example.com`.",
        ));
    }
    Ok(mail)
}

/// A field that is there and not null.
fn present<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn missing(name: &str) -> Refusal {
    Refusal::new(422, ErrorName::MissingRequiredField, format!("Missing `{name}` field."))
}

fn format_hint(name: &str) -> String {
    format!(
        "Invalid `{name}` field. The email address needs to follow the `email@example.com` or `Name <email@example.com>` format."
    )
}

fn optional_text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    match present(fields, name) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(Refusal::field(format!("The `{name}` field must be a `string`."))),
        },
    }
}

fn required_text(fields: &Map<String, Value>, name: &str) -> Result<String, Refusal> {
    optional_text(fields, name)?
        .filter(|text| !text.is_empty())
        .ok_or_else(|| missing(name))
}

/// A string or an array of strings, each an address; absent is an empty list.
fn mailboxes(fields: &Map<String, Value>, name: &str) -> Result<Vec<String>, Refusal> {
    let Some(value) = present(fields, name) else {
        return Ok(Vec::new());
    };
    let found: Vec<&str> = match (value.as_str(), value.as_array()) {
        (Some(one), _) => vec![one],
        (None, Some(many)) => many.iter().map(|item| item.as_str().unwrap_or_default()).collect(),
        (None, None) => return Err(Refusal::field(format_hint(name))),
    };
    if found.len() > RECIPIENTS_MAX {
        return Err(Refusal::field(format!(
            "The `{name}` field must have at most {RECIPIENTS_MAX} items."
        )));
    }
    if found.iter().all(|mailbox| is_mailbox(mailbox)) {
        Ok(found.into_iter().map(str::to_owned).collect())
    } else {
        Err(Refusal::field(format_hint(name)))
    }
}

/// The bare address of `email@domain` or `Name <email@domain>`.
pub(super) fn bare_address(mailbox: &str) -> &str {
    let trimmed = mailbox.trim();
    match trimmed.strip_suffix('>').and_then(|head| head.rsplit_once('<')) {
        Some((_name, address)) => address,
        None => trimmed,
    }
}

/// Whether this is one address, with or without a name, that the provider takes.
fn is_mailbox(mailbox: &str) -> bool {
    let address = bare_address(mailbox);
    let options = Options::default()
        .with_required_tld()
        .without_domain_literal()
        .without_display_text();
    !mailbox.chars().any(char::is_control)
        && address.is_ascii()
        && address.len() <= ADDRESS_BYTES_MAX
        && EmailAddress::parse_with_options(address, options).is_ok()
}

fn has_example_domain(mailbox: &str) -> bool {
    bare_address(mailbox).rsplit_once('@').is_some_and(|(_local, domain)| {
        EXAMPLE_DOMAINS
            .iter()
            .any(|refused| domain.eq_ignore_ascii_case(refused))
    })
}

fn headers(fields: &Map<String, Value>) -> Result<BTreeMap<String, String>, Refusal> {
    let Some(value) = present(fields, "headers") else {
        return Ok(BTreeMap::new());
    };
    let wrong = || Refusal::field("The `headers` field must be an object of single-line strings.");
    let object = value.as_object().ok_or_else(wrong)?;
    let mut found = BTreeMap::new();
    for (name, value) in object {
        let value = value.as_str().ok_or_else(wrong)?;
        let name_is_legal = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        if !name_is_legal || value.chars().any(char::is_control) {
            return Err(wrong());
        }
        found.insert(name.clone(), value.to_owned());
    }
    Ok(found)
}

fn tags(fields: &Map<String, Value>) -> Result<Vec<Tag>, Refusal> {
    let Some(value) = present(fields, "tags") else {
        return Ok(Vec::new());
    };
    let wrong = || Refusal::field("The `tags` field must be an array of objects with a `name` and a `value`.");
    let items = value.as_array().ok_or_else(wrong)?;
    if items.len() > TAGS_MAX {
        return Err(Refusal::field(format!(
            "The `tags` field must have at most {TAGS_MAX} items."
        )));
    }
    let mut found: Vec<Tag> = Vec::with_capacity(items.len());
    for item in items {
        let part = |name: &str| {
            item.get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
                .ok_or_else(wrong)
        };
        let tag = Tag {
            name: part("name")?,
            value: part("value")?,
        };
        for text in [&tag.name, &tag.value] {
            if !is_tag_text(text) {
                return Err(Refusal::field(format!(
                    "Tags should only contain ASCII letters, numbers, underscores, or dashes, and 1 to {TAG_CHARS_MAX} of them."
                )));
            }
        }
        found.push(tag);
    }
    Ok(found)
}

fn is_tag_text(text: &str) -> bool {
    (1..=TAG_CHARS_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn attachments(fields: &Map<String, Value>) -> Result<Vec<Attached>, Refusal> {
    let Some(value) = present(fields, "attachments") else {
        return Ok(Vec::new());
    };
    let wrong = || {
        Refusal::new(
            422,
            ErrorName::InvalidAttachment,
            "Attachment must have either a `content` or `path`.",
        )
    };
    let mut found = Vec::new();
    for item in value.as_array().ok_or_else(wrong)? {
        let text = |name: &str| {
            let text = item.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty())
        };
        let bytes = match (text("content"), text("path")) {
            (Some(content), None) => Some(STANDARD.decode(content).map_err(|_| wrong())?),
            (None, Some(_)) => None,
            (Some(_), Some(_)) | (None, None) => return Err(wrong()),
        };
        let filename = text("filename").unwrap_or("attachment").to_owned();
        let ending = filename.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        if ending.is_some_and(|ending| FILE_TYPES_REFUSED.contains(&ending.as_str())) {
            return Err(Refusal::new(
                422,
                ErrorName::InvalidAttachment,
                "This file type is not supported as an attachment.",
            ));
        }
        found.push(Attached {
            filename,
            content_type: text("content_type").map(str::to_owned),
            bytes: bytes.as_ref().map(Vec::len),
            sha256: bytes.map(|bytes| hex(&Sha256::digest(bytes))),
        });
    }
    Ok(found)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "mail_tests.rs"]
mod tests;
