//! Time as the database keeps it.

use core::fmt;
use core::time::Duration;

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

    /// Reads an RFC 3339 time with an offset (RFC 3339, section 5.6).
    ///
    /// # Errors
    /// [`TimeError`] names what is wrong; a time without an offset is refused, never guessed.
    pub fn parse_rfc3339(text: &str) -> Result<Self, TimeError> {
        let (local, offset) = split_offset(text).ok_or(TimeError::Invalid)?;
        // The library reads more than RFC 3339: annotations, times without minutes, days of the week.
        if local.parse::<jiff::civil::DateTime>().is_err() {
            return Err(TimeError::Invalid);
        }
        match offset {
            Offset::Missing => Err(TimeError::WithoutOffset),
            Offset::Wrong => Err(TimeError::Invalid),
            // A date and an offset that are right make an instant, unless it lies beyond the library's last day.
            Offset::Right => {
                let at = text.parse::<jiff::Timestamp>().map_err(|_| TimeError::OutOfRange)?;
                // Compared whole: as milliseconds, a last instant before 1970 would be its first.
                if at >= jiff::Timestamp::UNIX_EPOCH {
                    Ok(Self(at.as_millisecond()))
                } else {
                    Err(TimeError::OutOfRange)
                }
            }
        }
    }
}

/// What follows a date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    Missing,
    Wrong,
    Right,
}

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
        [b'Z' | b'z'] => Offset::Right,
        [b'+' | b'-', b'0'..=b'1', b'0'..=b'9', b':', b'0'..=b'5', b'0'..=b'9']
        | [b'+' | b'-', b'2', b'0'..=b'3', b':', b'0'..=b'5', b'0'..=b'9'] => Offset::Right,
        _ => Offset::Wrong,
    }
}

/// A duration in whole milliseconds, capped instead of wrapped.
fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Millis {
    /// RFC 3339 in UTC with milliseconds, as every JSON answer shows times.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(out, "{timestamp:.3}"),
            Err(_) => write!(out, "{}ms", self.0),
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
    fn never_wraps() {
        assert_eq!(Millis::new(i64::MAX).plus(Duration::MAX), Millis::new(i64::MAX));
        assert_eq!(Millis::new(5).since(Millis::new(9)), Duration::ZERO);
    }
}
