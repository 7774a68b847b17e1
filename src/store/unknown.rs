//! The quarantine of unknown outcomes, and what a person may say of a row in it.
//!
//! Each verdict is one transaction that begins by making sure that the row still asks, and that holds the operator's
//! line. None is repeated after a lost answer: the order is given again, and finds what the first one did.

use libsql::Value;

use super::database::{Database, DatabaseError, Rows, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::operator_log::{Order, line};
use super::receipts::joined_by;
use super::row::{row, rows_at};
use super::send_secrets::COPY_FACTS;
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// A row whose outcome nobody knows, without anything personal. Times are Unix ms.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the columns of the outbox, documented in the migrations"
)]
pub struct UnknownRow {
    pub id: String,
    pub seq: i64,
    pub family: String,
    pub cause: String,
    pub updated_at: i64,
    pub attempt_count: u32,
    pub doubts: u32,
    pub window_anchor_at: Option<i64>,
    pub look_ups: u32,
    pub look_up_at: Option<i64>,
    pub resend_of: Option<String>,
}

row!(UnknownRow {
    id,
    seq,
    family,
    cause,
    updated_at,
    attempt_count,
    doubts,
    window_anchor_at,
    look_ups,
    look_up_at,
    resend_of
});

/// "Which outcomes does nobody know?" In the order of their recording, after `after`, at most `limit`.
///
/// # Errors
/// [`DatabaseError`].
pub async fn unknown(database: &impl Database, after: i64, rows_max: i64) -> Result<Vec<UnknownRow>, DatabaseError> {
    let args = vec![Value::Integer(after), Value::Integer(rows_max)];
    let results = database
        .run(Transaction::read(vec![Statement::new(UNKNOWN, args)]))
        .await
        .map_err(guarded)?;
    rows_at(&results, 0)
}

/// ?1 after, ?2 rows at most
const UNKNOWN: &str = "SELECT id, seq, family, cause, updated_at, attempt_count, doubts, window_anchor_at, look_ups,
    look_up_at, resend_of
  FROM outbox WHERE status = 'unknown' AND resolved_at IS NULL AND seq > ?1 ORDER BY seq LIMIT ?2";

/// What became of a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It was carried out now.
    Done,
    /// The row no longer asked; it stands where [`standing`] says. Nothing was written.
    NotUnknown,
    /// The message id belongs to another row. Nothing was written.
    MessageIdConflict,
    /// There is no letter to send any more. Nothing was written.
    LetterGone,
    /// The provider has taken a mail of this row, under whatever id. Nothing was written.
    ProofExists,
}

/// Positions of the statements that abort a verdict.
const STILL_UNKNOWN_AT: usize = 1;
const THEN_AT: usize = 2;

/// Where this program's mails go out.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The provider.
    pub provider: &'a str,
    /// The account there.
    pub scope: &'a str,
}

/// "The provider has it, under this id." unknown -> sent. A row that was never sealed takes `account`.
///
/// # Errors
/// [`DatabaseError`]; `Ambiguous` leaves open whether it was carried out, and the same order given again finds out.
pub async fn judge_sent(
    database: &impl Database,
    id: &str,
    message_id: &str,
    account: &Account<'_>,
    order: &Order<'_>,
) -> Result<Judged, DatabaseError> {
    let row = Value::Text(id.to_owned());
    let mut statements = vec![
        schema_guard(),
        still_unknown(id),
        Statement::new(
            SENT,
            vec![
                row,
                Value::Text(message_id.to_owned()),
                Value::Integer(order.now.get()),
                Value::Text(account.provider.to_owned()),
                Value::Text(account.scope.to_owned()),
            ],
        ),
        line(order, "unknown_resolve", id, "sent"),
    ];
    // What the provider said of this mail while nobody knew its id.
    let named = serde_json::json!([{ "id": id, "message_id": message_id }]);
    statements.extend(joined_by(&Value::Text(named.to_string()), order.now));
    judged(
        database.run(Transaction::write(statements)).await,
        Judged::MessageIdConflict,
    )
    .map(|(judged, _)| judged)
}

