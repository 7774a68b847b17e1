//! Facts with a time of their own: windows around a business instant, delays, zones and quiet hours, in runs that begin
//! near the days on which clocks change. What a fact's times mean is computed here once more, by a library's calendar.

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use sealpost::outbox::family::Family;
use sealpost::outbox::time::Millis;
use serde_json::{Value as Json, json};

use super::choices::{Choices, Subject};
use super::setting::{Fact, MARKER, START_MS, fact_of};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// The family that keeps quiet at night, as its file says.
const NIGHT_FAMILY: &str = "campaign";
/// From nine in the evening to seven in the morning.
pub const NIGHT: (u16, u16) = (21 * 60, 7 * 60);
/// The family that the simulation keeps quiet for half an hour, which a clock may show twice.
const SHORT_FAMILY: &str = "application_decision";
/// From a quarter past one to a quarter to two at night.
const HALF_HOUR: (u16, u16) = (75, 105);
/// The zone of its recipients of whom none is known.
const SHORT_ZONE: &str = "America/New_York";
/// The family with a window, and its hours from the business instant.
const WINDOW_FAMILY: &str = "renewal_notice";
const WINDOW: (i64, i64) = (-72 * HOUR, -24 * HOUR);

/// When runs begin, whose clock makes the time worth while, and for which family. The first is every run's that has no other.
const STARTS: [(&str, &str, &str); 9] = [
    ("2026-01-01T00:00:00Z", "UTC", NIGHT_FAMILY),
    // Nine in the evening before the clock goes forward, and seven in the morning after it did.
    ("2026-03-08T01:55:00Z", "America/New_York", NIGHT_FAMILY),
    ("2026-03-29T04:55:00Z", "Europe/Berlin", NIGHT_FAMILY),
    // The same when it goes back.
    ("2026-11-01T00:55:00Z", "America/New_York", NIGHT_FAMILY),
    ("2026-10-25T05:55:00Z", "Europe/Berlin", NIGHT_FAMILY),
    // A quarter past one, the first time and the second time, and shortly before two o'clock is three.
    ("2026-11-01T05:10:00Z", "America/New_York", SHORT_FAMILY),
    ("2026-11-01T06:10:00Z", "America/New_York", SHORT_FAMILY),
    ("2026-03-08T06:10:00Z", "America/New_York", SHORT_FAMILY),
    // A zone of quarter hours.
    ("2026-06-01T15:10:00Z", "Asia/Kathmandu", NIGHT_FAMILY),
];

/// Zones of facts that do not live by the run's.
const ZONES: [&str; 4] = ["Australia/Lord_Howe", "Asia/Calcutta", "Europe/Kiev", "US/Pacific"];

/// What a fact's times mean, by the world's own reckoning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub opens: Option<i64>,
    pub closes: Option<i64>,
    /// Minutes since midnight and the zone whose clock they are read on.
    pub quiet: Option<(u16, u16, &'static str)>,
}

/// Where a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub at: i64,
    zone: &'static str,
    family: &'static str,
}

impl Start {
    pub fn draw(choices: &Choices) -> Self {
        let (at, zone, family) = if choices.chance(Subject::Times, 500) {
            choices.one(Subject::Times, &STARTS)
        } else {
            STARTS[0]
        };
        let at = at.parse::<Timestamp>().expect("a time").as_millisecond();
        assert!(zone != STARTS[0].1 || at == START_MS);
        Self { at, zone, family }
    }

    /// The facts with times of their own, numbered from a hundred on.
    pub fn facts(self, choices: &Choices) -> Vec<Fact> {
        let count = if choices.chance(Subject::Times, 500) {
            1 + choices.below(Subject::Times, 3)
        } else {
            0
        };
        (0..count).map(|number| self.fact(choices, 100 + number)).collect()
    }

    fn fact(self, choices: &Choices, number: u32) -> Fact {
        let about = Subject::Times;
        match choices.below(about, 8) {
            0..=3 if self.family == NIGHT_FAMILY => self.quiet(choices, number, NIGHT_FAMILY, NIGHT, "UTC"),
            0..=3 => self.quiet(choices, number, SHORT_FAMILY, HALF_HOUR, SHORT_ZONE),
            4 => self.quiet(choices, number, NIGHT_FAMILY, NIGHT, "UTC"),
            5 => {
                let mut fact = fact_of(number, "notice", (None, None), true);
                fact.both("delay", &json!(choices.below(about, 300_000)));
                fact
            }
            _ => self.around_a_charge(choices, number),
        }
    }

