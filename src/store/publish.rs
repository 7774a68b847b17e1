//! The publisher's questions: which rows are owed to the queue, and which did it take. Which bulk rows are admitted is
//! asked in `admit`.

use libsql::Value;
use serde::Serialize;

use super::admit::{self, AdmitRequest};
use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::row::{FromRow, Row, row, rows_at};
use super::shared_sql::{held, singles, stop_assignments, stop_cause};
use crate::outbox::status::{Standing, Status};
use crate::outbox::time::Millis;

/// A row that is reserved for publication. The reservation is a time until which the relay leaves it alone; the
/// state does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reservation {
    /// The row.
    pub id: String,
    /// Its publications so far, this one included.
    pub publish_count: i64,
    /// Its claims so far.
    pub claim_count: i64,
    /// Not to be delivered before (Unix ms); 0 where it is due.
    pub due_at: i64,
}

row!(Reservation {
    id,
    publish_count,
    claim_count,
    due_at
});

/// "The queue took these." pending, retry -> enqueued, for rows that nobody has moved since they were reserved.
///
/// Returns the ids that were marked. Repeatable: a second run finds nothing left to mark.
///
/// # Errors
/// [`DatabaseError`]; unmarked rows are published once more later, which the claim absorbs.
pub async fn mark_published(
    database: &impl Database,
    reservations: &[Reservation],
    now: Millis,
    relay_at: Millis,
) -> Result<Vec<String>, DatabaseError> {
    struct Marked {
        id: String,
    }
    row!(Marked { id });
    let results = database
        .run(Transaction::repeatable_write(vec![
            Statement::new(
                MARK,
                vec![
                    Value::Text(serde_json::json!(reservations).to_string()),
                    Value::Integer(now.get()),
                    Value::Integer(relay_at.get()),
                ],
            ),
            Statement::new(QUEUE_TAKES, Vec::new()),
        ]))
        .await?;
    Ok(rows_at::<Marked>(&results, 0)?
        .into_iter()
        .map(|marked| marked.id)
        .collect())
}

/// ?1 reservations, ?2 now, ?3 when the relay takes a message for lost that is delivered now; one with a delay so much later
const MARK: &str = "UPDATE outbox SET
    status = 'enqueued', cause = 'published', next_attempt_at = NULL,
    relay_at = ?3 + max(0, (j.value ->> 'due_at') - ?2), updated_at = ?2
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND outbox.status IN ('pending', 'retry')
    AND outbox.publish_count = j.value ->> 'publish_count' AND outbox.claim_count = j.value ->> 'claim_count'
  RETURNING id";

/// How long a dead letter rests before another version tries it, in ms: two versions that run side by side and can both
/// not read it would otherwise hand it to each other at every tick, with an alarm each time.
const DRIVE_AGAIN_AFTER_MS: i64 = 600_000;

/// The queue works again, whoever noticed it.
const QUEUE_TAKES: &str = "UPDATE relay_health SET broker_error = NULL WHERE id = 1 AND broker_error IS NOT NULL";

/// What a page of the relay asks for.
#[derive(Clone, Debug)]
pub struct PageRequest<'a> {
    /// Now.
    pub now: Millis,
    /// At most this many rows.
    pub rows_max: usize,
    /// The first wait before a row is published again, in ms; it doubles with each publication.
    pub republish_base_ms: i64,
    /// The longest such wait, in ms.
    pub republish_cap_ms: i64,
    /// How long a row is put aside that must not be published now, in ms.
    pub put_aside_ms: i64,
    /// The used part of the provider window, in ms.
    pub window_ms: i64,
    /// JSON array of `{family, template, version}` that this version can render.
    pub known_templates: &'a str,
    /// JSON array of families on hold.
    pub held_families: &'a str,
    /// How long admitted bulk rows may take to drain, in ms: two ticks.
    pub drain_ms: i64,
    /// Time between two calls at the provider's pace, in ms; 0 where there is none, and no limit of admission.
    pub pace_interval_ms: i64,
    /// JSON object: the time between two mails of each family that has a pace of its own, in ms.
    pub family_intervals: &'a str,
    /// JSON array of the families that go out in batches.
    pub batch_families: &'a str,
    /// Time between two mails to one domain, in ms; 0 where there is no limit.
    pub domain_interval_ms: i64,
    /// The provider, whose bucket all calls take from.
    pub provider: &'a str,
    /// At most this many rows together with the bulk ones.
    pub rows_max_with_bulk: usize,
    /// How long the rows take at the pace that are delivered at once, in ms.
    pub burst_ms: i64,
}

