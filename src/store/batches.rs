//! Batches at the provider: mails that are frozen together and go out in one call.
//!
//! All that is true of a mail stays true of its row: each member has its own attempts, settled by the same statements as
//! those of a mail that goes out alone. What is here is what a batch has of its own: it is claimed whole or not at all,
//! frozen in one step, opened only where every open member is this claim's, and given up only where it is known not to
//! have been accepted.

use libsql::Value;
use serde::Serialize;

use super::database::{DatabaseError, Rows, Statement};
use super::lists::lists;
use super::row::{row, rows_at};
use super::shared_sql::{movable, stop_cause};
use crate::outbox::time::Millis;

/// A batch of which the claim holds every open member.
#[derive(Clone, Debug)]
pub struct ClaimedBatch {
    /// Its id, which is its idempotency key.
    pub id: String,
    /// The hash of its bytes.
    pub sha256: String,
    /// The sealed bytes; `None` where they are missing.
    pub body: Option<String>,
    /// 1 where the provider has accepted it: a member is known to be sent.
    pub proved: u8,
    /// When the provider may first have seen its key (Unix ms).
    pub window_anchor_at: Option<i64>,
}

row!(ClaimedBatch {
    id,
    sha256,
    body,
    proved,
    window_anchor_at
});

/// One call that carries several mails.
#[derive(Clone, Debug, Serialize)]
pub struct BatchOpening<'a> {
    /// The batch; its idempotency key.
    pub id: &'a str,
    /// The hash of the bytes that will be sent.
    pub sha256: &'a str,
    /// The members' family.
    pub family: &'a str,
    /// The new bytes; `None` where they are sealed already. They travel in a list of their own.
    #[serde(skip)]
    pub body: Option<&'a str>,
    /// 1 where it is made now.
    pub fresh: u8,
    /// Its open members, in the order of the list of mails.
    pub members: Vec<MemberOpening<'a>>,
}

/// One mail of the call.
#[derive(Clone, Debug, Serialize)]
pub struct MemberOpening<'a> {
    /// The row.
    pub id: &'a str,
    /// The new attempt's id.
    pub attempt: &'a str,
    /// Its place in the list, from 0. Of a batch that is sealed already, the row knows.
    pub position: usize,
    /// The bytes of this mail in the list.
    pub bytes: usize,
    /// The template's version; `None` for ready content.
    pub template_version: Option<&'a str>,
}

/// A batch whose attempts are open: the call may be made, at `planned_at` or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedBatch {
    /// The batch.
    pub id: String,
    /// Its slot (Unix ms).
    pub planned_at: i64,
    /// The seal's hash as the database has it.
    pub sha256: String,
}

row!(OpenedBatch { id, planned_at, sha256 });

/// The rows of `ids`, and with each the open members of its batch: a batch is claimed whole. `?1` ids
macro_rules! whole_batches {
    () => {
        "(SELECT j.value AS id FROM json_each(?1) j
          UNION SELECT m.id FROM json_each(?1) j JOIN outbox x ON x.id = j.value
            JOIN outbox m ON m.batch_id = x.batch_id WHERE m.relay_at IS NOT NULL)"
    };
}
pub(super) use whole_batches;

/// What the claim does first: end the batches that nobody may repeat, and give up those that are known not to have been
/// accepted. Both leave rows that the claim then judges like all others.
///
/// Repeatable: a second run finds nothing left to end or to give up.
pub(super) fn judged(ids: &Value, now: &Value, window: &Value, known: &Value, deaths: &Value) -> [Statement; 2] {
    let args = || vec![ids.clone(), now.clone(), window.clone(), known.clone(), deaths.clone()];
    [Statement::new(STOP_BATCH, args()), Statement::new(DISSOLVE, args())]
}

