//! Reads an event's body.
//!
//! The signature has been checked, so the writer is the provider; what may still be strange is the shape, because the
//! provider adds members, leaves some out and changes their form without a version. So everything that is not asked
//! for is skipped, and a member of an unexpected form counts as one that is not there. Two things are never guessed:
//! when something happened, and to whom.
//!
//! The body is read by `serde_json` alone and not by [`crate::outbox::json`]: that reader refuses a name that stands
//! twice, a deep value or a long number anywhere, which is right for what a caller means to say and wrong for members
//! that nobody here looks at. Size is bounded by [`BODY_BYTES_MAX`], depth by `serde_json`'s own limit of 128 levels.

use serde_json::{Map, Value as Json};

use super::named::named;
use super::{BounceKind, News, Reading, Receipt};
use crate::outbox::id::{is_message_id, is_outbox_id, message_id_names};
use crate::outbox::tags::{self, ENVIRONMENT_TAG, OUTBOX_ID_TAG};
use crate::outbox::time::Millis;

/// Longest body that is read, in bytes. A real one has a few thousand: addresses, a subject, tags, headers. Read into
/// memory, small values take many times their bytes.
pub const BODY_BYTES_MAX: usize = 512 * 1024;
/// Tags of one event that are looked at; a mail has at most 75.
const TAGS_LOOKED_AT_MAX: usize = 100;
/// Headers of one event that are looked at; a mail of ours has few.
const HEADERS_LOOKED_AT_MAX: usize = 100;

/// What the events about a mail begin with.
const MAIL_PREFIX: &str = "email.";
/// What the events about anything but a mail begin with.
const OTHER_PREFIXES: [&str; 3] = ["contact.", "domain.", "suppression."];
/// A mail that somebody sent to us.
const RECEIVED: &str = "email.received";
/// The header that names a mail for good (RFC 5322, section 3.6.4).
const MESSAGE_ID_HEADER: &str = "message-id";

const UNREADABLE: Reading = Reading::NotUnderstood("receipt_unreadable");
const TYPE_UNKNOWN: Reading = Reading::NotUnderstood("receipt_type_unknown");
const TIME_INVALID: Reading = Reading::NotUnderstood("receipt_time_invalid");
const WITHOUT_MAIL: Reading = Reading::NotUnderstood("receipt_without_mail");

/// What an event says. `environment` is the one this program sends for: the provider tells every environment of one
/// account about the mails of all.
pub fn read(body: &[u8], environment: &str) -> Reading {
    if body.len() > BODY_BYTES_MAX {
        return UNREADABLE;
    }
    let Ok(Json::Object(event)) = serde_json::from_slice(body) else {
        return UNREADABLE;
    };
    let Some(kind) = event.get("type").and_then(Json::as_str) else {
        return UNREADABLE;
    };
    if kind == RECEIVED || OTHER_PREFIXES.iter().any(|prefix| kind.starts_with(prefix)) {
        return Reading::NotAboutAMail;
    }
    let nothing = Map::new();
    let data = event.get("data").and_then(Json::as_object).unwrap_or(&nothing);
    let header = header(data, MESSAGE_ID_HEADER).and_then(message_id_names);
    // Before anything else can be found wanting: what is wrong with another environment's mail is told there.
    let is_elsewhere = match tag(data, ENVIRONMENT_TAG) {
        Some(value) => tags::restore(value).as_deref() != Some(environment),
        None => header.is_some_and(|(_, other)| other != environment),
    };
    if is_elsewhere {
        return Reading::OtherEnvironment;
    }
    let tagged_id = tag(data, OUTBOX_ID_TAG)
        .and_then(tags::restore)
        .filter(|id| is_outbox_id(id))
        .or_else(|| header.map(|(id, _)| id.to_owned()));
    let is_ours = tagged_id.is_some() || tag(data, ENVIRONMENT_TAG).is_some();
    let Some(news) = kind.strip_prefix(MAIL_PREFIX).and_then(news_of) else {
        // A new kind of news about the mails of every program on the account would fill the parking.
        return if is_ours { TYPE_UNKNOWN } else { Reading::NotAboutAMail };
    };
    let Some(at) = event.get("created_at").and_then(Json::as_str).and_then(event_time) else {
        return TIME_INVALID;
    };
    let message_id = data
        .get("email_id")
        .and_then(Json::as_str)
        .filter(|id| is_message_id(id))
        .map(str::to_owned);
    // Our tag alone would say whose mail it is, and prove nothing: an acceptance has an id.
    let Some(message_id) = message_id else {
        return WITHOUT_MAIL;
    };
    Reading::About(Receipt {
        news,
        bounce: match news {
            News::Bounced => Some(bounce_kind(data)),
            News::Scheduled
            | News::Sent
            | News::Delayed
            | News::Delivered
            | News::Opened
            | News::Clicked
            | News::Failed
            | News::Suppressed
            | News::Complained => None,
        },
        at,
        message_id,
        tagged_id,
        named: named(data, news),
    })
}

