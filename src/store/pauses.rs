//! Pauses: what must not be sent for a while. A fault sets one of everything, people set them for everything or for one
//! family. A pause that has run out lets a single mail through first (its probe, see [`super::claim`]); what the provider
//! says to that one lifts the pause.

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::operator_log::{Order, line};
use super::row::{row, rows_at};
use crate::outbox::time::Millis;

/// Rows that the end of a pause wakes at once; the others come at their own time, or with the next order.
pub const WAKE_ROWS_MAX: i64 = 1_000;
/// Rows that one order looks at for those it may wake: some may be kept back by another pause.
const LOOKED_AT_MAX: i64 = 10_000;

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// `*` for everything, or a family.
    pub scope: String,
    /// Why; a code of ours.
    pub reason: String,
    /// When it runs out, or when its probe's claim ends (Unix ms).
    pub until: i64,
    /// How often in a row it was renewed.
    pub strikes: i64,
    /// `system` or `operator`.
    pub set_by: String,
    /// 1 while a single mail tries whether it may end.
    pub probing: u8,
    /// When it began (Unix ms).
    pub created_at: i64,
}

row!(Pause {
    scope,
    reason,
    until,
    strikes,
    set_by,
    probing,
    created_at
});

macro_rules! columns {
    () => {
        "scope, reason, until, strikes, set_by, probe_token IS NOT NULL AS probing, created_at"
    };
}

/// "What is paused?" All of them: there is at most one for each family, and one for everything. One that has run out
/// stands there until a probe has lifted it.
///
/// # Errors
/// [`DatabaseError`].
pub async fn list(database: &impl Database) -> Result<Vec<Pause>, DatabaseError> {
    let results = database.run(Transaction::read(vec![all()])).await.map_err(guarded)?;
    rows_at(&results, 0)
}

/// The statement of [`list`].
pub(super) fn all() -> Statement {
    Statement::new(LIST, Vec::new())
}

const LIST: &str = concat!("SELECT ", columns!(), " FROM pauses ORDER BY scope LIMIT 1000");

/// "Send nothing of this until then." What is in force and lasts longer stays as it is. Returns the pause.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn set(
    database: &impl Database,
    scope: &str,
    reason: &'static str,
    until: Millis,
    order: &Order<'_>,
) -> Result<Pause, DatabaseError> {
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(
                SET,
                vec![
                    Value::Text(scope.to_owned()),
                    Value::Text(reason.to_owned()),
                    Value::Integer(until.get()),
                    Value::Integer(order.now.get()),
                ],
            ),
            line(order, "pause_set", scope, reason),
            one(Value::Text(scope.to_owned())),
        ]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 3)?.into_iter().next().ok_or(DatabaseError::Shape)
}

/// A probe that is under way goes on: its answer no longer lifts anything. ?1 scope, ?2 reason, ?3 until, ?4 now
const SET: &str = "INSERT INTO pauses (scope, reason, until, strikes, set_by, created_at)
  VALUES (?1, ?2, ?3, 1, 'operator', ?4)
  ON CONFLICT (scope) DO UPDATE SET
    reason = excluded.reason, until = max(until, excluded.until), strikes = 1, set_by = 'operator', probe_token = NULL,
    created_at = iif(until > ?4, created_at, ?4)
  WHERE until < excluded.until OR probe_token IS NOT NULL";

fn one(scope: Value) -> Statement {
    Statement::new(ONE, vec![scope])
}

/// ?1 scope
const ONE: &str = concat!("SELECT ", columns!(), " FROM pauses WHERE scope = ?1");

/// What an order to lift came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifted {
    /// The pause as it stands now; `None` where there is none.
    pub pause: Option<Pause>,
    /// Rows that it woke.
    pub woken: usize,
    /// Rows that this pause still keeps aside, counted up to a thousand.
    pub remaining: i64,
}

