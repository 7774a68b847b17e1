//! Replays: what a backlog comes to, item by item, before it is recorded, while it is, and afterwards.

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::guarded;
use super::intake::{NewIntent, Recorded, RecordedIntent, is_changed, record_with};
use super::row::{row, rows_at};
use crate::outbox::intent::ReplayMode;
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// Where rows come from that no ordinary producer brings.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    /// The name of the replay.
    pub batch: &'a str,
    /// What it does with new facts.
    pub mode: ReplayMode,
    /// Intents that the request itself contradicts: they are recorded nowhere.
    pub contradicted: usize,
}

impl Replay<'_> {
    /// The line of the request in the list of replays.
    pub(super) fn line(&self, list: &Value, now: Millis) -> Statement {
        Statement::new(
            LINE,
            vec![
                list.clone(),
                Value::Text(self.batch.to_owned()),
                Value::Text(self.mode.as_str().to_owned()),
                Value::Integer(i64::try_from(self.contradicted).unwrap_or(i64::MAX)),
                Value::Integer(now.get()),
            ],
        )
    }
}

/// "Record what is new of these, and say of each what it is." The transaction of the intake, but for a known key with
/// another meaning, which keeps back its own intent alone.
///
/// Repeatable, as the intake is.
///
/// # Errors
/// [`DatabaseError`], as for the intake.
pub async fn record_replay(
    database: &impl Database,
    intents: &[NewIntent],
    now: Millis,
    replay: &Replay<'_>,
) -> Result<Vec<RecordedIntent>, DatabaseError> {
    match record_with(database, intents, now, Some(replay)).await? {
        Recorded::Committed(recorded) => Ok(recorded),
        // Nothing in this transaction refuses it.
        Recorded::MeaningConflict => Err(DatabaseError::Shape),
    }
}

/// What one intent of a replay would come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// Its position in the list.
    pub position: usize,
    /// The row that its key, or its send's name, finds.
    pub id: Option<String>,
    /// Where that row stands.
    pub status: Option<Status>,
    /// 1: the key is known with another meaning.
    pub changed: u8,
    /// 1: a suppression of its recipient is in force.
    pub suppressed: u8,
}

row!(Foreseen {
    position,
    id,
    status,
    changed,
    suppressed,
});

/// "What would these come to?" It writes nothing.
///
/// # Errors
/// [`DatabaseError`].
pub async fn foresee(
    database: &impl Database,
    intents: &[NewIntent],
    now: Millis,
) -> Result<Vec<Foreseen>, DatabaseError> {
    let list = Value::Text(serde_json::json!(intents).to_string());
    let results = database
        .run(Transaction::read(vec![Statement::new(
            FORESEE,
            vec![list, Value::Integer(now.get())],
        )]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 0)
}

/// What the requests of one replay came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// `send` or `backfill`.
    pub mode: String,
    /// Requests.
    pub requests: i64,
    /// Facts that were new.
    pub fresh: i64,
    /// Facts that were known.
    pub known: i64,
    /// Facts that were known with another meaning.
    pub changed: i64,
    /// The first request (Unix ms).
    pub first_at: i64,
    /// The last one (Unix ms).
    pub last_at: i64,
}

row!(Totals {
    mode,
    requests,
    fresh,
    known,
    changed,
    first_at,
    last_at,
});

/// "What did this replay come to?" One entry for each mode that it was run in.
///
/// # Errors
/// [`DatabaseError`].
pub async fn totals(database: &impl Database, batch: &str) -> Result<Vec<Totals>, DatabaseError> {
    let results = database
        .run(Transaction::read(vec![Statement::new(
            TOTALS,
            vec![Value::Text(batch.to_owned())],
        )]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 0)
}

/// A request that is repeated has its line. ?1 intents, ?2 batch, ?3 mode, ?4 contradicted within the request, ?5 now
const LINE: &str = concat!(
    "INSERT INTO replays (request, batch, mode, fresh, known, changed, at)
     SELECT ?1 ->> '$[0].id', ?2, ?3, sum(page.is_new), sum(page.copies) + sum(NOT page.is_new AND NOT page.changed),
       ?4 + sum(NOT page.is_new AND page.changed), ?5
     FROM (SELECT o.id IS NOT NULL AS is_new, j.value ->> 'copies' AS copies,
         o.id IS NULL AND ",
    is_changed!(),
    " AS changed
       FROM json_each(?1) j LEFT JOIN outbox o ON o.id = j.value ->> 'id') AS page
     WHERE true
     ON CONFLICT (request) DO NOTHING"
);

/// ?1 intents, ?2 now
const FORESEE: &str = concat!(
    "SELECT j.key AS position, o.id, o.status, ",
    is_changed!(),
    " AS changed,
       EXISTS (SELECT 1 FROM suppressions s
         WHERE s.recipient_hash = j.value ->> 'recipient_hash' AND s.family IN ('*', j.value ->> 'family')
           AND s.lifted_at IS NULL AND (s.until IS NULL OR s.until > ?2)) AS suppressed
     FROM json_each(?1) j LEFT JOIN outbox o ON o.id = coalesce(
       (SELECT known.outbox_id FROM json_each(j.value, '$.keys') k
         JOIN intent_keys known ON known.key = k.value ->> 'key' LIMIT 1),
       (SELECT named.id FROM outbox named
         WHERE named.send_id = j.value ->> 'send_id' AND named.relay_at IS NOT NULL ORDER BY named.seq LIMIT 1))
     ORDER BY j.key"
);

/// ?1 batch
const TOTALS: &str =
    "SELECT mode, count(*) AS requests, sum(fresh) AS fresh, sum(known) AS known, sum(changed) AS changed,
    min(at) AS first_at, max(at) AS last_at
  FROM replays WHERE batch = ?1 GROUP BY mode ORDER BY mode";
