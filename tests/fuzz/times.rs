//! `Retry-After` and RFC 3339 times.

use core::time::Duration;

use proptest::prelude::*;
use sealpost::outbox::time::{Millis, TimeError};
use sealpost::provider::retry_after::{self, RETRY_AFTER_CAP, RETRY_AFTER_FLOOR};

use crate::hostile;

/// Parts of a date that are all right, or out by one, or of another length.
fn http_date() -> impl Strategy<Value = String> {
    (
        prop::sample::select(vec!["Mon", "Tue", "Sunday", "sun", "Xyz", ""]),
        0_u32..33,
        prop::sample::select(vec!["Jan", "Feb", "Dec", "feb", "Foo"]),
        prop::sample::select(vec!["1969", "1970", "2026", "9999", "10000", "26", "0000", "-001"]),
        0_u32..26,
        0_u32..62,
        prop::sample::select(vec![" GMT", " UTC", "", " +0000"]),
    )
        .prop_map(|(weekday, day, month, year, hour, minute, zone)| {
            format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:60{zone}")
        })
}

pub fn retry_header() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[0-9]{1,70}",
        1 => "[ \t]{0,2}[0-9]{1,6}[ \t]{0,2}",
        3 => http_date(),
        2 => (0_u64..400_000_000_000).prop_map(|seconds| {
            // Far beyond the year 9999 the format has no date.
            let at = std::time::UNIX_EPOCH + Duration::from_secs(seconds % 253_402_300_800);
            httpdate::fmt_http_date(at)
        }),
        1 => hostile::text(),
        1 => "[-+]?[0-9]{1,5}[.,e][0-9]{0,5}",
    ]
}

/// RFC 3339 (section 5.6) and what comes near it: other separators, no seconds, annotations, basic forms.
pub fn time_text() -> impl Strategy<Value = String> {
    // Mostly right, so that what is wrong is so by one part alone.
    let date = prop_oneof![
        16 => (1971_u32..9999, 1_u32..13, 1_u32..29).prop_map(|(y, m, d)| format!("{y:04}-{m:02}-{d:02}")),
        2 => (1968_u32..10_001, 0_u32..14, 0_u32..33).prop_map(|(y, m, d)| format!("{y:04}-{m:02}-{d:02}")),
        2 => prop::sample::select(vec!["9999-12-30", "9999-12-31", "1970-01-01", "1969-12-31", "0000-01-01"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["20260131", "2026-W05-3", "+002026-01-31", "2026-1-31"]).prop_map(str::to_owned),
    ];
    let clock = prop_oneof![
        14 => (0_u32..24, 0_u32..60, 0_u32..60).prop_map(|(h, m, s)| format!("{h:02}:{m:02}:{s:02}")),
        2 => (0_u32..26, 0_u32..62, 0_u32..63).prop_map(|(h, m, s)| format!("{h:02}:{m:02}:{s:02}")),
        1 => prop::sample::select(vec!["09:00", "09", "090000", ""]).prop_map(str::to_owned),
    ];
    let fraction =
        prop_oneof![8 => Just(String::new()), 4 => "\\.[0-9]{1,9}", 1 => "\\.[0-9]{0,12}", 1 => ",[0-9]{1,3}"];
    let offset = prop_oneof![
        8 => Just("Z".to_owned()),
        1 => Just("z".to_owned()),
        5 => (prop::sample::select(vec!['+', '-']), 0_u32..24, 0_u32..60).prop_map(|(s, h, m)| format!("{s}{h:02}:{m:02}")),
        1 => (prop::sample::select(vec!['+', '-']), 0_u32..30, 0_u32..99).prop_map(|(s, h, m)| format!("{s}{h:02}:{m:02}")),
        1 => "[+-][0-9]{2}|[+-][0-9]{4}|[+-][0-9]{2}:[0-9]{2}:[0-9]{2}",
        1 => prop::sample::select(vec!["", "Z[Europe/Berlin]", "+01:00[Europe/Berlin][u-ca=gregory]", " Z"]).prop_map(str::to_owned),
        1 => hostile::text(),
    ];
    let separator = prop::sample::select(vec!["T", "T", "T", "T", "T", "T", "T", "T", "t", " ", "_", ""]);
    (date, separator, clock, fraction, offset)
        .prop_map(|(date, separator, clock, fraction, offset)| format!("{date}{separator}{clock}{fraction}{offset}"))
}

/// The grammar of RFC 3339, section 5.6, and nothing beside it.
fn is_rfc3339(text: &str) -> bool {
    let shape: String = text
        .chars()
        .map(|c| {
            if c.is_ascii_digit() {
                '0'
            } else {
                c.to_ascii_uppercase()
            }
        })
        .collect();
    let Some(rest) = shape.strip_prefix("0000-00-00T00:00:00") else {
        return false;
    };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) if fraction.starts_with('0') => fraction.trim_start_matches('0'),
        Some(_) => return false,
        None => rest,
    };
    matches!(rest, "Z" | "+00:00" | "-00:00")
}

proptest! {
    #[test]
    fn a_wait_is_between_a_second_and_a_day(header in retry_header(), now in prop_oneof![any::<i64>(), 0_i64..4_000_000_000_000]) {
        if let Some(wait) = retry_after::parse(&header, Millis::new(now)) {
            prop_assert!((RETRY_AFTER_FLOOR..=RETRY_AFTER_CAP).contains(&wait));
            prop_assert!(header.len() <= 256 && header.bytes().any(|byte| byte.is_ascii_digit()));
            // Asked for in seconds, it is the same wait.
            let seconds = wait.as_secs().to_string();
            prop_assert_eq!(retry_after::parse(&seconds, Millis::new(now)), Some(Duration::from_secs(wait.as_secs())));
        }
    }

    #[test]
    fn an_accepted_time_is_rfc_3339_and_reads_back(text in prop_oneof![6 => time_text(), 1 => hostile::text()]) {
        match Millis::parse_rfc3339(&text) {
            Ok(at) => {
                prop_assert!(is_rfc3339(&text), "{text} is accepted");
                prop_assert!(at.get() >= 0);
                prop_assert_eq!(Millis::parse_rfc3339(&at.to_string()), Ok(at));
            }
            // A time with an offset is never told that it lacks one.
            Err(TimeError::WithoutOffset) => prop_assert!(!is_rfc3339(&text), "{text} has an offset"),
            Err(TimeError::OutOfRange | TimeError::Invalid) => {}
        }
    }

    #[test]
    fn every_point_in_time_is_shown_and_moves_without_wrapping(at in any::<i64>(), by in any::<u64>()) {
        let (at, by) = (Millis::new(at), Duration::from_millis(by));
        prop_assert!(at.plus(by) >= at && at.minus(by) <= at);
        prop_assert!(!at.to_string().is_empty());
        prop_assert!(at.plus(by).since(at) <= by);
    }
}