/// "This may be sent again." The pause runs out now, so that a probe goes first, and the rows that were put aside by it
/// are due: the next ones of them with each order. A probe that is under way already is left alone.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn lift(database: &impl Database, scope: &str, order: &Order<'_>) -> Result<Lifted, DatabaseError> {
    struct Woken {}
    row!(Woken {});
    struct Remaining {
        remaining: i64,
    }
    row!(Remaining { remaining });
    let scope_value = Value::Text(scope.to_owned());
    let now = Value::Integer(order.now.get());
    let results = database
        .run(Transaction::write(vec![
            schema_guard(),
            Statement::new(RUN_OUT, vec![scope_value.clone(), now.clone()]),
            line(order, "pause_lifted", scope, "runs_out"),
            Statement::new(
                WAKE,
                vec![
                    scope_value.clone(),
                    now,
                    Value::Integer(WAKE_ROWS_MAX),
                    Value::Integer(LOOKED_AT_MAX),
                ],
            ),
            Statement::new(REMAINING, vec![scope_value.clone(), Value::Integer(WAKE_ROWS_MAX)]),
            one(scope_value),
        ]))
        .await
        .map_err(guarded)?;
    Ok(Lifted {
        pause: rows_at(&results, 5)?.into_iter().next(),
        woken: rows_at::<Woken>(&results, 3)?.len(),
        remaining: rows_at::<Remaining>(&results, 4)?
            .into_iter()
            .next()
            .map_or(0, |row| row.remaining),
    })
}

/// ?1 scope, ?2 now
const RUN_OUT: &str = "UPDATE pauses SET until = ?2 WHERE scope = ?1 AND until > ?2 AND probe_token IS NULL";

/// The rows that `scope` put aside, by their own index. Where the scope is everything, all families.
macro_rules! aside {
    ($scope:literal) => {
        concat!(
            "outbox o INDEXED BY outbox_paused WHERE o.status = 'retry' AND o.cause = 'paused'
               AND o.family >= iif(",
            $scope,
            " = '*', '', ",
            $scope,
            ")
               AND o.family <= iif(",
            $scope,
            " = '*', char(1114111), ",
            $scope,
            ")"
        )
    };
}

/// retry -> retry: due now. Another pause that is in force keeps its rows. ?1 scope, ?2 now, ?3 rows, ?4 looked at
const WAKE: &str = concat!(
    "UPDATE outbox SET status = 'retry', cause = 'pause_lifted', next_attempt_at = ?2, relay_at = ?2, updated_at = ?2
     WHERE seq IN (SELECT seq FROM (SELECT o.seq AS seq, o.family AS family FROM ",
    aside!("?1"),
    " ORDER BY o.family, o.seq LIMIT ?4) AS aside
       WHERE NOT EXISTS (SELECT 1 FROM pauses p WHERE p.scope IN ('*', aside.family) AND p.until > ?2) LIMIT ?3)
     RETURNING id"
);

/// ?1 scope, ?2 counted at most
const REMAINING: &str = concat!(
    "SELECT count(*) AS remaining FROM (SELECT 1 FROM ",
    aside!("?1"),
    " LIMIT ?2)"
);

/// What the answers of a settle prove: the account works, and where the probe was a family's, that family may be sent.
/// The rows that were put aside are woken, and the pause is gone. Nothing, where the claim was no probe.
pub(super) fn proved_by(settlements: &Value, token: Value, now: Value) -> [Statement; 2] {
    [
        Statement::new(
            WAKE_PROVED,
            vec![settlements.clone(), token.clone(), now, Value::Integer(WAKE_ROWS_MAX)],
        ),
        Statement::new(LIFT, vec![settlements.clone(), token]),
    ]
}

/// This claim is the probe of `pauses`, and its mail got an answer that proves that the account works: key and account
/// were passed before the provider looked at the mail. `?1` settlements, `?2` token
macro_rules! proved {
    () => {
        "pauses.probe_token = ?2 AND EXISTS (SELECT 1 FROM json_each(?1) j JOIN outbox proof ON proof.id = j.value ->> 'id'
           WHERE pauses.scope IN ('*', proof.family)
             AND j.value ->> 'outcome' IN ('accepted', 'refused', 'in_progress', 'payload_conflict'))"
    };
}

/// retry -> retry: due now, since their pause is lifted. ?3 now, ?4 rows at most
const WAKE_PROVED: &str = concat!(
    "UPDATE outbox SET cause = 'pause_lifted', next_attempt_at = ?3, relay_at = ?3, updated_at = ?3
     WHERE seq IN (SELECT o.seq FROM pauses CROSS JOIN outbox o INDEXED BY outbox_paused
         ON o.status = 'retry' AND o.cause = 'paused'
           AND o.family >= iif(pauses.scope = '*', '', pauses.scope)
           AND o.family <= iif(pauses.scope = '*', char(1114111), pauses.scope)
       WHERE ",
    proved!(),
    " LIMIT ?4)"
);

const LIFT: &str = concat!("DELETE FROM pauses WHERE ", proved!());
