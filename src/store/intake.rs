//! Intake's one round trip: the intents, their keys, their letters and their first events, or nothing of them.

use std::sync::Arc;

use libsql::Value;
use serde::Serialize;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::lists::lists;
use super::replays::Replay;
use super::row::{row, rows_at};
use super::{send_secrets, tallies};
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
    /// `pending`, `shadowed` for a family in shadow mode, or `expired` where its window lets it go out never.
    pub status: Status,
    /// Why it is in that state.
    pub cause: &'static str,
    /// Its first reservation: when the relay may look (Unix ms). Absent for a row that is settled.
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
    /// Its length, with that of its attachments.
    pub letter_bytes: usize,
    /// The attachments as JSON, in their order. They travel in lists of their own.
    #[serde(skip)]
    pub attachments: Arc<[String]>,
    /// One per accepted secret.
    pub keys: Vec<NewKey>,
    /// Hash of the caller's name of this send.
    pub send_id: Option<String>,
    /// The fact without its revision, one per accepted secret; empty where its mail can have no secret.
    pub facts: Vec<String>,
    /// The codes and links of its letter as canonical JSON.
    pub secret: Option<String>,
    /// How often the request states the same fact once more.
    pub copies: u32,
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
    /// 1: its key is known with another meaning. Seen in replays alone; an intake writes nothing then.
    pub changed: u8,
    /// Whose codes and links its letter has: `stored` for the request's own, `reused` for those of an earlier one.
    pub secret: Option<String>,
}

row!(RecordedIntent {
    position,
    id,
    seq,
    status,
    changed,
    secret,
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
/// every two megabytes of letters, and of attachments.
///
/// Repeatable: the ids are chosen before, rows and keys are inserted only where no key is known, and the answer is read
/// back by key, so that a second run finds the rows of the first under the same ids.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn record(database: &impl Database, intents: &[NewIntent], now: Millis) -> Result<Recorded, DatabaseError> {
    record_with(database, intents, now, None).await
}

/// The transaction of every recording. A replay keeps back what is known with another meaning, item by item; everything
/// else is refused as a whole.
pub(super) async fn record_with(
    database: &impl Database,
    intents: &[NewIntent],
    now: Millis,
    replay: Option<&Replay<'_>>,
) -> Result<Recorded, DatabaseError> {
    #[derive(Serialize)]
    struct Letter<'a> {
        id: &'a str,
        letter: &'a str,
    }
    #[derive(Serialize)]
    struct Attached<'a> {
        id: &'a str,
        position: usize,
        body: &'a str,
    }
    let list = Value::Text(serde_json::json!(intents).to_string());
    let with_letter = intents.iter().filter(|intent| !intent.letter.is_empty());
    let letters = lists(with_letter.map(|intent| Letter {
        id: &intent.id,
        letter: &intent.letter,
    }));
    let attached = intents.iter().flat_map(|intent| {
        let bodies = intent.attachments.iter().enumerate();
        bodies.map(|(position, body)| Attached {
            id: &intent.id,
            position,
            body,
        })
    });
    let batch = replay.map_or(Value::Null, |replay| Value::Text(replay.batch.to_owned()));
    let mut statements = vec![schema_guard()];
    if replay.is_none() {
        statements.push(Statement::new(REFUSE_OTHER_MEANING, vec![list.clone()]));
    }
    statements.extend([
        Statement::new(
            INSERT_ROWS,
            vec![list.clone(), Value::Integer(now.get()), batch.clone()],
        ),
        Statement::new(INSERT_KEYS, vec![list.clone()]),
    ]);
    statements.extend(
        letters
            .into_iter()
            .map(|letters| Statement::new(INSERT_LETTERS, vec![letters])),
    );
    statements.extend(
        lists(attached)
            .into_iter()
            .map(|attached| Statement::new(INSERT_ATTACHMENTS, vec![attached])),
    );
    statements.extend(send_secrets::statements(intents, &list));
    statements.extend(tallies::count(&list, now, replay));
    statements.extend(replay.map(|replay| replay.line(&list, now)));
    let read_back_at = statements.len();
    statements.push(Statement::new(READ_BACK, vec![list, batch]));
    match database.run(Transaction::repeatable_write(statements)).await {
        Ok(results) => Ok(Recorded::Committed(rows_at(&results, read_back_at)?)),
        Err(DatabaseError::Constraint { statement: MEANING_AT }) if replay.is_none() => Ok(Recorded::MeaningConflict),
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

/// Whether `j`'s key is known with another meaning: 1 or 0. As [`OTHER_MEANINGS`], for one intent.
macro_rules! is_changed {
    () => {
        "EXISTS (SELECT 1 FROM json_each(j.value, '$.keys') k
           JOIN intent_keys known ON known.key = k.value ->> 'key'
           JOIN outbox before ON before.id = known.outbox_id
         WHERE before.fingerprint_version = j.value ->> 'fingerprint_version'
           AND EXISTS (SELECT 1 FROM json_each(j.value, '$.keys') s
             WHERE s.value ->> 'secret_id' = before.fingerprint_secret_id
               AND s.value ->> 'fingerprint' <> before.fingerprint))"
    };
}
pub(super) use is_changed;

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

