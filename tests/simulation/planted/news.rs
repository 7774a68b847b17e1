//! Bugs of what is heard from the provider, and of what people decide: proof, delivery, suppression, verdicts.

use sealpost::store::database::Transaction;

use super::{BASE, Parts, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 12] = [
    &MARKED_FIRST,
    &PROOF_SPARES_UNKNOWN,
    &PROOF_NEEDS_THE_CLAIM,
    &LAST_WORD,
    &BETTER_NEWS,
    &NEVER_JOINED,
    &EVERY_BOUNCE,
    &COMPLAINTS_ONLY_SHOWN,
    &OTHER_ENVIRONMENT,
    &LIFTED_IN_VAIN,
    &SENT_AGAIN_AND_AGAIN,
    &CLICK_TAKES_ALL,
];

/// The event is recorded and marked as processed before its effects are written. Who dies in between has forgotten them:
/// the event's repetition is known, and nothing is left to do.
static MARKED_FIRST: Planted = Planted {
    name: "an event is marked before its effects are written",
    breaks: Invariant::I3,
    parts: marked_first,
    ..BASE
};

fn marked_first(transaction: &Transaction) -> Option<Parts> {
    let at = |part: &str| transaction.statements.iter().position(|one| one.sql.contains(part));
    let record = at("INSERT INTO receipts")?;
    let mark = at("UPDATE receipts SET processed_at")?;
    let rest = (0..transaction.statements.len())
        .filter(|at| ![record, mark].contains(at))
        .collect();
    Some(vec![vec![record, mark], rest])
}

/// A row that nobody knows about stays so, whatever proves it.
static PROOF_SPARES_UNKNOWN: Planted = Planted {
    name: "an event does not prove an unknown mail",
    breaks: Invariant::I3,
    sql: &[(
        "AND (outbox.provider_message_id IS NULL OR (outbox.cause = 'verdict_sent'",
        "AND outbox.status <> 'unknown' AND (outbox.provider_message_id IS NULL OR (outbox.cause = 'verdict_sent'",
    )],
    ..BASE
};

/// Nobody but the claim's holder moves a row.
static PROOF_NEEDS_THE_CLAIM: Planted = Planted {
    name: "an event does not prove a mail that somebody holds",
    breaks: Invariant::I3,
    sql: &[(
        "AND (outbox.provider_message_id IS NULL OR (outbox.cause = 'verdict_sent'",
        "AND outbox.claim_token IS NULL AND (outbox.provider_message_id IS NULL OR (outbox.cause = 'verdict_sent'",
    )],
    ..BASE
};

/// What arrives last counts, whenever it happened.
static LAST_WORD: Planted = Planted {
    name: "the order of arrival decides about the delivery",
    breaks: Invariant::I1,
    sql: &[("(outbox.delivery IS NULL OR (news.worse", "(true OR (news.worse")],
    ..BASE
};

/// Later news counts, however bad the news before was.
static BETTER_NEWS: Planted = Planted {
    name: "delivered undoes bounced",
    breaks: Invariant::I10,
    sql: &[
        (
            "(news.worse, news.at, news.rank) > (",
            "(0, news.at, news.rank) > (0 * ",
        ),
        ("ORDER BY k.value ->> 'worse' DESC, r.at DESC", "ORDER BY r.at DESC"),
    ],
    ..BASE
};

/// What came before its mail's id is never looked at again. The relay's join stands behind the settle's.
static NEVER_JOINED: Planted = Planted {
    name: "an event that waits is never joined",
    breaks: Invariant::I1,
    sql: &[
        (
            "WHERE receipts.outbox_id IS NULL AND receipts.message_id",
            "WHERE false AND receipts.message_id",
        ),
        ("AND found.outbox_id IS NOT NULL", "AND false"),
    ],
    ..BASE
};

/// A full mailbox is taken for one that is gone.
static EVERY_BOUNCE: Planted = Planted {
    name: "every bounce suppresses",
    breaks: Invariant::I7,
    sql: &[("AND r.detail = 'permanent'", "")],
    ..BASE
};

/// The complaint stands in the row, and the next mail goes out.
static COMPLAINTS_ONLY_SHOWN: Planted = Planted {
    name: "a complaint suppresses nobody",
    breaks: Invariant::I7,
    sql: &[("(r.news = 'complained' OR (r.news = 'bounced'", "((r.news = 'bounced'")],
    ..BASE
};

/// Two environments call themselves by one name.
static OTHER_ENVIRONMENT: Planted = Planted {
    name: "another environment's events are taken",
    breaks: Invariant::I4,
    config: |config| "staging".clone_into(&mut config.sender.environment),
    ..BASE
};

/// An old event, told once more, brings back what somebody has lifted.
static LIFTED_IN_VAIN: Planted = Planted {
    name: "an old event undoes a lift",
    breaks: Invariant::I7,
    sql: &[("excluded.news_at > coalesce(suppressions.news_at, 0)", "true")],
    ..BASE
};

/// Each click makes a row of its own. The index would refuse the second one.
static SENT_AGAIN_AND_AGAIN: Planted = Planted {
    name: "a second click sends once more",
    breaks: Invariant::I2,
    sql: &[
        (
            "WHERE id = ?1 AND status = 'unknown' AND resolved_at IS NULL)",
            "WHERE id = ?1 AND status = 'unknown')",
        ),
        (
            "length(idempotency_key) - length(resend)) || (resend + 1)",
            "length(idempotency_key) - length(resend)) || (resend + 1) || '.' || ?2",
        ),
    ],
    schema: &[("CREATE UNIQUE INDEX outbox_resends", "CREATE INDEX outbox_resends")],
    ..BASE
};

/// A click ends what a worker is sending just now.
static CLICK_TAKES_ALL: Planted = Planted {
    name: "an unsubscription ends a row that somebody holds",
    breaks: Invariant::I9,
    sql: &[(
        "AND o.relay_at IS NOT NULL AND (o.status IN ('pending', 'enqueued', 'retry') \
         OR (o.status = 'processing' AND o.claim_expires_at <= ?2))",
        "AND o.relay_at IS NOT NULL",
    )],
    ..BASE
};
