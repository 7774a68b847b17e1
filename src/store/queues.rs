//! The queue's figures and its dead letters, as an operator asks for them.

use libsql::Value;
use serde::{Deserialize, Serialize};

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::operator_log::Order;
use super::row::{row, rows_at, words};
use super::shared_sql::{due_since, singles, stop_assignments, stop_cause};
use crate::outbox::time::Millis;

/// No figure counts further, so that a full table costs no more than a page of it.
pub const COUNT_MAX: i64 = 10_000;

/// What waits, in figures; each at most [`COUNT_MAX`], and one more where there is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Open rows that were looked at for the next four: those that the relay looks at first.
    pub open: i64,
    /// Rows that are due and that nobody has claimed.
    pub ready: i64,
    /// Rows that are claimed.
    pub in_flight: i64,
    /// Rows that wait for their time: back-off, pause, hold, `notBefore`.
    pub delayed: i64,
    /// Since when the row waits that has been due the longest (Unix ms).
    pub oldest_ready_at: Option<i64>,
    /// Dead letters that were looked at for the next two: the oldest ones.
    pub dead: i64,
    /// Dead letters that are ours to mend.
    pub dead_pipeline: i64,
    /// Dead letters whose mail was declined.
    pub dead_recipient: i64,
    /// Rows of which nobody knows what became, and nobody has decided about.
    pub unknown: i64,
    /// Inputs that wait for a person.
    pub parked: i64,
    /// Receipts that wait for their row.
    pub receipts_waiting: i64,
    /// Suppressions that were looked at for the next figure.
    pub suppressions: i64,
    /// Recipients of a suppression that is in force.
    pub suppressed: i64,
}

row!(Stats {
    open,
    ready,
    in_flight,
    delayed,
    oldest_ready_at,
    dead,
    dead_pipeline,
    dead_recipient,
    unknown,
    parked,
    receipts_waiting,
    suppressions,
    suppressed,
});

/// "How much waits, and where?"
///
/// # Errors
/// [`DatabaseError`].
pub async fn stats(database: &impl Database, now: Millis) -> Result<Stats, DatabaseError> {
    let results = database
        .run(Transaction::read(vec![Statement::new(
            STATS,
            vec![Value::Integer(now.get()), Value::Integer(COUNT_MAX.saturating_add(1))],
        )]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 0)?.into_iter().next().ok_or(DatabaseError::Shape)
}

/// Every part reads as many rows of one index at most as it counts. ?1 now, ?2 rows at most
const STATS: &str = concat!(
    "SELECT open.*, dead.*, suppressed.*,
       (SELECT min(due_at) FROM (SELECT status, ",
    due_since!(),
    " AS due_at FROM ",
    singles!(),
    " ORDER BY relay_at, seq LIMIT ?2) WHERE status <> 'processing' AND due_at <= ?1) AS oldest_ready_at,
       (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE status = 'unknown' AND resolved_at IS NULL AND seq > 0 LIMIT ?2)) AS unknown,
       (SELECT count(*) FROM (SELECT 1 FROM parking WHERE state = 'parked' LIMIT ?2)) AS parked,
       (SELECT count(*) FROM (SELECT 1 FROM receipts WHERE outbox_id IS NULL AND received_at > 0 LIMIT ?2)) AS receipts_waiting
     FROM (SELECT count(*) AS open,
         count(*) FILTER (WHERE status <> 'processing' AND due_at <= ?1) AS ready,
         count(*) FILTER (WHERE status = 'processing') AS in_flight,
         count(*) FILTER (WHERE status <> 'processing' AND due_at > ?1) AS delayed
       FROM (SELECT status, ",
    due_since!(),
    " AS due_at FROM outbox WHERE relay_at IS NOT NULL ORDER BY relay_at, seq LIMIT ?2)) AS open,
     (SELECT count(*) AS dead,
         count(*) FILTER (WHERE dead_class = 'pipeline') AS dead_pipeline,
         count(*) FILTER (WHERE dead_class = 'recipient') AS dead_recipient
       FROM (SELECT dead_class FROM outbox WHERE status = 'dead_letter' AND seq > 0 ORDER BY seq LIMIT ?2)) AS dead,
     (SELECT count(*) AS suppressions,
         count(DISTINCT recipient_hash) FILTER (WHERE lifted_at IS NULL AND (until IS NULL OR until > ?1)) AS suppressed
       FROM (SELECT recipient_hash, lifted_at, until FROM suppressions s ORDER BY recipient_hash, family LIMIT ?2)) AS suppressed"
);

/// Whose dead letter. The words are those of the database column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadClass {
    /// Ours to mend.
    Pipeline,
    /// The provider declined this mail until its tries were used up.
    Recipient,
}

impl DeadClass {
    /// The class of this name.
    pub fn of(text: &str) -> Option<Self> {
        match text {
            "pipeline" => Some(Self::Pipeline),
            "recipient" => Some(Self::Recipient),
            _ => None,
        }
    }

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline",
            Self::Recipient => "recipient",
        }
    }
}

words!(DeadClass);

/// Which dead letters are meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// Of this class alone.
    pub class: Option<DeadClass>,
    /// Of this family alone.
    pub family: Option<&'a str>,
}

