//! Questions that change nothing: one intent's story, and how the pipeline is doing.

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::pauses::Pause;
use super::row::{row, rows_at};
use super::shared_sql::{bulk_waiting, singles, waiting_families};
use crate::outbox::attempt::Outcome;
use crate::outbox::status::{Standing, Status};
use crate::outbox::time::Millis;

/// The most attempts and events that one answer shows: the newest ones.
const STORY_ROWS_MAX: i64 = 200;

/// A row without anything personal.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of the outbox, documented in the migration"
)]
pub struct IntentRow {
    pub id: String,
    pub seq: i64,
    pub family: String,
    pub revision: u32,
    pub status: Status,
    pub cause: String,
    pub dead_class: Option<String>,
    pub delivery: Option<String>,
    pub delivery_at: Option<i64>,
    pub delivery_detail: Option<String>,
    pub resend: u32,
    pub resend_of: Option<String>,
    pub replay_batch: Option<String>,
    pub batch_id: Option<String>,
    pub resolved_at: Option<i64>,
    pub attempt_count: u32,
    pub publish_count: u32,
    pub claim_count: u32,
    pub next_attempt_at: Option<i64>,
    pub not_before: Option<i64>,
    pub not_after: Option<i64>,
    pub provider_message_id: Option<String>,
    pub last_error: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
    pub settled_at: Option<i64>,
}

row!(IntentRow {
    id,
    seq,
    family,
    revision,
    status,
    cause,
    dead_class,
    delivery,
    delivery_at,
    delivery_detail,
    resend,
    resend_of,
    replay_batch,
    batch_id,
    resolved_at,
    attempt_count,
    publish_count,
    claim_count,
    next_attempt_at,
    not_before,
    not_after,
    provider_message_id,
    last_error,
    created_at,
    updated_at,
    settled_at,
});

/// One call to the provider.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of attempts, documented in the migration"
)]
pub struct AttemptRow {
    pub id: String,
    pub opened_at: i64,
    pub closed_at: Option<i64>,
    pub outcome: Option<Outcome>,
    pub http_status: Option<u16>,
    pub error: Option<String>,
}

row!(AttemptRow {
    id,
    opened_at,
    closed_at,
    outcome,
    http_status,
    error
});

/// One change of state.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of events, documented in the migration"
)]
pub struct EventRow {
    pub from_status: Option<Status>,
    pub to_status: Status,
    pub cause: String,
    pub replay_batch: Option<String>,
    pub at: i64,
}

row!(EventRow {
    from_status,
    to_status,
    cause,
    replay_batch,
    at
});

/// One thing that the provider said about it.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of receipts, documented in the migration"
)]
pub struct ReceiptRow {
    pub news: String,
    pub detail: Option<String>,
    pub at: i64,
    pub received_at: i64,
}

row!(ReceiptRow {
    news,
    detail,
    at,
    received_at
});

/// One intent's story.
#[derive(Clone, Debug)]
pub struct Story {
    /// The row.
    pub intent: IntentRow,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptRow>,
    /// Its changes of state, oldest first.
    pub events: Vec<EventRow>,
    /// What the provider said about it, oldest first.
    pub receipts: Vec<ReceiptRow>,
}

/// "What happened to this one?"
///
/// # Errors
/// [`DatabaseError`].
pub async fn story(database: &impl Database, id: &str) -> Result<Option<Story>, DatabaseError> {
    let id = Value::Text(id.to_owned());
    let limit = Value::Integer(STORY_ROWS_MAX);
    let results = database
        .run(Transaction::read(vec![
            Statement::new(INTENT, vec![id.clone()]),
            Statement::new(ATTEMPTS, vec![id.clone(), limit.clone()]),
            Statement::new(EVENTS, vec![id.clone(), limit.clone()]),
            Statement::new(RECEIPTS, vec![id, limit]),
        ]))
        .await
        .map_err(guarded)?;
    let Some(intent) = rows_at::<IntentRow>(&results, 0)?.into_iter().next() else {
        return Ok(None);
    };
    Ok(Some(Story {
        intent,
        attempts: rows_at(&results, 1)?,
        events: rows_at(&results, 2)?,
        receipts: rows_at(&results, 3)?,
    }))
}