/// A key that is known outranks a send's name. Of new intents with one name only the first is recorded, and none while a
/// row of that name is open; what this very request recorded before, in a run whose answer was lost, counts as open.
/// ?1 intents, ?2 now, ?3 replay
const INSERT_ROWS: &str = "INSERT INTO outbox (id, family, template, revision, fingerprint, fingerprint_version,
    fingerprint_secret_id, recipient_hash, idempotency_key, status, cause, publish_count, relay_at, not_before, not_after,
    letter_bytes, created_at, updated_at, settled_at, send_id, replay_batch, priority, bulk, domain_hash)
  SELECT j.value ->> 'id', j.value ->> 'family', j.value ->> 'template', j.value ->> 'revision',
    j.value ->> 'fingerprint', j.value ->> 'fingerprint_version', j.value ->> 'fingerprint_secret_id',
    j.value ->> 'recipient_hash', j.value ->> 'idempotency_key', j.value ->> 'status', j.value ->> 'cause',
    j.value ->> 'publish_count', j.value ->> 'relay_at', j.value ->> 'not_before', j.value ->> 'not_after',
    j.value ->> 'letter_bytes', ?2, ?2, CASE WHEN j.value ->> 'status' IN ('shadowed', 'expired', 'external') THEN ?2 END,
    j.value ->> 'send_id', ?3, j.value ->> 'priority', j.value ->> 'bulk', j.value ->> 'domain_hash'
  FROM json_each(?1) j
  WHERE NOT EXISTS (SELECT 1 FROM json_each(j.value, '$.keys') k
    JOIN intent_keys known ON known.key = k.value ->> 'key')
    AND (j.value ->> 'send_id' IS NULL OR j.key IN (
      SELECT min(h.key) FROM json_each(?1) h
      WHERE h.value ->> 'send_id' IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM json_each(h.value, '$.keys') k
          JOIN intent_keys known ON known.key = k.value ->> 'key')
        AND NOT EXISTS (SELECT 1 FROM outbox named
          WHERE named.send_id = h.value ->> 'send_id' AND named.relay_at IS NOT NULL)
        AND h.value ->> 'send_id' NOT IN (SELECT own.send_id FROM json_each(?1) s
          JOIN outbox own ON own.id = s.value ->> 'id' WHERE own.send_id IS NOT NULL)
      GROUP BY h.value ->> 'send_id'))
  ORDER BY j.key";

/// Where a send's name kept an intent from being recorded, none of its keys is. Keys of new rows, and keys that a newly accepted secret makes of rows that were known by another. ?1 intents
const INSERT_KEYS: &str = "INSERT INTO intent_keys (key, secret_id, outbox_id)
  SELECT k.value ->> 'key', k.value ->> 'secret_id', o.id
  FROM json_each(?1) j, json_each(j.value, '$.keys') k
    JOIN outbox o ON o.id = coalesce(
      (SELECT known.outbox_id FROM json_each(j.value, '$.keys') other
        JOIN intent_keys known ON known.key = other.value ->> 'key' LIMIT 1),
      j.value ->> 'id')
  WHERE true
  ON CONFLICT (key) DO NOTHING";

/// Letters of rows that were new; a known fact's letter finds no row of its id. ?1 letters
const INSERT_LETTERS: &str = "INSERT INTO letters (outbox_id, body)
  SELECT o.id, j.value ->> 'letter' FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
  WHERE true
  ON CONFLICT (outbox_id) DO NOTHING";

/// As for the letters. ?1 attachments
const INSERT_ATTACHMENTS: &str = "INSERT INTO attachments (outbox_id, position, body)
  SELECT o.id, j.value ->> 'position', j.value ->> 'body' FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
  WHERE true
  ON CONFLICT (outbox_id, position) DO NOTHING";

/// By key; else by the name of the send, of an open row or of one that this very request recorded. ?1 intents, ?2 replay
const READ_BACK: &str = concat!(
    "SELECT j.key AS position, o.id, o.seq, o.status, ?2 IS NOT NULL AND ",
    is_changed!(),
    " AS changed,
    CASE WHEN EXISTS (SELECT 1 FROM json_each(j.value, '$.facts') h
        JOIN letter_secrets kept ON kept.fact = h.value AND kept.outbox_id = o.id)
      THEN (SELECT CASE WHEN l.body -> '$.secret' = json(j.value ->> 'secret') THEN 'stored' ELSE 'reused' END
        FROM letters l WHERE l.outbox_id = o.id) END AS secret
  FROM json_each(?1) j
    JOIN outbox o ON o.id = coalesce(
      (SELECT known.outbox_id FROM intent_keys known WHERE known.key = j.value ->> '$.keys[0].key'),
      (SELECT named.id FROM outbox named
        WHERE named.send_id = j.value ->> 'send_id' AND named.relay_at IS NOT NULL ORDER BY named.seq LIMIT 1),
      (SELECT own.id FROM json_each(?1) s JOIN outbox own ON own.id = s.value ->> 'id'
        WHERE own.send_id = j.value ->> 'send_id' LIMIT 1))
  ORDER BY j.key"
);
