//! Reading mails back at the provider: one mail, or a page of the list.
//!
//! What is read may prove that a mail went out, and never that it did not: a list has an end, a mail may be removed,
//! and a call that still runs may be taken later. So whatever cannot be read is no proof of anything. Names, addresses
//! and subjects are compared and then forgotten.

use core::time::Duration;

use serde_json::Value as Json;

use crate::outbox::address;
use crate::outbox::id::{is_message_id, message_id_names};
use crate::outbox::tags::{ENVIRONMENT_TAG, OUTBOX_ID_TAG, restore};
use crate::outbox::time::Millis;
use crate::ports::MailAnswer;
use crate::provider::classify::{Answer, classify};

/// Mails of one page: the most that the provider gives.
pub const PAGE_MAILS: usize = 100;
/// Addresses of one mail that are looked at; the provider takes no more recipients.
const RECIPIENTS_MAX: usize = 50;

/// What an answer to a look-up says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// It was read.
    Found(T),
    /// There is no such mail.
    NotFound,
    /// The key may not read.
    Restricted,
    /// Too many requests.
    Throttled(Duration),
    /// Nothing can be said now: no answer, a failure of the provider, something that cannot be read.
    NotNow,
}

/// A mail as the provider keeps it, as far as we ask. A member that is absent or unreadable is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mail {
    /// The provider's id of it.
    pub id: String,
    /// Its recipients.
    pub to: Vec<String>,
    /// Its subject.
    pub subject: Option<String>,
    /// When the provider took it.
    pub created_at: Option<Millis>,
    /// The tag with the outbox id.
    pub outbox_id: Option<String>,
    /// The tag with the environment.
    pub environment: Option<String>,
    /// The `Message-ID` header.
    pub message_id: Option<String>,
    /// Whether tags were there at all.
    pub has_tags: bool,
}

/// One page of the list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its mails that have a usable id; without tags, and perhaps without a time.
    pub mails: Vec<Mail>,
    /// Items that have no usable id or no time that can be read.
    pub unreadable: usize,
    /// Whether the provider says that older ones follow.
    pub has_more: bool,
}

/// Whether a mail is the one that a row was sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// Its tags, or without any of ours its Message-ID, name the row and its environment.
    Yes,
    /// They name something else.
    No,
    /// It has none that we could compare.
    CannotSay,
}

impl Mail {
    /// Whether this mail, read whole, is that of the row `outbox_id` of `environment`. Where it has a tag of ours, the
    /// tags alone decide; without one, its Message-ID does. Recipient and subject prove nothing: a neighbour may have
    /// both. Of an item of a list nothing can be said in this way, because a list has no tags.
    pub fn is_of(&self, outbox_id: &str, environment: &str) -> Ours {
        let named =
            |tag: &Option<String>, wanted: &str| tag.as_deref().and_then(restore).is_some_and(|is| is == wanted);
        let is_tagged = self.outbox_id.is_some() || self.environment.is_some();
        let is_ours = if is_tagged {
            named(&self.outbox_id, outbox_id) && named(&self.environment, environment)
        } else {
            self.is_named(outbox_id, environment)
        };
        if is_ours {
            Ours::Yes
        } else if self.has_tags {
            Ours::No
        } else {
            Ours::CannotSay
        }
    }

    /// Whether the Message-ID names the row and its environment. A reason to read the mail whole, and no more: whoever
    /// got the mail, or a copy of the database, may write the same header.
    pub fn is_named(&self, outbox_id: &str, environment: &str) -> bool {
        self.message_id.as_deref().and_then(message_id_names) == Some((outbox_id, environment))
    }

    /// Whether recipient and subject are those of a request.
    pub fn looks_like(&self, to: &str, subject: &str) -> bool {
        let person = |text: &str| address::parse(text).map_or_else(|_| text.to_owned(), |parsed| parsed.hash_input());
        let wanted = person(to);
        self.subject.as_deref().map(str::trim) == Some(subject.trim())
            && self.to.iter().any(|recipient| person(recipient) == wanted)
    }
}

/// Reads the answer to a look at one mail.
pub fn mail(answer: &MailAnswer, now: Millis) -> Seen<Mail> {
    read(answer, now, |json| read_mail(json).filter(|mail| !mail.id.is_empty()))
}

