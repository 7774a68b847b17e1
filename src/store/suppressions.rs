//! Who must not be written to: what operators ask and order. The claim itself looks into the same table.

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::operator_log::{Order, line};
use super::row::{row, rows_at};
use crate::outbox::time::Millis;

/// The most changes of one recipient's history that one answer shows: the newest ones.
const HISTORY_ROWS_MAX: i64 = 200;

/// One recipient, for one family or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of suppressions, documented in the migrations"
)]
pub struct Entry {
    pub recipient_hash: String,
    pub family: String,
    pub reason: String,
    pub until: Option<i64>,
    pub lifted_at: Option<i64>,
    pub created_at: i64,
    pub outbox_id: Option<String>,
}

row!(Entry {
    recipient_hash,
    family,
    reason,
    until,
    lifted_at,
    created_at,
    outbox_id
});

impl Entry {
    /// Whether it keeps mails back now. The claim asks the same in SQL.
    pub fn in_force(&self, now: Millis) -> bool {
        self.lifted_at.is_none() && self.until.is_none_or(|until| until > now.get())
    }
}

/// One change, as the triggers wrote it down.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of suppression_history, documented in the migration"
)]
pub struct Change {
    pub family: String,
    pub change: String,
    pub reason: String,
    pub until: Option<i64>,
    pub outbox_id: Option<String>,
    pub at: i64,
}

row!(Change {
    family,
    change,
    reason,
    until,
    outbox_id,
    at
});

/// Whom an order is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The recipient's hash.
    pub recipient_hash: &'a str,
    /// The family; `*` for all.
    pub family: &'a str,
}

/// "Who is suppressed?" By hash and family, after that of the page before; those in force, or all.
///
/// # Errors
/// [`DatabaseError`].
pub async fn list(
    database: &impl Database,
    now: Millis,
    all: bool,
    after: Option<Subject<'_>>,
    rows_max: i64,
) -> Result<Vec<Entry>, DatabaseError> {
    let after = after.unwrap_or(Subject {
        recipient_hash: "",
        family: "",
    });
    let results = database
        .run(Transaction::read(vec![Statement::new(
            LIST,
            vec![
                Value::Text(after.recipient_hash.to_owned()),
                Value::Text(after.family.to_owned()),
                Value::Integer(i64::from(all)),
                Value::Integer(now.get()),
                Value::Integer(rows_max),
            ],
        )]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 0)
}

/// ?1 after this hash, ?2 and family, ?3 all, ?4 now, ?5 rows at most
const LIST: &str = "SELECT recipient_hash, family, reason, until, lifted_at, created_at, outbox_id FROM suppressions
  WHERE (recipient_hash, family) > (?1, ?2)
    AND (?3 = 1 OR (lifted_at IS NULL AND (until IS NULL OR until > ?4)))
  ORDER BY recipient_hash, family LIMIT ?5";

/// "What do we know of this recipient?" Every entry, and the newest changes, oldest first.
///
/// # Errors
/// [`DatabaseError`].
pub async fn look_up(
    database: &impl Database,
    recipient_hash: &str,
) -> Result<(Vec<Entry>, Vec<Change>), DatabaseError> {
    let hash = Value::Text(recipient_hash.to_owned());
    let results = database
        .run(Transaction::read(vec![
            Statement::new(OF_RECIPIENT, vec![hash.clone()]),
            Statement::new(HISTORY, vec![hash, Value::Integer(HISTORY_ROWS_MAX)]),
        ]))
        .await
        .map_err(guarded)?;
    Ok((rows_at(&results, 0)?, rows_at(&results, 1)?))
}

/// ?1 hash. At most one for each family there ever was.
const OF_RECIPIENT: &str = "SELECT recipient_hash, family, reason, until, lifted_at, created_at, outbox_id
  FROM suppressions WHERE recipient_hash = ?1 ORDER BY family";

/// ?1 hash, ?2 rows at most
const HISTORY: &str = "SELECT family, change, reason, until, outbox_id, at FROM (
    SELECT * FROM suppression_history WHERE recipient_hash = ?1 ORDER BY seq DESC LIMIT ?2)
  ORDER BY seq";

