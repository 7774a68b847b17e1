//! The consumer's middle round trips: freeze what was rendered, take the pace, open attempts; and, where they go out
//! in waves, close the wave before in the same transaction.

use libsql::Value;
use serde::Serialize;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::lists::lists;
use super::outside::{self, PutBack};
use super::row::{row, rows_at};
use super::settle::{self, Settled, Settlement};
use crate::outbox::time::Millis;

/// A row that is about to be sent.
#[derive(Clone, Debug, Serialize)]
pub struct Opening<'a> {
    /// The row.
    pub id: &'a str,
    /// The new attempt's id.
    pub attempt: &'a str,
    /// What was rendered just now; `None` where the row has its seal already.
    pub seal: Option<NewSeal<'a>>,
    /// The hash of the bytes that will be sent.
    pub sha256: &'a str,
}

/// Bytes to freeze.
#[derive(Clone, Debug, Serialize)]
pub struct NewSeal<'a> {
    /// The request body. It travels in a list of its own.
    #[serde(skip)]
    pub body: &'a str,
    /// Its length in bytes.
    pub bytes: usize,
    /// The template's version; `None` for ready content.
    pub template_version: Option<&'a str>,
}

/// A row that cannot be sent because its letter cannot be read or rendered.
#[derive(Clone, Debug, Serialize)]
pub struct Rejection<'a> {
    /// The row.
    pub id: &'a str,
    /// A code of ours.
    pub code: &'static str,
    /// The template's version that failed; a later version is tried again.
    pub template_version: Option<&'a str>,
}

/// What the middle round trip asks for.
#[derive(Clone, Debug)]
pub struct OpenRequest<'a> {
    /// Proof of the claim.
    pub token: &'a str,
    /// Now.
    pub now: Millis,
    /// The provider and its account, as they are sealed with the row.
    pub provider: &'a str,
    /// The provider account.
    pub provider_scope: &'a str,
    /// Rows to open an attempt for, the most urgent first.
    pub openings: &'a [Opening<'a>],
    /// Rows that cannot be sent.
    pub rejections: &'a [Rejection<'a>],
    /// Rows to give back.
    pub put_back: &'a [PutBack],
    /// Results of the wave before; empty for the first.
    pub settlements: &'a [Settlement],
    /// Time between two calls at the provider's pace, in ms; 0 where there is none.
    pub pace_interval_ms: i64,
    /// JSON object: the time between two mails of each family that has a pace of its own, in ms.
    pub family_intervals: &'a str,
    /// Time between two mails to one domain, in ms; 0 where there is none.
    pub domain_interval_ms: i64,
    /// The longest this claim can wait for a slot, in ms.
    pub pace_wait_ms_max: i64,
}

/// An attempt that is open now: the call may be made, at `planned_at` or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedAttempt {
    /// The row.
    pub outbox_id: String,
    /// The attempt.
    pub attempt: String,
    /// Its slot (Unix ms).
    pub planned_at: i64,
    /// The seal's hash as the database has it.
    pub seal_sha256: String,
}

row!(OpenedAttempt {
    outbox_id,
    attempt,
    planned_at,
    seal_sha256
});

/// A row whose claim was lost: others have moved it since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRow {
    /// Its id.
    pub id: String,
    /// When the claim ends that holds it now, if one does (Unix ms).
    pub claim_expires_at: Option<i64>,
}

row!(LostRow { id, claim_expires_at });

/// What the middle round trip brought.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// The attempts that are open; a row without one is not to be sent now.
    pub attempts: Vec<OpenedAttempt>,
    /// Rows that were no longer ours: nothing of them was changed.
    pub lost: Vec<LostRow>,
    /// What became of the wave before.
    pub settled: Settled,
}

