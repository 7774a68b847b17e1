//! Where input goes that nobody understood, until somebody decides.

use libsql::Value;
use serde::Serialize;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::operator_log::Order;
use super::row::{FromRow, Row, row, rows_at, words};
use crate::outbox::time::Millis;

/// Something that nobody understood.
#[derive(Clone, Debug, Serialize)]
pub struct Parked {
    /// SHA-256 of source, reason and whole body, in hex: the same input twice is one entry.
    pub hash: String,
    /// Where it came from: a code of ours.
    pub source: &'static str,
    /// Why it was not understood: a code of ours.
    pub reason: &'static str,
    /// Where it came from more exactly, where that is known: a row's id, an event's id.
    pub origin: Option<String>,
    /// The raw body, cut to a limit. May hold personal data.
    pub body: String,
    /// The length of the whole body in bytes.
    pub body_bytes: usize,
}

/// "Keep these for a person." One statement for all. What was decided before is asked again.
///
/// Repeatable: the counter of sightings may then count one sighting twice, and nothing depends on it.
///
/// # Errors
/// [`DatabaseError`]; then the input must not be acknowledged. `SchemaMismatch` where program and schema do not fit:
/// the program that does may well understand the input.
pub async fn park(database: &impl Database, parked: &[Parked], now: Millis) -> Result<(), DatabaseError> {
    let list = Value::Text(serde_json::json!(parked).to_string());
    database
        .run(Transaction::repeatable_write(vec![
            schema_guard(),
            Statement::new(PARK, vec![list, Value::Integer(now.get())]),
        ]))
        .await
        .map(|_| ())
        .map_err(guarded)
}

/// A body that was emptied when its entry was closed is kept again. ?1 parked, ?2 now
const PARK: &str = "INSERT INTO parking (hash, source, reason, origin, body, body_bytes, first_seen_at, last_seen_at)
  SELECT j.value ->> 'hash', j.value ->> 'source', j.value ->> 'reason', j.value ->> 'origin', j.value ->> 'body',
    j.value ->> 'body_bytes', ?2, ?2
  FROM json_each(?1) j WHERE true
  ON CONFLICT (hash) DO UPDATE SET times = times + 1, last_seen_at = ?2, state = 'parked', closed_at = NULL,
    body = CASE WHEN body = '' THEN excluded.body ELSE body END, origin = coalesce(origin, excluded.origin)";

/// Where an entry stands. The words are those of the database column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for a person.
    Parked,
    /// It was understood after all.
    Replayed,
    /// A person has decided that it is not needed.
    Discarded,
}

impl State {
    /// The state of this name.
    pub fn of(text: &str) -> Option<Self> {
        match text {
            "parked" => Some(Self::Parked),
            "replayed" => Some(Self::Replayed),
            "discarded" => Some(Self::Discarded),
            _ => None,
        }
    }

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Replayed => "replayed",
            Self::Discarded => "discarded",
        }
    }
}

words!(State);

/// An entry without its body.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of parking, documented in the migrations"
)]
pub struct Entry {
    pub hash: String,
    pub source: String,
    pub reason: String,
    pub origin: Option<String>,
    pub body_bytes: usize,
    /// 1 where there was a body that is no longer kept.
    pub body_gone: u8,
    pub times: i64,
    pub first_seen_at: i64,
    pub last_seen_at: i64,
    pub state: State,
    pub closed_at: Option<i64>,
}

row!(Entry {
    hash,
    source,
    reason,
    origin,
    body_bytes,
    body_gone,
    times,
    first_seen_at,
    last_seen_at,
    state,
    closed_at
});

/// An entry with its body. No `Debug`: the body may hold personal data.
#[derive(Clone)]
pub struct Whole {
    /// The entry.
    pub entry: Entry,
    /// What is kept of the input.
    pub body: String,
}

impl FromRow for Whole {
    fn from_row(row: Row<'_>) -> Result<Self, DatabaseError> {
        Ok(Self {
            entry: Entry::from_row(row)?,
            body: row.get("body")?,
        })
    }
}

/// "What waits for a person?" By first sighting and hash, after that of the page before. Or what has been decided: by
/// the time of that and hash.
///
/// # Errors
/// [`DatabaseError`].
pub async fn list(
    database: &impl Database,
    state: State,
    after: Option<(i64, &str)>,
    rows_max: i64,
) -> Result<Vec<Entry>, DatabaseError> {
    let (at, hash) = after.unwrap_or((i64::MIN, ""));
    let page = vec![
        Value::Integer(at),
        Value::Text(hash.to_owned()),
        Value::Integer(rows_max),
    ];
    let statement = match state {
        State::Parked => Statement::new(OPEN, page),
        State::Replayed | State::Discarded => {
            let state = Value::Text(state.as_str().to_owned());
            Statement::new(CLOSED, page.into_iter().chain([state]).collect())
        }
    };
    let results = database
        .run(Transaction::read(vec![statement]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 0)
}

macro_rules! columns {
    () => {
        "hash, source, reason, origin, body_bytes, body = '' AND body_bytes > 0 AS body_gone, times, first_seen_at,
         last_seen_at, state, closed_at"
    };
}

/// ?1 after this time, ?2 and hash, ?3 rows at most
const OPEN: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM parking WHERE state = 'parked' AND (first_seen_at, hash) > (?1, ?2)
      ORDER BY first_seen_at, hash LIMIT ?3"
);

