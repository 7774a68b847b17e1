//! Where input goes that nobody understood.

use libsql::Value;
use serde::Serialize;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use crate::outbox::time::Millis;

/// Something that nobody understood.
#[derive(Clone, Debug, Serialize)]
pub struct Parked {
    /// SHA-256 of source and whole body, in hex: the same input twice is one entry.
    pub hash: String,
    /// Where it came from: a code of ours.
    pub source: &'static str,
    /// Why it was not understood: a code of ours.
    pub reason: &'static str,
    /// The raw body, cut to a limit. May hold personal data.
    pub body: String,
    /// The length of the whole body in bytes.
    pub body_bytes: usize,
}

/// "Keep these for a person." One statement for all.
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

/// ?1 parked, ?2 now
const PARK: &str = "INSERT INTO parking (hash, source, reason, body, body_bytes, first_seen_at, last_seen_at)
  SELECT j.value ->> 'hash', j.value ->> 'source', j.value ->> 'reason', j.value ->> 'body', j.value ->> 'body_bytes',
    ?2, ?2
  FROM json_each(?1) j WHERE true
  ON CONFLICT (hash) DO UPDATE SET times = times + 1, last_seen_at = ?2";
