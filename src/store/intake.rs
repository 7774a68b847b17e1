//! Intake's one round trip: the intents, their keys, their letters and their first events, or nothing of them.

use libsql::Value;
use serde::Serialize;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::lists::lists;
use super::row::{row, rows_at};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// A row to insert, with the keys that any accepted secret makes of it.
#[derive(Clone, Debug, Serialize)]
pub struct NewIntent {
    /// The id it gets if it is new.
    pub id: String,
    /// Its family.
    pub family: String,
    /// Its template, unless its content is ready.
    pub template: Option<&'static str>,
    /// The producer's revision.
    pub revision: u32,
    /// Of its meaning, by the first secret.
    pub fingerprint: String,
    /// The encoding of the fingerprint.
    pub fingerprint_version: u32,
    /// The secret of the fingerprint.
    pub fingerprint_secret_id: String,
    /// By a secret of its own.
    pub recipient_hash: String,
    /// By the same secret: which domain it goes to.
    pub domain_hash: String,
    /// The family's, 0 to 9; 0 goes first.
    pub priority: u8,
    /// 1 where the relay admits it to the queue.
    pub bulk: u8,
    /// Goes to the provider.
    pub idempotency_key: String,
    /// `pending`, or `shadowed` for a family in shadow mode.
    pub status: Status,
    /// Why it is in that state.
    pub cause: &'static str,
    /// Its first reservation: when the relay may look (Unix ms). Absent for a shadowed row.
    pub relay_at: Option<i64>,
    /// 1 where the intake itself publishes it.
    pub publish_count: u8,
    /// Not before (Unix ms).
    pub not_before: Option<i64>,
    /// Not at or after (Unix ms).
    pub not_after: Option<i64>,
    /// The letter as JSON. It travels in a list of its own.
    #[serde(skip)]
    pub letter: String,
    /// Its length.
    pub letter_bytes: usize,
    /// One per accepted secret.
    pub keys: Vec<NewKey>,
}

/// One secret's view of an intent.
#[derive(Clone, Debug, Serialize)]
pub struct NewKey {
    /// The business key.
    pub key: String,
    /// The secret that made it.
    pub secret_id: String,
    /// The fingerprint by the same secret.
    pub fingerprint: String,
}

/// Where an intent ended up: in a new row, or in the one that was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedIntent {
    /// Its position in the request.
    pub position: usize,
    /// The row.
    pub id: String,
    /// Its place in the order of publication.
    pub seq: i64,
    /// Its state now.
    pub status: Status,
}

row!(RecordedIntent {
    position,
    id,
    seq,
    status
});

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Every intent has its row.
    Committed(Vec<RecordedIntent>),
    /// A known key came with another meaning; nothing was written.
    MeaningConflict,
}

/// The position of the statement that refuses another meaning under a known key.
const MEANING_AT: usize = 1;

/// "Record these." One batch of set statements; a fixed number, whatever the number of intents, and one more for
/// every two megabytes of letters.
///
/// Repeatable: the ids are chosen before, rows and keys are inserted only where no key is known, and the answer is read
/// back by key, so that a second run finds the rows of the first under the same ids.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn record(database: &impl Database, intents: &[NewIntent], now: Millis) -> Result<Recorded, DatabaseError> {
    #[derive(Serialize)]
    struct Letter<'a> {
        id: &'a str,
        letter: &'a str,
    }
    let list = Value::Text(serde_json::json!(intents).to_string());
    let letters = lists(intents.iter().map(|intent| Letter {
        id: &intent.id,
        letter: &intent.letter,
    }));
    let mut statements = vec![
        schema_guard(),
        Statement::new(REFUSE_OTHER_MEANING, vec![list.clone()]),
        Statement::new(INSERT_ROWS, vec![list.clone(), Value::Integer(now.get())]),
        Statement::new(INSERT_KEYS, vec![list.clone()]),
    ];
    statements.extend(
        letters
            .into_iter()
            .map(|letters| Statement::new(INSERT_LETTERS, vec![letters])),
    );
    let read_back_at = statements.len();
    statements.push(Statement::new(READ_BACK, vec![list]));
    match database.run(Transaction::repeatable_write(statements)).await {
        Ok(results) => Ok(Recorded::Committed(rows_at(&results, read_back_at)?)),
        Err(DatabaseError::Constraint { statement: MEANING_AT }) => Ok(Recorded::MeaningConflict),
        Err(error) => Err(guarded(error)),
    }
}