/// ?1 after this time, ?2 and hash, ?3 rows at most, ?4 state
const CLOSED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM parking WHERE state <> 'parked' AND state = ?4 AND (closed_at, hash) > (?1, ?2)
      ORDER BY closed_at, hash LIMIT ?3"
);

/// "What is in this one?" The only question that brings a body back, besides a replay; it is written down.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn show(database: &impl Database, hash: &str, order: &Order<'_>) -> Result<Option<Whole>, DatabaseError> {
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(LINE, line_args(hash, order, "parking_shown", "shown")),
            whole_of(hash),
        ]))
        .await
        .map_err(guarded)?;
    Ok(rows_at(&results, 2)?.into_iter().next())
}

/// "What was it, before it is replayed?"
///
/// # Errors
/// [`DatabaseError`].
pub async fn whole(database: &impl Database, hash: &str) -> Result<Option<Whole>, DatabaseError> {
    let results = database
        .run(Transaction::read(vec![whole_of(hash)]))
        .await
        .map_err(guarded)?;
    Ok(rows_at(&results, 0)?.into_iter().next())
}

pub(super) fn whole_of(hash: &str) -> Statement {
    Statement::new(WHOLE, vec![Value::Text(hash.to_owned())])
}

/// ?1 hash
const WHOLE: &str = concat!("SELECT ", columns!(), ", body FROM parking WHERE hash = ?1");

/// "This was an envelope of ours after all, and it points to this row." A row that waits is due for the relay as soon as
/// its own times allow; a claimed or a settled one stays. Returns the entry where there is such a row, and where the
/// entry was still open.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn replay_envelope(
    database: &impl Database,
    hash: &str,
    outbox_id: &str,
    order: &Order<'_>,
) -> Result<Option<Entry>, DatabaseError> {
    let id = Value::Text(outbox_id.to_owned());
    let now = Value::Integer(order.now.get());
    let mut line = line_args(hash, order, "parking_replayed", State::Replayed.as_str());
    line.push(id.clone());
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(ROW_LINE, line),
            Statement::new(BRING, vec![id.clone(), now.clone(), Value::Text(hash.to_owned())]),
            Statement::new(REPLAYED, vec![Value::Text(hash.to_owned()), now, id]),
        ]))
        .await
        .map_err(guarded)?;
    Ok(rows_at(&results, 3)?.into_iter().next())
}

/// "This was understood after all, and its effects are written." Returns the entry where it was still open.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn understood(
    database: &impl Database,
    hash: &str,
    order: &Order<'_>,
) -> Result<Option<Entry>, DatabaseError> {
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(
                UNDERSTOOD_LINE,
                line_args(hash, order, "parking_replayed", State::Replayed.as_str()),
            ),
            Statement::new(
                UNDERSTOOD,
                vec![Value::Text(hash.to_owned()), Value::Integer(order.now.get())],
            ),
        ]))
        .await
        .map_err(guarded)?;
    Ok(rows_at(&results, 2)?.into_iter().next())
}

/// The body is not needed any more. ?1 hash, ?2 now
const UNDERSTOOD: &str = concat!(
    "UPDATE parking SET state = 'replayed', closed_at = ?2, body = ''
     WHERE hash = ?1 AND state = 'parked'
     RETURNING ",
    columns!()
);

/// Never earlier than the row may be tried, never later than it would be anyway; the state stays.
/// ?1 outbox id, ?2 now, ?3 hash
const BRING: &str = "UPDATE outbox SET
    relay_at = min(relay_at, max(?2, coalesce(next_attempt_at, 0), coalesce(not_before, 0))), updated_at = ?2
  WHERE id = ?1 AND status IN ('pending', 'enqueued', 'retry')
    AND EXISTS (SELECT 1 FROM parking WHERE hash = ?3 AND state = 'parked')";

/// What was understood does not need its body any more. ?1 hash, ?2 now, ?3 outbox id
const REPLAYED: &str = concat!(
    "UPDATE parking SET state = 'replayed', closed_at = ?2, body = '', origin = ?3
     WHERE hash = ?1 AND state = 'parked' AND EXISTS (SELECT 1 FROM outbox WHERE id = ?3)
     RETURNING ",
    columns!()
);

pub(super) fn line_args(hash: &str, order: &Order<'_>, action: &'static str, result: &'static str) -> Vec<Value> {
    vec![
        Value::Text(hash.to_owned()),
        Value::Integer(order.now.get()),
        Value::Text(order.operator.to_owned()),
        Value::Text(action.to_owned()),
        Value::Text(result.to_owned()),
        order.note.map_or(Value::Null, |note| Value::Text(note.to_owned())),
    ]
}

/// ?1 hash, ?2 now, ?3 operator, ?4 action, ?5 result, ?6 note
macro_rules! line {
    () => {
        "INSERT INTO operator_log (at, operator, action, subject, result, note)
         SELECT ?2, ?3, ?4, hash, ?5, ?6 FROM parking WHERE hash = ?1"
    };
}

/// Where there is such an entry.
const LINE: &str = line!();

/// Where it is still open, and an event.
const UNDERSTOOD_LINE: &str = concat!(line!(), " AND state = 'parked' AND source = 'receipts'");

/// Where there is such a row, too. ?7 outbox id
const ROW_LINE: &str = concat!(
    line!(),
    " AND state = 'parked' AND EXISTS (SELECT 1 FROM outbox WHERE id = ?7)"
);
