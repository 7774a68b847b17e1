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
    /// Before 1970 or after the year 9999.
    #[error("time_out_of_range")]
    OutOfRange,
}

/// 9999-12-31T23:59:59.999Z in Unix milliseconds: the last instant that RFC 3339 can write.
const LAST_MS: i64 = 253_402_300_799_999;

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
        let Ok(timestamp) = text.parse::<jiff::Timestamp>() else {
            return Err(match text.parse::<jiff::civil::DateTime>() {
                Ok(_) => TimeError::WithoutOffset,
                Err(_) => TimeError::Invalid,
            });
        };
        let unix_ms = timestamp.as_millisecond();
        if (0..=LAST_MS).contains(&unix_ms) {
            Ok(Self(unix_ms))
        } else {
            Err(TimeError::OutOfRange)
        }
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
    fn never_wraps() {
        assert_eq!(Millis::new(i64::MAX).plus(Duration::MAX), Millis::new(i64::MAX));
        assert_eq!(Millis::new(5).since(Millis::new(9)), Duration::ZERO);
    }
}