    fn quiet(
        self,
        choices: &Choices,
        number: u32,
        family: &'static str,
        (from, until): (u16, u16),
        otherwise: &'static str,
    ) -> Fact {
        let mut fact = fact_of(number, family, (None, None), true);
        let zone = match choices.below(Subject::Times, 10) {
            0..=6 => Some(self.zone),
            7..=8 => Some(choices.one(Subject::Times, &ZONES)),
            _ => None,
        };
        match zone {
            Some(zone) => fact.both("timeZone", &json!(zone)),
            None => fact.without("timeZone"),
        }
        let zone = zone.unwrap_or(otherwise);
        fact.times.quiet = Some((from, until, zone));
        fact.last_moment = (self.at..self.at + 20 * MINUTE)
            .step_by(MINUTE as usize)
            .find(|at| is_quiet((from, until, zone), *at))
            .filter(|begins| *begins > self.at);
        fact
    }

    /// Around a charge, three days to one day before which the family tells of it.
    fn around_a_charge(self, choices: &Choices, number: u32) -> Fact {
        let about = Subject::Times;
        let charge = self.at
            + choices.one(
                about,
                &[
                    // The window opens in three minutes, is open, closes soon, has closed.
                    72 * HOUR + 3 * MINUTE,
                    48 * HOUR,
                    24 * HOUR + 90_000,
                    24 * HOUR + 10 * MINUTE,
                    23 * HOUR,
                ],
            );
        let mut fact = fact_of(number, WINDOW_FAMILY, (None, None), true);
        fact.both("businessAt", &json!(Millis::new(charge).to_string()));
        let (mut opens, mut closes) = (charge + WINDOW.0, charge + WINDOW.1);
        if choices.chance(about, 300) {
            fact.both("notBefore", &json!("-PT71H58M"));
            opens = opens.max(charge - 71 * HOUR - 58 * MINUTE);
        }
        if choices.chance(about, 300) {
            fact.both("notAfter", &json!("-P1DT5M"));
            closes = closes.min(charge - 24 * HOUR - 5 * MINUTE);
        }
        (fact.times.opens, fact.times.closes) = (Some(opens), Some(closes));
        fact.last_moment = Some(closes);
        fact
    }
}

impl Fact {
    /// The same member in both meanings.
    /// Takes a field out of both meanings.
    fn without(&mut self, field: &str) {
        for intent in [&mut self.intent, &mut self.other] {
            if let Some(members) = intent.as_object_mut() {
                members.remove(field);
            }
        }
    }

    fn both(&mut self, name: &str, value: &Json) {
        self.intent[name] = value.clone();
        self.other[name] = value.clone();
    }
}

/// The families as the simulation has them.
pub fn change(family: &mut Family) {
    if family.name == SHORT_FAMILY {
        (family.quiet_hours, family.time_zone) = (Some(HALF_HOUR), SHORT_ZONE);
    }
}

/// What a fact of one of these families says, beside its times.
pub fn letter(family: &str, name: &str) -> Option<Json> {
    let intent = match family {
        SHORT_FAMILY => json!({ "key": { "applicationId": name, "decision": "accepted" },
            "data": { "company": "Example", "programme": "it", "applicantName": format!("{MARKER} Eve"),
                "decision": "accepted" } }),
        WINDOW_FAMILY => json!({ "key": { "subscriptionId": name, "periodStart": "p", "kind": "first" },
            "data": { "company": "Example", "customerName": format!("{MARKER} Eve"), "plan": "Pro",
                "renewsOn": "soon", "amount": "9 EUR", "manageUrl": "https://example.org/manage" } }),
        _ => return None,
    };
    Some(intent)
}

/// Whether the wall clock shows a quiet time.
pub fn is_quiet((from, until, zone): (u16, u16, &str), at: i64) -> bool {
    let zone = TimeZoneDatabase::bundled().get(zone).expect("a zone");
    let time = zone
        .to_datetime(Timestamp::from_millisecond(at).expect("a time"))
        .time();
    let minute = u16::try_from(time.hour()).expect("an hour") * 60 + u16::try_from(time.minute()).expect("a minute");
    if from <= until {
        (from..until).contains(&minute)
    } else {
        minute >= from || minute < until
    }
}
