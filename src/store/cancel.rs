//! The producer's second thought: this mail is no longer owed.

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::row::{row, rows_at};
use super::shared_sql::movable;
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// The cause of every row that a producer called off.
pub const CAUSE: &str = "canceled_by_producer";

/// Where a row stands after somebody wanted it canceled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canceled {
    /// Its state now.
    pub status: Status,
    /// Why; a code of ours.
    pub cause: String,
    /// 1 where this request moved it.
    pub moved: u8,
    /// 1 where it is frozen together with others: it goes out with them, or not at all.
    pub together: u8,
}

row!(Canceled {
    status,
    cause,
    moved,
    together
});

/// "This mail is no longer owed." `None` where there is no such row.
///
/// Repeatable: a second run finds the row as the first one left it.
///
/// # Errors
/// [`DatabaseError`]; the producer asks again.
pub async fn cancel(database: &impl Database, id: &str, now: Millis) -> Result<Option<Canceled>, DatabaseError> {
    let id = Value::Text(id.to_owned());
    let at = Value::Integer(now.get());
    let statements = vec![
        schema_guard(),
        Statement::new(CANCEL, vec![id.clone(), at.clone()]),
        Statement::new(CANCELED, vec![id, at]),
    ];
    let results = database
        .run(Transaction::repeatable_write(statements))
        .await
        .map_err(guarded)?;
    Ok(rows_at(&results, 2)?.into_iter().next())
}

/// pending, enqueued, retry, processing (its claim ended), dead_letter -> canceled (unknown where in doubt: what may have
/// gone out cannot be called back). What a living claim holds is its worker's; and what is frozen with others stays
/// with them, or one mail's cancel would leave all of them in doubt. ?1 id, ?2 now
const CANCEL: &str = concat!(
    "UPDATE outbox SET
       status = CASE WHEN doubts > 0 THEN 'unknown' ELSE 'canceled' END,
       cause = 'canceled_by_producer', last_error = NULL, dead_class = NULL,
       settled_at = CASE WHEN doubts = 0 THEN ?2 END,
       claim_token = NULL, claim_expires_at = NULL, suspect = 0, lone_claim = 0,
       next_attempt_at = NULL, relay_at = NULL, updated_at = ?2
     WHERE id IN (SELECT o.id FROM outbox o WHERE o.id = ?1 AND o.batch_id IS NULL AND (o.status = 'dead_letter' OR ",
    movable!("?2"),
    "))"
);

/// ?1 id, ?2 now
const CANCELED: &str = "SELECT status, cause, updated_at = ?2 AND cause = 'canceled_by_producer' AS moved, batch_id IS NOT NULL AS together
  FROM outbox WHERE id = ?1";