/// "Do not write to this one." What is in force already and lasts as long stays as it is, with its reason: a complaint
/// does not become a note of ours that ends tomorrow. Returns the entry.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn suppress(
    database: &impl Database,
    subject: Subject<'_>,
    reason: &'static str,
    until: Option<Millis>,
    order: &Order<'_>,
) -> Result<Entry, DatabaseError> {
    let (hash, family) = subject_values(subject);
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(
                SUPPRESS,
                vec![
                    hash.clone(),
                    family.clone(),
                    Value::Text(reason.to_owned()),
                    until.map_or(Value::Null, |until| Value::Integer(until.get())),
                    Value::Integer(order.now.get()),
                ],
            ),
            line(order, "recipient_suppressed", subject.recipient_hash, subject.family),
            entry_of(hash, family),
        ]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 3)?.into_iter().next().ok_or(DatabaseError::Shape)
}

/// A person's order counts as a fact of now. ?1 hash, ?2 family, ?3 reason, ?4 until, ?5 now
const SUPPRESS: &str = "INSERT INTO suppressions (recipient_hash, family, reason, until, created_at, fact_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?5)
  ON CONFLICT (recipient_hash, family) DO UPDATE SET
    reason = excluded.reason, until = excluded.until, lifted_at = NULL, created_at = ?5, fact_at = ?5, outbox_id = NULL
  WHERE lifted_at IS NOT NULL OR until <= ?5 OR until < coalesce(excluded.until, 9223372036854775807)";

fn entry_of(hash: Value, family: Value) -> Statement {
    Statement::new(ENTRY, vec![hash, family])
}

/// ?1 hash, ?2 family
const ENTRY: &str = "SELECT recipient_hash, family, reason, until, lifted_at, created_at, outbox_id
  FROM suppressions WHERE recipient_hash = ?1 AND family = ?2";

/// What became of an order to lift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifted {
    /// It is lifted: by this order, or by one before it that meant the same suppression.
    Done(Entry),
    /// Another suppression stands there than the one that the order means. It stays.
    Changed,
    /// None is in force.
    NotThere,
}

/// "This one may be written to again." With `created_at` (Unix ms) only that one suppression is meant: the order can be
/// given again, and never takes a newer one away.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn lift(
    database: &impl Database,
    subject: Subject<'_>,
    created_at: Option<Millis>,
    order: &Order<'_>,
) -> Result<Lifted, DatabaseError> {
    let (hash, family) = subject_values(subject);
    let now = Value::Integer(order.now.get());
    let meant = created_at.map_or(Value::Null, |at| Value::Integer(at.get()));
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(
                LIFT_LINE,
                vec![
                    hash.clone(),
                    family.clone(),
                    now.clone(),
                    meant.clone(),
                    Value::Text(order.operator.to_owned()),
                    order.note.map_or(Value::Null, |note| Value::Text(note.to_owned())),
                ],
            ),
            Statement::new(LIFT, vec![hash.clone(), family.clone(), now, meant]),
            entry_of(hash, family),
        ]))
        .await
        .map_err(guarded)?;
    if let Some(lifted) = rows_at(&results, 2)?.into_iter().next() {
        return Ok(Lifted::Done(lifted));
    }
    let standing: Option<Entry> = rows_at(&results, 3)?.into_iter().next();
    Ok(match (standing, created_at) {
        (Some(entry), Some(at)) if entry.created_at != at.get() => Lifted::Changed,
        (Some(entry), Some(_)) if entry.lifted_at.is_some() => Lifted::Done(entry),
        (Some(_) | None, _) => Lifted::NotThere,
    })
}

/// `?1` hash, `?2` family, `?3` now, `?4` when the one that is meant was made, or null
macro_rules! in_force {
    () => {
        "recipient_hash = ?1 AND family = ?2 AND lifted_at IS NULL AND (until IS NULL OR until > ?3)
           AND (?4 IS NULL OR created_at = ?4)"
    };
}

/// The operators' log, only where there is something to lift. ?5 operator, ?6 note
const LIFT_LINE: &str = concat!(
    "INSERT INTO operator_log (at, operator, action, subject, result, note)
     SELECT ?3, ?5, 'suppression_lifted', recipient_hash, family, ?6 FROM suppressions WHERE ",
    in_force!()
);

/// The entry stays, with the time from which older facts no longer count.
const LIFT: &str = concat!(
    "UPDATE suppressions SET lifted_at = ?3 WHERE ",
    in_force!(),
    " RETURNING recipient_hash, family, reason, until, lifted_at, created_at, outbox_id"
);

fn subject_values(subject: Subject<'_>) -> (Value, Value) {
    (
        Value::Text(subject.recipient_hash.to_owned()),
        Value::Text(subject.family.to_owned()),
    )
}