/// A dead letter.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of the outbox, documented in the migration"
)]
pub struct DeadLetter {
    pub id: String,
    pub seq: i64,
    pub family: String,
    pub dead_class: DeadClass,
    pub cause: String,
    pub last_error: Option<String>,
    pub attempt_count: u32,
    pub updated_at: i64,
}

row!(DeadLetter {
    id,
    seq,
    family,
    dead_class,
    cause,
    last_error,
    attempt_count,
    updated_at
});

/// "Which mails cannot go on?" Oldest first, after this sequence number.
///
/// # Errors
/// [`DatabaseError`].
pub async fn dead_letters(
    database: &impl Database,
    filter: Filter<'_>,
    after_seq: i64,
    rows_max: i64,
) -> Result<Vec<DeadLetter>, DatabaseError> {
    let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
    let results = database
        .run(Transaction::read(vec![Statement::new(
            DEAD_LETTERS,
            vec![
                Value::Integer(after_seq),
                text(filter.class.map(DeadClass::as_str)),
                text(filter.family),
                Value::Integer(rows_max),
            ],
        )]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 0)
}

/// ?1 after seq, ?2 class, ?3 family, ?4 rows at most
const DEAD_LETTERS: &str =
    "SELECT id, seq, family, dead_class, cause, last_error, attempt_count, updated_at FROM outbox
  WHERE status = 'dead_letter' AND seq > ?1 AND (?2 IS NULL OR dead_class = ?2) AND (?3 IS NULL OR family = ?3)
  ORDER BY seq LIMIT ?4";

/// What this version has to know of itself to judge a dead letter.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// The used part of the provider window, in ms.
    pub window_ms: i64,
    /// JSON array of `{family, template, version}` that this version can render.
    pub known_templates: &'a str,
}

/// A dead letter that a retry by class and family would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The row.
    pub id: String,
    /// Its number.
    pub seq: i64,
}

row!(Chosen { id, seq });

/// "Which of them are next?" Those that this version can move, oldest first; then those that it cannot read, which would
/// otherwise stand before all others for good. Of the dead letters after `after_seq`, the [`COUNT_MAX`] oldest are looked
/// at.
///
/// # Errors
/// [`DatabaseError`].
pub async fn next_dead(
    database: &impl Database,
    filter: Filter<'_>,
    after_seq: i64,
    rows_max: i64,
    judge: Judge<'_>,
    now: Millis,
) -> Result<Vec<Chosen>, DatabaseError> {
    let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
    let results = database
        .run(Transaction::read(vec![Statement::new(
            NEXT_DEAD,
            vec![
                Value::Integer(after_seq),
                text(filter.class.map(DeadClass::as_str)),
                text(filter.family),
                Value::Integer(rows_max),
                Value::Integer(now.get()),
                Value::Integer(judge.window_ms),
                Value::Text(judge.known_templates.to_owned()),
                Value::Integer(COUNT_MAX),
            ],
        )]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 0)
}

/// ?1 after seq, ?2 class, ?3 family, ?4 rows at most, ?5 now, ?6 window, ?7 known templates, ?8 looked at at most
const NEXT_DEAD: &str = concat!(
    "SELECT dead.id, dead.seq FROM (SELECT o.id, o.seq, ",
    stop_cause!("?5", "?6", "?7", "9223372036854775807"),
    " AS cause FROM outbox o
       WHERE o.status = 'dead_letter' AND o.seq > ?1 AND (?2 IS NULL OR o.dead_class = ?2)
         AND (?3 IS NULL OR o.family = ?3)
       ORDER BY o.seq LIMIT ?8) AS dead
     ORDER BY dead.cause IS 'outbox_id_unclaimed', dead.seq LIMIT ?4"
);

/// What a retry of dead letters asks for.
#[derive(Clone, Copy, Debug)]
pub struct Retry<'a> {
    /// These rows.
    pub ids: &'a [&'a str],
    /// And the one with this number.
    pub seq: Option<i64>,
    /// How they are judged.
    pub judge: Judge<'a>,
}

