//! The Gregorian calendar between a day's number and its date, as RFC 3339 writes it: years 0 to 9999, UTC, no zones.
//!
//! Our own, because these few lines are all that we need of a library of dates; the tests hold them against one.

use core::fmt;

/// Days of 400 years: the calendar repeats after them.
const CYCLE_DAYS: i64 = 146_097;
/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH_DAYS: i64 = 719_468;
/// Milliseconds of a day, which has no leap seconds here.
const DAY_MS: i64 = 86_400_000;
/// Digits of a fraction that are read: nanoseconds.
const FRACTION_DIGITS_MAX: usize = 9;

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    year: i64,
    month: i64,
    day: i64,
    /// Milliseconds since midnight.
    of_day_ms: i64,
}

impl Moment {
    /// The moment of a point in time.
    pub(super) const fn of(unix_ms: i64) -> Self {
        let (year, month, day) = date(unix_ms.div_euclid(DAY_MS));
        Self {
            year,
            month,
            day,
            of_day_ms: unix_ms.rem_euclid(DAY_MS),
        }
    }

    /// The Unix milliseconds of what `0000-00-00T00:00:00`, with or without a fraction, names; `None` where there is no
    /// such date or time of day. What is finer than a millisecond is cut off; a leap second is the one
    /// before it. The caller has looked at the signs between the numbers.
    pub(super) fn unix_ms(text: &str) -> Option<i64> {
        let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let days = days_since_epoch(year, month, day);
        // A date that does not exist has the number of another one.
        if date(days) != (year, month, day) || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let seconds = (hour * 60 + minute) * 60 + second.min(59);
        Some(days * DAY_MS + seconds * 1000 + fraction_ms(text.get(20..).unwrap_or_default())?)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            year,
            month,
            day,
            of_day_ms,
        } = self;
        let (seconds, ms) = (of_day_ms / 1000, of_day_ms % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(
            out,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
        )
    }
}

/// The digits after the point, in milliseconds; `None` where they are too many.
fn fraction_ms(digits: &str) -> Option<i64> {
    if digits.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    format!("{digits:0<3}").get(..3)?.parse().ok()
}

/// A date's day, counted from 1970. Years begin in March here, so that a leap day ends one.
const fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - EPOCH_DAYS
}

/// The year, month and day of a day, counted from 1970.
const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let in_cycle = days.rem_euclid(CYCLE_DAYS);
    let year = (in_cycle - in_cycle / 1460 + in_cycle / 36_524 - in_cycle / 146_096) / 365;
    let in_year = in_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let year = year + 400 * days.div_euclid(CYCLE_DAYS);
    if month < 10 {
        (year, month + 3, day)
    } else {
        (year + 1, month - 9, day)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_day_of_the_calendar_is_the_librarys() {
        let mut day = jiff::civil::date(0, 1, 1);
        let mut days = day.until(jiff::civil::date(1970, 1, 1)).unwrap().get_days();
        days = -days;
        let last = jiff::civil::date(9999, 12, 31);
        loop {
            let expected = (i64::from(day.year()), i64::from(day.month()), i64::from(day.day()));
            assert_eq!(date(i64::from(days)), expected);
            assert_eq!(days_since_epoch(expected.0, expected.1, expected.2), i64::from(days));
            if day == last {
                break;
            }
            day = day.tomorrow().unwrap();
            days += 1;
        }
    }

    #[test]
    fn dates_and_times_that_do_not_exist_are_refused() {
        for text in [
            "2026-02-29T00:00:00",
            "1900-02-29T00:00:00",
            "2026-04-31T00:00:00",
            "2026-00-10T00:00:00",
            "2026-13-10T00:00:00",
            "2026-01-00T00:00:00",
            "2026-01-32T00:00:00",
            "2026-01-01T24:00:00",
            "2026-01-01T00:60:00",
            "2026-01-01T00:00:61",
            "2026-01-01T00:00:00.0123456789",
        ] {
            assert_eq!(Moment::unix_ms(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_moment_is_written_as_the_library_writes_it(unix_ms in -62_167_219_200_000i64..=253_402_207_200_999) {
            let expected = jiff::Timestamp::from_millisecond(unix_ms).unwrap();
            let text = Moment::of(unix_ms).to_string();
            prop_assert_eq!(&text, &format!("{expected:.3}"));
            prop_assert_eq!(Moment::unix_ms(text.trim_end_matches('Z')), Some(unix_ms));
        }

        #[test]
        fn a_moment_is_read_as_the_library_reads_it(
            text in "(0000|0004|1900|1969|1970|2000|20[0-9]{2}|9999)-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,11})?"
        ) {
            let expected = format!("{text}Z").parse::<jiff::Timestamp>().ok();
            let expected = expected.map(|at| at.as_nanosecond().div_euclid(1_000_000));
            // The library's own last day ends before the calendar's.
            prop_assume!(!text.starts_with("9999-12-3"));
            prop_assert_eq!(Moment::unix_ms(&text).map(i128::from), expected);
        }
    }
}