const INTENT: &str = "SELECT id, seq, family, revision, status, cause, dead_class, delivery,
    delivery_at, delivery_detail, resend, resend_of, replay_batch, batch_id, resolved_at, attempt_count, publish_count,
    claim_count, next_attempt_at, not_before, not_after, provider_message_id, last_error, created_at, updated_at, settled_at
  FROM outbox WHERE id = ?1";

const ATTEMPTS: &str = "SELECT id, opened_at, closed_at, outcome, http_status, error FROM (
    SELECT * FROM attempts WHERE outbox_id = ?1 ORDER BY opened_at DESC, id DESC LIMIT ?2)
  ORDER BY opened_at, id";

const EVENTS: &str = "SELECT from_status, to_status, cause, replay_batch, at FROM (
    SELECT * FROM events WHERE outbox_id = ?1 ORDER BY seq DESC LIMIT ?2)
  ORDER BY seq";

const RECEIPTS: &str = "SELECT news, detail, at, received_at FROM (
    SELECT * FROM receipts WHERE outbox_id = ?1 ORDER BY at DESC LIMIT ?2)
  ORDER BY at, received_at";

/// How the pipeline is doing.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The schema's version.
    pub schema_version: Option<i64>,
    /// The oldest program that the schema still serves.
    pub schema_serves_from: Option<i64>,
    /// When the relay last ran (Unix ms).
    pub last_tick_at: Option<i64>,
    /// What the queue last refused with; a code of ours.
    pub broker_error: Option<String>,
    /// The relay time of the row that is longest overdue (Unix ms).
    pub oldest_due_at: Option<i64>,
    /// When the bulk row became due that waits for its admission the longest (Unix ms).
    pub bulk_due_at: Option<i64>,
    /// Bulk rows that wait for their admission, counted up to 1000.
    pub bulk_waiting: i64,
    /// Why nothing is sent at the moment; a code of ours.
    pub pause_reason: Option<String>,
    /// Until when (Unix ms).
    pub pause_until: Option<i64>,
    /// Inputs that wait for a person, counted up to 1000.
    pub parked: i64,
    /// Rows of which nobody knows what became, and nobody has decided about; counted up to 1000.
    pub unknown: i64,
}

row!(Health {
    schema_version,
    schema_serves_from,
    last_tick_at,
    broker_error,
    oldest_due_at,
    bulk_due_at,
    bulk_waiting,
    pause_reason,
    pause_until,
    parked,
    unknown,
});

/// "How is the pipeline doing, and what is paused?" By indexes and single rows alone.
///
/// # Errors
/// [`DatabaseError`].
pub async fn health(database: &impl Database, now: Millis) -> Result<(Health, Vec<Pause>), DatabaseError> {
    let results = database
        .run(Transaction::read(vec![
            Statement::new(HEALTH, vec![Value::Integer(now.get())]),
            super::pauses::all(),
        ]))
        .await
        .map_err(guarded)?;
    let health = rows_at(&results, 0)?.into_iter().next().ok_or(DatabaseError::Shape)?;
    Ok((health, rows_at(&results, 1)?))
}