/// "Nothing went out." unknown -> failed. The attempts in doubt are ruled out; proof that comes later still lifts the
/// row to `sent`.
///
/// # Errors
/// As for [`judge_sent`].
pub async fn judge_not_sent(database: &impl Database, id: &str, order: &Order<'_>) -> Result<Judged, DatabaseError> {
    let (row, now) = (Value::Text(id.to_owned()), Value::Integer(order.now.get()));
    let statements = vec![
        schema_guard(),
        still_unknown(id),
        Statement::new(NO_PROOF, vec![row.clone()]),
        Statement::new(RULE_OUT, vec![row.clone(), now.clone()]),
        Statement::new(NOT_SENT, vec![row, now]),
        line(order, "unknown_resolve", id, "not_sent"),
    ];
    judged(database.run(Transaction::write(statements)).await, Judged::ProofExists).map(|(judged, _)| judged)
}

/// The row that was made to be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resend {
    /// Its id.
    pub id: String,
    /// Its place in the order of publication.
    pub seq: i64,
    /// Its state.
    pub status: Status,
    /// Its publications; 0 where the relay makes the first one.
    pub publish_count: i64,
}

row!(Resend {
    id,
    seq,
    status,
    publish_count
});

/// "Send it again, although it may have arrived." (new) -> pending, for a row of its own under the next key; the old row
/// stays unknown and no longer asks. `new_id`: chosen before; `relay_at`: until when the publication is the door's. That of
/// a bulk row is the relay's, which admits it as the pace drains.
///
/// # Errors
/// As for [`judge_sent`].
pub async fn judge_send_again(
    database: &impl Database,
    id: &str,
    new_id: &str,
    relay_at: Millis,
    order: &Order<'_>,
) -> Result<(Judged, Option<Resend>), DatabaseError> {
    let (row, new) = (Value::Text(id.to_owned()), Value::Text(new_id.to_owned()));
    let now = Value::Integer(order.now.get());
    let mut statements = vec![
        schema_guard(),
        still_unknown(id),
        Statement::new(LETTER_THERE, vec![row.clone()]),
        Statement::new(
            INSERT_RESEND,
            vec![row.clone(), new.clone(), now.clone(), Value::Integer(relay_at.get())],
        ),
        Statement::new(COPY_LETTER, vec![row.clone(), new.clone()]),
        Statement::new(COPY_FACTS, vec![row.clone(), new.clone()]),
        Statement::new(COPY_ATTACHMENTS, vec![row.clone(), new]),
        Statement::new(RESOLVE, vec![row.clone(), now]),
        line(order, "unknown_resolve", id, "send_again"),
    ];
    let resend_at = statements.len();
    statements.push(resend_of(row));
    let (judged, results) = judged(database.run(Transaction::write(statements)).await, Judged::LetterGone)?;
    let resend = match judged {
        Judged::Done => Some(
            rows_at(&results, resend_at)?
                .into_iter()
                .next()
                .ok_or(DatabaseError::Shape)?,
        ),
        Judged::NotUnknown | Judged::MessageIdConflict | Judged::LetterGone | Judged::ProofExists => None,
    };
    Ok((judged, resend))
}

/// Reads a verdict's answer; `then` is what it means where its second condition refuses.
fn judged(answer: Result<Vec<Rows>, DatabaseError>, then: Judged) -> Result<(Judged, Vec<Rows>), DatabaseError> {
    match answer {
        Ok(results) => Ok((Judged::Done, results)),
        Err(DatabaseError::Constraint {
            statement: STILL_UNKNOWN_AT,
        }) => Ok((Judged::NotUnknown, Vec::new())),
        Err(DatabaseError::Constraint { statement: THEN_AT }) => Ok((then, Vec::new())),
        Err(error) => Err(guarded(error)),
    }
}

/// Where a row stands that no longer asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub status: Status,
    /// Why.
    pub cause: String,
    /// The provider's id, where it has one.
    pub provider_message_id: Option<String>,
}

row!(Standing {
    status,
    cause,
    provider_message_id
});

/// "Where does this row stand, and what was made to be sent again in its place?" `None` where there is no such row.
///
/// # Errors
/// [`DatabaseError`].
pub async fn standing(database: &impl Database, id: &str) -> Result<Option<(Standing, Option<Resend>)>, DatabaseError> {
    let row = Value::Text(id.to_owned());
    let statements = vec![Statement::new(STANDING, vec![row.clone()]), resend_of(row)];
    let results = database.run(Transaction::read(statements)).await.map_err(guarded)?;
    let resend = rows_at(&results, 1)?.into_iter().next();
    Ok(rows_at(&results, 0)?
        .into_iter()
        .next()
        .map(|standing| (standing, resend)))
}

/// Aborts the transaction unless the row still asks.
fn still_unknown(id: &str) -> Statement {
    Statement::new(STILL_UNKNOWN, vec![Value::Text(id.to_owned())])
}