/// "Freeze these, and which may I call now?"
///
/// Repeatable: seals and attempts are inserted under their own ids, the rest names the claim, and the buckets follow from
/// the attempts that are there.
///
/// # Errors
/// [`DatabaseError`]; nothing was opened then, unless it is `Ambiguous`.
pub async fn open(database: &impl Database, request: &OpenRequest<'_>) -> Result<Opened, DatabaseError> {
    #[derive(Serialize)]
    struct Bytes<'a> {
        id: &'a str,
        sha256: &'a str,
        body: &'a str,
    }
    let token = Value::Text(request.token.to_owned());
    let now = Value::Integer(request.now.get());
    let seals = lists(request.openings.iter().filter_map(|opening| {
        opening.seal.as_ref().map(|seal| Bytes {
            id: opening.id,
            sha256: opening.sha256,
            body: seal.body,
        })
    }));
    let openings = Value::Text(serde_json::json!(request.openings).to_string());
    let interval = Value::Integer(request.pace_interval_ms);
    let wait = Value::Integer(request.pace_wait_ms_max);
    let families = Value::Text(request.family_intervals.to_owned());
    let domain = Value::Integer(request.domain_interval_ms);
    let provider = Value::Text(request.provider.to_owned());
    let mut statements = settle::statements(request.token, request.now, request.settlements);
    statements.push(Statement::new(
        SEAL_ROW,
        vec![
            openings.clone(),
            token.clone(),
            now.clone(),
            provider.clone(),
            Value::Text(request.provider_scope.to_owned()),
        ],
    ));
    statements.extend(
        seals
            .into_iter()
            .map(|seals| Statement::new(SEAL_BYTES, vec![seals, token.clone()])),
    );
    statements.extend([
        Statement::new(
            OPEN,
            vec![
                openings.clone(),
                token.clone(),
                now.clone(),
                provider.clone(),
                interval.clone(),
                wait,
                families.clone(),
                domain.clone(),
            ],
        ),
        Statement::new(
            TAKE_PACE,
            vec![
                openings.clone(),
                token.clone(),
                provider.clone(),
                interval.clone(),
                families.clone(),
                domain.clone(),
            ],
        ),
        Statement::new(
            REJECT,
            vec![
                Value::Text(serde_json::json!(request.rejections).to_string()),
                token.clone(),
                now.clone(),
            ],
        ),
        Statement::new(
            NO_SLOT,
            vec![
                openings.clone(),
                token.clone(),
                now.clone(),
                provider,
                interval,
                families,
                domain,
                Value::Integer(PACED_WAIT_MS_MAX),
            ],
        ),
    ]);
    statements.extend(outside::statements(
        request.put_back,
        request.openings.is_empty(),
        &token,
        &now,
    ));
    let opened_at = statements.len();
    statements.push(Statement::new(OPENED, vec![openings, token.clone()]));
    let ids: Vec<&str> = request
        .openings
        .iter()
        .map(|opening| opening.id)
        .chain(request.rejections.iter().map(|rejection| rejection.id))
        .chain(request.put_back.iter().map(|row| row.id.as_str()))
        .collect();
    let ids = Value::Text(serde_json::json!(ids).to_string());
    statements.push(Statement::new(LOST, vec![ids, token, now]));
    let results = database.run(Transaction::repeatable_write(statements)).await?;
    Ok(Opened {
        attempts: rows_at(&results, opened_at)?,
        lost: rows_at(&results, opened_at.saturating_add(1))?,
        settled: settle::read(&results, request.settlements)?,
    })
}

/// The hash is set once, by the claim that rendered. ?1 openings, ?2 token, ?3 now, ?4 provider, ?5 scope
const SEAL_ROW: &str = "UPDATE outbox SET
    seal_sha256 = j.value ->> 'sha256', seal_bytes = j.value ->> '$.seal.bytes',
    template_version = j.value ->> '$.seal.template_version',
    provider = ?4, provider_scope = ?5, updated_at = ?3
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND outbox.claim_token = ?2 AND outbox.status = 'processing'
    AND outbox.seal_sha256 IS NULL AND j.value -> '$.seal' <> 'null'";

/// ?1 new seals, ?2 token
const SEAL_BYTES: &str = "INSERT INTO seals (outbox_id, sha256, body)
  SELECT o.id, o.seal_sha256, j.value ->> 'body'
  FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
  WHERE o.claim_token = ?2 AND o.status = 'processing' AND o.seal_sha256 = j.value ->> 'sha256'
  ON CONFLICT (outbox_id) DO NOTHING";

/// The longest that a row is put aside for its bucket, in ms: a pace that was raised is noticed within it.
const PACED_WAIT_MS_MAX: i64 = 900_000;

