//! The dead-letter queue's question: what does the row say that the exhausted message pointed to?

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::row::{row, rows_at};
use crate::outbox::time::Millis;

/// "These messages ran out of deliveries." The queue's exhaustion alone never ends a row: one that waits goes back to
/// `retry`; a claimed one keeps its claim, and the relay looks at its end; a settled one stays.
///
/// Returns the ids that have a row. Repeatable: a second run only moves the time.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn return_to_retry(
    database: &impl Database,
    ids: &[&str],
    now: Millis,
    next_attempt_at: Millis,
) -> Result<Vec<String>, DatabaseError> {
    struct Known {
        id: String,
    }
    row!(Known { id });
    let ids = Value::Text(serde_json::json!(ids).to_string());
    let results = database
        .run(Transaction::repeatable_write(vec![
            schema_guard(),
            Statement::new(
                RETURN,
                vec![
                    ids.clone(),
                    Value::Integer(now.get()),
                    Value::Integer(next_attempt_at.get()),
                ],
            ),
            Statement::new(KNOWN, vec![ids]),
        ]))
        .await
        .map_err(guarded)?;
    Ok(rows_at::<Known>(&results, 2)?
        .into_iter()
        .map(|known| known.id)
        .collect())
}

/// pending, enqueued, retry -> retry; never earlier than it was to be tried anyway, or than its window opens.
/// ?1 ids, ?2 now, ?3 next attempt
const RETURN: &str = "UPDATE outbox SET
    status = 'retry', cause = 'queue_exhausted',
    next_attempt_at = max(?3, coalesce(next_attempt_at, 0), coalesce(not_before, 0)),
    relay_at = max(?3, coalesce(next_attempt_at, 0), coalesce(not_before, 0)),
    updated_at = ?2
  WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('pending', 'enqueued', 'retry')";

/// ?1 ids
const KNOWN: &str = "SELECT o.id FROM json_each(?1) j JOIN outbox o ON o.id = j.value";
