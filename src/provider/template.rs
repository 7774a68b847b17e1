//! The templates that are built in, and how one becomes a letter.
//!
//! Escaping is on for the HTML part and undefined names are errors, so a letter never goes out with a hole in it or
//! with a stranger's markup. The version of a template is a hash of its files and the layout.

use std::{io, sync::LazyLock};

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, escape_formatter,
    syntax::SyntaxConfig,
    value::{Serde, Value},
};
use serde_json::Value as Json;

use crate::provider::filters::{Refused, link, paragraph, printable, refuse};

/// Most bytes of one letter (subject, HTML and text together): twice the data that the intake takes. Bodies are held in
/// memory and in the database, a whole batch of them at once.
pub const LETTER_BYTES_MAX: usize = 512 * 1000;
/// Longest subject, in bytes: one header line (RFC 5322, section 2.1.1).
pub const SUBJECT_BYTES_MAX: usize = 998;
/// Work that rendering one part may cost, in the engine's unit (one instruction, or 64 bytes): over ten times what the
/// largest letter needs, a fraction of a second.
const FUEL_PER_PART: u64 = 200_000;

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
    subject: &'static str,
    html: &'static str,
    text: &'static str,
}

// `LAYOUT_HTML`, `LAYOUT_TEXT` and `static TEMPLATES: &[Source]`, written by the build script.
include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// The engine; it compiles a template when it is first used. A constant in effect: nothing of a letter stays in it.
static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(engine);

/// The version of a template: 16 hex digits that change with any of its files or the layout.
pub fn version_of(template: &str) -> Option<&'static str> {
    find(template).map(|source| source.version)
}

/// Renders a template with its data, a JSON object.
///
/// # Errors
/// [`RenderError`] says who has to act: the template's author, or whoever brought the data.
pub fn render(template: &str, data: &Json) -> Result<Rendered, RenderError> {
    let name = find(template).ok_or(RenderError::TemplateMissing)?.name;
    let data = Value::from(Serde(data));
    let mut room = LETTER_BYTES_MAX;
    let mut part = |file: &str| {
        let text = render_part(&format!("{name}/{file}"), &data, room)?;
        room = room.saturating_sub(text.len());
        Ok(text)
    };
    let subject = part("subject.txt")?;
    check_subject(&subject)?;
    Ok(Rendered {
        subject,
        html: part("body.html")?,
        text: part("body.txt")?,
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

/// The text of a template file by the name that `extends` and [`render`] use.
fn source(name: &str) -> Option<&'static str> {
    match name {
        "layout.html" => Some(LAYOUT_HTML),
        "layout.txt" => Some(LAYOUT_TEXT),
        other => {
            let (template, file) = other.split_once('/')?;
            let source = find(template)?;
            match file {
                "subject.txt" => Some(source.subject),
                "body.html" => Some(source.html),
                "body.txt" => Some(source.text),
                _ => None,
            }
        }
    }
}

fn engine() -> Environment<'static> {
    let mut engine = Environment::new();
    engine.set_loader(|name| Ok(source(name)));
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_auto_escape_callback(|name| {
        if name.ends_with(".html") {
            AutoEscape::Html
        } else {
            AutoEscape::None
        }
    });
    engine.set_formatter(|out, state, value| match printable(value) {
        Ok(()) => escape_formatter(out, state, value),
        Err(error) => Err(error),
    });
    engine.add_filter("link", link);
    engine.add_filter("paragraph", paragraph);
    engine.add_filter("refuse", refuse);
    engine.set_fuel(Some(FUEL_PER_PART));
    // The default syntax, but a tag alone on its line leaves no empty line behind.
    if let Ok(syntax) = SyntaxConfig::builder().lstrip_blocks(true).trim_blocks(true).build() {
        engine.set_syntax(syntax);
    }
    engine
}

/// Collects one part and stops at the limit instead of growing past it.
struct Bounded {
    bytes: Vec<u8>,
    room: usize,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.room.checked_sub(bytes.len()) {
            Some(left) => {
                self.room = left;
                self.bytes.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            None => {
                self.full = true;
                Err(io::ErrorKind::WriteZero.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn render_part(name: &str, data: &Value, room: usize) -> Result<String, RenderError> {
    let template = ENGINE.get_template(name).map_err(|_| RenderError::TemplateFailed)?;
    let mut out = Bounded {
        bytes: Vec::new(),
        room,
        full: false,
    };
    let outcome = template.render_captured_to(data.clone(), &mut out).map(drop);
    if out.full {
        return Err(RenderError::LetterTooLarge);
    }
    outcome.map_err(|error| judge(&error))?;
    String::from_utf8(out.bytes).map_err(|_| RenderError::TemplateFailed)
}

/// What an error of the engine means. The cause may lie under wrappers (an error inside a block or a layout).
fn judge(error: &Error) -> RenderError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if current.is::<Refused>() {
            return RenderError::DataInvalid;
        }
        match current.downcast_ref::<Error>().map(Error::kind) {
            Some(ErrorKind::UndefinedError) => return RenderError::DataIncomplete,
            Some(ErrorKind::OutOfFuel) => return RenderError::LetterTooLarge,
            _ => cause = current.source(),
        }
    }
    RenderError::TemplateFailed
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
