//! A letter becomes the body of `POST /emails`: final bytes, ready to be sealed.
//!
//! The provider compares whole bodies under one idempotency key. So the fields have a fixed order, maps are ordered,
//! and nothing of the process (time, randomness, hash order) gets in: the same draft gives the same bytes anywhere.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    outbox::{attachment::Attachment, tags},
    provider::template::{self, LETTER_BYTES_MAX, breaks_line},
};

pub use crate::provider::template::{RenderError, Rendered};

/// Longest request body, in bytes: JSON may spell one byte of a letter with two, and headers and tags come on top.
pub const REQUEST_BYTES_MAX: usize = 1_200_000;

/// The same beside attachments, without their content. A frozen request travels as a text within JSON, where each quotation
/// mark and backslash takes two bytes: twice this and 2 MiB in base64 stay below the 5 MB that the database takes.
pub const REQUEST_BYTES_BESIDE_ATTACHMENTS_MAX: usize = 1_000_000;

/// What this deployment adds to every mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The mailbox that mails come from, such as `Northwind <post@example.com>`.
    pub from: String,
    /// Where answers go; `None` leaves the field out.
    pub reply_to: Option<String>,
    /// The environment's name, such as `production`; becomes the tag `sealpost_env`.
    pub environment: String,
    /// Whether every mail names its outbox id as its `Message-ID`. The provider may put one of its own in its place on
    /// the wire, and still repeats ours in its events.
    pub message_id: bool,
}

/// One letter with all that its request needs. Every mailbox is already rendered, quoted and checked.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// Exactly one mailbox.
    pub to: &'a str,
    /// Takes the place of [`Sender::from`].
    pub from: Option<&'a str>,
    /// Takes the place of [`Sender::reply_to`].
    pub reply_to: Option<&'a str>,
    /// Extra headers; reserved names were refused at the intake.
    pub headers: &'a BTreeMap<String, String>,
    /// The caller's tags, not yet cleaned.
    pub tags: &'a BTreeMap<String, String>,
    /// Becomes the tag `sealpost_id`, and the `Message-ID`.
    pub outbox_id: &'a str,
    /// Where the recipient can end this kind of mail; `None` where that is not offered.
    pub unsubscribe: Option<&'a str>,
    /// What the mail says.
    pub body: DraftBody<'a>,
    /// Files that go with it.
    pub attachments: &'a [Attachment],
}

/// What a mail says: a template with data, or words that the caller brought.
#[derive(Clone, Copy, Debug)]
pub enum DraftBody<'a> {
    /// A built-in template.
    Template {
        /// The template's name.
        name: &'a str,
        /// A JSON object.
        data: &'a Json,
    },
    /// Ready content.
    Content {
        /// One line.
        subject: &'a str,
        /// A whole HTML document.
        html: Option<&'a str>,
        /// Plain text.
        text: Option<&'a str>,
    },
}

/// The request, in the order in which its fields are written.
#[derive(Serialize)]
struct Request<'a> {
    from: &'a str,
    to: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<&'a str, &'a str>,
    tags: Vec<RequestTag<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<RequestAttachment<'a>>,
}

/// One attachment of the request.
#[derive(Serialize)]
struct RequestAttachment<'a> {
    filename: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    content: &'a str,
}

/// One tag of the request.
#[derive(Serialize)]
struct RequestTag<'a> {
    name: &'a str,
    value: &'a str,
}

