//! Time as the database keeps it.

use core::fmt;
use core::time::Duration;

use super::calendar::Moment;

/// A point in time, in Unix milliseconds: the one format of every time column, query and comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(i64);

/// Why a time from outside was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not RFC 3339, or a date that does not exist.
    #[error("time_invalid")]
    Invalid,
    /// A local time without an offset: nobody can say which instant it means.
    #[error("time_without_offset")]
    WithoutOffset,
    /// Before 1970, or too near to the end of the year 9999 for every offset to write it.
    #[error("time_out_of_range")]
    OutOfRange,
}

impl Millis {
    /// A point in time from Unix milliseconds.
    pub const fn new(unix_ms: i64) -> Self {
        Self(unix_ms)
    }

    /// Unix milliseconds.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// This instant moved forward; it stops at the largest value instead of wrapping.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(whole_ms(duration)))
    }

    /// This instant moved back; it stops at the smallest value instead of wrapping.
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(whole_ms(duration)))
    }

    /// How long it is from `earlier` to this instant; zero where `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This instant moved by so many milliseconds; `None` where nobody could have sent the result as a time.
    pub fn shifted(self, ms: i64) -> Option<Self> {
        let at = self.0.saturating_add(ms);
        (0..=LAST_MS).contains(&at).then_some(Self(at))
    }

    /// Reads an RFC 3339 time with an offset (RFC 3339, section 5.6).
    ///
    /// # Errors
    /// [`TimeError`] names what is wrong; a time without an offset is refused, never guessed.
    pub fn parse_rfc3339(text: &str) -> Result<Self, TimeError> {
        let (local, offset) = split_offset(text).ok_or(TimeError::Invalid)?;
        let local_ms = Moment::unix_ms(local).ok_or(TimeError::Invalid)?;
        match offset {
            Offset::Missing => Err(TimeError::WithoutOffset),
            Offset::Wrong => Err(TimeError::Invalid),
            Offset::Right { minutes } => match local_ms.saturating_sub(minutes.saturating_mul(MINUTE_MS)) {
                at @ 0..=LAST_MS => Ok(Self(at)),
                _ => Err(TimeError::OutOfRange),
            },
        }
    }
}

/// What follows a date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    Missing,
    Wrong,
    Right { minutes: i64 },
}

/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;
/// The last instant that every offset of less than 26 hours can write with a year of four digits (Unix ms).
const LAST_MS: i64 = 253_402_207_200_999;
/// The first instant with a year that is not negative (Unix ms).
const FIRST_MS: i64 = -62_167_219_200_000;

/// Bytes of a date and a time of day down to the second, as RFC 3339 writes them.
const LOCAL_SHAPE: &[u8] = b"0000-00-00T00:00:00";

/// A time's date and time of day with its fraction, and what follows; `None` where it does not begin so.
fn split_offset(text: &str) -> Option<(&str, Offset)> {
    let fits = |(byte, shape): (u8, &u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte.eq_ignore_ascii_case(shape),
    };
    let whole = text.get(..LOCAL_SHAPE.len())?;
    if !whole.bytes().zip(LOCAL_SHAPE).all(fits) {
        return None;
    }
    let rest = text.strip_prefix(whole)?;
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let after = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if after.len() == fraction.len() {
                return None;
            }
            after
        }
        None => rest,
    };
    let local = text.strip_suffix(rest)?;
    Some((local, offset_of(rest)))
}

/// Hours to 23 and minutes to 59 (RFC 3339, section 5.6).
fn offset_of(text: &str) -> Offset {
    match text.as_bytes() {
        [] => Offset::Missing,
        [b'Z' | b'z'] => Offset::Right { minutes: 0 },
        [
            sign @ (b'+' | b'-'),
            tens @ b'0'..=b'2',
            ones @ b'0'..=b'9',
            b':',
            minute_tens @ b'0'..=b'5',
            minute_ones @ b'0'..=b'9',
        ] if *tens < b'2' || *ones < b'4' => {
            let two = |tens: u8, ones: u8| 10 * i64::from(tens & 0xf) + i64::from(ones & 0xf);
            let minutes = two(*tens, *ones) * 60 + two(*minute_tens, *minute_ones);
            Offset::Right {
                minutes: if *sign == b'-' { -minutes } else { minutes },
            }
        }
        _ => Offset::Wrong,
    }
}