fn resend_of(row: Value) -> Statement {
    Statement::new(RESEND_OF, vec![row])
}

/// ?1 id
const STILL_UNKNOWN: &str = "INSERT INTO guards (broken)
  SELECT 'unknown' WHERE NOT EXISTS (SELECT 1 FROM outbox
    WHERE id = ?1 AND status = 'unknown' AND resolved_at IS NULL)";

/// An answer with a message id, or an event of the mail, is proof that it went out: nobody's word stands against it.
/// ?1 id
const NO_PROOF: &str = "INSERT INTO guards (broken)
  SELECT 'proof' WHERE EXISTS (SELECT 1 FROM attempts WHERE outbox_id = ?1 AND outcome = 'accepted')
    OR EXISTS (SELECT 1 FROM receipts WHERE outbox_id = ?1)";

/// ?1 id
const LETTER_THERE: &str = "INSERT INTO guards (broken)
  SELECT 'letter' WHERE NOT EXISTS (SELECT 1 FROM letters WHERE outbox_id = ?1)";

/// unknown -> sent, by a person's word. A message id that another row has is refused by the index, so the account has to
/// stand there. ?1 id, ?2 message id, ?3 now, ?4 provider, ?5 scope
const SENT: &str = "UPDATE outbox SET
    status = 'sent', cause = 'verdict_sent', provider_message_id = ?2,
    provider = coalesce(provider, ?4), provider_scope = coalesce(provider_scope, ?5), settled_at = ?3, last_error = NULL, updated_at = ?3
  WHERE id = ?1 AND status = 'unknown' AND resolved_at IS NULL";

/// The triggers count the doubts anew: none is left. ?1 id, ?2 now
const RULE_OUT: &str = "UPDATE attempts SET ruled_out_at = ?2
  WHERE outbox_id = ?1 AND ruled_out_at IS NULL
    AND (outcome IS NULL OR outcome IN ('ambiguous', 'in_progress', 'payload_conflict'))";

/// unknown -> failed, by a person's word. ?1 id, ?2 now
const NOT_SENT: &str = "UPDATE outbox SET
    status = 'failed', cause = 'verdict_not_sent', last_error = 'verdict_not_sent', settled_at = ?2, updated_at = ?2
  WHERE id = ?1 AND status = 'unknown' AND resolved_at IS NULL";

/// (new) -> pending: the same mail under the next key, which the provider has never seen. Its letter is rendered and
/// sealed anew, and the claim checks suppressions and windows as for any other row. The business keys stay with the
/// first row: an intake that is repeated finds that one. ?1 id, ?2 new id, ?3 now, ?4 relay time
const INSERT_RESEND: &str = "INSERT INTO outbox (id, family, template, revision, resend, resend_of, fingerprint,
    fingerprint_version, fingerprint_secret_id, recipient_hash, idempotency_key, status, cause, publish_count, relay_at,
    not_before, not_after, letter_bytes, created_at, updated_at, priority, bulk, domain_hash)
  SELECT ?2, family, template, revision, resend + 1, id, fingerprint, fingerprint_version, fingerprint_secret_id,
    recipient_hash, substr(idempotency_key, 1, length(idempotency_key) - length(resend)) || (resend + 1),
    'pending', 'sent_again', bulk = 0, iif(bulk = 0, ?4, max(?3, coalesce(not_before, 0))), not_before, not_after, letter_bytes, ?3, ?3, priority, bulk, domain_hash
  FROM outbox WHERE id = ?1";

/// ?1 id, ?2 new id
const COPY_LETTER: &str = "INSERT INTO letters (outbox_id, body) SELECT ?2, body FROM letters WHERE outbox_id = ?1";

/// ?1 id, ?2 new id
const COPY_ATTACHMENTS: &str = "INSERT INTO attachments (outbox_id, position, body)
  SELECT ?2, position, body FROM attachments WHERE outbox_id = ?1";

/// unknown -> unknown: nobody knows more, and nobody is asked any more. ?1 id, ?2 now
const RESOLVE: &str = "UPDATE outbox SET resolved_at = ?2, cause = 'sent_again', updated_at = ?2
  WHERE id = ?1 AND status = 'unknown' AND resolved_at IS NULL";

/// ?1 id
const STANDING: &str = "SELECT status, cause, provider_message_id FROM outbox WHERE id = ?1";

/// ?1 id
const RESEND_OF: &str = "SELECT id, seq, status, publish_count FROM outbox WHERE resend_of = ?1";
