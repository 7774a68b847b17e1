//! Bugs of publisher, relay and retention.

use super::{BASE, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 9] = [
    &MARKED_THOUGH_REFUSED,
    &MARKED_BEFORE,
    &LATE_MARK_OVER_A_CLAIM,
    &LATE_MARK_OVER_SENT,
    &PAGE_OF_THE_STUCK,
    &PAUSED_WITH_OTHERS,
    &ROWS_PRUNED,
    &KEYS_PRUNED,
    &EVENTS_PRUNED,
];

/// What is in the queue is the queue's: nobody watches it. The schema would refuse such a row.
const ENQUEUED_IS_UNWATCHED: (&str, &str) = (
    "((status IN ('pending', 'enqueued', 'processing', 'retry')) = (relay_at IS NOT NULL))",
    "(status <> 'pending' OR relay_at IS NOT NULL)",
);

/// The queue's refusal is not read. The relay would find the row again after a while, so that must go too, and with it
/// the schema's rule that every open row is watched.
static MARKED_THOUGH_REFUSED: Planted = Planted {
    name: "marked although the queue refused",
    breaks: Invariant::I1,
    broker: |_| Ok(()),
    sql: &[("relay_at = ?3 + max(0,", "relay_at = nullif(?3, ?3) + max(0,")],
    schema: &[ENQUEUED_IS_UNWATCHED],
    ..BASE
};

/// The relay's page says `enqueued` before anything was sent. With the watch over published rows, which must go as
/// well, this would only cost time.
static MARKED_BEFORE: Planted = Planted {
    name: "marked before it is published",
    breaks: Invariant::I1,
    sql: &[(
        "relay_at = ?2 + min(?3 << min(publish_count, 20), ?4)",
        "status = CASE WHEN status = 'processing' THEN status ELSE 'enqueued' END,
         cause = CASE WHEN status = 'processing' THEN cause ELSE 'published' END, next_attempt_at = NULL,
         relay_at = CASE WHEN status = 'processing' THEN ?2 + min(?3 << min(publish_count, 20), ?4) END",
    )],
    schema: &[ENQUEUED_IS_UNWATCHED],
    ..BASE
};

/// The mark comes late and asks neither for the state nor for the claims since the reservation.
const MARKS_ANYTHING: (&str, &str) = (
    "AND outbox.publish_count = j.value ->> 'publish_count' AND outbox.claim_count = j.value ->> 'claim_count'",
    "",
);

/// Its message was faster, and somebody has claimed the row. State and counts are two guards for this.
static LATE_MARK_OVER_A_CLAIM: Planted = Planted {
    name: "a late mark over a claimed row",
    breaks: Invariant::I9,
    sql: &[
        MARKS_ANYTHING,
        (
            "status = 'enqueued', cause = 'published',",
            "status = 'enqueued', cause = 'published', claim_token = NULL, claim_expires_at = NULL,",
        ),
        (
            "AND outbox.status IN ('pending', 'retry')",
            "AND outbox.status IN ('pending', 'retry', 'processing')",
        ),
    ],
    ..BASE
};

/// Its message was faster, and the mail is out. State, counts and two rules of the schema are guards for this.
static LATE_MARK_OVER_SENT: Planted = Planted {
    name: "a late mark over a settled row",
    breaks: Invariant::I4,
    sql: &[
        MARKS_ANYTHING,
        (
            "status = 'enqueued', cause = 'published',",
            "status = 'enqueued', cause = 'published', settled_at = NULL,",
        ),
        (
            "AND outbox.status IN ('pending', 'retry')",
            "AND outbox.status <> 'processing'",
        ),
    ],
    schema: &[(
        "(provider_message_id IS NULL OR status = 'sent')",
        "(provider_message_id IS NULL OR true)",
    )],
    ..BASE
};

/// Rows on hold and paused ones stay where they are, at the head of every page, and are skipped there.
static PAGE_OF_THE_STUCK: Planted = Planted {
    name: "rows that cannot move fill the relay's page",
    breaks: Invariant::I12,
    sql: &[
        (
            "relay_at = aside.until, updated_at = ?2",
            "relay_at = outbox.relay_at, updated_at = ?2",
        ),
        (
            "LIMIT ?1) RETURNING priority, seq, id, publish_count, claim_count,",
            "LIMIT ?1) AND coalesce(next_attempt_at, 0) <= ?2 RETURNING priority, seq, id, publish_count, claim_count,",
        ),
    ],
    ..BASE
};

/// A pause of one family is a pause of all.
static PAUSED_WITH_OTHERS: Planted = Planted {
    name: "a pause of one family holds back the others",
    breaks: Invariant::I12,
    sql: &[("p.scope IN ('*', o.family)", "p.scope IS NOT NULL")],
    ..BASE
};

/// Retention takes the rows themselves, and not only what is personal.
static ROWS_PRUNED: Planted = Planted {
    name: "retention deletes the rows",
    breaks: Invariant::I1,
    sql: &[(
        "UPDATE outbox SET pruned_at = ?3 WHERE id IN",
        "DELETE FROM outbox WHERE ?3 > 0 AND id IN",
    )],
    ..BASE
};

/// Retention takes rows and keys: a replay is a new fact, when the provider has forgotten the old one. The key of the
/// request, unique among the rows, is a second guard as long as the row stays.
static KEYS_PRUNED: Planted = Planted {
    name: "retention deletes the keys",
    breaks: Invariant::I2,
    sql: &[
        (
            "DELETE FROM attempts WHERE outbox_id IN",
            "DELETE FROM intent_keys WHERE outbox_id IN",
        ),
        (
            "UPDATE outbox SET pruned_at = ?3 WHERE id IN",
            "DELETE FROM outbox WHERE ?3 > 0 AND id IN",
        ),
    ],
    ..BASE
};

/// Retention takes all events, the last one too.
static EVENTS_PRUNED: Planted = Planted {
    name: "retention deletes the last event",
    breaks: Invariant::I10,
    sql: &[(
        "AND seq < (SELECT max(later.seq) FROM events later WHERE later.outbox_id = events.outbox_id)",
        "",
    )],
    ..BASE
};
