//! Bugs of windows and quiet hours.

use std::sync::OnceLock;

use sealpost::policy::Policy;

use super::{BASE, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 3] = [&HOURS_UNCHECKED_BEFORE_THE_CALL, &HOURS_IN_UTC, &FAMILY_WINDOW_IGNORED];

/// Whoever looks at the hours when the attempt is open finds that it is noon.
static HOURS_UNCHECKED_BEFORE_THE_CALL: Planted = Planted {
    name: "quiet hours are not looked at before the call",
    breaks: Invariant::I6,
    zones: |sim, who, at, offset| {
        if !sim.oracle.has_open_attempt(who) {
            return offset;
        }
        let of_day = i32::try_from(at.get().rem_euclid(86_400_000) / 1_000).expect("a day's seconds");
        Some(43_200 - of_day)
    },
    ..BASE
};

/// Every clock shows the time of the servers.
static HOURS_IN_UTC: Planted = Planted {
    name: "quiet hours are read in UTC",
    breaks: Invariant::I6,
    zones: |_, _, _, offset| offset.map(|_| 0),
    ..BASE
};

/// The family's window is not known where rows are recorded, which is the only place that looks at it.
static FAMILY_WINDOW_IGNORED: Planted = Planted {
    name: "the intake ignores the family's window",
    breaks: Invariant::I6,
    config: |config| {
        static WITHOUT: OnceLock<Policy> = OnceLock::new();
        config.policy = WITHOUT.get_or_init(|| {
            let mut kinds = Policy::built_in_kinds();
            for kind in &mut kinds {
                kind.family.window_hours = None;
            }
            Policy::of(kinds)
        });
    },
    ..BASE
};
