//! What a look-up at the provider asks of the database before, and what it leaves after.

use libsql::Value;
use serde::Serialize;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::operator_log::{Order, line};
use super::receipts::joined_by;
use super::row::{row, rows_at};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// "Which unknown rows is it time to look up?" Oldest first; those that were never looked up come before the others, and
/// those that were looked up `look_ups_max` times are left out.
///
/// # Errors
/// [`DatabaseError`].
pub async fn due(
    database: &impl Database,
    now: Millis,
    limit: u32,
    look_ups_max: u32,
) -> Result<Vec<String>, DatabaseError> {
    struct Due {
        id: String,
    }
    row!(Due { id });
    let args = vec![
        Value::Integer(now.get()),
        Value::Integer(i64::from(limit)),
        Value::Integer(i64::from(look_ups_max)),
    ];
    let results = database
        .run(Transaction::read(vec![Statement::new(DUE, args)]))
        .await
        .map_err(guarded)?;
    Ok(rows_at::<Due>(&results, 0)?.into_iter().map(|due| due.id).collect())
}

/// ?1 now, ?2 limit, ?3 look-ups at most
const DUE: &str = "SELECT id FROM (
    SELECT * FROM (SELECT id, look_up_at, seq FROM outbox
      WHERE status = 'unknown' AND resolved_at IS NULL AND look_up_at IS NULL AND look_ups < ?3
      ORDER BY seq LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT id, look_up_at, seq FROM outbox
      WHERE status = 'unknown' AND resolved_at IS NULL AND look_up_at <= ?1 AND look_ups < ?3
      ORDER BY look_up_at, seq LIMIT ?2))
  ORDER BY look_up_at, seq LIMIT ?2";

/// Settled rows that are looked at for a cursor. On an account where a list is long, one of a hundred was sent.
const CURSOR_ROWS_MAX: i64 = 100;

/// What a look-up begins with.
#[derive(Clone, Debug)]
pub struct BeginRequest<'a> {
    /// The rows, each once.
    pub ids: &'a [&'a str],
    /// Only rows whose time has come: another tick may have taken them meanwhile.
    pub due_only: bool,
    /// Now.
    pub now: Millis,
    /// When the rows are due again if nothing more is heard of this look-up (Unix ms).
    pub look_up_at: Millis,
    /// How long a claim lasts, in ms: an attempt that was never closed may have called until then.
    pub lease_ms: i64,
    /// How long after an attempt's end the provider may have taken its mail, in ms.
    pub call_ms: i64,
    /// The provider, whose pace it is.
    pub provider: &'a str,
    /// Calls that one row may need.
    pub calls_max: u32,
    /// Time between two calls at the provider's pace, in ms; 0 where there is none.
    pub pace_interval_ms: i64,
    /// The longest that this look-up waits for its first slot, in ms.
    pub pace_wait_ms_max: i64,
}

/// An unknown row, as far as a look-up needs it. `to` and `subject` are personal: they are compared and forgotten.
#[derive(Clone, Debug)]
pub struct Case {
    /// The row.
    pub id: String,
    /// How often it was looked up.
    pub look_ups: u32,
    /// When the first attempt was opened that may have been accepted (Unix ms); `None` without one.
    pub first_at: Option<i64>,
    /// When the last such attempt was over, at the latest (Unix ms).
    pub last_at: Option<i64>,
    /// JSON array of the message ids that the provider gave its attempts.
    pub message_ids: String,
    /// The recipient in the sealed request; `None` where it cannot be read.
    pub to: Option<String>,
    /// The subject in the sealed request.
    pub subject: Option<String>,
    /// The provider's id of a mail of ours that is younger than this one: the list may be begun behind it. `None` where
    /// there is none soon after.
    pub cursor: Option<String>,
}

row!(Case {
    id,
    look_ups,
    first_at,
    last_at,
    message_ids,
    to,
    subject,
    cursor
});

/// What a look-up may do.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The rows that are still unknown, in the order of their slots.
    pub cases: Vec<Case>,
    /// The first slot of the pace (Unix ms). Each call takes the next one; so many for each case are taken.
    pub first_slot_at: i64,
    /// Whether the slots are taken: the pace gave one in time.
    pub has_slots: bool,
}