/// What a page of the relay brought.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Rows to publish: those that are delivered first, the most urgent of them, then the oldest.
    pub reserved: Vec<Reservation>,
    /// Rows that this page ended, drove again or put aside.
    pub moved: usize,
    /// How many of those ask for a person now.
    pub ask_for_a_person: usize,
}

/// "Which rows are owed to the queue?" One page: rows that are over are ended, unreadable ones that this version can
/// read are driven again, paused and held ones are put aside, and the next ones are reserved.
///
/// Not repeated after a lost answer: the reserved rows would be skipped until their reservation ends, which is the
/// same as losing this page; the next tick finds them.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn reserve_page(database: &impl Database, request: &PageRequest<'_>) -> Result<Page, DatabaseError> {
    struct Moved {}
    row!(Moved {});
    let now = Value::Integer(request.now.get());
    let rows = Value::Integer(i64::try_from(request.rows_max).unwrap_or(i64::MAX));
    let known = Value::Text(request.known_templates.to_owned());
    let held = Value::Text(request.held_families.to_owned());
    let admit = AdmitRequest {
        page: request,
        held: held.clone(),
    };
    let statements = vec![
        schema_guard(),
        Statement::new(
            STOP_PAGE,
            vec![
                rows.clone(),
                now.clone(),
                Value::Integer(request.window_ms),
                known.clone(),
            ],
        ),
        Statement::new(
            DRIVE_AGAIN,
            vec![
                rows.clone(),
                now.clone(),
                known,
                Value::Integer(request.now.get().saturating_sub(DRIVE_AGAIN_AFTER_MS)),
            ],
        ),
        Statement::new(
            PUT_ASIDE_PAGE,
            vec![
                rows.clone(),
                now.clone(),
                held,
                Value::Integer(request.now.get().saturating_add(request.put_aside_ms)),
            ],
        ),
        admit::reserve(&admit),
        Statement::new(
            RESERVE,
            vec![
                rows,
                now,
                Value::Integer(request.republish_base_ms),
                Value::Integer(request.republish_cap_ms),
            ],
        ),
    ];
    let results = database.run(Transaction::write(statements)).await.map_err(guarded)?;
    struct Stopped {
        status: Status,
    }
    row!(Stopped { status });
    let stopped: Vec<Stopped> = rows_at(&results, 1)?;
    let mut moved = stopped.len();
    for position in 2..=3 {
        moved = moved.saturating_add(rows_at::<Moved>(&results, position)?.len());
    }
    let mut reserved: Vec<Sequenced> = rows_at(&results, 4)?;
    reserved.extend(rows_at::<Sequenced>(&results, 5)?);
    let now = request.now.get();
    reserved.sort_by_key(|row| (row.reservation.due_at.max(now), row.priority, row.seq));
    Ok(Page {
        reserved: reserved.into_iter().map(|row| row.reservation).collect(),
        moved,
        ask_for_a_person: stopped
            .iter()
            .filter(|row| row.status.standing() == Standing::AsksForAPerson)
            .count(),
    })
}

struct Sequenced {
    priority: u8,
    seq: i64,
    reservation: Reservation,
}

impl FromRow for Sequenced {
    fn from_row(row: Row<'_>) -> Result<Self, DatabaseError> {
        Ok(Self {
            priority: row.get("priority")?,
            seq: row.get("seq")?,
            reservation: Reservation::from_row(row)?,
        })
    }
}

