//! What an answer of the provider means. One table decides; its first line that fits is the verdict.
//!
//! Three questions are kept apart: may the provider have taken the mail, is it this mail's fault, and would the same
//! bytes do better later. Two rules answer most of them:
//!
//! - A refusal for good needs proof that the provider's application judged this mail. A JSON object is such a proof,
//!   and so are the statuses 413 (it measured our bytes) and 422 (only the application reads that far), whatever came
//!   of their bodies. Any other 4xx with a page of a proxy, or with a body that never arrived whole, proves nothing
//!   about the mail: it is repeated under the same key, which costs nothing and brings the reason.
//! - Only a message id is an acceptance. A 2xx without one is repeated under the same key; the provider then gives
//!   the first answer's id.
//!
//! Names and messages of the provider are compared and then forgotten: what is kept is a [`ProviderCode`].

use core::time::Duration;

use serde_json::Value as Json;

use crate::{
    outbox::time::Millis,
    ports::MailAnswer,
    provider::{
        code::ProviderCode,
        retry_after::{self, RETRY_AFTER_CAP},
        rules::{RULES, Rule, Verdict},
    },
};

/// The wait after a rate limit that names none: the provider counts by the second.
pub const RATE_WAIT_DEFAULT: Duration = Duration::from_secs(1);
/// The wait after "the first request with this key still runs": longer than a call takes as a rule.
pub const IN_PROGRESS_WAIT_DEFAULT: Duration = Duration::from_secs(5);
/// The shortest wait after a quota's end. The provider puts a `Retry-After` of its rate limit, a second or so, on
/// every answer; believed here, it would turn a pause of hours into a call per second.
pub const QUOTA_WAIT_FLOOR: Duration = Duration::from_secs(10 * 60);
/// How far past midnight UTC a quota is taken to be open again: the provider's clock is not ours.
pub const QUOTA_RESET_MARGIN: Duration = Duration::from_secs(60);
/// Longest message id that is believed, in characters; the provider's are UUIDs of 36.
pub const MESSAGE_ID_CHARS_MAX: usize = 128;
/// How much of an error's message is looked at, in bytes: the sentences we know are shorter.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Which limit throttled us: it decides how much is paused, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleKind {
    /// Requests per second.
    Rate,
    /// Mails per day.
    Day,
    /// Mails per month.
    Month,
}

/// What an answer means for the mail it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The provider has the mail.
    Accepted {
        /// The provider's id of it: 1 to [`MESSAGE_ID_CHARS_MAX`] letters, digits, `.`, `_` and `-`.
        message_id: String,
    },
    /// This mail is refused for good; it was not taken, and the same bytes will not be.
    Refused {
        /// Why.
        code: ProviderCode,
    },
    /// Not taken, and not the mail's fault: wait. No try is used up.
    Throttled {
        /// Which limit.
        kind: ThrottleKind,
        /// How long, at most a day.
        wait: Duration,
    },
    /// Not taken, because our side is set up wrongly: pause and call a person. No try is used up.
    Misconfigured {
        /// What is wrong.
        code: ProviderCode,
    },
    /// The first request with this key still runs: ask again with the same bytes.
    InProgress {
        /// How long to wait first.
        wait: Duration,
    },
    /// The key was used with other bytes: what was sealed is not what went out first. Nobody may send again.
    PayloadConflict,
    /// Nobody can know whether the mail was taken.
    Ambiguous {
        /// What happened.
        code: ProviderCode,
        /// The wait that the provider asked for, if it did.
        wait: Option<Duration>,
    },
}

/// Judges one answer. `now` serves to read dates and to find the next midnight.
pub fn classify(answer: &MailAnswer, now: Millis) -> Answer {
    match answer {
        MailAnswer::TimedOut => ambiguous(ProviderCode::TimedOut),
        MailAnswer::Disconnected => ambiguous(ProviderCode::Disconnected),
        MailAnswer::Response {
            status,
            retry_after,
            body,
        } => {
            let json = body
                .as_deref()
                .and_then(|bytes| serde_json::from_slice::<Json>(bytes).ok());
            if (200..=299).contains(status) {
                return match json.as_ref().and_then(usable_id) {
                    Some(id) => Answer::Accepted {
                        message_id: id.to_owned(),
                    },
                    None => ambiguous(ProviderCode::AnswerWithoutId),
                };
            }
            let asked = retry_after
                .as_deref()
                .and_then(|header| retry_after::parse(header, now));
            match first_rule(*status, &ErrorBody::read(json.as_ref())) {
                Some((_, rule)) => apply(rule.verdict, asked, now),
                None => ambiguous(ProviderCode::StatusUnexpected),
            }
        }
    }
}

