//! Bugs of mails that go out together.

use sealpost::ports::MailAnswer;

use super::{BASE, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 5] = [
    &REPEATED_WITHOUT_A_MEMBER,
    &GIVEN_UP_IN_DOUBT,
    &SINGLY_BESIDE_ITS_BATCH,
    &IDS_IN_ANOTHER_ORDER,
    &REPEATED_FOR_THE_SUPPRESSED,
];

/// What a repetition carries no longer: the first mail of the list.
fn without_the_first(key: &str, body: &str, invocation: u64) -> (String, String) {
    let shorter = serde_json::from_str::<Vec<serde_json::Value>>(body)
        .ok()
        .filter(|mails| mails.len() > 1 && invocation.is_multiple_of(2))
        .map(|mails| serde_json::Value::from(mails[1..].to_vec()).to_string());
    (key.to_owned(), shorter.unwrap_or_else(|| body.to_owned()))
}

/// A repetition leaves out whoever must not be written to any more: other bytes under the same key.
static REPEATED_WITHOUT_A_MEMBER: Planted = Planted {
    name: "the repetition of a batch leaves a mail out",
    breaks: Invariant::I5,
    request: without_the_first,
    ..BASE
};

/// A batch is given up although an attempt of it may have been accepted. The schema's own guards are taken out with it.
static GIVEN_UP_IN_DOUBT: Planted = Planted {
    name: "a batch in doubt is given up",
    breaks: Invariant::I5,
    sql: &[
        (
            "(given_up.stopped OR given_up.refused) AND NOT given_up.in_doubt",
            "true",
        ),
        (
            "judged.in_doubt AND (judged.stopped OR judged.over)",
            "judged.in_doubt AND judged.over",
        ),
    ],
    schema: &[
        (
            "AND (m.doubts > 0 OR m.status IN ('sent', 'unknown') OR m.claim_expires_at > NEW.dissolved_at))",
            "AND m.claim_expires_at > NEW.dissolved_at)",
        ),
        (
            "AND (OLD.doubts > 0 OR OLD.batch_id IS NULL OR NOT EXISTS",
            "AND (OLD.batch_id IS NULL OR NOT EXISTS",
        ),
    ],
    ..BASE
};

/// A mail in a batch is sealed and sent by itself as well: it is claimed like any other row, and rendered once more. The
/// schema's own guards are taken out with it.
static SINGLY_BESIDE_ITS_BATCH: Planted = Planted {
    name: "a mail goes out beside its batch",
    breaks: Invariant::I5,
    sql: &[
        (
            "JOIN outbox m ON m.batch_id = x.batch_id WHERE m.relay_at IS NOT NULL",
            "JOIN outbox m ON m.id = x.id",
        ),
        (
            "o.seal_sha256, s.body AS seal_body",
            "CASE WHEN o.batch_id IS NULL THEN o.seal_sha256 END AS seal_sha256, s.body AS seal_body",
        ),
        (
            "CASE WHEN o.seal_sha256 IS NULL THEN l.body END AS letter,",
            "l.body AS letter,",
        ),
        (
            "o.batch_id, o.batch_position, o.batch_refused",
            "NULL AS batch_id, o.batch_position, o.batch_refused",
        ),
        (
            "AND outbox.seal_sha256 IS NULL AND j.value -> '$.seal' <> 'null'",
            "AND j.value -> '$.seal' <> 'null'",
        ),
        (
            "o.id, o.seal_sha256, j.value ->> 'body'",
            "o.id, j.value ->> 'sha256', j.value ->> 'body'",
        ),
    ],
    schema: &[
        (
            "WHEN (SELECT o.batch_id FROM outbox o WHERE o.id = NEW.outbox_id) IS NOT NEW.batch_id",
            "WHEN false",
        ),
        (
            "WHEN OLD.seal_sha256 IS NOT NULL\n",
            "WHEN false AND OLD.seal_sha256 IS NOT NULL\n",
        ),
    ],
    ..BASE
};

fn turned_around(answer: MailAnswer) -> MailAnswer {
    let MailAnswer::Response {
        status,
        retry_after,
        body: Some(body),
    } = answer
    else {
        return answer;
    };
    let turned = serde_json::from_slice::<serde_json::Value>(&body)
        .ok()
        .and_then(|mut json| {
            json.get_mut("data")?.as_array_mut()?.reverse();
            Some(json.to_string().into_bytes())
        });
    MailAnswer::Response {
        status,
        retry_after,
        body: Some(turned.unwrap_or(body)),
    }
}

/// The ids of a batch are given to its mails in another order than the list has.
static IDS_IN_ANOTHER_ORDER: Planted = Planted {
    name: "the ids of a batch are given in another order",
    breaks: Invariant::I4,
    answer: turned_around,
    ..BASE
};

/// The batch of somebody who must not be written to any more is repeated as it is, although nobody can have claimed that
/// mail.
static REPEATED_FOR_THE_SUPPRESSED: Planted = Planted {
    name: "a batch is repeated for the suppressed",
    breaks: Invariant::I6,
    sql: &[
        (
            "judged.in_doubt AND (judged.stopped OR judged.over)",
            "judged.in_doubt AND judged.over",
        ),
        (
            "o.relay_at IS NULL THEN o.status <> 'sent'",
            "o.relay_at IS NULL THEN o.status IS NULL",
        ),
    ],
    ..BASE
};