/// The provider's word for it.
fn news_of(word: &str) -> Option<News> {
    Some(match word {
        "scheduled" => News::Scheduled,
        "sent" => News::Sent,
        "delivery_delayed" => News::Delayed,
        "delivered" => News::Delivered,
        "opened" => News::Opened,
        "clicked" => News::Clicked,
        "failed" => News::Failed,
        "suppressed" => News::Suppressed,
        "bounced" => News::Bounced,
        "complained" => News::Complained,
        _ => return None,
    })
}

/// A bounce is permanent only where the provider says so: a recipient is suppressed for it.
fn bounce_kind(data: &Map<String, Json>) -> BounceKind {
    let kind = data
        .get("bounce")
        .and_then(|bounce| bounce.get("type"))
        .and_then(Json::as_str);
    BounceKind::ALL
        .into_iter()
        .find(|known| kind.is_some_and(|kind| kind.eq_ignore_ascii_case(known.as_str())))
        .unwrap_or(BounceKind::Undetermined)
}

/// A time as the provider writes it: RFC 3339, and in older events the form of its database,
/// `2023-04-03 22:13:42.674981+00`.
fn event_time(text: &str) -> Option<Millis> {
    if let Ok(at) = Millis::parse_rfc3339(text) {
        return Some(at);
    }
    let (date, time) = text.split_once(' ')?;
    let hours_alone = match time.as_bytes() {
        [.., b'+' | b'-', tens, ones] => tens.is_ascii_digit() && ones.is_ascii_digit(),
        _ => false,
    };
    let minutes = if hours_alone { ":00" } else { "" };
    Millis::parse_rfc3339(&format!("{date}T{time}{minutes}")).ok()
}

/// The value of a tag. Sent as a list of names and values, tags come back as an object; both are read.
fn tag<'a>(data: &'a Map<String, Json>, name: &str) -> Option<&'a str> {
    match data.get("tags")? {
        Json::Object(tags) => tags.get(name)?.as_str(),
        Json::Array(tags) => pair(tags, TAGS_LOOKED_AT_MAX, |other| other == name),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// The value of a header, whatever the case of its name.
fn header<'a>(data: &'a Map<String, Json>, name: &str) -> Option<&'a str> {
    let is_it = |other: &str| other.eq_ignore_ascii_case(name);
    match data.get("headers")? {
        Json::Object(headers) => headers
            .iter()
            .take(HEADERS_LOOKED_AT_MAX)
            .find_map(|(other, value)| value.as_str().filter(|_| is_it(other))),
        Json::Array(headers) => pair(headers, HEADERS_LOOKED_AT_MAX, is_it),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// The first value in a list of `{name, value}` whose name fits; entries of another form are skipped.
fn pair(list: &[Json], looked_at_max: usize, is_it: impl Fn(&str) -> bool) -> Option<&str> {
    list.iter().take(looked_at_max).find_map(|entry| {
        let name = entry.get("name")?.as_str()?;
        let value = entry.get("value")?.as_str()?;
        is_it(name).then_some(value)
    })
}
