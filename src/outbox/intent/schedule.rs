//! When a mail may go out: what the caller says of it, and what its family adds.

use core::time::Duration;

use serde_json::Value;

use super::{FamilyLookup, FamilyShape};
use crate::outbox::duration::{DurationError, looks_like_duration, parse_duration};
use crate::outbox::fields::{self, Fields};
use crate::outbox::problem::{Fault, Problems};
use crate::outbox::quiet::is_zone_name;
use crate::outbox::time::Millis;

/// The longest delay of a send, in ms: 366 days. What is further away has a date, and says `notBefore`.
pub const DELAY_MS_MAX: u64 = 366 * 86_400_000;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;

const WINDOW_EMPTY: Fault = Fault::new(
    "window_empty",
    "Send a notAfter that is later than notBefore, and times within the family's own window.",
);
const BUSINESS_AT_REQUIRED: Fault = Fault::new(
    "business_at_required",
    "Add businessAt, from which the duration counts, or send an RFC 3339 time.",
);
const DURATION_INVALID: Fault = Fault::new(
    "duration_invalid",
    "Send an ISO 8601 duration of days, hours, minutes and seconds, such as -PT72H or P1DT12H.",
);
const DURATION_TOO_LONG: Fault = Fault::new("duration_too_long", "Send a duration of at most 3660 days.");
const DELAY_INVALID: Fault = Fault::new(
    "delay_invalid",
    "Send a whole number of milliseconds from 0 to 31622400000, which is 366 days.",
);
const TIME_ZONE_UNKNOWN: Fault = Fault::new(
    "time_zone_unknown",
    "Send the IANA name of a zone, such as Europe/Kyiv.",
);

/// From when until when a mail may go out; either side may be open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// No call to the provider before this time.
    pub opens: Option<Millis>,
    /// No call to the provider at or after this time.
    pub closes: Option<Millis>,
}

/// What an intent says of its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    /// The caller's own window, with its durations counted from the business instant: what the fingerprint is made of.
    pub(super) said: Window,
    /// What is left of it within the family's window: what the row stores.
    pub(super) window: Window,
    pub(super) delay: Option<Duration>,
    pub(super) time_zone: Option<String>,
}

/// Checks `businessAt`, `notBefore`, `notAfter`, `delay` and `timeZone`.
///
/// A window that has closed is not refused: the repetition of an old request must still find its row, and a new row is
/// recorded and counted as expired.
pub(super) fn check(
    intent: &Fields<'_>,
    family: Option<&FamilyShape>,
    families: &dyn FamilyLookup,
    problems: &mut Problems,
) -> Schedule {
    let hours = family.and_then(|family| family.window_hours);
    let business_at = if hours.is_some() {
        intent.required("businessAt", problems, fields::time)
    } else {
        intent.optional("businessAt", problems, fields::time)
    };
    // A business instant that was sent and refused is no reason to ask for one.
    let from = business_at.ok_or(intent.has("businessAt"));
    let mut end = |name| intent.optional(name, problems, |value| moment(value, from)).flatten();
    let said = Window {
        opens: end("notBefore"),
        closes: end("notAfter"),
    };
    let own = match (hours, business_at) {
        (Some((opens, closes)), Some(at)) => Window {
            opens: Some(hours_from(at, opens)),
            closes: Some(hours_from(at, closes)),
        },
        (None, _) | (_, None) => Window::default(),
    };
    let is_empty = |opens: Option<Millis>, closes: Option<Millis>| matches!((opens, closes), (Some(opens), Some(closes)) if closes <= opens);
    if is_empty(said.opens, said.closes) || is_empty(own.opens, said.closes) {
        problems.refuse(&intent.place("notAfter"), WINDOW_EMPTY);
    } else if is_empty(said.opens, own.closes) {
        problems.refuse(&intent.place("notBefore"), WINDOW_EMPTY);
    }
    Schedule {
        said,
        window: Window {
            // An end that was not named is no end: `None` is the least, so the later opening is the greater.
            opens: said.opens.max(own.opens),
            closes: said.closes.into_iter().chain(own.closes).min(),
        },
        delay: intent.optional("delay", problems, delay),
        time_zone: intent.optional("timeZone", problems, |value| time_zone(value, families)),
    }
}

/// A time, or how far it is from the business instant. `None` where that instant was refused itself.
fn moment(value: &Value, from: Result<Millis, bool>) -> Result<Option<Millis>, Fault> {
    let text = fields::text(value)?;
    if !looks_like_duration(text) {
        return fields::time(value).map(Some);
    }
    let ms = parse_duration(text).map_err(|error| match error {
        DurationError::Invalid => DURATION_INVALID,
        DurationError::TooLong => DURATION_TOO_LONG,
    })?;
    match from {
        Ok(from) => from.shifted(ms).map(Some).ok_or(fields::TIME_OUT_OF_RANGE),
        Err(true) => Ok(None),
        Err(false) => Err(BUSINESS_AT_REQUIRED),
    }
}

fn hours_from(at: Millis, hours: i32) -> Millis {
    Millis::new(at.get().saturating_add(i64::from(hours).saturating_mul(HOUR_MS)))
}

fn delay(value: &Value) -> Result<Duration, Fault> {
    let ms = value.as_u64().filter(|ms| *ms <= DELAY_MS_MAX);
    ms.map(Duration::from_millis).ok_or(DELAY_INVALID)
}

fn time_zone(value: &Value, families: &dyn FamilyLookup) -> Result<String, Fault> {
    let name = fields::text(value)?;
    let known = is_zone_name(name) && families.has_zone(name);
    known.then(|| name.to_owned()).ok_or(TIME_ZONE_UNKNOWN)
}