/// "May these be looked up, and when?" Takes slots of the pace, so that look-ups and mails share it.
///
/// Not repeated after a lost answer: nothing is called then, and the rows are due again at `look_up_at`.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn begin(database: &impl Database, request: &BeginRequest<'_>) -> Result<Begun, DatabaseError> {
    struct Slot {
        first_slot_at: i64,
    }
    row!(Slot { first_slot_at });
    let ids = Value::Text(serde_json::json!(request.ids).to_string());
    let due_only = Value::Integer(i64::from(request.due_only));
    let now = Value::Integer(request.now.get());
    let provider = Value::Text(request.provider.to_owned());
    let statements = vec![
        schema_guard(),
        Statement::new(
            CASES,
            vec![
                ids.clone(),
                due_only.clone(),
                now.clone(),
                Value::Integer(request.lease_ms),
                Value::Integer(request.call_ms),
                Value::Integer(CURSOR_ROWS_MAX),
            ],
        ),
        Statement::new(FIRST_SLOT, vec![provider.clone(), now.clone()]),
        Statement::new(
            TAKE_SLOTS,
            vec![
                ids.clone(),
                due_only.clone(),
                now.clone(),
                provider,
                Value::Integer(request.pace_interval_ms),
                Value::Integer(i64::from(request.calls_max)),
                Value::Integer(request.pace_wait_ms_max),
            ],
        ),
        Statement::new(
            PUT_OFF,
            vec![ids, due_only, now, Value::Integer(request.look_up_at.get())],
        ),
    ];
    let results = database.run(Transaction::write(statements)).await.map_err(guarded)?;
    let slot: Slot = rows_at(&results, 2)?.into_iter().next().ok_or(DatabaseError::Shape)?;
    let wait = slot.first_slot_at.saturating_sub(request.now.get());
    Ok(Begun {
        cases: rows_at(&results, 1)?,
        first_slot_at: slot.first_slot_at,
        has_slots: wait <= request.pace_wait_ms_max,
    })
}

/// `o` is a row of the list that still asks, and is due where that is wanted. ?1 ids, ?2 due only, ?3 now
macro_rules! to_look_up {
    () => {
        "FROM json_each(?1) j JOIN outbox o ON o.id = j.value
         WHERE o.status = 'unknown' AND o.resolved_at IS NULL AND (?2 = 0 OR coalesce(o.look_up_at, 0) <= ?3)"
    };
}

/// The attempts that may have been accepted, or were.
macro_rules! attempts_of {
    ($what:literal) => {
        concat!(
            "(SELECT ",
            $what,
            " FROM attempts a WHERE a.outbox_id = o.id AND a.ruled_out_at IS NULL
               AND (a.outcome IS NULL OR a.outcome IN ('accepted', 'ambiguous', 'in_progress', 'payload_conflict')))"
        )
    };
}

/// When the last such attempt was over, at the latest. ?4 lease
macro_rules! last_at {
    () => {
        attempts_of!("max(coalesce(a.closed_at, a.planned_at + ?4))")
    };
}

/// The cursor is of the same account, and was first tried when the provider could not take this row's mail any more:
/// when it was settled says less, because an answer under an old key is about an old mail. A message id that a person
/// gave may be mistyped. ?4 lease, ?5 how long the provider may take a mail after that, ?6 settled rows to look at
const CASES: &str = concat!(
    "SELECT o.id, o.look_ups, ",
    attempts_of!("min(a.opened_at)"),
    " AS first_at, ",
    last_at!(),
    " AS last_at, ",
    attempts_of!("json_group_array(DISTINCT a.provider_message_id) FILTER (WHERE a.provider_message_id IS NOT NULL)"),
    " AS message_ids,
       coalesce((SELECT s.body ->> '$.to' FROM seals s WHERE s.outbox_id = o.id AND json_valid(s.body)),
         (SELECT s.body ->> ('$[' || o.batch_position || '].to') FROM batch_seals s
          WHERE s.batch_id = o.batch_id AND json_valid(s.body))) AS \"to\",
       coalesce((SELECT s.body ->> '$.subject' FROM seals s WHERE s.outbox_id = o.id AND json_valid(s.body)),
         (SELECT s.body ->> ('$[' || o.batch_position || '].subject') FROM batch_seals s
          WHERE s.batch_id = o.batch_id AND json_valid(s.body))) AS subject,
       (SELECT c.provider_message_id
        FROM (SELECT s.* FROM outbox s
              WHERE s.settled_at > ?5 + ",
    last_at!(),
    " AND s.pruned_at IS NULL
              ORDER BY s.settled_at LIMIT ?6) c
        WHERE c.status = 'sent' AND c.cause <> 'verdict_sent'
          AND c.provider = o.provider AND c.provider_scope = o.provider_scope
          AND (SELECT min(f.opened_at) FROM attempts f WHERE f.outbox_id = c.id) > ?5 + ",
    last_at!(),
    " ORDER BY c.settled_at LIMIT 1) AS cursor ",
    to_look_up!(),
    " ORDER BY j.key"
);

/// ?1 provider, ?2 now
const FIRST_SLOT: &str =
    "SELECT max(?2, coalesce((SELECT next_free_at FROM pace WHERE name = ?1), 0)) AS first_slot_at";

/// Nothing is taken where the first slot is too far away. ?4 provider, ?5 interval, ?6 calls of one row, ?7 longest wait
const TAKE_SLOTS: &str = concat!(
    "INSERT INTO pace (name, next_free_at)
     SELECT ?4, taken.first + taken.calls * ?5
     FROM (SELECT max(?3, coalesce((SELECT next_free_at FROM pace WHERE name = ?4), 0)) AS first,
       (SELECT count(*) * ?6 ",
    to_look_up!(),
    ") AS calls) AS taken
     WHERE taken.calls > 0 AND ?5 > 0 AND taken.first <= ?3 + ?7
     ON CONFLICT (name) DO UPDATE SET next_free_at = excluded.next_free_at"
);

/// ?4 when they are due again
const PUT_OFF: &str = concat!(
    "UPDATE outbox SET look_up_at = ?4 WHERE id IN (SELECT o.id ",
    to_look_up!(),
    ")"
);

/// What a look-up found of one row.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The row.
    pub id: String,
    /// The provider's id of its mail, where it was found.
    pub message_id: Option<String>,
    /// How often it was looked up now.
    pub look_ups: u32,
    /// When it is due again (Unix ms).
    pub look_up_at: i64,
}

/// Slots of the pace that were taken and not used.
#[derive(Clone, Copy, Debug)]
pub struct Unused<'a> {
    /// The provider.
    pub provider: &'a str,
    /// Where the slots that were taken end (Unix ms).
    pub taken_until: i64,
    /// Where those end that were used (Unix ms).
    pub used_until: i64,
}

/// Where a row stands after a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// The row.
    pub id: String,
    /// Its state.
    pub status: Status,
    /// The provider's id, where it has one.
    pub provider_message_id: Option<String>,
}