/// "Which of these have a known key with another meaning?" Asked only after [`Recorded::MeaningConflict`].
///
/// # Errors
/// [`DatabaseError`].
pub async fn conflicting_positions(
    database: &impl Database,
    intents: &[NewIntent],
) -> Result<Vec<usize>, DatabaseError> {
    struct At {
        position: usize,
    }
    row!(At { position });
    let list = Value::Text(serde_json::json!(intents).to_string());
    let results = database
        .run(Transaction::read(vec![Statement::new(OTHER_MEANINGS, vec![list])]))
        .await?;
    Ok(rows_at::<At>(&results, 0)?.into_iter().map(|at| at.position).collect())
}

/// Keys that are known with another meaning. Fingerprints are compared by the secret and the encoding that made the
/// stored one; where those are retired, the key alone decides. ?1 intents
macro_rules! other_meanings {
    () => {
        "FROM json_each(?1) j, json_each(j.value, '$.keys') k
           JOIN intent_keys known ON known.key = k.value ->> 'key'
           JOIN outbox o ON o.id = known.outbox_id
         WHERE o.fingerprint_version = j.value ->> 'fingerprint_version'
           AND EXISTS (SELECT 1 FROM json_each(j.value, '$.keys') s
             WHERE s.value ->> 'secret_id' = o.fingerprint_secret_id AND s.value ->> 'fingerprint' <> o.fingerprint)"
    };
}

const REFUSE_OTHER_MEANING: &str = concat!(
    "INSERT INTO guards (broken) SELECT 'meaning' ",
    other_meanings!(),
    " LIMIT 1"
);

const OTHER_MEANINGS: &str = concat!("SELECT DISTINCT j.key AS position ", other_meanings!());

/// ?1 intents, ?2 now
const INSERT_ROWS: &str = "INSERT INTO outbox (id, family, template, revision, fingerprint, fingerprint_version,
    fingerprint_secret_id, recipient_hash, idempotency_key, status, cause, publish_count, relay_at, not_before, not_after,
    letter_bytes, created_at, updated_at, settled_at, priority, bulk, domain_hash)
  SELECT j.value ->> 'id', j.value ->> 'family', j.value ->> 'template', j.value ->> 'revision',
    j.value ->> 'fingerprint', j.value ->> 'fingerprint_version', j.value ->> 'fingerprint_secret_id',
    j.value ->> 'recipient_hash', j.value ->> 'idempotency_key', j.value ->> 'status', j.value ->> 'cause',
    j.value ->> 'publish_count', j.value ->> 'relay_at', j.value ->> 'not_before', j.value ->> 'not_after',
    j.value ->> 'letter_bytes', ?2, ?2, CASE WHEN j.value ->> 'status' = 'shadowed' THEN ?2 END,
    j.value ->> 'priority', j.value ->> 'bulk', j.value ->> 'domain_hash'
  FROM json_each(?1) j
  WHERE NOT EXISTS (SELECT 1 FROM json_each(j.value, '$.keys') k
    JOIN intent_keys known ON known.key = k.value ->> 'key')
  ORDER BY j.key";

/// Keys of new rows, and keys that a newly accepted secret makes of rows that were known by another. ?1 intents
const INSERT_KEYS: &str = "INSERT INTO intent_keys (key, secret_id, outbox_id)
  SELECT k.value ->> 'key', k.value ->> 'secret_id', coalesce(
    (SELECT known.outbox_id FROM json_each(j.value, '$.keys') other
      JOIN intent_keys known ON known.key = other.value ->> 'key' LIMIT 1),
    j.value ->> 'id')
  FROM json_each(?1) j, json_each(j.value, '$.keys') k
  WHERE true
  ON CONFLICT (key) DO NOTHING";

/// Letters of rows that were new; a known fact's letter finds no row of its id. ?1 letters
const INSERT_LETTERS: &str = "INSERT INTO letters (outbox_id, body)
  SELECT o.id, j.value ->> 'letter' FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
  WHERE true
  ON CONFLICT (outbox_id) DO NOTHING";

/// ?1 intents
const READ_BACK: &str = "SELECT j.key AS position, o.id, o.seq, o.status
  FROM json_each(?1) j
    JOIN intent_keys known ON known.key = j.value ->> '$.keys[0].key'
    JOIN outbox o ON o.id = known.outbox_id
  ORDER BY j.key";
