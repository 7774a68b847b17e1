//! What belongs to one send and not to its meaning: the caller's name of it, and the one-time codes and links that it
//! carries.

use std::collections::BTreeMap;

use super::FamilyShape;
use crate::outbox::fields::{self, Fields};
use crate::outbox::letter::SECRET;
use crate::outbox::problem::{Fault, Problems};

/// Bytes of a send's name: it is hashed, and longer ones tell nothing more apart.
pub const SEND_ID_BYTES_MAX: usize = 128;

/// Codes and links of one letter; a mail with more of them is no mail about one thing.
pub const SECRETS_MAX: usize = 8;

/// Bytes of a secret's name: it stands in templates.
pub const SECRET_NAME_BYTES_MAX: usize = 40;

/// Bytes of one code or link: signed links are long, and longer ones break in mail programs.
pub const SECRET_BYTES_MAX: usize = 512;

const SEND_ID_INVALID: Fault = Fault::new("send_id_invalid", "Send 1 to 128 printable ASCII characters.");
const SECRET_NEEDS_TEMPLATE: Fault = Fault::new(
    "secret_needs_template",
    "Put the code into the content; only a template can be filled with a secret.",
);
const SECRETS_COUNT: Fault = Fault::new("secrets_count", "Send 1 to 8 secrets, or leave the field out.");
const SECRET_INVALID: Fault = Fault::new(
    "secret_invalid",
    "Send a text of 1 to 512 bytes without control characters.",
);
const SECRET_NAME_INVALID: Fault = Fault::new(
    "secret_name_invalid",
    "Send a name in camelCase of at most 40 letters and digits.",
);
const SECRET_IN_DATA: Fault = Fault::new(
    "secret_in_data",
    "Rename this member of the data; the template sees the field secret under its name.",
);

/// The caller's name of this send.
pub(super) fn check_id(intent: &Fields<'_>, problems: &mut Problems) -> Option<String> {
    intent.optional("id", problems, |value| {
        let id = fields::text(value)?;
        let legal = (1..=SEND_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        legal.then(|| id.to_owned()).ok_or(SEND_ID_INVALID)
    })
}

/// The codes and links by name; empty where there are none.
pub(super) fn check_secret(
    intent: &Fields<'_>,
    family: Option<&FamilyShape>,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let mut secrets = BTreeMap::new();
    let place = intent.place(SECRET);
    let Some(members) = intent.optional(SECRET, problems, fields::object) else {
        return secrets;
    };
    if family.is_some_and(|family| !family.has_template) {
        problems.refuse(&place, SECRET_NEEDS_TEMPLATE);
        return secrets;
    }
    if !(1..=SECRETS_MAX).contains(&members.len()) {
        problems.refuse(&place, SECRETS_COUNT);
        return secrets;
    }
    let in_data = intent.get("data").and_then(|data| data.get(SECRET)).is_some();
    if in_data {
        problems.refuse(&intent.place("data").field(SECRET), SECRET_IN_DATA);
    }
    for (name, value) in members {
        let checked = fields::text(value).and_then(|text| {
            let fits = (1..=SECRET_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
            if !is_camel_case(name) {
                return Err(SECRET_NAME_INVALID);
            }
            fits.then_some(text).ok_or(SECRET_INVALID)
        });
        if let Some(text) = problems.keep(&place.field(name), checked) {
            secrets.insert(name.clone(), text.to_owned());
        }
    }
    secrets
}

/// A lower-case letter, then letters and digits: a name that a template can be written with.
fn is_camel_case(name: &str) -> bool {
    name.len() <= SECRET_NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
