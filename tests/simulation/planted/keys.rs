//! Bugs of identity: which fact it is, under which key and with which bytes it is asked for.

use sealpost::store::database::Transaction;

use super::{BASE, Parts, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 6] = [
    &KEY_OF_THE_ROW,
    &KEY_BEFORE_ROW,
    &FRESH_KEY,
    &RENDERED_AGAIN,
    &STAMPED,
    &WITHOUT_A_FILE,
];

/// The key is made of the row's random id and not of the fact. A request that is repeated is a new fact. (The key of
/// the provider's request, unique among the rows, would refuse the second row: it is made of the id as well.)
static KEY_OF_THE_ROW: Planted = Planted {
    name: "the key is made of a random id",
    breaks: Invariant::I2,
    sql: &[
        ("k.value ->> 'key'", "((j.value ->> 'id') || (k.value ->> 'key'))"),
        (
            "other.value ->> 'key'",
            "((j.value ->> 'id') || (other.value ->> 'key'))",
        ),
        (
            "known.key = j.value ->> '$.keys[0].key'",
            "known.key = ((j.value ->> 'id') || (j.value ->> '$.keys[0].key'))",
        ),
        ("j.value ->> 'idempotency_key'", "'sealpost-' || (j.value ->> 'id')"),
    ],
    ..BASE
};

/// The key of de-duplication is written first, in a transaction of its own, and whoever finds a key takes its row for
/// recorded. Who dies in between has promised what is not there.
static KEY_BEFORE_ROW: Planted = Planted {
    name: "the key is written before its row",
    breaks: Invariant::I1,
    parts: key_before_row,
    sql: &[
        (
            "JOIN intent_keys known ON known.key = k.value ->> 'key')\n    AND (j.value",
            "JOIN intent_keys known ON known.key = k.value ->> 'key' AND known.outbox_id <> j.value ->> 'id')
             AND (j.value",
        ),
        (
            "k.value ->> 'secret_id', o.id\n",
            "k.value ->> 'secret_id', coalesce((SELECT known.outbox_id FROM json_each(j.value, '$.keys') other
               JOIN intent_keys known ON known.key = other.value ->> 'key' LIMIT 1), j.value ->> 'id')\n",
        ),
        (
            "'$.keys') k\n    JOIN outbox o ON o.id = coalesce(",
            "'$.keys') k\n    LEFT JOIN outbox o ON o.id = coalesce(",
        ),
        (
            "SELECT j.key AS position, o.id, o.seq, o.status, ",
            "SELECT j.key AS position,
               (SELECT known.outbox_id FROM intent_keys known WHERE known.key = j.value ->> '$.keys[0].key') AS id,
               coalesce(o.seq, 0) AS seq, coalesce(o.status, 'pending') AS status, ",
        ),
        (
            "FROM json_each(?1) j\n    JOIN outbox o ON o.id = coalesce(",
            "FROM json_each(?1) j LEFT JOIN outbox o ON o.id = coalesce(",
        ),
    ],
    ..BASE
};

fn key_before_row(transaction: &Transaction) -> Option<Parts> {
    let keys = transaction
        .statements
        .iter()
        .position(|statement| statement.sql.starts_with("INSERT INTO intent_keys"))?;
    let rest = (2..transaction.statements.len()).filter(|at| *at != keys).collect();
    // Both guards with the keys.
    Some(vec![vec![0, 1, keys], rest])
}

/// Each try has a key of its own: the provider cannot know that it has the mail.
static FRESH_KEY: Planted = Planted {
    name: "a fresh key for each attempt",
    breaks: Invariant::I2,
    request: |key, body, invocation| (format!("{key}-{invocation}"), body.to_owned()),
    ..BASE
};

/// The seal is not read, so that each claim renders again, perhaps as another version. The seal of the first is not
/// overwritten, and no attempt is opened for other bytes: both guards are out, and the schema's own.
static RENDERED_AGAIN: Planted = Planted {
    name: "rendered again on each retry",
    breaks: Invariant::I5,
    sql: &[
        (
            "o.seal_sha256, s.body AS seal_body,",
            "NULL AS seal_sha256, NULL AS seal_body,",
        ),
        (
            "CASE WHEN o.seal_sha256 IS NULL THEN l.body END AS letter",
            "l.body AS letter",
        ),
        ("AND outbox.seal_sha256 IS NULL AND j.value -> '$.seal' <> 'null'", ""),
        (
            "o.seal_sha256 = j.value ->> 'sha256'\n  ON CONFLICT (outbox_id) DO NOTHING",
            "o.seal_sha256 = j.value ->> 'sha256'
             ON CONFLICT (outbox_id) DO UPDATE SET sha256 = excluded.sha256, body = excluded.body",
        ),
    ],
    schema: &[(
        "WHEN OLD.seal_sha256 IS NOT NULL\n",
        "WHEN false AND OLD.seal_sha256 IS NOT NULL\n",
    )],
    ..BASE
};

/// Each try says which one it is.
static STAMPED: Planted = Planted {
    name: "each request carries the number of its run",
    breaks: Invariant::I5,
    request: |key, body, invocation| {
        (
            key.to_owned(),
            body.replacen('{', &format!("{{\"run\":{invocation},"), 1),
        )
    },
    ..BASE
};

/// A mail is whole for whoever renders it where any of its attachments is there.
static WITHOUT_A_FILE: Planted = Planted {
    name: "a mail goes out without its second attachment",
    breaks: Invariant::I1,
    sql: &[
        (
            "(SELECT body FROM attachments WHERE outbox_id = o.id ORDER BY position) a)",
            "(SELECT body FROM attachments WHERE outbox_id = o.id AND position = 0) a)",
        ),
        (
            "CASE WHEN o.seal_sha256 IS NULL THEN l.body END AS letter",
            "CASE WHEN o.seal_sha256 IS NULL THEN replace(l.body, '\"attachments\":2', '\"attachments\":1') END AS letter",
        ),
    ],
    ..BASE
};
