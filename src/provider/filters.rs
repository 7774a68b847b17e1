//! What templates may do with a value: print it, link to it, quote it, refuse it.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::provider::template::RenderError;

/// Longest link in a template's data, in bytes: what every browser and mail program takes.
pub const LINK_BYTES_MAX: usize = 2048;

/// How a template prints a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// As it is, escaped in HTML.
    Plain,
    /// A web address, or an error. Anything else behind a button (`javascript:`, a relative path) is a trap or a mistake.
    Link,
    /// Text that a person typed, with its line breaks. In HTML it is escaped and each break becomes `<br>`.
    Paragraph,
    /// A value that the template has no words for.
    Refuse,
}

/// What stands in the letter for a value. Text, numbers and truth values can be printed; a null would be a hole, and a
/// list program text.
///
/// # Errors
/// [`RenderError::DataIncomplete`] where the value is missing or null, [`RenderError::DataInvalid`] where it cannot
/// stand here.
pub(crate) fn print(filter: Filter, value: Option<&Json>, html: bool) -> Result<Cow<'_, str>, RenderError> {
    let value = match value {
        Some(_) if filter == Filter::Refuse => return Err(RenderError::DataInvalid),
        Some(Json::Null) | None => return Err(RenderError::DataIncomplete),
        Some(value) => value,
    };
    match (filter, value) {
        (Filter::Plain, Json::String(text)) if html => Ok(escape(text, "&#x2f;").into()),
        (Filter::Plain, Json::String(text)) => Ok(text.into()),
        (Filter::Plain, Json::Bool(true)) => Ok("True".into()),
        (Filter::Plain, Json::Bool(false)) => Ok("False".into()),
        (Filter::Plain, Json::Number(number)) => Ok(match number.as_f64() {
            Some(float) if number.is_f64() => decimal(float),
            Some(_) | None => number.to_string(),
        }
        .into()),
        (Filter::Link, Json::String(url)) => link(url, html),
        (Filter::Paragraph, Json::String(text)) if html => Ok(paragraph(text).into()),
        (Filter::Paragraph, Json::String(text)) => Ok(text.replace("\r\n", "\n").into()),
        (Filter::Plain | Filter::Link | Filter::Paragraph | Filter::Refuse, _) => Err(RenderError::DataInvalid),
    }
}

/// The shortest digits that read back as the same number, without an exponent and always with a point.
fn decimal(float: f64) -> String {
    let mut text = float.to_string();
    if !text.contains('.') {
        text.push_str(".0");
    }
    text
}

/// In HTML only `&` is left to escape, since quotes, angle brackets and spaces are refused.
fn link(url: &str, html: bool) -> Result<Cow<'_, str>, RenderError> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or(RenderError::DataInvalid)?;
    let legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`');
    if url.len() > LINK_BYTES_MAX || !rest.starts_with(|c: char| c.is_ascii_alphanumeric()) || !rest.bytes().all(legal)
    {
        return Err(RenderError::DataInvalid);
    }
    Ok(if html {
        url.replace('&', "&amp;").into()
    } else {
        url.into()
    })
}

fn paragraph(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for (position, line) in text.lines().enumerate() {
        if position > 0 {
            html.push_str("<br>\n");
        }
        html.push_str(&escape(line, "/"));
    }
    html
}

/// Escapes what HTML could read as markup, within an attribute, too; `slash` is what becomes of `/`.
fn escape(text: &str, slash: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#x27;"),
            '/' => html.push_str(slash),
            other => html.push(other),
        }
    }
    html
}
