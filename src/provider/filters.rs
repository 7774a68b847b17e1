//! What templates may do with a value: print it, link to it, quote it, refuse it.

use minijinja::{
    AutoEscape, Error, ErrorKind, State,
    value::{Value, ValueKind},
};

/// Longest link in a template's data, in bytes: what every browser and mail program takes.
pub const LINK_BYTES_MAX: usize = 2048;

/// Text, numbers and truth values can be printed. A null would print as "none", a list as program text.
pub(crate) fn printable(value: &Value) -> Result<(), Error> {
    let kind = value.kind();
    if kind == ValueKind::String || kind == ValueKind::Number || kind == ValueKind::Bool {
        Ok(())
    } else if kind == ValueKind::None || kind == ValueKind::Undefined {
        Err(Error::from(ErrorKind::UndefinedError))
    } else {
        Err(refused())
    }
}

/// Marks an error of ours, so that it is told from the engine's own.
#[derive(Debug, thiserror::Error)]
#[error("template_data_invalid")]
pub(crate) struct Refused;

fn refused() -> Error {
    Error::new(ErrorKind::InvalidOperation, "value refused").with_source(Refused)
}

/// Filter: a web address, or an error. Anything else behind a button (`javascript:`, a relative path) is a trap or a
/// mistake. In HTML only `&` is left to escape, since quotes, angle brackets and spaces are refused.
pub(crate) fn link(state: &State, value: &Value) -> Result<Value, Error> {
    printable(value)?;
    let url = value.as_str().ok_or_else(refused)?;
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or_else(refused)?;
    let legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`');
    if url.len() > LINK_BYTES_MAX || !rest.starts_with(|c: char| c.is_ascii_alphanumeric()) || !rest.bytes().all(legal)
    {
        return Err(refused());
    }
    Ok(if *state.auto_escape() == AutoEscape::Html {
        Value::from_safe_string(url.replace('&', "&amp;"))
    } else {
        Value::from(url)
    })
}

/// Filter: text that a person typed, with its line breaks. In HTML it is escaped and each break becomes `<br>`.
pub(crate) fn paragraph(state: &State, value: &Value) -> Result<Value, Error> {
    printable(value)?;
    let text = value.as_str().ok_or_else(refused)?;
    if *state.auto_escape() != AutoEscape::Html {
        return Ok(Value::from(text.replace("\r\n", "\n")));
    }
    let mut html = String::with_capacity(text.len());
    for (position, line) in text.lines().enumerate() {
        if position > 0 {
            html.push_str("<br>\n");
        }
        for character in line.chars() {
            match character {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                '"' => html.push_str("&quot;"),
                '\'' => html.push_str("&#x27;"),
                other => html.push(other),
            }
        }
    }
    Ok(Value::from_safe_string(html))
}

/// Filter: a value that the template has no words for.
pub(crate) fn refuse(_value: &Value) -> Result<Value, Error> {
    Err(refused())
}
