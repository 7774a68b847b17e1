//! The figures that a monitoring system collects: one round trip, and a bounded number of rows.

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::guarded;
use super::row::{row, rows_at};
use super::shared_sql::{bulk_waiting, held, singles, waiting_families};
use crate::outbox::time::Millis;

/// Rows that one figure looks at at most: it is asked for several times a minute, and the newest events, or the open rows
/// that the relay looks at first, tell the same story as all of them.
pub const METRIC_ROWS_MAX: i64 = 1_000;

/// The figures that stand for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Rows that were ever recorded: none is ever removed.
    pub minted: i64,
    /// Rows of which nobody knows what became, and nobody has decided about; at most [`METRIC_ROWS_MAX`].
    pub quarantine: i64,
    /// Claims among the newest [`METRIC_ROWS_MAX`] events that ended in a settled row.
    pub gaps: i64,
    /// The gap between claim and settle that 99 of 100 of them did not exceed, in ms.
    pub gap_p99_ms: Option<i64>,
    /// Since when the row that has waited the longest could have moved (Unix ms). Bulk rows count from their admission on:
    /// before it they wait for the pace, as they should.
    pub waiting_since: Option<i64>,
    /// When the bulk row became due that waits for its admission the longest (Unix ms).
    pub bulk_waiting_since: Option<i64>,
}

row!(Figures {
    minted,
    quarantine,
    gaps,
    gap_p99_ms,
    waiting_since,
    bulk_waiting_since,
});

/// One count of one family; see `tallies`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// What was counted.
    pub name: String,
    /// Whose.
    pub family: String,
    /// How often, since the beginning.
    pub value: i64,
}

row!(Tally { name, family, value });

/// "How many, how late, and how doubtful?" `held`: JSON array of the families that wait on purpose.
///
/// # Errors
/// [`DatabaseError`].
pub async fn metrics(
    database: &impl Database,
    now: Millis,
    held: &str,
) -> Result<(Figures, Vec<Tally>), DatabaseError> {
    let most = Value::Integer(METRIC_ROWS_MAX);
    let results = database
        .run(Transaction::read(vec![
            Statement::new(
                FIGURES,
                vec![most.clone(), Value::Integer(now.get()), Value::Text(held.to_owned())],
            ),
            Statement::new(TALLIES, vec![most]),
        ]))
        .await
        .map_err(guarded)?;
    let figures = rows_at(&results, 0)?.into_iter().next().ok_or(DatabaseError::Shape)?;
    Ok((figures, rows_at(&results, 1)?))
}

/// ?1 rows at most, ?2 now, ?3 families on hold
const FIGURES: &str = concat!(
    "WITH RECURSIVE ",
    waiting_families!(),
    ", page AS MATERIALIZED (
       SELECT s.at - (SELECT claimed.at FROM events claimed
           WHERE claimed.outbox_id = s.outbox_id AND claimed.seq < s.seq AND claimed.to_status = 'processing'
           ORDER BY claimed.seq DESC LIMIT 1) AS gap
       FROM (SELECT * FROM events WHERE seq > (SELECT max(seq) FROM events) - ?1) AS s
       WHERE s.from_status = 'processing' AND s.to_status IN ('sent', 'failed'))
     SELECT
       (SELECT coalesce(max(seq), 0) FROM outbox) AS minted,
       (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE status = 'unknown' AND resolved_at IS NULL AND seq > 0 LIMIT ?1))
         AS quarantine,
       (SELECT count(gap) FROM page) AS gaps,
       (SELECT gap FROM page WHERE gap IS NOT NULL ORDER BY gap
         LIMIT 1 OFFSET (SELECT max(0, (count(gap) * 99 - 1) / 100) FROM page)) AS gap_p99_ms,
       (SELECT min(o.since) FROM (
           SELECT CASE WHEN o.status = 'processing' THEN o.claim_expires_at
               WHEN ",
    held!("?3"),
    " THEN NULL
               WHEN o.bulk = 1 AND o.status = 'enqueued' THEN o.updated_at
               ELSE max(o.created_at, coalesce(o.next_attempt_at, 0), coalesce(o.not_before, 0)) END AS since
           FROM (SELECT * FROM ",
    singles!(),
    " ORDER BY relay_at, seq LIMIT ?1) AS o) AS o
         WHERE o.since <= ?2) AS waiting_since,
       (SELECT min((SELECT min(relay_at) FROM ",
    bulk_waiting!("outbox_due_bulk"),
    " AND outbox.family = waiting.family AND relay_at <= ?2)) FROM waiting
         WHERE NOT EXISTS (SELECT 1 FROM json_each(?3) h WHERE h.value = waiting.family)) AS bulk_waiting_since"
);

/// ?1 at most: a few for each family
const TALLIES: &str = "SELECT name, family, value FROM tallies ORDER BY name, family LIMIT ?1";