row!(LookedUp {
    id,
    status,
    provider_message_id
});

/// "This is what the provider has." Proof lifts the row to `sent`; anything else only says when to look again. `order`:
/// who asked, and what came of it, where a person did.
///
/// Not repeated after a lost answer: the look-up itself is repeated, by whoever asked for it.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn finish(
    database: &impl Database,
    now: Millis,
    findings: &[Finding],
    unused: &Unused<'_>,
    order: Option<(&Order<'_>, &'static str)>,
) -> Result<Vec<LookedUp>, DatabaseError> {
    let list = Value::Text(serde_json::json!(findings).to_string());
    let mut statements = vec![
        schema_guard(),
        Statement::new(FOUND, vec![list.clone(), Value::Integer(now.get())]),
        Statement::new(LOOK_AGAIN, vec![list.clone()]),
        Statement::new(
            GIVE_BACK,
            vec![
                Value::Text(unused.provider.to_owned()),
                Value::Integer(unused.taken_until),
                Value::Integer(unused.used_until),
            ],
        ),
        Statement::new(STAND, vec![list.clone()]),
    ];
    statements.extend(joined_by(&list, now));
    if let (Some((order, result)), Some(finding)) = (order, findings.first()) {
        statements.push(line(order, "unknown_look_up", &finding.id, result));
    }
    let results = database.run(Transaction::write(statements)).await.map_err(guarded)?;
    rows_at(&results, 4)
}

/// unknown, failed -> sent: proof of acceptance. `failed` only where a person ruled the doubt out meanwhile. OR IGNORE
/// leaves out a row whose message id another row has. ?1 findings, ?2 now
const FOUND: &str = "UPDATE OR IGNORE outbox SET
    status = 'sent', cause = 'look_up_found', provider_message_id = j.value ->> 'message_id',
    settled_at = coalesce(settled_at, ?2), last_error = NULL, updated_at = ?2
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND j.value ->> 'message_id' IS NOT NULL
    AND outbox.status IN ('unknown', 'failed') AND outbox.provider_message_id IS NULL";

/// ?1 findings
const LOOK_AGAIN: &str = "UPDATE outbox SET
    look_ups = max(look_ups, j.value ->> 'look_ups'), look_up_at = j.value ->> 'look_up_at'
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND outbox.status = 'unknown'";

/// Only where nobody has taken slots behind them since. ?1 provider, ?2 taken until, ?3 used until
const GIVE_BACK: &str = "UPDATE pace SET next_free_at = ?3 WHERE name = ?1 AND next_free_at = ?2";

/// ?1 findings
const STAND: &str = "SELECT o.id, o.status, o.provider_message_id
  FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'";