/// The first rows that are due for the relay and need no admission. `?1` rows at most, `?2` now.
macro_rules! page {
    () => {
        concat!(
            "(SELECT seq FROM ",
            singles!(),
            " AND relay_at <= ?2 ORDER BY relay_at, seq LIMIT ?1)"
        )
    };
}

/// open -> suppressed, expired, dead_letter, unknown; rows that are claimed and alive are not in the page, since their
/// relay time is the claim's end. The lone deaths of a row are judged by the claim alone. ?3 window, ?4 known
const STOP_PAGE: &str = concat!(
    "UPDATE outbox SET ",
    stop_assignments!("?2"),
    " FROM (SELECT o.id AS id, ",
    stop_cause!("?2", "?3", "?4", "9223372036854775807"),
    " AS cause FROM ",
    page!(),
    " page JOIN outbox o ON o.seq = page.seq) AS stop
    WHERE outbox.id = stop.id AND stop.cause IS NOT NULL RETURNING outbox.id, outbox.status"
);

/// dead_letter -> retry: a version runs that knows the family, or has another version of the template that failed.
/// ?1 rows at most, ?2 now, ?3 known, ?4 dead since
const DRIVE_AGAIN: &str = "UPDATE outbox SET
    status = 'retry', cause = 'readable_again', dead_class = NULL, next_attempt_at = ?2, relay_at = ?2, updated_at = ?2
  WHERE seq IN (SELECT o.seq FROM json_each(?3) k
    CROSS JOIN outbox o ON o.status = 'dead_letter' AND o.dead_class = 'pipeline'
      AND o.family = k.value ->> 'family' AND o.template IS k.value ->> 'template'
      AND o.seal_sha256 IS NULL AND o.cause <> 'claims_exhausted'
      AND (o.template_version IS NULL OR o.template_version <> k.value ->> 'version')
      AND (o.template IS NOT NULL OR o.cause = 'outbox_id_unclaimed')
      AND o.updated_at <= ?4
    LIMIT ?1)
  RETURNING id";

/// pending, enqueued, processing (its claim ended), retry: looked at again later. A row whose claim ended keeps its
/// state, so that the claim still sees how it ended. ?3 held, ?4 later
const PUT_ASIDE_PAGE: &str = concat!(
    "UPDATE outbox SET
       status = CASE WHEN status = 'processing' THEN status ELSE 'retry' END,
       cause = CASE WHEN outbox.status = 'processing' THEN outbox.cause ELSE aside.cause END,
       next_attempt_at = CASE WHEN status = 'processing' THEN NULL ELSE aside.until END,
       relay_at = aside.until, updated_at = ?2
     FROM (SELECT o.id AS id,
         coalesce((SELECT max(p.until) FROM pauses p WHERE p.scope IN ('*', o.family) AND p.until > ?2), ?4) AS until,
         CASE WHEN EXISTS (SELECT 1 FROM pauses p WHERE p.scope IN ('*', o.family) AND p.until > ?2) THEN 'paused'
              WHEN ",
    held!("?3"),
    " THEN 'held' END AS cause
       FROM ",
    page!(),
    " page JOIN outbox o ON o.seq = page.seq) AS aside
     WHERE outbox.id = aside.id AND aside.cause IS NOT NULL RETURNING outbox.id"
);

/// The state stays; the reservation backs off, so that a queue that refuses, or a row whose messages vanish, is tried
/// less and less often. ?3 base, ?4 cap
const RESERVE: &str = concat!(
    "UPDATE outbox SET publish_count = publish_count + 1,
       relay_at = ?2 + min(?3 << min(publish_count, 20), ?4), updated_at = ?2
     WHERE seq IN ",
    page!(),
    " RETURNING priority, seq, id, publish_count, claim_count,
       max(coalesce(next_attempt_at, 0), coalesce(not_before, 0)) AS due_at"
);
