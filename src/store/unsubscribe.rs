//! The recipient's own word: no more mails of this kind.

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::row::{row, rows_at};
use super::shared_sql::movable;
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// Waiting rows that one click ends at most, so that a click stays one short transaction. What is left finds the
/// suppression at its claim.
const ENDED_MAX: i64 = 1_000;

/// What a click did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribed {
    /// Waiting rows that it ended.
    pub ended: usize,
    /// Those among them that may have gone out: they ask for a person now.
    pub unknown: Vec<String>,
}

/// "The recipient of this row wants no more mails of its family." `None` where there is no such row.
///
/// Repeatable: the wish is the same, and what waited has been ended.
///
/// # Errors
/// [`DatabaseError`]; the recipient is told to try again.
pub async fn unsubscribe(
    database: &impl Database,
    outbox_id: &str,
    now: Millis,
) -> Result<Option<Unsubscribed>, DatabaseError> {
    struct Found {}
    row!(Found {});
    struct Ended {
        id: String,
        status: Status,
    }
    row!(Ended { id, status });
    let id = Value::Text(outbox_id.to_owned());
    let at = Value::Integer(now.get());
    let statements = vec![
        schema_guard(),
        Statement::new(SUPPRESS, vec![id.clone(), at.clone()]),
        Statement::new(END_WAITING, vec![id.clone(), at, Value::Integer(ENDED_MAX)]),
        Statement::new(FOUND, vec![id]),
    ];
    let results = database
        .run(Transaction::repeatable_write(statements))
        .await
        .map_err(guarded)?;
    let ended: Vec<Ended> = rows_at(&results, 2)?;
    let found = !rows_at::<Found>(&results, 3)?.is_empty();
    Ok(found.then(|| Unsubscribed {
        ended: ended.len(),
        unknown: ended
            .into_iter()
            .filter(|row| row.status == Status::Unknown)
            .map(|row| row.id)
            .collect(),
    }))
}

/// The recipient's wish, for this family alone: a suppression of every family stands beside it untouched. One that is
/// in force for good stays as it is, with the reason that it has; one that was lifted, or would end by itself, is
/// renewed. ?1 id, ?2 now
const SUPPRESS: &str = "INSERT INTO suppressions (recipient_hash, family, reason, fact_at, outbox_id, created_at)
  SELECT o.recipient_hash, o.family, 'unsubscribed', ?2, o.id, ?2 FROM outbox o WHERE o.id = ?1
  ON CONFLICT (recipient_hash, family) DO UPDATE SET
    reason = excluded.reason, until = NULL, lifted_at = NULL, fact_at = excluded.fact_at,
    outbox_id = excluded.outbox_id, created_at = excluded.created_at
  WHERE suppressions.lifted_at IS NOT NULL OR suppressions.until IS NOT NULL";

/// pending, enqueued, retry, processing (its claim ended) -> suppressed (unknown where in doubt). What a living claim
/// holds is its worker's. ?1 id, ?2 now, ?3 rows at most
const END_WAITING: &str = concat!(
    "UPDATE outbox SET
       status = CASE WHEN doubts > 0 THEN 'unknown' ELSE 'suppressed' END,
       cause = 'unsubscribed', last_error = 'unsubscribed',
       settled_at = CASE WHEN doubts = 0 THEN ?2 END,
       claim_token = NULL, claim_expires_at = NULL, suspect = 0, lone_claim = 0,
       next_attempt_at = NULL, relay_at = NULL, updated_at = ?2
     WHERE id IN (SELECT o.id FROM outbox known JOIN outbox o
         ON o.recipient_hash = known.recipient_hash AND o.family = known.family
       WHERE known.id = ?1 AND o.relay_at IS NOT NULL AND ",
    movable!("?2"),
    " LIMIT ?3)
     RETURNING id, status"
);

/// ?1 id
const FOUND: &str = "SELECT id FROM outbox WHERE id = ?1";
