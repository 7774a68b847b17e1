//! The templates that are built in, and how one becomes a letter.
//!
//! Escaping is on for the HTML part and undefined names are errors, so a letter never goes out with a hole in it or
//! with a stranger's markup. The version of a template is a hash of its files and the layout.

use serde_json::Value as Json;

use crate::provider::{
    filters::Filter,
    tree::{self, Condition, Node, Part},
};

/// Most bytes of one letter (subject, HTML and text together): twice the data that the intake takes. Bodies are held in
/// memory and in the database, a whole batch of them at once.
pub const LETTER_BYTES_MAX: usize = 512 * 1000;
/// Longest subject, in bytes: one header line (RFC 5322, section 2.1.1).
pub const SUBJECT_BYTES_MAX: usize = 998;

/// Why a letter could not be rendered. The text is a stable code; nothing of the data is ever in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// This version of the Worker has no template of that name.
    #[error("template_missing")]
    TemplateMissing,
    /// The template names a value that the data does not have, or has as null.
    #[error("template_data_incomplete")]
    DataIncomplete,
    /// A value cannot stand where the template puts it: a list as text, a link that is not http or https.
    #[error("template_data_invalid")]
    DataInvalid,
    /// The template itself is wrong.
    #[error("template_failed")]
    TemplateFailed,
    /// The subject is empty, too long, or has a line break or another control character.
    #[error("subject_invalid")]
    SubjectInvalid,
    /// Ready content with neither an HTML nor a text part.
    #[error("letter_empty")]
    LetterEmpty,
    /// More than [`LETTER_BYTES_MAX`], or more work than any letter may cost.
    #[error("letter_too_large")]
    LetterTooLarge,
    /// A mailbox or a header has a control character, which could start a header of its own.
    #[error("header_invalid")]
    HeaderInvalid,
    /// A tag that the intake should have refused.
    #[error("tags_invalid")]
    TagsInvalid,
}

impl RenderError {
    /// The stable code, as it is kept with the row.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TemplateMissing => "template_missing",
            Self::DataIncomplete => "template_data_incomplete",
            Self::DataInvalid => "template_data_invalid",
            Self::TemplateFailed => "template_failed",
            Self::SubjectInvalid => "subject_invalid",
            Self::LetterEmpty => "letter_empty",
            Self::LetterTooLarge => "letter_too_large",
            Self::HeaderInvalid => "header_invalid",
            Self::TagsInvalid => "tags_invalid",
        }
    }
}

/// A letter, ready to go into a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// One line.
    pub subject: String,
    /// A whole HTML document.
    pub html: String,
    /// The same in plain text.
    pub text: String,
}

/// One template as the build script embeds it.
struct Source {
    name: &'static str,
    version: &'static str,
    subject: Part,
    html: Part,
    text: Part,
}

// `LAYOUT_HTML`, `LAYOUT_TEXT` and `static TEMPLATES: &[Source]`, compiled by the build script (`template_file.rs`).
include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// The version of a template: 16 hex digits that change with any of its files or the layout.
pub fn version_of(template: &str) -> Option<&'static str> {
    find(template).map(|source| source.version)
}

/// Renders a template with its data, a JSON object.
///
/// # Errors
/// [`RenderError`] says who has to act: the template's author, or whoever brought the data.
pub fn render(template: &str, data: &Json) -> Result<Rendered, RenderError> {
    let source = find(template).ok_or(RenderError::TemplateMissing)?;
    let mut room = LETTER_BYTES_MAX;
    let mut part = |part: &Part, html: bool| {
        let text = tree::render(part, data, html, room)?;
        room = room.saturating_sub(text.len());
        Ok(text)
    };
    let subject = part(&source.subject, false)?;
    check_subject(&subject)?;
    Ok(Rendered {
        subject,
        html: part(&source.html, true)?,
        text: part(&source.text, false)?,
    })
}

/// A subject is one line with something in it. It is checked after rendering, so no value can bring a second line.
///
/// # Errors
/// [`RenderError::SubjectInvalid`].
pub fn check_subject(subject: &str) -> Result<(), RenderError> {
    let fits = subject.len() <= SUBJECT_BYTES_MAX && !subject.trim().is_empty();
    if fits && !subject.contains(breaks_line) {
        Ok(())
    } else {
        Err(RenderError::SubjectInvalid)
    }
}

/// Control characters (CR and LF among them) and Unicode's two separators, which some programs turn into line breaks.
pub(crate) fn breaks_line(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

fn find(template: &str) -> Option<&'static Source> {
    TEMPLATES.iter().find(|source| source.name == template)
}

/// One part of a template by its file's name.
#[cfg(test)]
pub(crate) fn part(template: &str, file: &str) -> Option<&'static Part> {
    let source = find(template)?;
    match file {
        "subject.txt" => Some(&source.subject),
        "body.html" => Some(&source.html),
        "body.txt" => Some(&source.text),
        _ => None,
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
