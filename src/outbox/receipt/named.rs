//! Whom an event names. An address that is named may be suppressed for it, so nobody is named by a guess.

use serde_json::{Map, Value as Json};

use super::{Named, News};
use crate::outbox::address::{self, Address};

/// Recipients of one event that are looked at: as many as the provider takes on one mail.
pub const RECIPIENTS_MAX: usize = 50;

/// The recipients that `to` lists, or the one of several that the event's own detail mentions.
pub(super) fn named(data: &Map<String, Json>, news: News) -> Named {
    let mut list = Recipients::default();
    match data.get("to") {
        Some(Json::Array(entries)) => {
            for entry in entries.iter().take(RECIPIENTS_MAX) {
                list.add(entry);
            }
            list.has_unread |= entries.len() > RECIPIENTS_MAX;
        }
        Some(entry) => list.add(entry),
        None => {}
    }
    let Recipients { readable, has_unread } = list;
    if let ([one], false) = (readable.as_slice(), has_unread) {
        return Named::One(one.clone());
    }
    if readable.is_empty() {
        return Named::Nobody;
    }
    let Some(detail) = detail_of(news).and_then(|name| data.get(name)) else {
        return Named::Several;
    };
    let texts = texts(detail);
    let mut mentioned = readable.into_iter().filter(|address| {
        let person = address.hash_input();
        texts.iter().any(|text| mentions(text, &person))
    });
    match (mentioned.next(), mentioned.next()) {
        (Some(one), None) => Named::One(one),
        (Some(_), Some(_)) | (None, _) => Named::Several,
    }
}

/// What `to` lists.
#[derive(Default)]
struct Recipients {
    /// Each person once.
    readable: Vec<Address>,
    /// There is somebody whom we cannot read, or did not.
    has_unread: bool,
}

impl Recipients {
    fn add(&mut self, entry: &Json) {
        match entry {
            Json::String(text) => match address::parse(text) {
                Ok(address) => {
                    let person = address.hash_input();
                    if self.readable.iter().all(|other| other.hash_input() != person) {
                        self.readable.push(address);
                    }
                }
                Err(_) => self.has_unread = true,
            },
            // A place that was left empty is no person; anything else may stand for one.
            Json::Null => {}
            Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => self.has_unread = true,
        }
    }
}

/// Where the provider says what happened, for the news that concerns one of several recipients.
const fn detail_of(news: News) -> Option<&'static str> {
    match news {
        News::Bounced => Some("bounce"),
        News::Complained => Some("complaint"),
        News::Suppressed => Some("suppressed"),
        News::Scheduled
        | News::Sent
        | News::Delayed
        | News::Delivered
        | News::Opened
        | News::Clicked
        | News::Failed => None,
    }
}

/// All texts in a value, names included, in lower case.
fn texts(value: &Json) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Json::String(text) => found.push(text.to_ascii_lowercase()),
            Json::Array(elements) => left.extend(elements),
            Json::Object(members) => {
                found.extend(members.keys().map(|name| name.to_ascii_lowercase()));
                left.extend(members.values());
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    found
}

/// Whether a text has this address in it whole: not as the end of a longer local part (`ba@b.example` for
/// `a@b.example`), nor as the beginning of a longer domain (`a@b.example.net`). Both are in lower case.
fn mentions(text: &str, address: &str) -> bool {
    let is_local = |byte: u8| byte.is_ascii_alphanumeric() || b".!#$%&'*+-/=?^_`{|}~@".contains(&byte);
    let is_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'@');
    text.match_indices(address).any(|(at, found)| {
        let before = text.as_bytes().iter().take(at).next_back();
        let mut after = text.bytes().skip(at.saturating_add(found.len()));
        let ends = match after.next() {
            None => true,
            // The end of a sentence, or one more label.
            Some(b'.') => !after.next().is_some_and(is_domain),
            Some(byte) => byte.is_ascii() && !is_domain(byte),
        };
        ends && before.is_none_or(|&byte| byte.is_ascii() && !is_local(byte))
    })
}
