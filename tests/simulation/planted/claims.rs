//! Bugs of claims and leases, and of what a claim must look at.

use core::time::Duration;

use sealpost::store::database::Transaction;

use super::{BASE, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 16] = [
    &LIVE_CLAIM_IGNORED,
    &TIMES_AS_TEXT,
    &ENDED_CLAIM_KEPT,
    &DEATHS_UNCOUNTED,
    &SUSPECTS_AMONG_OTHERS,
    &CLAIMED_IS_DUE,
    &SETTLED_WITHOUT_TOKEN,
    &CLOSED_BY_ROW,
    &RETURNED_FROM_A_CLAIM,
    &SAME_RANDOMNESS,
    &LEASE_UNCHECKED,
    &TOO_EARLY,
    &TOO_LATE,
    &OTHER_ACCOUNT,
    &SUPPRESSED_AT_INTAKE_ONLY,
    &SUPPRESSED_UNTIL_NULL,
];

/// Rows whose claim ended run alone, and the program picks them out by their time once more: a second guard.
const CLAIMED_LIKE_OTHERS: (&str, &str) = (
    "o.suspect = 1 OR o.status = 'processing' AS alone",
    "o.suspect = 1 AS alone",
);

/// A row that is being worked on is claimed like any other.
static LIVE_CLAIM_IGNORED: Planted = Planted {
    name: "a live claim is not looked at",
    breaks: Invariant::I9,
    sql: &[("o.claim_expires_at <= ?2", "?2 > 0"), CLAIMED_LIKE_OTHERS],
    ..BASE
};

/// The claim's end in the database's own format is compared with a time in the program's: a space sorts before a `T`,
/// so that every claim of the same day has ended.
static TIMES_AS_TEXT: Planted = Planted {
    name: "times are compared as text",
    breaks: Invariant::I9,
    sql: &[
        (
            "o.claim_expires_at <= ?2",
            "datetime(o.claim_expires_at / 1000, 'unixepoch') <= strftime('%Y-%m-%dT%H:%M:%fZ', ?2 / 1000.0, 'unixepoch')",
        ),
        CLAIMED_LIKE_OTHERS,
    ],
    ..BASE
};

/// Only what waits is claimed: who dies with a claim leaves a row that nobody touches.
static ENDED_CLAIM_KEPT: Planted = Planted {
    name: "a claim that ended is never taken over",
    breaks: Invariant::I1,
    sql: &[("(o.status = 'processing' AND o.claim_expires_at <= ?2)", "(?2 < 0)")],
    ..BASE
};

/// Only what is settled counts as a try: a row that kills its worker is tried for ever.
static DEATHS_UNCOUNTED: Planted = Planted {
    name: "tries count when they are settled only",
    breaks: Invariant::I1,
    sql: &[(
        "lone_deaths = lone_deaths + (status = 'processing' AND lone_claim = 1 AND claim_token <> ?3)",
        "lone_deaths = lone_deaths",
    )],
    ..BASE
};

/// A row whose claim ended is claimed with the others again. It takes them along each time, and since nobody can tell
/// which of them it was, no death counts.
static SUSPECTS_AMONG_OTHERS: Planted = Planted {
    name: "a row that kills its worker does not run alone",
    breaks: Invariant::I1,
    sql: &[("alone_any = ?5", "?5 = ?5")],
    ..BASE
};

/// The relay looks at rows that are being worked on, and ends what is over there.
static CLAIMED_IS_DUE: Planted = Planted {
    name: "the relay looks at claimed rows",
    breaks: Invariant::I9,
    sql: &[(
        "next_attempt_at = NULL, relay_at = ?6,",
        "next_attempt_at = NULL, relay_at = min(?2, ?6),",
    )],
    ..BASE
};

/// The settle names the row and nothing else. The claim's token and the state that it expects are two guards: with the
/// state alone, a late settle hits only a row that another works on in that very moment.
static SETTLED_WITHOUT_TOKEN: Planted = Planted {
    name: "settled by the row alone, without claim and state",
    breaks: Invariant::I9,
    sql: &[(
        "outbox.id = moved.id AND outbox.status = 'processing' AND outbox.claim_token = ?2",
        "outbox.id = moved.id AND outbox.settled_at IS NULL AND ?2 = ?2",
    )],
    ..BASE
};

