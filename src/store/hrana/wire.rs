//! The bytes: a transaction becomes a pipeline request, an answer becomes rows or an error. No IO.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use libsql::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::store::database::{DatabaseError, Mode, Rows, Transaction};

/// Servers send blobs without padding; the protocol allows both, and some clients leave stray bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What went wrong with an answer, before anybody decides about repeating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The first step could not get its lock; nothing ran.
    BeginBusy,
    /// The server gave up a transaction that had not committed; nothing of it is left.
    Aborted,
    /// A decided failure, as [`DatabaseError`] names it.
    Database(DatabaseError),
}

/// An answer that was read, and what it says about the stream.
#[derive(Debug)]
pub struct Answer {
    /// One entry per statement, or the failure.
    pub outcome: Result<Vec<Rows>, WireError>,
    /// Set where the server kept the stream open although we asked to close it.
    pub leaked: Option<LeakedStream>,
}

/// A stream that must still be closed, at the address the server named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakedStream {
    /// The server's handle of the stream.
    pub baton: String,
    /// Where follow-up requests must go; the address of the first request where it is missing.
    pub base_url: Option<String>,
}

/// The request body for a transaction: a conditional batch (each step only if the one before is ok and the
/// connection is still in a transaction), then `close`, which must come last.
pub fn transaction_request(transaction: &Transaction) -> String {
    let begin = match transaction.mode {
        Mode::Write => "BEGIN IMMEDIATE",
        Mode::Read => "BEGIN DEFERRED",
    };
    let count = transaction.statements.len();
    let mut steps = Vec::with_capacity(count.saturating_add(3));
    steps.push(json!({ "stmt": { "sql": begin, "want_rows": false } }));
    for (index, statement) in transaction.statements.iter().enumerate() {
        let args: Vec<Json> = statement.args.iter().map(value_to_wire).collect();
        steps.push(json!({
            "condition": after(index),
            "stmt": { "sql": statement.sql, "args": args, "want_rows": true },
        }));
    }
    steps.push(json!({ "condition": after(count), "stmt": { "sql": "COMMIT", "want_rows": false } }));
    let commit = count.saturating_add(1);
    steps.push(json!({
        "condition": { "type": "and", "conds": [
            { "type": "ok", "step": 0 },
            { "type": "not", "cond": { "type": "ok", "step": commit } },
            { "type": "not", "cond": { "type": "is_autocommit" } },
        ]},
        "stmt": { "sql": "ROLLBACK", "want_rows": false },
    }));
    json!({ "requests": [ { "type": "batch", "batch": { "steps": steps } }, { "type": "close" } ] }).to_string()
}

/// The request body that runs a whole script in one transaction. The server's own parser splits it, and an error
/// leaves the transaction open for `close` to roll back.
pub fn sequence_request(script: &str) -> String {
    json!({ "requests": [ { "type": "sequence", "sql": script }, { "type": "close" } ] }).to_string()
}

/// The request body that closes a stream the server kept open.
pub(super) fn close_request(baton: &str) -> String {
    json!({ "baton": baton, "requests": [ { "type": "close" } ] }).to_string()
}

/// The condition "step `index` is ok and the transaction is still open" (a step may have ended it by itself).
fn after(index: usize) -> Json {
    json!({ "type": "and", "conds": [
        { "type": "ok", "step": index },
        { "type": "not", "cond": { "type": "is_autocommit" } },
    ]})
}

fn value_to_wire(value: &Value) -> Json {
    match value {
        Value::Null => json!({ "type": "null" }),
        // A decimal string: a JSON number would lose what does not fit a double.
        Value::Integer(number) => json!({ "type": "integer", "value": number.to_string() }),
        Value::Real(number) => json!({ "type": "float", "value": number }),
        Value::Text(text) => json!({ "type": "text", "value": text }),
        Value::Blob(bytes) => json!({ "type": "blob", "base64": BASE64.encode(bytes) }),
    }
}

