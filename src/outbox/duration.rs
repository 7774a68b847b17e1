//! ISO 8601 durations of days, hours, minutes and seconds, with a sign: how far a time is from another one.

/// The longest duration, in days: ten years. Nothing is owed further from its reason.
pub const DURATION_DAYS_MAX: i64 = 3_660;

/// Milliseconds of a day, which has no leap seconds and no change of the clock here.
const DAY_MS: i64 = 86_400_000;
/// Digits of one number; ten years are nine digits of seconds.
const DIGITS_MAX: usize = 9;

/// Why a duration was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a duration, or one with parts whose length depends on the calendar.
    #[error("duration_invalid")]
    Invalid,
    /// Longer than [`DURATION_DAYS_MAX`].
    #[error("duration_too_long")]
    TooLong,
}

/// Whether a text means to be a duration rather than a time.
pub fn looks_like_duration(text: &str) -> bool {
    text.trim_start_matches(['+', '-']).starts_with(['P', 'p'])
}

/// Milliseconds of a duration such as `-PT72H` or `P1DT12H`; negative with a minus. Each part at most once, in their
/// order, as whole numbers: days, then after a `T` hours, minutes, seconds.
///
/// # Errors
/// [`DurationError`].
pub fn parse_duration(text: &str) -> Result<i64, DurationError> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let rest = rest.strip_prefix('P').ok_or(DurationError::Invalid)?;
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) if !time.is_empty() => (date, time),
        Some(_) => return Err(DurationError::Invalid),
        None => (rest, ""),
    };
    let days = parts(date, &[('D', DAY_MS)])?;
    let of_day = parts(time, &[('H', 3_600_000), ('M', 60_000), ('S', 1_000)])?;
    if date.is_empty() && time.is_empty() {
        return Err(DurationError::Invalid);
    }
    let ms = days.saturating_add(of_day);
    if ms > DURATION_DAYS_MAX.saturating_mul(DAY_MS) {
        return Err(DurationError::TooLong);
    }
    Ok(sign * ms)
}

/// The sum of numbers with these units, in ms; units in their order.
fn parts(text: &str, units: &[(char, i64)]) -> Result<i64, DurationError> {
    let mut rest = text;
    let mut sum = 0i64;
    for (unit, ms) in units {
        let Some((number, after)) = rest.split_once(*unit) else {
            continue;
        };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(DurationError::Invalid);
        }
        if number.len() > DIGITS_MAX {
            return Err(DurationError::TooLong);
        }
        let number: i64 = number.parse().map_err(|_| DurationError::Invalid)?;
        sum = sum.saturating_add(number.saturating_mul(*ms));
        rest = after;
    }
    if rest.is_empty() {
        Ok(sum)
    } else {
        Err(DurationError::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_days_hours_minutes_and_seconds_with_a_sign() {
        const HOUR: i64 = 3_600_000;
        for (text, ms) in [
            ("PT0S", 0),
            ("-PT72H", -72 * HOUR),
            ("-P1DT12H", -36 * HOUR),
            ("+P2D", 48 * HOUR),
            ("PT90M", 90 * 60_000),
            ("P1DT2H3M4S", 26 * HOUR + 3 * 60_000 + 4_000),
            ("P3660D", 3_660 * 24 * HOUR),
        ] {
            assert_eq!(parse_duration(text), Ok(ms), "{text}");
            assert!(looks_like_duration(text), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration_or_depends_on_the_calendar() {
        for text in [
            "",
            "P",
            "-P",
            "PT",
            "P1DT",
            "T1H",
            "1H",
            "P1H",
            "PT1D",
            "P1Y",
            "P1M",
            "P1W",
            "PT1.5H",
            "PT1,5S",
            "P-1D",
            "PT1M1H",
            "PT1H1H",
            "--PT1H",
            "pt1h",
            "PT1h",
            " PT1H",
            "PT1H ",
            "PT\u{661}H",
            "P1D2D",
        ] {
            assert_eq!(parse_duration(text), Err(DurationError::Invalid), "{text:?}");
        }
        for text in ["P3661D", "-PT87841H", "PT9999999999S", "P99999999999999999999D"] {
            assert_eq!(parse_duration(text), Err(DurationError::TooLong), "{text}");
        }
        assert!(!looks_like_duration("2026-01-31T09:00:00Z"));
    }

    proptest! {
        #[test]
        fn a_duration_is_read_as_the_library_reads_it(text in "[+-]?P([0-9]{1,3}D)?(T([0-9]{1,4}H)?([0-9]{1,5}M)?([0-9]{1,6}S)?)?") {
            let library = text.parse::<jiff::Span>().ok().and_then(|span| {
                let total = span.total((jiff::Unit::Millisecond, jiff::SpanRelativeTo::days_are_24_hours()));
                total.ok().map(|ms| ms as i64)
            });
            let ours = parse_duration(&text);
            prop_assert_eq!(ours.ok(), library, "{}", text);
        }

        #[test]
        fn no_text_is_longer_than_the_longest(text in "[+-]?P?[0-9DTHMS]{0,30}") {
            if let Ok(ms) = parse_duration(&text) {
                prop_assert!(ms.abs() <= DURATION_DAYS_MAX * DAY_MS);
            }
        }
    }
}