/// The final JSON body of the request for one letter.
///
/// # Errors
/// [`RenderError`]; none of them can be cured by trying the same draft again with the same templates.
pub fn build_request(sender: &Sender, draft: &Draft<'_>) -> Result<String, RenderError> {
    let rendered;
    let (subject, html, text) = match draft.body {
        DraftBody::Template { name, data } => {
            rendered = template::render(name, data)?;
            (
                rendered.subject.as_str(),
                Some(rendered.html.as_str()),
                Some(rendered.text.as_str()),
            )
        }
        DraftBody::Content { subject, html, text } => {
            check_content(subject, html, text)?;
            (subject, html, text)
        }
    };
    let from = draft.from.unwrap_or(&sender.from);
    let reply_to = draft.reply_to.or(sender.reply_to.as_deref());
    let message_id = sender
        .message_id
        .then(|| message_id(draft.outbox_id, &sender.environment, from));
    let link = draft.unsubscribe.map(|link| format!("<{link}>"));
    let headers = headers(draft.headers, message_id.as_deref(), link.as_deref());
    check_headers(from, draft.to, reply_to, &headers)?;
    check_attachments(draft.attachments)?;
    let tags =
        tags::assemble(&sender.environment, draft.outbox_id, draft.tags).map_err(|_| RenderError::TagsInvalid)?;
    let request = Request {
        from,
        to: draft.to,
        reply_to,
        subject,
        html,
        text,
        headers,
        tags: tags
            .iter()
            .map(|tag| RequestTag {
                name: &tag.name,
                value: &tag.value,
            })
            .collect(),
        attachments: draft
            .attachments
            .iter()
            .map(|attachment| RequestAttachment {
                filename: &attachment.file_name,
                content_type: attachment.content_type.as_deref(),
                content: &attachment.content,
            })
            .collect(),
    };
    // Strings, and maps with string keys: JSON has a form for all of them, so this cannot fail on any draft.
    let body = serde_json::to_string(&request).map_err(|_| RenderError::TemplateFailed)?;
    let content: usize = draft.attachments.iter().map(|one| one.content.len()).sum();
    let rest_max = if content == 0 {
        REQUEST_BYTES_MAX
    } else {
        REQUEST_BYTES_BESIDE_ATTACHMENTS_MAX
    };
    if body.len().saturating_sub(content) > rest_max {
        return Err(RenderError::LetterTooLarge);
    }
    Ok(body)
}

/// Ready content obeys the rules of a rendered letter.
fn check_content(subject: &str, html: Option<&str>, text: Option<&str>) -> Result<(), RenderError> {
    template::check_subject(subject)?;
    let (html, text) = (html.unwrap_or_default(), text.unwrap_or_default());
    if html.is_empty() && text.is_empty() {
        return Err(RenderError::LetterEmpty);
    }
    let bytes = subject.len().saturating_add(html.len()).saturating_add(text.len());
    if bytes > LETTER_BYTES_MAX {
        return Err(RenderError::LetterTooLarge);
    }
    Ok(())
}

/// The caller's headers and ours, ordered by name. Ours are reserved names, which no caller's header has.
fn headers<'a>(
    own: &'a BTreeMap<String, String>,
    message_id: Option<&'a str>,
    link: Option<&'a str>,
) -> BTreeMap<&'a str, &'a str> {
    let mut all = BTreeMap::new();
    all.extend(own.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    if let Some(link) = link {
        // RFC 8058, section 3.1: mail programs show a button where both are there, and post this very text to the link.
        all.insert("List-Unsubscribe", link);
        all.insert("List-Unsubscribe-Post", "List-Unsubscribe=One-Click");
    }
    if let Some(message_id) = message_id {
        all.insert("Message-ID", message_id);
    }
    all
}

/// The outbox id and the environment at the sender's domain: staging's database may be a copy of production's, with the
/// same ids. A sender is a checked mailbox: what follows its last `@` is a domain in ASCII
/// and perhaps the closing bracket.
fn message_id(outbox_id: &str, environment: &str, from: &str) -> String {
    let domain = from.rsplit_once('@').map_or(from, |(_, domain)| domain);
    format!("<{outbox_id}.{environment}@{}>", domain.trim_end_matches('>'))
}

/// The last look before the bytes are final. The intake refuses these with the field's path; here it only must not pass.
fn check_headers(
    from: &str,
    to: &str,
    reply_to: Option<&str>,
    headers: &BTreeMap<&str, &str>,
) -> Result<(), RenderError> {
    let named = headers.iter().flat_map(|(name, value)| [*name, *value]);
    let broken = [from, to]
        .into_iter()
        .chain(reply_to)
        .chain(named)
        .any(|line| line.contains(breaks_line));
    // A header's name ends at its colon: one inside would make the rest of the name its value.
    if broken || from.is_empty() || to.is_empty() || headers.keys().any(|name| name.is_empty() || name.contains(':')) {
        return Err(RenderError::HeaderInvalid);
    }
    Ok(())
}

/// As for headers: the intake refuses these, here they only must not pass.
fn check_attachments(attachments: &[Attachment]) -> Result<(), RenderError> {
    let mut lines = attachments
        .iter()
        .flat_map(|one| [Some(one.file_name.as_str()), one.content_type.as_deref()])
        .flatten();
    if lines.any(|line| line.is_empty() || line.contains(breaks_line)) {
        return Err(RenderError::HeaderInvalid);
    }
    Ok(())
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
