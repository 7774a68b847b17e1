//! The body of `POST /emails/batch`: a list of mails, what the provider refuses of it, and the answer.

use serde::Serialize;
use serde_json::Value;

use super::answer::{ErrorName, Refusal};
use super::mail::{self, Mail};

/// Resend's limit on the mails of one call.
pub const MAILS_MAX: usize = 100;
/// The header that says what becomes of a list with a wrong mail.
pub const VALIDATION_HEADER: &str = "x-batch-validation";

/// What becomes of a list with a wrong mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// All or nothing: what holds without the header.
    #[default]
    Strict,
    /// The right ones go out, the wrong ones are named.
    Permissive,
}

impl Validation {
    /// What the header asks for.
    pub fn of(header: Option<&str>) -> Self {
        match header {
            Some(value) if value.trim().eq_ignore_ascii_case("permissive") => Self::Permissive,
            Some(_) | None => Self::Strict,
        }
    }
}

/// A mail of the list that did not go out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongMail {
    /// Its place, from 0.
    pub index: usize,
    /// Why.
    pub message: String,
}

/// A list that was let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailList {
    /// The mails that go out, in their order.
    pub mails: Vec<Mail>,
    /// The ones that do not; `None` where nobody asked for them.
    pub errors: Option<Vec<WrongMail>>,
}

impl MailList {
    /// The answer's body, once the mails have ids.
    pub fn answer(&self, ids: &[String]) -> String {
        let data: Vec<_> = ids.iter().map(|id| serde_json::json!({ "id": id })).collect();
        match &self.errors {
            Some(errors) => serde_json::json!({ "data": data, "errors": errors }),
            None => serde_json::json!({ "data": data }),
        }
        .to_string()
    }
}

/// The recipients of a list that nobody has checked yet.
pub fn recipients(body: Option<&Value>) -> Vec<String> {
    let mails = body.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    mails.iter().flat_map(|mail| mail::recipients(Some(mail))).collect()
}

/// Checks the body of a list.
///
/// # Errors
/// The first thing wrong; where wrong mails are only to be named, what is wrong with the list as a whole.
pub fn check(body: Option<&Value>, validation: Validation, example_domains_allowed: bool) -> Result<MailList, Refusal> {
    let Some(list) = body.and_then(Value::as_array) else {
        let text = "The request body is not an array of emails.";
        return Err(Refusal::new(400, ErrorName::ValidationError, text));
    };
    if list.is_empty() || list.len() > MAILS_MAX {
        let text = format!("The batch must have between 1 and {MAILS_MAX} emails.");
        return Err(Refusal::field(text));
    }
    let mut mails = Vec::new();
    let mut errors = Vec::new();
    for (index, one) in list.iter().enumerate() {
        let checked = mail::check(Some(one), example_domains_allowed).and_then(|mail| {
            if mail.attachments.is_empty() {
                Ok(mail)
            } else {
                Err(Refusal::field(
                    "The `attachments` field is not supported in batch emails.",
                ))
            }
        });
        match (checked, validation) {
            (Ok(mail), _) => mails.push(mail),
            (Err(refusal), Validation::Strict) => return Err(refusal),
            (Err(refusal), Validation::Permissive) => errors.push(WrongMail {
                index,
                message: refusal.message,
            }),
        }
    }
    Ok(MailList {
        mails,
        errors: (validation == Validation::Permissive).then_some(errors),
    })
}

/// The id of the mail at this place of a list whose first mail has `first`: the same but for the first eight digits.
pub fn id_at(first: &str, place: usize) -> String {
    match (place, first.get(8..)) {
        (0, _) => first.to_owned(),
        (_, Some(rest)) => format!("{place:08x}{rest}"),
        (_, None) => format!("{first}-{place}"),
    }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