/// The settle closes whatever attempt of the row is open.
static CLOSED_BY_ROW: Planted = Planted {
    name: "attempts are closed by their row",
    breaks: Invariant::I9,
    sql: &[(
        "attempts.id = j.value ->> 'attempt'",
        "attempts.outbox_id = j.value ->> 'id'",
    )],
    ..BASE
};

/// The dead-letter queue takes a row from the one who works on it.
static RETURNED_FROM_A_CLAIM: Planted = Planted {
    name: "a dead letter takes a row from its claim",
    breaks: Invariant::I9,
    sql: &[
        (
            "status = 'retry', cause = 'queue_exhausted',",
            "status = 'retry', cause = 'queue_exhausted', claim_token = NULL, claim_expires_at = NULL,",
        ),
        (
            "AND status IN ('pending', 'enqueued', 'retry')",
            "AND status IN ('pending', 'enqueued', 'retry', 'processing')",
        ),
    ],
    ..BASE
};

/// The generator is seeded with the same number everywhere.
static SAME_RANDOMNESS: Planted = Planted {
    name: "all workers have the same randomness",
    breaks: Invariant::I9,
    randomness: Some(7),
    ..BASE
};

/// The lease is shorter than one call, which the start would refuse, and the look before the call asks for a shorter
/// time than the client allows.
static LEASE_UNCHECKED: Planted = Planted {
    name: "the lease is short and not looked at before a call",
    breaks: Invariant::I6,
    config: |config| {
        config.timing.lease = Duration::from_secs(6);
        config.timing.provider_timeout = Duration::ZERO;
        config.timing.skew = Duration::ZERO;
    },
    ..BASE
};

/// The message comes when it is sent, and the claim does not look at the mail's own window.
static TOO_EARLY: Planted = Planted {
    name: "notBefore is left to the queue's delay, which is lost",
    breaks: Invariant::I6,
    publish: |_, mut messages| {
        for message in &mut messages {
            message.delay_seconds = 0;
        }
        messages
    },
    sql: &[("AND coalesce(o.not_before, 0) <= ?2)", ")")],
    ..BASE
};

/// The claim looks at the end of the mail's window, and the call does not.
static TOO_LATE: Planted = Planted {
    name: "notAfter is not looked at before a call",
    breaks: Invariant::I6,
    sql: &[(
        "o.not_after, o.idempotency_key",
        "nullif(o.not_after, o.not_after) AS not_after, o.idempotency_key",
    )],
    ..BASE
};

/// A mail that was sealed for one account goes out through another.
static OTHER_ACCOUNT: Planted = Planted {
    name: "the provider's account is not looked at",
    breaks: Invariant::I6,
    sql: &[
        ("o.batch_id) END = ?9", "o.batch_id) END <> ?9 || 'x'"),
        ("o.batch_id) END = ?8", "o.batch_id) END <> ?8 || 'x'"),
    ],
    ..BASE
};

/// Who was suppressed after the intake gets the mail all the same.
static SUPPRESSED_AT_INTAKE_ONLY: Planted = Planted {
    name: "suppressions are not looked at by the claim",
    breaks: Invariant::I7,
    sql: &[(
        "s.recipient_hash = o.recipient_hash AND",
        "s.recipient_hash IS NULL AND",
    )],
    ..BASE
};

/// A suppression without an end is in force until NULL, which is never.
static SUPPRESSED_UNTIL_NULL: Planted = Planted {
    name: "a suppression without an end is never in force",
    breaks: Invariant::I7,
    sql: &[("(s.until IS NULL OR s.until > ?2)", "s.until > ?2")],
    ..BASE
};

/// Where a transaction is a settle's, the position of the statement that closes its attempts.
pub fn closes_at(transaction: &Transaction) -> Option<usize> {
    transaction
        .statements
        .iter()
        .position(|statement| statement.sql.starts_with("UPDATE attempts SET"))
}