/// The batches of `ids` with what must be said of each as a whole.
///
/// - `held`: a claim is alive on a member; its worker decides.
/// - `in_doubt`: it may have been accepted, or was: a doubt of one is a doubt of all, and so is the proof.
/// - `stopped`: it may not be repeated, since a member must not be sent any more. A member that is sent stops nothing: a
///   repetition under the same key sends nothing, and brings the others their ids.
/// - `over`: the provider may have forgotten its key, which counts also where nobody doubts and one proof says more.
///
/// `?1` ids, `?2` now, `?3` window, `?4` known templates, `?5` lone deaths
macro_rules! judged_batches {
    () => {
        concat!(
            "(SELECT o.batch_id AS id,
               max(o.status = 'processing' AND o.claim_expires_at > ?2) AS held,
               max(o.doubts > 0 OR o.status IN ('sent', 'unknown')) AS in_doubt,
               max(CASE WHEN o.relay_at IS NULL THEN o.status <> 'sent' ELSE ",
            stop_cause!("?2", "?3", "?4", "?5"),
            " IS NOT NULL END) AS stopped,
               coalesce(min(o.window_anchor_at) + ?3 <= ?2, 0) AS over
             FROM (SELECT DISTINCT x.batch_id AS id FROM json_each(?1) j JOIN outbox x ON x.id = j.value
               WHERE x.batch_id IS NOT NULL AND x.relay_at IS NOT NULL) b
               JOIN outbox o ON o.batch_id = b.id
             GROUP BY o.batch_id) AS judged"
        )
    };
}

