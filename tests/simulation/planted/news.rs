//! Bugs of what is heard from the provider: proof, delivery, suppression.

use sealpost::store::database::Transaction;

use super::{BASE, Parts, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 9] = [
    &MARKED_FIRST,
    &PROOF_SPARES_UNKNOWN,
    &PROOF_NEEDS_THE_CLAIM,
    &LAST_WORD,
    &BETTER_NEWS,
    &NEVER_JOINED,
    &EVERY_BOUNCE,
    &COMPLAINTS_ONLY_SHOWN,
    &OTHER_ENVIRONMENT,
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
        "WHERE outbox.id = proof.id AND outbox.provider_message_id IS NULL",
        "WHERE outbox.id = proof.id AND outbox.provider_message_id IS NULL AND outbox.status <> 'unknown'",
    )],
    ..BASE
};

/// Nobody but the claim's holder moves a row.
static PROOF_NEEDS_THE_CLAIM: Planted = Planted {
    name: "an event does not prove a mail that somebody holds",
    breaks: Invariant::I3,
    sql: &[(
        "WHERE outbox.id = proof.id AND outbox.provider_message_id IS NULL",
        "WHERE outbox.id = proof.id AND outbox.provider_message_id IS NULL AND outbox.claim_token IS NULL",
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