/// Reads the answer to a look at a page.
pub fn page(answer: &MailAnswer, now: Millis) -> Seen<Page> {
    read(answer, now, |json| {
        let items = json.get("data")?.as_array()?;
        let mut page = Page {
            has_more: json.get("has_more").and_then(Json::as_bool).unwrap_or(false),
            ..Page::default()
        };
        for item in items.iter().take(PAGE_MAILS) {
            let read = read_mail(item).filter(|mail| !mail.id.is_empty());
            if read.as_ref().is_none_or(|mail| mail.created_at.is_none()) {
                page.unreadable = page.unreadable.saturating_add(1);
            }
            page.mails.extend(read);
        }
        Some(page)
    })
}

fn read<T>(answer: &MailAnswer, now: Millis, found: impl FnOnce(&Json) -> Option<T>) -> Seen<T> {
    let (status, body) = match answer {
        MailAnswer::Response { status, body, .. } => (*status, body.as_deref()),
        MailAnswer::TimedOut | MailAnswer::Disconnected => return Seen::NotNow,
    };
    if (200..=299).contains(&status) {
        return body
            .and_then(|bytes| serde_json::from_slice::<Json>(bytes).ok())
            .as_ref()
            .and_then(found)
            .map_or(Seen::NotNow, Seen::Found);
    }
    if status == 404 {
        return Seen::NotFound;
    }
    match classify(answer, now) {
        Answer::Throttled { wait, .. } => Seen::Throttled(wait),
        // The pages disagree on the status of a bad key; 400 is one of them.
        Answer::Misconfigured { .. } if matches!(status, 400 | 401 | 403) => Seen::Restricted,
        Answer::Accepted { .. }
        | Answer::Refused { .. }
        | Answer::Declined { .. }
        | Answer::Misconfigured { .. }
        | Answer::InProgress { .. }
        | Answer::PayloadConflict
        | Answer::Ambiguous { .. } => Seen::NotNow,
    }
}

fn read_mail(json: &Json) -> Option<Mail> {
    let members = json.as_object()?;
    let text = |name: &str| members.get(name).and_then(Json::as_str).map(str::to_owned);
    let tag = |name: &str| members.get("tags").and_then(|tags| read_tag(tags, name));
    Some(Mail {
        id: text("id").filter(|id| is_message_id(id)).unwrap_or_default(),
        to: match members.get("to") {
            Some(Json::String(one)) => vec![one.clone()],
            Some(Json::Array(many)) => many
                .iter()
                .take(RECIPIENTS_MAX)
                .filter_map(Json::as_str)
                .map(str::to_owned)
                .collect(),
            Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) | None => Vec::new(),
        },
        subject: text("subject"),
        created_at: text("created_at").and_then(|time| read_time(&time)),
        outbox_id: tag(OUTBOX_ID_TAG),
        environment: tag(ENVIRONMENT_TAG),
        message_id: text("message_id"),
        has_tags: match members.get("tags") {
            Some(Json::Array(tags)) => !tags.is_empty(),
            Some(Json::Object(tags)) => !tags.is_empty(),
            Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_)) | None => false,
        },
    })
}

/// Tags are sent as a list of names and values, and come back as that or as one object.
fn read_tag(tags: &Json, name: &str) -> Option<String> {
    match tags {
        Json::Object(members) => members.get(name)?.as_str().map(str::to_owned),
        Json::Array(list) => list
            .iter()
            .find(|tag| tag.get("name").and_then(Json::as_str) == Some(name))?
            .get("value")?
            .as_str()
            .map(str::to_owned),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// The provider writes `2023-04-03 22:13:42.674981+00`; RFC 3339 is read as well.
fn read_time(text: &str) -> Option<Millis> {
    let text = text.trim().replacen(' ', "T", 1);
    if let Ok(at) = Millis::parse_rfc3339(&text) {
        return Some(at);
    }
    // An offset of whole hours, without its minutes.
    let hours = text.rsplit(['+', '-']).next()?;
    (hours.len() == 2)
        .then(|| Millis::parse_rfc3339(&format!("{text}:00")).ok())
        .flatten()
}

#[cfg(test)]
#[path = "look_up_tests.rs"]
mod tests;
