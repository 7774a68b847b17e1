//! Bugs of the rule of doubt and of the provider's window.

use core::time::Duration;

use sealpost::store::database::Transaction;

use super::claims::closes_at;
use super::{BASE, Parts, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 6] = [
    &DOUBT_ENDS_WITH_THE_ATTEMPT,
    &OPEN_IS_NO_DOUBT,
    &DOUBT_DECIDES_NOTHING,
    &CLOSED_APART,
    &WINDOW_NEVER_CLOSES,
    &WINDOW_FROM_THE_LAST,
];

const DOUBTS: &str = "(a.outcome IS NULL OR a.outcome IN ('ambiguous', 'in_progress', 'payload_conflict'))";

/// An attempt that was closed is no doubt, however it was closed.
static DOUBT_ENDS_WITH_THE_ATTEMPT: Planted = Planted {
    name: "an ambiguous answer leaves no doubt",
    breaks: Invariant::I3,
    schema: &[(DOUBTS, "a.outcome IS NULL")],
    ..BASE
};

/// An attempt whose worker died is no doubt.
static OPEN_IS_NO_DOUBT: Planted = Planted {
    name: "an attempt that was never closed leaves no doubt",
    breaks: Invariant::I3,
    schema: &[(DOUBTS, "a.outcome IN ('ambiguous', 'in_progress', 'payload_conflict')")],
    ..BASE
};

/// Doubts are counted, and nothing that ends a row asks for them. The schema would refuse each such end.
static DOUBT_DECIDES_NOTHING: Planted = Planted {
    name: "a row in doubt ends like any other",
    breaks: Invariant::I3,
    sql: &[
        ("WHEN doubts > 0 THEN 'unknown'", "WHEN false THEN 'unknown'"),
        ("CASE WHEN doubts = 0", "CASE WHEN true"),
        ("CASE WHEN o.doubts > 0 AND", "CASE WHEN false AND"),
    ],
    schema: &[("(doubts = 0 OR status NOT IN", "(true OR status NOT IN")],
    ..BASE
};

/// Attempts are closed in one transaction and their rows are moved in the next. Who dies in between leaves a mail that
/// was accepted, no doubt, and a row that knows nothing of it: without a provider's key it goes out once more.
static CLOSED_APART: Planted = Planted {
    name: "attempts are closed before their rows are moved",
    breaks: Invariant::I2,
    parts: closed_apart,
    ..BASE
};

fn closed_apart(transaction: &Transaction) -> Option<Parts> {
    let close = closes_at(transaction)?;
    let rest = (0..transaction.statements.len()).filter(|at| *at != close).collect();
    Some(vec![vec![close], rest])
}

/// A claim that ended is taken over whenever it is found, and what is in doubt is called again for ever.
static WINDOW_NEVER_CLOSES: Planted = Planted {
    name: "a doubtful mail is repeated after the window",
    breaks: Invariant::I6,
    config: |config| config.timing.window.length = Duration::from_secs(10 * 365 * 86_400),
    ..BASE
};

/// Each attempt opens the window anew.
static WINDOW_FROM_THE_LAST: Planted = Planted {
    name: "the window counts from the last attempt",
    breaks: Invariant::I6,
    schema: &[("min(a.opened_at)", "max(a.opened_at)")],
    ..BASE
};
