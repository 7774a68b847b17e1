//! The crash points can find something: bugs that a calm run does not show, each of which a crash point must.

use std::rc::Rc;

use super::{Path, exhaust, paths, told};
use crate::planted::{NOTHING, Planted};
use crate::report::Invariant;
use crate::store::Store;

/// A bug, and the path whose crash points show it.
struct Expected {
    planted: &'static Planted,
    path: &'static str,
}

static FORGETS_WHATEVER_HAPPENED: Planted = Planted {
    name: "acknowledges whatever happened",
    breaks: Invariant::I11,
    decisions: |decisions| vec![sealpost::consume::Decision::Acknowledge; decisions.len()],
    ..NOTHING
};

static COUNTS_NO_DOUBTS: Planted = Planted {
    name: "an attempt that was opened and not closed leaves no doubt",
    breaks: Invariant::I6,
    schema: &[("(a.outcome IS NULL OR a.outcome IN", "(a.outcome IN")],
    ..NOTHING
};

static TRUSTS_KEYS: Planted = Planted {
    name: "trusts in keys where the provider keeps none",
    breaks: Invariant::I6,
    config: |config| {
        config.timing.window = crate::setting::version(
            crate::setting::Profile::Usual,
            crate::paced::Pace::AsTheProfile,
            crate::setting::Program::First,
        )
        .config
        .timing
        .window
    },
    ..NOTHING
};

static EXPECTED: [Expected; 3] = [
    Expected {
        planted: &FORGETS_WHATEVER_HAPPENED,
        path: "consumer, a fresh row",
    },
    Expected {
        planted: &COUNTS_NO_DOUBTS,
        path: "consumer, one row, a provider without keys",
    },
    Expected {
        planted: &TRUSTS_KEYS,
        path: "consumer, one row, a provider without keys",
    },
];

/// How many planted bugs were not found, or not by a crash point.
pub fn main() -> usize {
    EXPECTED.iter().filter(|expected| !is_found(expected)).count()
}

fn is_found(expected: &Expected) -> bool {
    let planted = expected.planted;
    let path: &Path = paths::ALL
        .iter()
        .find(|path| path.name == expected.path)
        .expect("a path of this name");
    let store = Rc::new(Store::open(planted.schema, planted.sql));
    let tally = exhaust(path, &store, planted, false);
    let calm = tally.broken.iter().any(|(plan, _)| plan.is_empty());
    let found = tally
        .broken
        .iter()
        .find(|(_, violation)| violation.invariant == planted.breaks);
    let Some((plan, violation)) = found.filter(|_| !calm) else {
        println!(
            "planted, \"{}\": not found (calm run broken: {calm}): {:?}",
            planted.name,
            tally.broken.first()
        );
        return false;
    };
    println!(
        "planted, \"{}\": found by {} of {} single faults, first by {} ({:?})",
        planted.name,
        tally.broken.len(),
        tally.singles,
        told(plan),
        violation.invariant
    );
    true
}