/// What an error body says, as far as the table asks.
#[derive(Debug, Default)]
struct ErrorBody<'a> {
    /// The body is a JSON object: the provider's application wrote it.
    is_object: bool,
    name: &'a str,
    /// Lower case and cut to [`MESSAGE_BYTES_MAX`].
    message: String,
}

impl<'a> ErrorBody<'a> {
    fn read(json: Option<&'a Json>) -> Self {
        let Some(object) = json.and_then(Json::as_object) else {
            return Self::default();
        };
        let text = |field: &str| object.get(field).and_then(Json::as_str).unwrap_or_default();
        // Bytes are compared, so the cut may fall within a character.
        let message = text("message").bytes().take(MESSAGE_BYTES_MAX).collect::<Vec<u8>>();
        Self {
            is_object: true,
            name: text("name"),
            message: String::from_utf8_lossy(&message).to_ascii_lowercase(),
        }
    }
}

/// The first line of the table that fits, with its number.
fn first_rule(status: u16, body: &ErrorBody<'_>) -> Option<(usize, &'static Rule)> {
    RULES.iter().enumerate().find(|(_, rule)| {
        (rule.from..=rule.to).contains(&status)
            && rule.name.is_none_or(|name| name == body.name)
            && rule.says.is_none_or(|words| body.message.contains(words))
            && (!rule.readable || body.is_object)
    })
}

fn apply(verdict: Verdict, asked: Option<Duration>, now: Millis) -> Answer {
    match verdict {
        Verdict::Refuse(code) => Answer::Refused { code },
        Verdict::Misconfigured(code) => Answer::Misconfigured { code },
        Verdict::Throttle(kind) => Answer::Throttled {
            kind,
            wait: throttle_wait(kind, asked, now),
        },
        Verdict::InProgress => Answer::InProgress {
            wait: asked.unwrap_or(IN_PROGRESS_WAIT_DEFAULT),
        },
        Verdict::PayloadConflict => Answer::PayloadConflict,
        Verdict::Doubt(code) => Answer::Ambiguous { code, wait: asked },
    }
}

/// A quota that names no time opens at midnight UTC; for a month's that is the next time worth asking.
fn throttle_wait(kind: ThrottleKind, asked: Option<Duration>, now: Millis) -> Duration {
    match kind {
        ThrottleKind::Rate => asked.unwrap_or(RATE_WAIT_DEFAULT),
        ThrottleKind::Day | ThrottleKind::Month => asked
            .unwrap_or_else(|| until_midnight(now).saturating_add(QUOTA_RESET_MARGIN))
            .clamp(QUOTA_WAIT_FLOOR, RETRY_AFTER_CAP),
    }
}

/// From now to the next midnight UTC, at most a day.
fn until_midnight(now: Millis) -> Duration {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    Duration::from_millis(u64::try_from(DAY_MS - now.get().rem_euclid(DAY_MS)).unwrap_or(0))
}

/// The message id of an acceptance: one that can be stored, looked up and shown without a second thought.
fn usable_id(json: &Json) -> Option<&str> {
    let id = json.as_object()?.get("id")?.as_str()?;
    is_message_id(id).then_some(id)
}

/// Whether a text can be a message id of the provider: 1 to [`MESSAGE_ID_CHARS_MAX`] letters, digits, `.`, `_` and
/// `-`. One letter or digit at least, since an id of dots alone leads elsewhere when it stands in a path.
pub fn is_message_id(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=MESSAGE_ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(legal)
        && text.bytes().any(|b| b.is_ascii_alphanumeric())
}

fn ambiguous(code: ProviderCode) -> Answer {
    Answer::Ambiguous { code, wait: None }
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