/// pending, enqueued, retry, processing (its claim ended) -> unknown: the batch may have been accepted and must not be
/// repeated. Receipts, look-ups and verdicts close each row by itself.
const STOP_BATCH: &str = concat!(
    "UPDATE outbox SET
       status = 'unknown', cause = stop.cause, last_error = stop.cause,
       claim_token = NULL, claim_expires_at = NULL, suspect = 0, lone_claim = 0,
       next_attempt_at = NULL, relay_at = NULL, updated_at = ?2
     FROM (SELECT o.id AS id, coalesce(",
    stop_cause!("?2", "?3", "?4", "?5"),
    ", CASE WHEN judged.over THEN 'provider_window_closed' ELSE 'batch_stopped' END) AS cause FROM ",
    judged_batches!(),
    " JOIN outbox o ON o.batch_id = judged.id
       WHERE judged.in_doubt AND (judged.stopped OR judged.over) AND NOT judged.held AND ",
    movable!("?2"),
    ") AS stop
     WHERE outbox.id = stop.id"
);

/// The members that `STOP_BATCH` ended just now and that no message of this delivery is for: their alarms are due, too.
pub(super) fn stopped_beside(ids: Value, now: Millis) -> Statement {
    Statement::new(STOPPED_BESIDE, vec![ids, Value::Integer(now.get())])
}

/// The answer to [`stopped_beside`] at this position.
pub(super) fn beside(results: &[Rows], position: usize) -> Result<Vec<String>, DatabaseError> {
    struct Beside {
        id: String,
    }
    row!(Beside { id });
    Ok(rows_at::<Beside>(results, position)?
        .into_iter()
        .map(|row| row.id)
        .collect())
}

/// ?1 ids, ?2 now
const STOPPED_BESIDE: &str = "SELECT m.id FROM (SELECT DISTINCT x.batch_id AS id FROM json_each(?1) j
      JOIN outbox x ON x.id = j.value WHERE x.batch_id IS NOT NULL AND x.status = 'unknown' AND x.updated_at = ?2) b
    JOIN outbox m ON m.batch_id = b.id
  WHERE m.status = 'unknown' AND m.updated_at = ?2 AND m.id NOT IN (SELECT value FROM json_each(?1))";

/// A batch is given up: refused by the provider, or holding a mail that must not be sent any more, and in both cases known
/// not to have been accepted. Its rows lose their seals by a trigger, in this same statement; another trigger refuses it
/// where anything was or may have been accepted.
const DISSOLVE: &str = concat!(
    "UPDATE provider_batches SET dissolved_at = ?2, refused = given_up.refused
     FROM (SELECT judged.id, EXISTS (SELECT 1 FROM attempts a WHERE a.batch_id = judged.id AND a.outcome = 'refused')
         AS refused, judged.stopped, judged.in_doubt, judged.held FROM ",
    judged_batches!(),
    ") AS given_up
     WHERE provider_batches.id = given_up.id AND provider_batches.dissolved_at IS NULL
       AND (given_up.stopped OR given_up.refused) AND NOT given_up.in_doubt AND NOT given_up.held"
);

/// ?1 ids, ?2 token
pub(super) const FETCH_BATCHES: &str = concat!(
    "SELECT b.id, b.sha256, s.body,
       EXISTS (SELECT 1 FROM outbox m WHERE m.batch_id = b.id AND m.status = 'sent') AS proved,
       (SELECT min(m.window_anchor_at) FROM outbox m WHERE m.batch_id = b.id) AS window_anchor_at
     FROM (SELECT DISTINCT o.batch_id AS id FROM ",
    whole_batches!(),
    " w JOIN outbox o ON o.id = w.id
       WHERE o.status = 'processing' AND o.claim_token = ?2 AND o.batch_id IS NOT NULL) mine
     JOIN provider_batches b ON b.id = mine.id
     LEFT JOIN batch_seals s ON s.batch_id = b.id"
);

/// What an opening of batches needs to know beside the batches.
#[derive(Clone, Debug)]
pub(super) struct Opener<'a> {
    pub(super) token: &'a Value,
    pub(super) now: &'a Value,
    pub(super) provider: &'a Value,
    pub(super) provider_scope: &'a Value,
    pub(super) interval: &'a Value,
    pub(super) wait: &'a Value,
    pub(super) families: &'a Value,
    pub(super) domain: &'a Value,
    pub(super) put_aside_max: &'a Value,
}

/// The statements that freeze new batches and open an attempt for each member, each call in a slot of the pace after those
/// of the mails that go out alone. The last one tells which were opened. None where there is no batch.
///
/// Repeatable: batches, bytes and attempts are inserted under their own ids, and a row is frozen once.
pub(super) fn opened(batches: &[BatchOpening<'_>], by: &Opener<'_>) -> Vec<Statement> {
    #[derive(Serialize)]
    struct Bytes<'a> {
        id: &'a str,
        sha256: &'a str,
        body: &'a str,
    }
    if batches.is_empty() {
        return Vec::new();
    }
    let list = Value::Text(serde_json::json!(batches).to_string());
    let ours = || {
        vec![
            list.clone(),
            by.token.clone(),
            by.now.clone(),
            by.provider.clone(),
            by.provider_scope.clone(),
        ]
    };
    let bytes = lists(batches.iter().filter_map(|batch| {
        batch.body.map(|body| Bytes {
            id: batch.id,
            sha256: batch.sha256,
            body,
        })
    }));
    let mut statements = vec![Statement::new(MAKE_BATCH, ours()), Statement::new(JOIN_BATCH, ours())];
    statements.extend(
        bytes
            .into_iter()
            .map(|bytes| Statement::new(BATCH_BYTES, vec![bytes, by.token.clone()])),
    );
    let paced = |last: &Value| {
        vec![
            list.clone(),
            by.token.clone(),
            by.now.clone(),
            by.provider.clone(),
            by.interval.clone(),
            by.families.clone(),
            by.domain.clone(),
            last.clone(),
        ]
    };
    let mut taken = paced(by.wait);
    taken.pop();
    statements.extend([
        Statement::new(OPEN_BATCH, paced(by.wait)),
        Statement::new(TAKE_PACE_BATCH, taken),
        Statement::new(NO_SLOT_BATCH, paced(by.put_aside_max)),
        Statement::new(OPENED_BATCH, vec![list, by.token.clone()]),
    ]);
    statements
}

/// Only where every member is ours and was never frozen. ?1 batches, ?2 token, ?3 now, ?4 provider, ?5 scope
const MAKE_BATCH: &str =
    "INSERT INTO provider_batches (id, sha256, provider, provider_scope, family, members, created_at)
  SELECT j.value ->> 'id', j.value ->> 'sha256', ?4, ?5, j.value ->> 'family',
    json_array_length(j.value, '$.members'), ?3
  FROM json_each(?1) j
  WHERE j.value ->> 'fresh' = 1 AND json_array_length(j.value, '$.members') =
    (SELECT count(*) FROM json_each(j.value, '$.members') k JOIN outbox o ON o.id = k.value ->> 'id'
     WHERE o.claim_token = ?2 AND o.status = 'processing' AND o.seal_sha256 IS NULL)
  ON CONFLICT (id) DO NOTHING";

/// The hash is set once, for all members together. ?1 batches, ?2 token, ?3 now, ?4 provider, ?5 scope
const JOIN_BATCH: &str = "UPDATE outbox SET
    batch_id = member.batch_id, batch_position = member.position,
    seal_sha256 = member.sha256, seal_bytes = member.bytes, template_version = member.template_version,
    provider = ?4, provider_scope = 'batch:' || ?5, updated_at = ?3
  FROM (SELECT b.id AS batch_id, b.sha256, k.value ->> 'id' AS id, k.value ->> 'position' AS position,
      k.value ->> 'bytes' AS bytes, k.value ->> 'template_version' AS template_version
    FROM json_each(?1) j JOIN provider_batches b ON b.id = j.value ->> 'id' AND b.dissolved_at IS NULL
      JOIN json_each(j.value, '$.members') k
    WHERE j.value ->> 'fresh' = 1) AS member
  WHERE outbox.id = member.id AND outbox.claim_token = ?2 AND outbox.status = 'processing'
    AND outbox.seal_sha256 IS NULL";

/// ?1 new seals, ?2 token
const BATCH_BYTES: &str = "INSERT INTO batch_seals (batch_id, sha256, body)
  SELECT b.id, b.sha256, j.value ->> 'body'
  FROM json_each(?1) j JOIN provider_batches b ON b.id = j.value ->> 'id' AND b.sha256 = j.value ->> 'sha256'
  WHERE b.dissolved_at IS NULL
    AND EXISTS (SELECT 1 FROM outbox o WHERE o.batch_id = b.id AND o.claim_token = ?2)
  ON CONFLICT (batch_id) DO NOTHING";

/// The batches with their slots in the pace, as a table `slots`. A call takes one token of the provider, and as many of its
/// family and of each domain as it has mails for them: it is made when all its buckets have room, and the next one after
/// all of its mails have drained. Of several batches none comes before the one before it, and each waits until that one's
/// mails have drained, whose buckets may be the same.
/// `?1` batches, `?3` now, `?4` provider, `?5` interval, `?6` family intervals, `?7` domain interval
macro_rules! slots {
    () => {
        "asked AS MATERIALIZED (
           SELECT b.key AS place, b.value ->> 'id' AS id, b.value ->> 'sha256' AS sha256, b.value AS value, p.family,
             json_array_length(b.value, '$.members') AS members,
             coalesce((SELECT f.value FROM json_each(?6) f WHERE f.key = p.family), 0) AS family_every
           FROM json_each(?1) b LEFT JOIN provider_batches p ON p.id = b.value ->> 'id'),
         slots AS MATERIALIZED (
           SELECT asked.*, max(max(?3,
               coalesce((SELECT next_free_at FROM pace WHERE name = ?4), 0),
               iif(family_every = 0, 0, coalesce((SELECT next_free_at FROM pace WHERE name = 'family:' || family), 0)),
               iif(?7 = 0, 0, coalesce((SELECT max(d.next_free_at) FROM json_each(asked.value, '$.members') k
                 JOIN outbox o ON o.id = k.value ->> 'id' JOIN pace d ON d.name = 'domain:' || o.domain_hash), 0))))
               OVER (ORDER BY place ROWS UNBOUNDED PRECEDING)
             + coalesce(sum(max(?5, max(family_every, ?7) * members)) OVER (ORDER BY place
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS slot
           FROM asked)"
    };
}

/// One attempt for each open member, all or none: every open member is in the list and ours, exactly these bytes are
/// sealed, and the call gets a slot in time. ?1 batches, ?2 token, ?3 now, ?4 provider, ?5 interval, ?6 family intervals,
/// ?7 domain interval, ?8 longest wait
const OPEN_BATCH: &str = concat!(
    "INSERT INTO attempts (id, outbox_id, claim_token, opened_at, planned_at, batch_id)
  WITH ",
    slots!(),
    "
  SELECT k.value ->> 'attempt', o.id, ?2, ?3, j.slot, j.id
  FROM slots j
    JOIN batch_seals s ON s.batch_id = j.id AND s.sha256 = j.sha256
    JOIN json_each(j.value, '$.members') k
    JOIN outbox o ON o.id = k.value ->> 'id'
  WHERE o.batch_id = j.id AND o.claim_token = ?2 AND o.status = 'processing' AND o.seal_sha256 = j.sha256
    AND j.slot <= ?3 + ?8
    AND j.members = (SELECT count(*) FROM outbox m WHERE m.batch_id = j.id AND m.relay_at IS NOT NULL)
    AND j.members = (SELECT count(*) FROM json_each(j.value, '$.members') k JOIN outbox m ON m.id = k.value ->> 'id'
      WHERE m.batch_id = j.id AND m.claim_token = ?2 AND m.status = 'processing')
  ON CONFLICT (id) DO NOTHING"
);

/// As for single mails: the next slots come after the last ones given away here, bucket by bucket. ?1 batches, ?2 token,
/// ?3 now, ?4 provider, ?5 interval, ?6 family intervals, ?7 domain interval
const TAKE_PACE_BATCH: &str = concat!(
    "INSERT INTO pace (name, next_free_at)
  WITH ",
    slots!(),
    ",
  taken AS MATERIALIZED (SELECT slots.*, a.planned_at FROM slots
    JOIN attempts a ON a.id = slots.value ->> '$.members[0].attempt' WHERE a.claim_token = ?2)
  SELECT name, max(free_at) FROM (
    SELECT ?4 AS name, planned_at + ?5 AS free_at FROM taken WHERE ?5 > 0
    UNION ALL SELECT 'family:' || family, planned_at + members * family_every FROM taken WHERE family_every > 0
    UNION ALL SELECT 'domain:' || o.domain_hash, taken.planned_at + count(*) * ?7
      FROM taken JOIN json_each(taken.value, '$.members') k JOIN outbox o ON o.id = k.value ->> 'id'
      WHERE ?7 > 0 AND o.domain_hash IS NOT NULL GROUP BY taken.id, o.domain_hash) AS drained
  WHERE true GROUP BY name
  ON CONFLICT (name) DO UPDATE SET next_free_at = max(next_free_at, excluded.next_free_at)"
);

/// processing -> retry: the pace gave the call no slot in time, or not every member is ours any more. No try is burnt, and
/// what ran alone runs alone again. The members wait together, until their buckets have room; and for a quarter of a
/// minute at least, so that a crowd of batches does not ask all the time. ?1 batches, ?2 token, ?3 now, ?4 provider,
/// ?5 interval, ?6 family intervals, ?7 domain interval, ?8 longest wait
const NO_SLOT_BATCH: &str = concat!(
    "WITH ",
    slots!(),
    "
  UPDATE outbox SET
    status = 'retry', cause = 'paced', next_attempt_at = aside.until, relay_at = aside.until,
    claim_token = NULL, claim_expires_at = NULL, suspect = lone_claim, lone_claim = 0, updated_at = ?3
  FROM (SELECT k.value ->> 'id' AS id, ?3 + min(?8, max(slots.slot - ?3, 15000 + 1000 * slots.place)) AS until
    FROM slots JOIN json_each(slots.value, '$.members') k) AS aside
  WHERE outbox.id = aside.id AND outbox.claim_token = ?2 AND outbox.status = 'processing'
    AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.outbox_id = outbox.id AND a.claim_token = ?2)"
);

/// ?1 batches, ?2 token
const OPENED_BATCH: &str = "SELECT b.id, b.sha256,
    (SELECT a.planned_at FROM attempts a WHERE a.id = j.value ->> '$.members[0].attempt') AS planned_at
  FROM json_each(?1) j JOIN provider_batches b ON b.id = j.value ->> 'id'
  WHERE b.dissolved_at IS NULL AND json_array_length(j.value, '$.members') =
    (SELECT count(*) FROM json_each(j.value, '$.members') k JOIN attempts a ON a.id = k.value ->> 'attempt'
       JOIN outbox o ON o.id = a.outbox_id
     WHERE a.claim_token = ?2 AND a.closed_at IS NULL AND a.batch_id = b.id
       AND o.claim_token = ?2 AND o.status = 'processing')
  ORDER BY j.key";