const HEALTH: &str = concat!(
    "WITH RECURSIVE ",
    waiting_families!(),
    " SELECT
    (SELECT max(version) FROM schema_migrations) AS schema_version,
    (SELECT max(serves_from) FROM schema_migrations) AS schema_serves_from,
    (SELECT last_tick_at FROM relay_health WHERE id = 1) AS last_tick_at,
    (SELECT broker_error FROM relay_health WHERE id = 1) AS broker_error,
    (SELECT min(relay_at) FROM ",
    singles!(),
    " AND relay_at <= ?1) AS oldest_due_at,
    (SELECT min((SELECT min(relay_at) FROM ",
    bulk_waiting!("outbox_due_bulk"),
    " AND outbox.family = waiting.family AND relay_at <= ?1)) FROM waiting) AS bulk_due_at,
    (SELECT count(*) FROM (SELECT 1 FROM ",
    bulk_waiting!("outbox_bulk"),
    " AND seq > 0 LIMIT 1000)) AS bulk_waiting,
    (SELECT reason FROM pauses WHERE scope = '*' AND until > ?1) AS pause_reason,
    (SELECT until FROM pauses WHERE scope = '*' AND until > ?1) AS pause_until,
    (SELECT count(*) FROM (SELECT 1 FROM parking WHERE state = 'parked' LIMIT 1000)) AS parked,
    (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE status = 'unknown' AND resolved_at IS NULL AND seq > 0 LIMIT 1000))
      AS unknown"
);

/// What a tick leaves behind.
#[derive(Clone, Copy, Debug)]
pub struct TickRecord<'a> {
    /// Rows handed to the queue.
    pub published: usize,
    /// Rows that were moved otherwise.
    pub moved: usize,
    /// What the queue refused with; a code of ours.
    pub broker_error: Option<&'static str>,
    /// Rows that were settled at or before this time lose their letters, attempts and events.
    pub prune_settled_until: Millis,
    /// The used part of the provider window, in ms.
    pub window_ms: i64,
    /// JSON array of `{family, template, version}` that this version can render.
    pub known_templates: &'a str,
}

/// What a tick's end found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickSeen {
    /// Rows that need no admission and are still due, counted up to 1000.
    pub remaining: i64,
    /// Bulk rows that were ended while they waited for their admission.
    pub stopped: usize,
    /// How many of those ask for a person now.
    pub ask_for_a_person: usize,
}

/// "The relay ran." One row, overwritten; the next bulk rows that wait are looked through, the next settled rows are
/// pruned, and buckets that have been full for long are removed.
///
/// Repeatable: it writes the same row, looks through the next rows, and prunes the next ones.
///
/// # Errors
/// [`DatabaseError`]; the next tick writes it again.
pub async fn record_tick(
    database: &impl Database,
    now: Millis,
    tick: &TickRecord<'_>,
) -> Result<TickSeen, DatabaseError> {
    struct Remaining {
        remaining: i64,
    }
    row!(Remaining { remaining });
    let count = |number: usize| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let mut statements = vec![
        schema_guard(),
        Statement::new(
            TICK,
            vec![
                Value::Integer(now.get()),
                count(tick.published),
                count(tick.moved),
                tick.broker_error
                    .map_or(Value::Null, |code| Value::Text(code.to_owned())),
            ],
        ),
    ];
    statements.extend(super::admit::look_through(now, tick.window_ms, tick.known_templates));
    statements.push(Statement::new(
        FULL_BUCKETS,
        vec![
            Value::Integer(now.get().saturating_sub(FULL_FOR_MS)),
            Value::Integer(BUCKETS_MAX),
        ],
    ));
    statements.extend(super::receipts::joined_late(now));
    statements.extend(super::prune::statements(now, tick.prune_settled_until));
    let results = database
        .run(Transaction::repeatable_write(statements))
        .await
        .map_err(guarded)?;
    struct Stopped {
        status: Status,
    }
    row!(Stopped { status });
    let stopped: Vec<Stopped> = rows_at(&results, 2)?;
    let remaining: Remaining = rows_at(&results, 1)?.into_iter().next().ok_or(DatabaseError::Shape)?;
    Ok(TickSeen {
        remaining: remaining.remaining,
        stopped: stopped.len(),
        ask_for_a_person: stopped
            .iter()
            .filter(|row| row.status.standing() == Standing::AsksForAPerson)
            .count(),
    })
}

/// How long a bucket has been full before it goes, in ms: longer than any clock is behind, so that no slot is given twice.
const FULL_FOR_MS: i64 = 3_600_000;
/// Buckets that one tick removes at most: a tick's mails have fewer domains.
const BUCKETS_MAX: i64 = 1_000;

/// ?1 full since, ?2 at most
const FULL_BUCKETS: &str = "DELETE FROM pace WHERE name IN
  (SELECT name FROM pace WHERE next_free_at < ?1 ORDER BY next_free_at LIMIT ?2)";

/// What is still due is counted up to 1000: more than a thousand is the same news. A tick that handed nothing over
/// knows nothing of the queue: what it refused with last stays until it takes something (`mark_published`).
const TICK: &str = concat!(
    "INSERT INTO relay_health (id, last_tick_at, published, settled, remaining, broker_error)
  SELECT 1, ?1, ?2, ?3, (SELECT count(*) FROM (SELECT 1 FROM ",
    singles!(),
    " AND relay_at <= ?1 LIMIT 1000)), ?4
  WHERE true
  ON CONFLICT (id) DO UPDATE SET last_tick_at = excluded.last_tick_at, published = excluded.published,
    settled = excluded.settled, remaining = excluded.remaining,
    broker_error = coalesce(excluded.broker_error, relay_health.broker_error)
  RETURNING remaining"
);
