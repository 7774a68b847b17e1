//! One mailbox, normalised once: the same value is validated, stored, hashed, compared and sent.

use core::fmt;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use serde::Deserialize;

mod refusal;

pub use refusal::AddressError;

/// Bytes of a local part (RFC 5321, section 4.5.3.1.1).
pub const LOCAL_BYTES_MAX: usize = 64;

/// Bytes of an address: a path of 256 (RFC 5321, section 4.5.3.1.3) less its angle brackets.
pub const EMAIL_BYTES_MAX: usize = 254;

/// Bytes of a display name: room for any real one, and with every byte escaped a header line still fits.
pub const NAME_BYTES_MAX: usize = 256;

/// Bytes of an address as text: both parts at their longest, with every character of the name escaped.
const TEXT_BYTES_MAX: usize = 2 * NAME_BYTES_MAX + EMAIL_BYTES_MAX + 8;

/// One mailbox. Its `Debug` shows nothing: an address is personal data and belongs in no log.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// The local part as it was given, and the domain in lower-case ASCII (punycode where it is international).
    pub email: String,
    /// The display name, unescaped; never empty.
    #[serde(default)]
    pub name: Option<String>,
}

impl Address {
    /// What makes two addresses one recipient: the address in lower case. A tag (`a+b@`) stays part of it.
    pub fn hash_input(&self) -> String {
        self.email.to_ascii_lowercase()
    }

    /// The mailbox as a header shows it (RFC 5322, section 3.4). The name is always a quoted string, so that
    /// whatever stands in it, exactly one mailbox results; letters beyond ASCII stay UTF-8.
    pub fn mailbox(&self) -> String {
        let Some(name) = &self.name else {
            return self.email.clone();
        };
        let mut quoted = String::with_capacity(name.len().saturating_add(self.email.len()).saturating_add(8));
        quoted.push('"');
        for character in name.chars() {
            if matches!(character, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(character);
        }
        quoted.push_str("\" <");
        quoted.push_str(&self.email);
        quoted.push('>');
        quoted
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Address(..)")
    }
}

/// Reads `a@b.example`, `Name <a@b.example>` or `"Name" <a@b.example>`. Spaces around it are cut once.
///
/// # Errors
/// [`AddressError`] names the first thing that is wrong.
pub fn parse(text: &str) -> Result<Address, AddressError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    refuse_control(text)?;
    let text = text.trim_matches(' ');
    if let Some(rest) = text.strip_prefix('"') {
        let (name, rest) = unquote(rest).ok_or(AddressError::Malformed)?;
        let rest = rest.trim_start_matches(' ');
        if rest.starts_with('@') {
            return Err(AddressError::LocalQuoted);
        }
        return from_parts(bracketed(rest)?, Some(&name));
    }
    let Some((name, _)) = text.split_once('<') else {
        return from_parts(text, None);
    };
    if name.contains([',', ';']) {
        return Err(AddressError::Several);
    }
    if name.contains(['(', ')', '>', '[', ']', ':', '@', '\\', '"']) {
        return Err(AddressError::NameNeedsQuotes);
    }
    from_parts(bracketed(text.strip_prefix(name).unwrap_or(text))?, Some(name))
}

/// Makes a mailbox of its two parts; a name of nothing but spaces is no name.
///
/// # Errors
/// [`AddressError`] names the first thing that is wrong.
pub fn from_parts(email: &str, name: Option<&str>) -> Result<Address, AddressError> {
    let email = check_email(email.trim_matches(' '))?;
    let name = name.map(|name| name.trim_matches(' ')).filter(|name| !name.is_empty());
    if let Some(name) = name {
        check_name(name)?;
    }
    Ok(Address {
        email,
        name: name.map(str::to_owned),
    })
}

/// What stands in the angle brackets; both must be there, once.
fn bracketed(text: &str) -> Result<&str, AddressError> {
    match text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        Some(inner) if !inner.contains(['<', '>']) => Ok(inner),
        Some(_) | None if text.contains([',', ';']) => Err(AddressError::Several),
        Some(_) | None => Err(AddressError::Malformed),
    }
}

/// The content of a quoted string whose first quote is gone, and what follows its last one.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((content, characters.as_str())),
            '\\' => content.push(characters.next()?),
            character => content.push(character),
        }
    }
}

fn check_email(email: &str) -> Result<String, AddressError> {
    refuse_control(email)?;
    if email.is_empty() {
        return Err(AddressError::Empty);
    }
    if email
        .chars()
        .any(|character| is_joiner(character) || is_invisible(character))
    {
        return Err(AddressError::InvisibleCharacter);
    }
    if email.contains('"') {
        return Err(AddressError::LocalQuoted);
    }
    if email.contains([',', ';']) {
        return Err(AddressError::Several);
    }
    if email.contains(['<', '>']) {
        return Err(AddressError::Malformed);
    }
    if email.contains(char::is_whitespace) {
        return Err(AddressError::Space);
    }
    let (local, domain) = email.split_once('@').ok_or(AddressError::AtMissing)?;
    if domain.contains('@') {
        return Err(AddressError::AtRepeated);
    }
    check_local(local)?;
    let domain = ascii_domain(domain)?;
    let email = format!("{local}@{domain}");
    if email.len() > EMAIL_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    Ok(email)
}

/// A dot-atom (RFC 5322, section 3.2.3).
fn check_local(local: &str) -> Result<(), AddressError> {
    if local.is_empty() {
        return Err(AddressError::LocalEmpty);
    }
    if !local.is_ascii() {
        return Err(AddressError::LocalNotAscii);
    }
    if local.len() > LOCAL_BYTES_MAX {
        return Err(AddressError::LocalTooLong);
    }
    if local.split('.').any(str::is_empty) {
        return Err(AddressError::LocalDots);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".!#$%&'*+-/=?^_`{|}~".contains(&byte);
    if !local.bytes().all(allowed) {
        return Err(AddressError::LocalCharacter);
    }
    Ok(())
}

/// The domain in lower-case ASCII. A last label of digits alone is an IP address (WHATWG URL, "ends in a number").
fn ascii_domain(domain: &str) -> Result<String, AddressError> {
    let ascii = Uts46::new()
        .to_ascii(
            domain.as_bytes(),
            AsciiDenyList::STD3,
            Hyphens::CheckFirstLast,
            DnsLength::Verify,
        )
        .map_err(|_| AddressError::DomainInvalid)?;
    let (_, last) = ascii.rsplit_once('.').ok_or(AddressError::DomainWithoutDot)?;
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError::DomainInvalid);
    }
    Ok(ascii.into_owned())
}

/// A name may hold the joiners that Persian and Indic scripts and emoji are spelled with, and no other
/// character that nobody can see.
fn check_name(name: &str) -> Result<(), AddressError> {
    refuse_control(name)?;
    if name.chars().any(is_invisible) {
        return Err(AddressError::InvisibleCharacter);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(AddressError::NameTooLong);
    }
    Ok(())
}

fn refuse_control(text: &str) -> Result<(), AddressError> {
    if text.contains(breaks_a_header) {
        return Err(AddressError::ControlCharacter);
    }
    Ok(())
}

/// Whether a character could end a header line or be read as one that does: C0 and C1 controls with the delete
/// character, and Unicode's line and paragraph separators.
pub(crate) fn breaks_a_header(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

const fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

/// Characters without a glyph that can hide text or turn its direction.
const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests;
