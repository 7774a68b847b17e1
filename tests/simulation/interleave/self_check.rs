//! The interleavings can find something: bugs that nobody meets alone.

use std::rc::Rc;

use super::{ANSWERS, Pair, interleave, pairs};
use crate::planted::{NOTHING, Planted};
use crate::report::Invariant;
use crate::store::Store;

/// A bug, and the pair whose orders show it.
struct Expected {
    planted: &'static Planted,
    pair: &'static str,
}

static CLAIMS_WHAT_IS_CLAIMED: Planted = Planted {
    name: "claims what another holds",
    breaks: Invariant::I9,
    sql: &[
        (
            "o.status = 'processing' AND o.claim_expires_at <= ?2",
            "o.status = 'processing' AND 0 <= ?2",
        ),
        (
            "o.suspect = 1 OR o.status = 'processing' AS alone",
            "o.suspect = 1 AS alone",
        ),
    ],
    ..NOTHING
};

static SETTLES_WITHOUT_ITS_CLAIM: Planted = Planted {
    name: "settles without its claim",
    breaks: Invariant::I9,
    sql: &[(
        "outbox.id = moved.id AND outbox.status = 'processing' AND outbox.claim_token = ?2",
        "outbox.id = moved.id AND outbox.status = 'processing' AND ?2 IS NOT NULL",
    )],
    ..NOTHING
};

static MARKS_WHAT_WAS_CLAIMED: Planted = Planted {
    name: "marks what somebody has moved since",
    breaks: Invariant::I9,
    sql: &[
        (
            "status = 'enqueued', cause = 'published', next_attempt_at = NULL,",
            "status = 'enqueued', cause = 'published', next_attempt_at = NULL, claim_token = NULL, claim_expires_at = NULL,",
        ),
        (
            "outbox.status IN ('pending', 'retry')",
            "outbox.status IN ('pending', 'retry', 'processing')",
        ),
        ("AND outbox.claim_count = j.value ->> 'claim_count'", ""),
    ],
    ..NOTHING
};

static EXPECTED: [Expected; 3] = [
    Expected {
        planted: &CLAIMS_WHAT_IS_CLAIMED,
        pair: "two consumers, a fresh row",
    },
    Expected {
        planted: &SETTLES_WITHOUT_ITS_CLAIM,
        pair: "two consumers, a fresh row",
    },
    Expected {
        planted: &MARKS_WHAT_WAS_CLAIMED,
        pair: "intake's mark and a consumer",
    },
];

/// How many planted bugs were not found.
pub fn main() -> usize {
    EXPECTED.iter().filter(|expected| !is_found(expected)).count()
}

fn is_found(expected: &Expected) -> bool {
    let planted = expected.planted;
    let pair: &Pair = pairs::ALL
        .iter()
        .find(|pair| pair.name == expected.pair)
        .expect("a pair of this name");
    let store = Rc::new(Store::open(planted.schema, planted.sql));
    let tally = interleave(pair, &store, planted, true);
    let runs = tally.effects + tally.answers;
    let rewritten = store.hits.borrow().iter().all(|hit| *hit);
    match tally.broken.first() {
        Some(broken) if broken.violation.invariant == planted.breaks && rewritten && runs > 1 => {
            println!(
                "planted, \"{}\": found by order {runs} ({:?}, {})",
                planted.name, broken.violation.invariant, ANSWERS[broken.answer].0
            );
            true
        }
        other => {
            let violation = other.map(|broken| &broken.violation);
            println!(
                "planted, \"{}\": not found in {runs} orders (rewritten: {rewritten}): {violation:?}",
                planted.name
            );
            false
        }
    }
}
