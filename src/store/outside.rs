//! The consumer's middle round trip, for rows whose quiet hours have begun: they are given back.

use libsql::Value;
use serde::Serialize;

use super::database::Statement;

/// A row that must not be called now: its quiet hours have begun.
#[derive(Clone, Debug, Serialize)]
pub struct PutBack {
    /// The row.
    pub id: String,
    /// When it may be tried again (Unix ms).
    pub next_attempt_at: i64,
    /// When the relay looks (Unix ms); later than the above where the queue still holds a message.
    pub relay_at: i64,
}

/// Gives these rows back. `no_call`: the claim makes no call at all.
pub(super) fn statements(rows: &[PutBack], no_call: bool, token: &Value, now: &Value) -> Vec<Statement> {
    if rows.is_empty() {
        return Vec::new();
    }
    let rows = Value::Text(serde_json::json!(rows).to_string());
    let mut statements = vec![Statement::new(OUTSIDE, vec![rows, token.clone(), now.clone()])];
    if no_call {
        statements.push(Statement::new(NO_PROBE, vec![token.clone(), now.clone()]));
    }
    statements
}

/// processing -> retry: quiet hours have begun. No try is burnt, and what ran alone runs alone again.
/// ?1 rows, ?2 token, ?3 now
const OUTSIDE: &str = "UPDATE outbox SET
    status = 'retry', cause = 'outside_hours', next_attempt_at = j.value ->> 'next_attempt_at',
    relay_at = j.value ->> 'relay_at',
    claim_token = NULL, claim_expires_at = NULL, lone_claim = 0, suspect = lone_claim, updated_at = ?3
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND outbox.claim_token = ?2 AND outbox.status = 'processing'";

/// A claim that makes no call is no probe of a pause: the next one may be. ?1 token, ?2 now
const NO_PROBE: &str = "UPDATE pauses SET probe_token = NULL, until = ?2 WHERE probe_token = ?1";
