//! `Retry-After` as the provider sends it (RFC 9110, section 10.2.3): seconds, or a date.

use core::time::Duration;
use std::time::UNIX_EPOCH;

use crate::outbox::time::Millis;

/// The shortest wait: "0" and dates that have passed must not make a tight loop.
pub const RETRY_AFTER_FLOOR: Duration = Duration::from_secs(1);
/// The longest wait: one day covers every quota's reset, and an absurd value must not silence a mail for good.
pub const RETRY_AFTER_CAP: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest header that is looked at, in bytes: dates have 29, no sane number of seconds has more.
const HEADER_BYTES_MAX: usize = 64;

/// The wait that the header asks for, between [`RETRY_AFTER_FLOOR`] and [`RETRY_AFTER_CAP`]; `None` where it asks for
/// nothing that can be understood. A date needs the time now.
pub fn parse(header: &str, now: Millis) -> Option<Duration> {
    let header = header.trim_ascii();
    if header.is_empty() || header.len() > HEADER_BYTES_MAX {
        return None;
    }
    let asked = if header.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only digits: the one way to fail is a number too large, and that asks for the longest wait.
        header.parse::<u64>().map_or(Duration::MAX, Duration::from_secs)
    } else {
        let at = httpdate::parse_http_date(header).ok()?;
        let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Millis::new(0).plus(since_1970).since(now)
    };
    Some(asked.clamp(RETRY_AFTER_FLOOR, RETRY_AFTER_CAP))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noon() -> Millis {
        Millis::parse_rfc3339("2026-10-21T12:00:00Z").unwrap()
    }

    fn seconds(header: &str) -> Option<u64> {
        parse(header, noon()).map(|wait| wait.as_secs())
    }

    #[test]
    fn reads_seconds() {
        assert_eq!(seconds("17"), Some(17));
        assert_eq!(seconds(" 17 "), Some(17));
        assert_eq!(seconds("0"), Some(1));
        assert_eq!(seconds("86400"), Some(86_400));
        assert_eq!(seconds("86401"), Some(86_400));
        assert_eq!(seconds("99999999999999999999"), Some(86_400));
    }

    #[test]
    fn reads_dates() {
        assert_eq!(seconds("Wed, 21 Oct 2026 12:00:30 GMT"), Some(30));
        assert_eq!(seconds("Wed, 21 Oct 2026 11:00:00 GMT"), Some(1));
        assert_eq!(seconds("Thu, 21 Oct 2027 12:00:00 GMT"), Some(86_400));
        assert_eq!(seconds("Fri, 31 Dec 9999 23:59:59 GMT"), Some(86_400));
    }

    #[test]
    fn garbage_asks_for_nothing() {
        let long = "9".repeat(65);
        for header in [
            "",
            " ",
            "-5",
            "+5",
            "1.5",
            "soon",
            "1e3",
            "٣",
            "Wed, 99 Oct 2026 12:00:30 GMT",
            &long,
        ] {
            assert_eq!(seconds(header), None, "{header}");
        }
    }

    proptest! {
        #[test]
        fn stays_within_its_bounds(
            header in prop_oneof![".*", "[0-9]{1,40}", "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"],
            now in any::<i64>(),
        ) {
            if let Some(wait) = parse(&header, Millis::new(now)) {
                prop_assert!((RETRY_AFTER_FLOOR..=RETRY_AFTER_CAP).contains(&wait));
            }
        }
    }
}
