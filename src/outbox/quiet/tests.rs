//! Quiet hours against a library's calendar, and on the days on which clocks change.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;

use super::*;

const NIGHT: (u16, u16) = (21 * 60, 7 * 60);

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn offset_of(zone: &TimeZone, at: Millis) -> i32 {
    zone.to_offset(Timestamp::from_millisecond(at.get()).unwrap()).seconds()
}

fn next(hours: (u16, u16), name: &str, at: &str) -> String {
    let zone = zone(name);
    let at = Millis::parse_rfc3339(at).unwrap();
    let next = next_permitted(hours, at, &|at| Some(offset_of(&zone, at))).unwrap();
    next.to_string()
}

#[test]
fn over_midnight_from_is_quiet_and_until_is_not() {
    for (at, opens) in [
        ("2026-01-10T20:59:59.999Z", "2026-01-10T20:59:59.999Z"),
        ("2026-01-10T21:00:00Z", "2026-01-11T07:00:00.000Z"),
        ("2026-01-10T23:30:00Z", "2026-01-11T07:00:00.000Z"),
        ("2026-01-11T00:30:00Z", "2026-01-11T07:00:00.000Z"),
        ("2026-01-11T06:59:59.999Z", "2026-01-11T07:00:00.000Z"),
        ("2026-01-11T07:00:00Z", "2026-01-11T07:00:00.000Z"),
    ] {
        assert_eq!(next(NIGHT, "UTC", at), opens, "{at}");
    }
}

#[test]
fn hours_within_a_day_and_hours_of_no_length() {
    assert_eq!(
        next((12 * 60, 13 * 60), "UTC", "2026-01-10T12:00:00Z"),
        "2026-01-10T13:00:00.000Z"
    );
    for hours in [(0, 0), (420, 420)] {
        assert_eq!(next(hours, "UTC", "2026-01-10T07:00:00Z"), "2026-01-10T07:00:00.000Z");
    }
    assert_eq!(
        next((0, 1_439), "UTC", "2026-01-10T00:00:00Z"),
        "2026-01-10T23:59:00.000Z"
    );
}

#[test]
fn an_end_that_the_clock_skips_is_the_first_instant_after_the_gap() {
    // New York, 8 March 2026: 02:00 is followed by 03:00, at 07:00 UTC.
    let hours = (22 * 60, 2 * 60 + 30);
    assert_eq!(
        next(hours, "America/New_York", "2026-03-08T05:00:00Z"),
        "2026-03-08T07:00:00.000Z"
    );
    // The end is the gap's own beginning.
    let hours = (22 * 60, 2 * 60);
    assert_eq!(
        next(hours, "America/New_York", "2026-03-08T05:00:00Z"),
        "2026-03-08T07:00:00.000Z"
    );
    // Hours that lie in the gap are quiet on no clock that day.
    let hours = (2 * 60 + 15, 2 * 60 + 45);
    assert_eq!(
        next(hours, "America/New_York", "2026-03-08T07:00:00Z"),
        "2026-03-08T07:00:00.000Z"
    );
    // Hours that begin in it are quiet from its end on.
    let hours = (2 * 60 + 30, 5 * 60);
    assert_eq!(
        next(hours, "America/New_York", "2026-03-08T06:59:59Z"),
        "2026-03-08T06:59:59.000Z"
    );
    assert_eq!(
        next(hours, "America/New_York", "2026-03-08T07:00:00Z"),
        "2026-03-08T09:00:00.000Z"
    );
}

#[test]
fn hours_that_the_clock_shows_twice_are_quiet_twice() {
    // New York, 1 November 2026: 02:00 is followed by 01:00, at 06:00 UTC.
    let hours = (60, 2 * 60);
    assert_eq!(
        next(hours, "America/New_York", "2026-11-01T05:30:00Z"),
        "2026-11-01T07:00:00.000Z"
    );
    assert_eq!(
        next(hours, "America/New_York", "2026-11-01T06:30:00Z"),
        "2026-11-01T07:00:00.000Z"
    );
    // Each local time is decided by itself: after the first 01:30 it is permitted until the clock goes back.
    let hours = (22 * 60, 60 + 30);
    assert_eq!(
        next(hours, "America/New_York", "2026-11-01T05:00:00Z"),
        "2026-11-01T05:30:00.000Z"
    );
    assert_eq!(
        next(hours, "America/New_York", "2026-11-01T05:59:00Z"),
        "2026-11-01T05:59:00.000Z"
    );
    assert_eq!(
        next(hours, "America/New_York", "2026-11-01T06:00:00Z"),
        "2026-11-01T06:30:00.000Z"
    );
}

