//! Bugs of the ledger: what a replay, a send's name, a resend or a backfill must not do.

use serde_json::json;

use super::{BASE, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 4] = [
    &BATCH_IN_THE_KEY,
    &NAME_OUTRANKS_KEY,
    &LINK_MINTED_AGAIN,
    &BACKFILL_OVER_KNOWN,
];

/// The name of the replay is part of the key: what is replayed is new.
static BATCH_IN_THE_KEY: Planted = Planted {
    name: "the replay's name enters the key",
    breaks: Invariant::I2,
    replayed: |batch, intent| {
        let value = match intent.get("idempotencyKey") {
            Some(_) => &mut intent["idempotencyKey"],
            None => {
                let first = intent["key"].as_object_mut().and_then(|key| key.values_mut().next());
                first.expect("a key")
            }
        };
        *value = json!(format!("{} {batch}", value.as_str().unwrap_or_default()));
    },
    ..BASE
};

/// The row that waits under the send's name answers for a fact that has a row of its own.
static NAME_OUTRANKS_KEY: Planted = Planted {
    name: "a send's name outranks the key",
    breaks: Invariant::I2,
    sql: &[(
        "(SELECT known.outbox_id FROM intent_keys known WHERE known.key = j.value ->> '$.keys[0].key'),\n      (SELECT named",
        "(SELECT named.id FROM outbox named WHERE named.send_id = j.value ->> 'send_id' AND named.relay_at IS NOT NULL
           ORDER BY named.seq LIMIT 1),
         (SELECT known.outbox_id FROM intent_keys known WHERE known.key = j.value ->> '$.keys[0].key'),
         (SELECT named",
    )],
    ..BASE
};

/// A later revision says the link that its own request brought.
static LINK_MINTED_AGAIN: Planted = Planted {
    name: "a resend mints a new link",
    breaks: Invariant::I5,
    sql: &[("page.secret IS NOT NULL AND letters.body", "0 AND letters.body")],
    ..BASE
};

/// A backfill does not look whether the fact is known. (The key of the provider's request, unique among the rows, would
/// refuse its row.)
static BACKFILL_OVER_KNOWN: Planted = Planted {
    name: "a backfill over a known row",
    breaks: Invariant::I2,
    sql: &[
        (
            "WHERE NOT EXISTS (SELECT 1 FROM json_each(j.value, '$.keys') k",
            "WHERE (j.value ->> 'status') = 'external' OR NOT EXISTS (SELECT 1 FROM json_each(j.value, '$.keys') k",
        ),
        (
            "j.value ->> 'idempotency_key'",
            "(j.value ->> 'idempotency_key') || iif(j.value ->> 'status' = 'external', j.value ->> 'id', '')",
        ),
    ],
    ..BASE
};