/// The openings with the buckets that each of them takes from, as a table `mine`: `place` (0 is the most urgent), the
/// attempt, the row, and name, interval and next free slot of its family's and of its domain's bucket; an interval of 0
/// is no bucket.
///
/// Parameters: openings, token, family intervals, domain interval.
macro_rules! mine {
    ($openings:literal, $token:literal, $families:literal, $domain:literal, $rows:literal) => {
        concat!(
            "mine AS MATERIALIZED (
               SELECT one.*,
                 coalesce((SELECT next_free_at FROM pace WHERE name = one.family_name), 0) AS family_free,
                 coalesce((SELECT next_free_at FROM pace WHERE name = one.domain_name), 0) AS domain_free
               FROM (SELECT j.key AS place, j.value ->> 'attempt' AS attempt, o.id AS id,
                   'family:' || o.family AS family_name, 'domain:' || o.domain_hash AS domain_name,
                   coalesce((SELECT f.value FROM json_each(",
            $families,
            ") f WHERE f.key = o.family), 0) AS family_every,
                   iif(o.domain_hash IS NULL, 0, ",
            $domain,
            ") AS domain_every
                 FROM json_each(",
            $openings,
            ") j JOIN outbox o ON o.id = j.value ->> 'id'
                 WHERE o.claim_token = ",
            $token,
            " AND o.status = 'processing' AND ",
            $rows,
            ") AS one)"
        )
    };
}

/// One attempt for each row that is still ours, has exactly these bytes sealed, and gets a slot in time.
///
/// Each row is given a first guess by its rank in its family and its domain, and the rows are walked in the order of the
/// guesses, so that one that must wait for its own bucket comes after those that need not. The walk carries when each
/// bucket is free, and gives a row the first moment at which all three have room: exact, whatever mixes. A row whose
/// moment comes too late takes nothing, and holds nobody back.
/// ?1 openings, ?2 token, ?3 now, ?4 provider, ?5 interval, ?6 longest wait, ?7 family intervals, ?8 domain interval
const OPEN: &str = concat!(
    "INSERT INTO attempts (id, outbox_id, claim_token, opened_at, planned_at)
  WITH RECURSIVE ",
    mine!(
        "?1",
        "?2",
        "?7",
        "?8",
        "o.seal_sha256 = j.value ->> 'sha256'
           AND EXISTS (SELECT 1 FROM seals s WHERE s.outbox_id = o.id AND s.sha256 = o.seal_sha256)"
    ),
    ",
  guessed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY guess, place) AS turn,
      '$.f' || dense_rank() OVER (ORDER BY family_name) AS family_at,
      '$.d' || dense_rank() OVER (ORDER BY domain_name) AS domain_at,
      ranked.*
    FROM (SELECT max(
          max(?3, family_free) + family_every * (row_number() OVER (PARTITION BY family_name ORDER BY place) - 1),
          max(?3, domain_free) + domain_every * (row_number() OVER (PARTITION BY domain_name ORDER BY place) - 1)) AS guess,
        mine.* FROM mine) AS ranked),
  walk (turn, attempt, id, at, provider_free, free) AS (
    SELECT 0, NULL, NULL, NULL, max(?3, coalesce((SELECT next_free_at FROM pace WHERE name = ?4), 0)), '{}'
    UNION ALL
    SELECT g.turn, g.attempt, g.id,
      iif(slot.value <= ?3 + ?6, slot.value, NULL),
      iif(slot.value <= ?3 + ?6, slot.value + ?5, walk.provider_free),
      iif(slot.value <= ?3 + ?6,
        json_set(walk.free, g.family_at, slot.value + g.family_every, g.domain_at, slot.value + g.domain_every),
        walk.free)
    FROM walk JOIN guessed g ON g.turn = walk.turn + 1
      JOIN json_each(json_array(max(walk.provider_free,
        iif(g.family_every = 0, 0, coalesce(walk.free ->> g.family_at, g.family_free)),
        iif(g.domain_every = 0, 0, coalesce(walk.free ->> g.domain_at, g.domain_free))))) AS slot)
  SELECT attempt, id, ?2, ?3, at FROM walk WHERE at IS NOT NULL
  ON CONFLICT (id) DO NOTHING"
);

/// The next batch's first slots come after the last ones given away here, bucket by bucket.
/// ?1 openings, ?2 token, ?3 provider, ?4 interval, ?5 family intervals, ?6 domain interval
const TAKE_PACE: &str = concat!(
    "INSERT INTO pace (name, next_free_at)
  WITH ",
    mine!("?1", "?2", "?5", "?6", "true"),
    ",
  taken AS MATERIALIZED (SELECT mine.*, a.planned_at FROM mine JOIN attempts a ON a.id = mine.attempt
    WHERE a.claim_token = ?2)
  SELECT name, max(free_at) FROM (
    SELECT ?3 AS name, planned_at + ?4 AS free_at FROM taken WHERE ?4 > 0
    UNION ALL SELECT family_name, planned_at + family_every FROM taken WHERE family_every > 0
    UNION ALL SELECT domain_name, planned_at + domain_every FROM taken WHERE domain_every > 0) AS slots
  WHERE true GROUP BY name
  ON CONFLICT (name) DO UPDATE SET next_free_at = max(next_free_at, excluded.next_free_at)"
);

/// processing -> dead_letter (unknown where in doubt). ?1 rejections, ?2 token, ?3 now
const REJECT: &str = "UPDATE outbox SET
    status = CASE WHEN doubts > 0 THEN 'unknown' ELSE 'dead_letter' END,
    dead_class = CASE WHEN doubts = 0 THEN 'pipeline' END,
    cause = j.value ->> 'code', last_error = j.value ->> 'code',
    template_version = CASE WHEN seal_sha256 IS NULL THEN j.value ->> 'template_version' ELSE template_version END,
    claim_token = NULL, claim_expires_at = NULL, relay_at = NULL, updated_at = ?3
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND outbox.claim_token = ?2 AND outbox.status = 'processing'";

/// processing -> retry: the pace gave no slot in time. No try is burnt, and what ran alone runs alone again. The row waits
/// until its buckets have room for it, by its rank among those that are put aside; and longer each time it came in vain,
/// spread by its number, so that a crowd behind a slow bucket does not return all at once.
/// ?1 openings, ?2 token, ?3 now, ?4 provider, ?5 interval, ?6 family intervals, ?7 domain interval, ?8 longest wait
const NO_SLOT: &str = concat!(
    "WITH ",
    mine!(
        "?1",
        "?2",
        "?6",
        "?7",
        "NOT EXISTS (SELECT 1 FROM attempts a WHERE a.outbox_id = o.id AND a.claim_token = ?2)"
    ),
    "
  UPDATE outbox SET
    status = 'retry', cause = 'paced', next_attempt_at = aside.until, relay_at = aside.until,
    claim_token = NULL, claim_expires_at = NULL, suspect = lone_claim, lone_claim = 0, updated_at = ?3
  FROM (SELECT id, ?3 + min(?8, max(room_at - ?3,
      iif(idle = 0, 1000, (15000 + id_spread) << min(6, idle - 1)))) AS until
    FROM (SELECT mine.id, max(
        coalesce((SELECT next_free_at FROM pace WHERE name = ?4), 0) + ?5 * (row_number() OVER (ORDER BY place) - 1),
        family_free + family_every * (row_number() OVER (PARTITION BY family_name ORDER BY place) - 1),
        domain_free + domain_every * (row_number() OVER (PARTITION BY domain_name ORDER BY place) - 1)) AS room_at,
        (waiting.seq * 7919) % 15000 AS id_spread,
        max(0, waiting.claim_count - waiting.attempt_count - 1) AS idle
      FROM mine JOIN outbox waiting ON waiting.id = mine.id)) AS aside
  WHERE outbox.id = aside.id"
);

/// ?1 openings, ?2 token
const OPENED: &str = "SELECT o.id AS outbox_id, a.id AS attempt, a.planned_at, o.seal_sha256
  FROM json_each(?1) j JOIN attempts a ON a.id = j.value ->> 'attempt' JOIN outbox o ON o.id = a.outbox_id
  WHERE a.claim_token = ?2 AND a.closed_at IS NULL AND o.claim_token = ?2 AND o.status = 'processing'
  ORDER BY a.planned_at, o.seq";

/// Neither ours now nor moved by this transaction. ?1 ids, ?2 token, ?3 now
const LOST: &str = "SELECT o.id, o.claim_expires_at FROM json_each(?1) j JOIN outbox o ON o.id = j.value
  WHERE o.claim_token IS NOT ?2
    AND NOT (o.updated_at = ?3 AND (o.cause IN ('paced', 'outside_hours') OR o.status IN ('dead_letter', 'unknown')))";