#[test]
fn zones_of_half_and_quarter_hours_and_aliases() {
    for (name, at, opens) in [
        ("Asia/Calcutta", "2026-06-01T16:00:00Z", "2026-06-02T01:30:00.000Z"),
        ("Asia/Kathmandu", "2026-06-01T16:00:00Z", "2026-06-02T01:15:00.000Z"),
        ("Europe/Kiev", "2026-06-01T20:00:00Z", "2026-06-02T04:00:00.000Z"),
        ("US/Pacific", "2026-06-01T05:00:00Z", "2026-06-01T14:00:00.000Z"),
        // Half an hour of daylight saving: the clock goes back at 2:00 on 5 April, between the two ends.
        (
            "Australia/Lord_Howe",
            "2026-04-04T12:00:00Z",
            "2026-04-04T20:30:00.000Z",
        ),
    ] {
        assert_eq!(next(NIGHT, name, at), opens, "{name}");
    }
}

#[test]
fn a_day_that_a_zone_left_out_changes_no_time_of_day() {
    // Samoa went from the end of 29 December 2011 to the beginning of the 31st.
    assert_eq!(
        next((21 * 60, 7 * 60), "Pacific/Apia", "2011-12-30T08:00:00Z"),
        "2011-12-30T17:00:00.000Z"
    );
}

#[test]
fn a_zone_that_nobody_knows_permits_nothing() {
    assert_eq!(next_permitted(NIGHT, Millis::new(0), &|_| None), None);
}

#[test]
fn every_name_of_the_database_may_be_sent() {
    let database = TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    assert!(names.len() > 400);
    for name in names
        .iter()
        .filter(|name| !["Factory", "Etc/Unknown"].contains(&name.as_str()))
    {
        assert!(is_zone_name(name), "{name}");
    }
}

#[test]
fn names_are_names_and_no_offsets() {
    for name in [
        "Europe/Kiev",
        "Asia/Calcutta",
        "US/Pacific",
        "UTC",
        "Etc/GMT+5",
        "America/Argentina/ComodRivadavia",
        "America/Port-au-Prince",
    ] {
        assert!(is_zone_name(name), "{name}");
    }
    for name in [
        "",
        "+02:00",
        "-05",
        "Etc/Unknown",
        "etc/unknown",
        "Factory",
        " UTC",
        "UTC ",
        "Europe/Kiev\0",
        "GMT+05:00",
        "Europe/K\u{ef}ev",
        "../etc/passwd",
        "BST",
        "pst",
        "IST",
        "SystemV/PST8",
    ] {
        assert!(!is_zone_name(name), "{name}");
    }
    assert!(!is_zone_name(&"A".repeat(ZONE_BYTES_MAX + 1)));
}

/// Whether the wall clock shows a quiet time, by the library's own arithmetic.
fn is_quiet((from, until): (u16, u16), zone: &TimeZone, at: i64) -> bool {
    let time = zone.to_datetime(Timestamp::from_millisecond(at).unwrap()).time();
    let minute = u16::try_from(time.hour()).unwrap() * 60 + u16::try_from(time.minute()).unwrap();
    if from <= until {
        (from..until).contains(&minute)
    } else {
        minute >= from || minute < until
    }
}

/// An instant of a zone: near one of its changes, or anywhere up to the year 9000.
fn instant(zone: &TimeZone, base: i64, near: bool, distance: i64) -> i64 {
    let base_at = Timestamp::from_millisecond(base).unwrap();
    let change = near.then(|| zone.following(base_at).next()).flatten();
    change.map_or(base, |change| change.timestamp().as_millisecond() + distance)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_next_permitted_instant_is_the_first_one_of_the_library(
        pick in any::<prop::sample::Index>(),
        base in prop_oneof![0i64..2_500_000_000_000, 0i64..221_845_392_000_000],
        near in any::<bool>(),
        distance in -36_000_000i64..36_000_000,
        from in 0u16..1_440,
        until in 0u16..1_440,
    ) {
        let database = TimeZoneDatabase::bundled();
        let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
        let name = pick.get(&names);
        let zone = zone(name);
        let at = instant(&zone, base, near, distance);
        let next = next_permitted((from, until), Millis::new(at), &|at| Some(offset_of(&zone, at))).unwrap().get();
        prop_assert!(next >= at);
        prop_assert!(!is_quiet((from, until), &zone, next), "{name}: {next} is quiet");
        // Everything before it is quiet: looked at minute by minute, and in the last millisecond.
        let mut minute = at;
        while minute < next {
            prop_assert!(is_quiet((from, until), &zone, minute), "{name}: {minute} was permitted");
            minute += 60_000;
        }
        prop_assert!(next == at || is_quiet((from, until), &zone, next - 1), "{name}: {next} is not the first");
    }
}