#[derive(Deserialize)]
struct PipelineAnswer {
    #[serde(default)]
    baton: Option<String>,
    #[serde(default)]
    base_url: Option<String>,
    results: Vec<StreamResult>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StreamResult {
    Ok { response: Json },
    Error { error: StepError },
}

#[derive(Deserialize)]
struct BatchResult {
    step_results: Vec<Option<StepResult>>,
    step_errors: Vec<Option<StepError>>,
}

#[derive(Deserialize)]
struct StepResult {
    #[serde(default)]
    cols: Vec<Column>,
    #[serde(default)]
    rows: Vec<Vec<Json>>,
    #[serde(default)]
    affected_row_count: u64,
}

#[derive(Deserialize)]
struct Column {
    #[serde(default)]
    name: Option<String>,
}

/// Servers differ here: the code may be missing, and may itself be the extended one. The message is never kept.
#[derive(Deserialize)]
struct StepError {
    #[serde(default)]
    code: Option<String>,
}

impl StepError {
    fn starts_with(&self, prefix: &str) -> bool {
        self.code.as_deref().is_some_and(|code| code.starts_with(prefix))
    }

    /// The lock could not be had, or the server took it back: nothing was or will be committed.
    fn is_lost_lock(&self) -> bool {
        [
            "SQLITE_BUSY",
            "SQLITE_LOCKED",
            "TRANSACTION_TIMEOUT",
            "TRANSACTION_BUSY",
        ]
        .iter()
        .any(|code| self.starts_with(code))
    }
}

/// Reads the answer to a transaction of `count` statements.
///
/// It is committed only if COMMIT's own result is there, and read as success only if every statement has its result.
pub fn read_answer(body: &[u8], count: usize) -> Answer {
    let Ok(answer) = serde_json::from_slice::<PipelineAnswer>(body) else {
        return Answer {
            outcome: Err(ambiguous()),
            leaked: None,
        };
    };
    let leaked = answer.baton.map(|baton| LeakedStream {
        baton,
        base_url: answer.base_url,
    });
    let outcome = match answer.results.into_iter().next() {
        Some(StreamResult::Ok { response }) => read_batch(response, count),
        // The batch as a whole was refused: unparsable SQL ran nothing, a response that grew too large rolls back
        // with the stream. Neither can have committed.
        Some(StreamResult::Error { error }) if error.is_lost_lock() => Err(WireError::Aborted),
        // We opened the stream with this very request: when it went away, nobody says how far it had come.
        Some(StreamResult::Error { error }) if error.starts_with("STREAM_") => Err(ambiguous()),
        Some(StreamResult::Error { .. }) => Err(WireError::Database(DatabaseError::Failed { statement: count })),
        None => Err(ambiguous()),
    };
    Answer { outcome, leaked }
}

/// Reads the answer to [`sequence_request`]: whether it ran, and a stream that the server kept. A failing statement
/// has no position here.
pub(super) fn read_sequence(body: &[u8]) -> (Result<(), WireError>, Option<LeakedStream>) {
    let Ok(answer) = serde_json::from_slice::<PipelineAnswer>(body) else {
        return (Err(ambiguous()), None);
    };
    let leaked = answer.baton.map(|baton| LeakedStream {
        baton,
        base_url: answer.base_url,
    });
    let outcome = match answer.results.into_iter().next() {
        // The one proof that the script ran to its end, its COMMIT included.
        Some(StreamResult::Ok { response }) if response.get("type").is_some_and(|kind| kind == "sequence") => Ok(()),
        Some(StreamResult::Ok { .. }) => Err(ambiguous()),
        Some(StreamResult::Error { error }) if error.is_lost_lock() => Err(WireError::BeginBusy),
        Some(StreamResult::Error { error }) if error.starts_with("STREAM_") => Err(ambiguous()),
        Some(StreamResult::Error { error }) if error.starts_with("SQLITE_CONSTRAINT") => {
            Err(WireError::Database(DatabaseError::Constraint { statement: 0 }))
        }
        Some(StreamResult::Error { .. }) => Err(WireError::Database(DatabaseError::Failed { statement: 0 })),
        None => Err(ambiguous()),
    };
    (outcome, leaked)
}

fn read_batch(mut response: Json, count: usize) -> Result<Vec<Rows>, WireError> {
    let batch: BatchResult = response
        .get_mut("result")
        .map(Json::take)
        .and_then(|result| serde_json::from_value(result).ok())
        .ok_or_else(ambiguous)?;
    let steps = count.saturating_add(3);
    if batch.step_results.len() != steps || batch.step_errors.len() != steps {
        return Err(ambiguous());
    }
    let committed = batch
        .step_results
        .get(count.saturating_add(1))
        .is_some_and(Option::is_some);
    if !committed {
        return Err(first_failure(&batch, count));
    }
    // BEGIN comes first and COMMIT, ROLLBACK last; what lies between belongs to the statements.
    let mut results = Vec::with_capacity(count);
    for step in batch.step_results.into_iter().skip(1).take(count) {
        results.push(rows_of(step.ok_or_else(ambiguous)?).ok_or_else(ambiguous)?);
    }
    Ok(results)
}

/// The first step that says why COMMIT has no result.
fn first_failure(batch: &BatchResult, count: usize) -> WireError {
    let Some((step, error)) = batch
        .step_errors
        .iter()
        .enumerate()
        .find_map(|(step, error)| error.as_ref().map(|error| (step, error)))
    else {
        // No result and no error: a statement ended the transaction by itself, or the answer is not whole.
        return ambiguous();
    };
    match step.checked_sub(1) {
        None if error.is_lost_lock() => WireError::BeginBusy,
        None => WireError::Database(DatabaseError::Failed { statement: count }),
        Some(_) if error.is_lost_lock() => WireError::Aborted,
        Some(statement) if statement >= count => commit_failure(batch, count, error),
        Some(statement) if error.starts_with("SQLITE_CONSTRAINT") => {
            WireError::Database(DatabaseError::Constraint { statement })
        }
        Some(statement) => WireError::Database(DatabaseError::Failed { statement }),
    }
}

/// What it means that nothing failed before COMMIT. A deferred constraint refuses it for certain. Another failure may
/// come after the commit (a lost connection to the primary, an error of the disk), unless ROLLBACK found the
/// transaction still open.
fn commit_failure(batch: &BatchResult, count: usize, error: &StepError) -> WireError {
    let failed = |step: usize| matches!(batch.step_errors.get(step), Some(Some(_)));
    let rolled_back = matches!(batch.step_results.get(count.saturating_add(2)), Some(Some(_)));
    if !failed(count.saturating_add(1)) {
        // ROLLBACK alone has an error: the answer does not say what became of COMMIT.
        ambiguous()
    } else if error.starts_with("SQLITE_CONSTRAINT") {
        WireError::Database(DatabaseError::Constraint { statement: count })
    } else if rolled_back {
        WireError::Database(DatabaseError::Failed { statement: count })
    } else {
        ambiguous()
    }
}

fn rows_of(step: StepResult) -> Option<Rows> {
    let columns: Vec<String> = step
        .cols
        .into_iter()
        .map(|column| column.name.unwrap_or_default())
        .collect();
    let mut rows = Vec::with_capacity(step.rows.len());
    for wire_row in step.rows {
        let row: Vec<Value> = wire_row.iter().map(value_from_wire).collect::<Option<_>>()?;
        if row.len() != columns.len() {
            return None;
        }
        rows.push(row);
    }
    Some(Rows {
        columns,
        rows,
        affected: step.affected_row_count,
    })
}

/// Lenient where servers differ: integers as strings or numbers, a float without a value (NaN), any base64 padding.
fn value_from_wire(wire: &Json) -> Option<Value> {
    let value = wire.get("value");
    match wire.get("type")?.as_str()? {
        "null" => Some(Value::Null),
        "integer" => {
            let number = value?;
            number
                .as_i64()
                .or_else(|| number.as_str()?.parse().ok())
                .map(Value::Integer)
        }
        "float" => Some(value.and_then(Json::as_f64).map_or(Value::Null, Value::Real)),
        "text" => Some(Value::Text(value?.as_str()?.to_owned())),
        "blob" => BASE64.decode(wire.get("base64")?.as_str()?).ok().map(Value::Blob),
        _ => None,
    }
}

fn ambiguous() -> WireError {
    WireError::Database(DatabaseError::Ambiguous)
}