/// A duration in whole milliseconds, capped instead of wrapped.
pub fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Millis {
    /// RFC 3339 in UTC with milliseconds, as every JSON answer shows times.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FIRST_MS..=LAST_MS => Moment::of(self.0).fmt(out),
            _ => write!(out, "{}ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_rfc3339() {
        let at = Millis::parse_rfc3339("2026-11-30T12:00:00.5+05:30").unwrap();
        assert_eq!(at.to_string(), "2026-11-30T06:30:00.500Z");
    }

    #[test]
    fn refuses_what_names_no_instant() {
        assert_eq!(Millis::parse_rfc3339("2026-02-30T10:00:00Z"), Err(TimeError::Invalid));
        assert_eq!(
            Millis::parse_rfc3339("2026-02-20T10:00:00"),
            Err(TimeError::WithoutOffset)
        );
        assert_eq!(
            Millis::parse_rfc3339("1969-12-31T23:59:59Z"),
            Err(TimeError::OutOfRange)
        );
        assert_eq!(Millis::parse_rfc3339("soon"), Err(TimeError::Invalid));
    }

    #[test]
    fn reads_rfc3339_and_nothing_like_it() {
        for text in [
            "2026-01-31T09:00:00Z[Europe/Berlin]",
            "2026-01-31T09:00:00+01",
            "2026-01-31T09:00:00+0100",
            "2026-01-31T09:00:00+24:00",
            "2026-01-31T09:00:00+01:60",
            "2026-01-31T09:00Z",
            "2026-01-31T09Z",
            "2026-01-31 09:00:00Z",
            "2026-01-31T09:00:00,5Z",
            "2026-01-31T09:00:00.Z",
            "20260131T090000Z",
            "2026-W05-3T09:00:00Z",
            "+002026-01-31T09:00:00Z",
            "2026-01-31",
            "2026-01-31T09:00:00 Z",
            "2026-01-31T09:00:0\u{660}Z",
        ] {
            assert_eq!(Millis::parse_rfc3339(text), Err(TimeError::Invalid), "{text}");
        }
        for text in [
            "2026-01-31t09:00:00z",
            "2026-01-31T09:00:00.000000000Z",
            "2026-01-31T10:30:00+01:30",
        ] {
            assert_eq!(Millis::parse_rfc3339(text).unwrap().get(), 1_769_850_000_000, "{text}");
        }
    }

    #[test]
    fn a_time_with_an_offset_is_never_told_that_it_lacks_one() {
        for text in [
            "9999-12-31T23:59:59+00:00",
            "9999-12-31T23:59:59Z",
            "0000-01-01T00:00:00+00:00",
            "1969-12-31T23:59:59.9999Z",
        ] {
            assert_eq!(Millis::parse_rfc3339(text), Err(TimeError::OutOfRange), "{text}");
        }
    }

    #[test]
    fn the_ends_of_what_is_written_are_exact() {
        assert_eq!(Millis::new(LAST_MS).to_string(), "9999-12-30T22:00:00.999Z");
        assert_eq!(Millis::new(LAST_MS + 1).to_string(), "253402207201000ms");
        assert_eq!(Millis::new(FIRST_MS).to_string(), "0000-01-01T00:00:00.000Z");
        assert_eq!(Millis::new(i64::MIN).to_string(), "-9223372036854775808ms");
        assert_eq!(
            Millis::parse_rfc3339("9999-12-30T22:00:00.999Z"),
            Ok(Millis::new(LAST_MS))
        );
        assert_eq!(
            Millis::parse_rfc3339("9999-12-31T21:59:00.999+23:59"),
            Ok(Millis::new(LAST_MS))
        );
        assert_eq!(
            Millis::parse_rfc3339("9999-12-30T22:00:01Z"),
            Err(TimeError::OutOfRange)
        );
        assert_eq!(Millis::parse_rfc3339("1969-12-31T12:00:00-12:00"), Ok(Millis::new(0)));
    }

    #[test]
    fn never_wraps() {
        assert_eq!(Millis::new(i64::MAX).plus(Duration::MAX), Millis::new(i64::MAX));
        assert_eq!(Millis::new(5).since(Millis::new(9)), Duration::ZERO);
    }
}
