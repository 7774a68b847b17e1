//! Bugs of the pace, of the order and of pauses.

use super::{BASE, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 11] = [
    &PROVIDER_NOT_TAKEN,
    &FAMILY_NOT_TAKEN,
    &DOMAIN_NOT_TAKEN,
    &BATCH_TAKES_NOTHING,
    &ADMITTED_WITHOUT_LIMIT,
    &PRIORITY_IGNORED,
    &PAUSE_OF_A_FAMILY_IGNORED,
    &PROBE_OF_TWO,
    &FAMILY_PROBE_OF_TWO,
    &LIFT_WAKES_NOTHING,
    &PROOF_WAKES_NOTHING,
];

/// Each worker keeps the pace, and knows nothing of the others.
static PROVIDER_NOT_TAKEN: Planted = Planted {
    name: "the provider's slots are not taken",
    breaks: Invariant::P1,
    sql: &[(
        "SELECT ?3 AS name, planned_at + ?4 AS free_at FROM taken WHERE ?4 > 0",
        "SELECT ?3 AS name, planned_at + ?4 AS free_at FROM taken WHERE ?4 < 0",
    )],
    ..BASE
};

/// A family's slots are counted within each batch of the queue alone.
static FAMILY_NOT_TAKEN: Planted = Planted {
    name: "a family's slots are not taken",
    breaks: Invariant::P1,
    sql: &[(
        "SELECT family_name, planned_at + family_every FROM taken WHERE family_every > 0",
        "SELECT family_name, planned_at + family_every FROM taken WHERE family_every < 0",
    )],
    ..BASE
};

/// A domain's slots are counted within each batch of the queue alone.
static DOMAIN_NOT_TAKEN: Planted = Planted {
    name: "a domain's slots are not taken",
    breaks: Invariant::P1,
    sql: &[(
        "SELECT domain_name, planned_at + domain_every FROM taken WHERE domain_every > 0",
        "SELECT domain_name, planned_at + domain_every FROM taken WHERE domain_every < 0",
    )],
    ..BASE
};

/// A call with many mails takes nothing from any bucket.
static BATCH_TAKES_NOTHING: Planted = Planted {
    name: "a batch takes no slots",
    breaks: Invariant::P1,
    sql: &[(
        "slots.value ->> '$.members[0].attempt' WHERE a.claim_token = ?2)",
        "slots.value ->> '$.members[0].attempt' WHERE a.claim_token <> ?2)",
    )],
    ..BASE
};

/// All bulk mails of a family are handed over at once.
static ADMITTED_WITHOUT_LIMIT: Planted = Planted {
    name: "bulk mails are admitted without a limit",
    breaks: Invariant::P2,
    sql: &[
        (
            "min(room.rows, (?2 + ?5 - one.free",
            "min(room.rows, (?2 + ?5 * 100 - one.free",
        ),
        (
            "WHERE start.provider < ?2 + ?5 AND",
            "WHERE start.provider < ?2 + ?5 * 100 AND",
        ),
        ("FROM placed WHERE at < ?2 + ?5", "FROM placed WHERE at < ?2 + ?5 * 100"),
    ],
    ..BASE
};

/// Whatever was recorded first goes first.
static PRIORITY_IGNORED: Planted = Planted {
    name: "the priority is not looked at",
    breaks: Invariant::P2,
    sql: &[("ORDER BY o.priority, o.seq", "ORDER BY o.seq")],
    ..BASE
};

/// Only a pause of everything stops a claim. The probes of families, which are a second guard, see them run out alone.
static PAUSE_OF_A_FAMILY_IGNORED: Planted = Planted {
    name: "the pause of a family is not looked at",
    breaks: Invariant::P3,
    sql: &[(
        "WHERE p.scope IN ('*', o.family) AND p.until >",
        "WHERE p.scope IN ('*', '') AND p.until >",
    )],
    ..BASE
};

/// The claim that probes everything takes all that is due.
static PROBE_OF_TWO: Planted = Planted {
    name: "the probe lets two through",
    breaks: Invariant::P3,
    sql: &[(
        "AND NOT EXISTS (SELECT 1 FROM pauses WHERE scope = '*' AND probe_token = ?3)))",
        "))",
    )],
    ..BASE
};

/// The claim that probes a family takes all that is due of it.
static FAMILY_PROBE_OF_TWO: Planted = Planted {
    name: "the probe of a family lets two through",
    breaks: Invariant::P3,
    sql: &[(
        "WHERE probing = 0 OR of_family = 1)",
        "WHERE probing = 0 OR of_family > 0)",
    )],
    ..BASE
};

/// Whoever lifts a pause wakes nobody: each row sleeps until the time that the pause had.
static LIFT_WAKES_NOTHING: Planted = Planted {
    name: "a lift wakes nothing",
    breaks: Invariant::P3,
    sql: &[(
        "WHERE status = 'retry' AND seq IN (SELECT seq FROM (SELECT o.seq AS seq",
        "WHERE status = '' AND seq IN (SELECT seq FROM (SELECT o.seq AS seq",
    )],
    ..BASE
};

/// The probe's answer ends the pause, and whoever waited for it sleeps until the probe's claim would have ended.
static PROOF_WAKES_NOTHING: Planted = Planted {
    name: "the end of a pause wakes nothing",
    breaks: Invariant::P3,
    sql: &[(
        "SET cause = 'pause_lifted', next_attempt_at = ?3, relay_at = ?3, updated_at = ?3",
        "SET cause = 'paused', updated_at = ?3",
    )],
    ..BASE
};