/// What became of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retried {
    /// The row.
    pub id: String,
    /// Its number.
    pub seq: i64,
    /// A code of ours: `retried`, `suppressed`, `expired`, `canceled`, `unknown`, `still_unreadable` or `not_dead`.
    pub result: String,
    /// Why, as a cause; for `not_dead` the state.
    pub why: String,
}

row!(Retried { id, seq, result, why });

/// "Try these once more." Each row is judged as if it were claimed now: what must not be sent any more ends, what this
/// version cannot read stays dead, and the rest goes back to `retry` with a fresh budget. What a row was sealed with
/// stays with it. Rows that do not exist are not in the answer.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn retry_dead(
    database: &impl Database,
    retry: Retry<'_>,
    order: &Order<'_>,
) -> Result<Vec<Retried>, DatabaseError> {
    let judged = vec![
        Value::Text(serde_json::json!(retry.ids).to_string()),
        retry.seq.map_or(Value::Null, Value::Integer),
        Value::Integer(order.now.get()),
        Value::Integer(retry.judge.window_ms),
        Value::Text(retry.judge.known_templates.to_owned()),
    ];
    let mut line = judged.clone();
    line.extend([
        Value::Text(order.operator.to_owned()),
        order.note.map_or(Value::Null, |note| Value::Text(note.to_owned())),
    ]);
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(JUDGE, judged.clone()),
            Statement::new(RETRY_LINES, line),
            Statement::new(STOP_DEAD, judged.clone()),
            Statement::new(RETRY_DEAD, judged),
        ]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 1)
}

/// The rows with what must be said of each. `?1` ids, `?2` seq, `?3` now, `?4` window, `?5` known templates
macro_rules! judged {
    () => {
        concat!(
            "(SELECT o.seq, o.id, o.status AS was, o.doubts AS in_doubt, ",
            stop_cause!("?3", "?4", "?5", "9223372036854775807"),
            " AS cause FROM outbox o
              WHERE o.seq IN (SELECT x.seq FROM json_each(?1) j JOIN outbox x ON x.id = j.value UNION SELECT ?2))"
        )
    };
}

/// A row in doubt becomes unknown whatever stops it, as `stop_assignments` has it.
macro_rules! result {
    () => {
        "CASE WHEN judged.was <> 'dead_letter' THEN 'not_dead'
           WHEN judged.cause IS NULL THEN 'retried'
           WHEN judged.in_doubt > 0 THEN 'unknown'
           WHEN judged.cause = 'recipient_suppressed' THEN 'suppressed'
           WHEN judged.cause = 'window_missed' THEN 'expired'
           WHEN judged.cause = 'first_was_sent' THEN 'canceled'
           ELSE 'still_unreadable' END"
    };
}

const JUDGE: &str = concat!(
    "SELECT judged.id, judged.seq, ",
    result!(),
    " AS result,
       CASE WHEN judged.was <> 'dead_letter' THEN judged.was
         ELSE coalesce(judged.cause, 'retried_by_operator') END AS why
     FROM ",
    judged!(),
    " AS judged ORDER BY judged.seq"
);

/// ?6 operator, ?7 note
const RETRY_LINES: &str = concat!(
    "INSERT INTO operator_log (at, operator, action, subject, result, note)
     SELECT ?3, ?6, 'dead_letter_retried', judged.id, ",
    result!(),
    ", ?7 FROM ",
    judged!(),
    " AS judged"
);

/// dead_letter -> suppressed, expired, unknown: it must not be sent any more, an operator's wish or not.
const STOP_DEAD: &str = concat!(
    "UPDATE outbox SET ",
    stop_assignments!("?3"),
    " FROM ",
    judged!(),
    " AS stop WHERE outbox.id = stop.id AND outbox.status = 'dead_letter' AND stop.cause IS NOT NULL
       AND (stop.cause <> 'outbox_id_unclaimed' OR stop.in_doubt > 0)"
);

/// dead_letter -> retry. The budget is a new one; what it died of is shown until the next attempt.
const RETRY_DEAD: &str = concat!(
    "UPDATE outbox SET
       status = 'retry', cause = 'retried_by_operator', dead_class = NULL,
       attempt_count = 0, lone_deaths = 0, suspect = 0,
       next_attempt_at = max(?3, coalesce(not_before, 0)), relay_at = max(?3, coalesce(not_before, 0)), updated_at = ?3
     FROM ",
    judged!(),
    " AS judged WHERE outbox.id = judged.id AND outbox.status = 'dead_letter' AND judged.cause IS NULL"
);
