//! The consumer's last round trip: close the attempts, move the rows, remember the pauses.

use libsql::Value;
use serde::Serialize;

use super::database::{Database, DatabaseError, Rows, Statement, Transaction};
use super::row::{row, rows_at};
use crate::outbox::attempt::Outcome;
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// What one attempt came to, and where its row goes. Made by `consume::verdict` alone.
#[derive(Clone, Debug, Serialize)]
pub struct Settlement {
    /// The row.
    pub id: String,
    /// The attempt that is closed.
    pub attempt: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The provider's HTTP status, where one arrived.
    pub http_status: Option<u16>,
    /// A code of ours.
    pub code: &'static str,
    /// Where the row goes.
    pub status: Status,
    /// For `dead_letter`: whose.
    pub dead_class: Option<&'static str>,
    /// For `sent`: the proof.
    pub message_id: Option<String>,
    /// For `retry`: when (Unix ms).
    pub next_attempt_at: Option<i64>,
    /// For `retry`: when the relay looks (Unix ms); later than the above where the queue still holds a message.
    pub relay_at: Option<i64>,
    /// 1 where this counts against the family's limit.
    pub burns: u8,
}

/// A reason not to send anything for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPause {
    /// A code of ours.
    pub reason: &'static str,
    /// How long the provider asked for, in ms; doubled with each strike where the provider named no time.
    pub base_ms: i64,
    /// No pause is longer, in ms.
    pub cap_ms: i64,
}

/// What a settle found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Where each row stands now.
    pub states: Vec<SettledRow>,
    /// Rows whose claim was lost before we could settle them: somebody else decides about them.
    pub lost: Vec<String>,
    /// Rows whose message id belongs to another row: `unknown` now, and an alarm.
    pub conflicts: Vec<String>,
    /// What became of the pause that was asked for.
    pub pause: Option<PauseNow>,
}

/// A pause after a settle that asked for one. Only a new one is worth an alarm: who knows of a fault does not need
/// to hear of it with every probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseNow {
    /// This settle began it.
    New {
        /// Why.
        reason: &'static str,
    },
    /// It was there already, and was renewed at most.
    Known {
        /// Why it was asked for.
        reason: &'static str,
    },
}

/// Where one row stands after its settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledRow {
    /// The row.
    pub id: String,
    /// Its state.
    pub status: Status,
    /// When it may be tried again (Unix ms).
    pub next_attempt_at: Option<i64>,
    /// The provider's id, where it has one.
    pub provider_message_id: Option<String>,
    /// 1 where the row was not moved by this settle: its claim was lost. Means nothing for an acceptance.
    pub foreign_claim: u8,
}

row!(SettledRow {
    id,
    status,
    next_attempt_at,
    provider_message_id,
    foreign_claim
});

/// "This is how the calls ended."
///
/// Repeatable: attempts close once by their own id, an accepted id is written where there is none, every other move
/// names the claim, and what is returned is read afresh.
///
/// # Errors
/// [`DatabaseError`]; the caller halves the list and tries again, or leaves the rows to their lease.
pub async fn settle(
    database: &impl Database,
    token: &str,
    now: Millis,
    settlements: &[Settlement],
    pause: Option<&NewPause>,
) -> Result<Settled, DatabaseError> {
    struct Begun {
        begun: u8,
    }
    row!(Begun { begun });
    let mut list = statements(token, now, settlements);
    let pause_now_at = list.len().saturating_add(1);
    if let Some(pause) = pause {
        list.push(Statement::new(
            PAUSE,
            vec![
                Value::Text(pause.reason.to_owned()),
                Value::Integer(now.get()),
                Value::Integer(pause.base_ms),
                Value::Integer(pause.cap_ms),
                Value::Text(token.to_owned()),
            ],
        ));
        list.push(Statement::new(PAUSE_NOW, vec![Value::Integer(now.get())]));
    }
    let results = database.run(Transaction::repeatable_write(list)).await?;
    let mut settled = read(&results, settlements)?;
    if let Some(NewPause { reason, .. }) = pause {
        let begun = rows_at::<Begun>(&results, pause_now_at)?;
        settled.pause = Some(if begun.iter().any(|row| row.begun == 1) {
            PauseNow::New { reason }
        } else {
            PauseNow::Known { reason }
        });
    }
    Ok(settled)
}

/// The statements of a settle; the same for a wave that is closed on the way.
pub(super) fn statements(token: &str, at: Millis, settlements: &[Settlement]) -> Vec<Statement> {
    if settlements.is_empty() {
        return Vec::new();
    }
    let list = Value::Text(serde_json::json!(settlements).to_string());
    let (token, now) = (Value::Text(token.to_owned()), Value::Integer(at.get()));
    let late = super::receipts::joined_by(&list, at);
    let mut statements = vec![
        Statement::new(CLOSE, vec![list.clone(), now.clone()]),
        Statement::new(ACCEPT, vec![list.clone(), now.clone()]),
        Statement::new(ACCEPT_REFUSED, vec![list.clone(), now.clone()]),
        Statement::new(SECOND_MAIL, vec![list.clone(), now.clone()]),
        Statement::new(MOVE, vec![list.clone(), token.clone(), now.clone()]),
        Statement::new(WHERE_NOW, vec![list.clone(), now.clone()]),
    ];
    // Last: where the rows stand is read at a fixed place of the answer.
    statements.extend(late);
    statements.extend(super::pauses::proved_by(&list, token, now));
    statements
}

/// Reads the answer to [`statements`], which come first in their transaction.
pub(super) fn read(results: &[Rows], settlements: &[Settlement]) -> Result<Settled, DatabaseError> {
    if settlements.is_empty() {
        return Ok(Settled::default());
    }
    let states: Vec<SettledRow> = rows_at(results, 5)?;
    let mut settled = Settled::default();
    for settlement in settlements {
        let Some(row) = states.iter().find(|row| row.id == settlement.id) else {
            settled.lost.push(settlement.id.clone());
            continue;
        };
        let accepted = settlement.message_id.is_some();
        if accepted && row.provider_message_id != settlement.message_id {
            settled.conflicts.push(settlement.id.clone());
        } else if !accepted && row.foreign_claim == 1 {
            settled.lost.push(settlement.id.clone());
        }
    }
    settled.states = states;
    Ok(settled)
}

/// Attempts are closed by their own id, whoever holds the row now. ?1 settlements, ?2 now
const CLOSE: &str = "UPDATE attempts SET
    closed_at = ?2, outcome = j.value ->> 'outcome', http_status = j.value ->> 'http_status', error = j.value ->> 'code',
    provider_message_id = j.value ->> 'message_id'
  FROM json_each(?1) j
  WHERE attempts.id = j.value ->> 'attempt' AND attempts.closed_at IS NULL";

/// any state -> sent. Proof of acceptance outranks every claim. A batch's member names its account again, within which no
/// two rows have one message id. OR IGNORE leaves out a row whose message id another
/// row has; the next statement finds it. ?1 settlements, ?2 now
const ACCEPT: &str = "UPDATE OR IGNORE outbox SET
    status = 'sent', cause = 'accepted', provider_message_id = j.value ->> 'message_id',
    provider_scope = coalesce((SELECT b.provider_scope FROM provider_batches b WHERE b.id = outbox.batch_id), provider_scope),
    settled_at = coalesce(settled_at, ?2), dead_class = NULL, last_error = NULL,
    claim_token = NULL, claim_expires_at = NULL, suspect = 0, lone_claim = 0, lone_deaths = 0,
    next_attempt_at = NULL, relay_at = NULL, attempt_count = attempt_count + (j.value ->> 'burns'), updated_at = ?2
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND j.value ->> 'outcome' = 'accepted' AND outbox.provider_message_id IS NULL";

/// open, dead_letter, failed, ... -> unknown: accepted, but under an id that proves another mail.
/// ?1 settlements, ?2 now
const ACCEPT_REFUSED: &str = "UPDATE outbox SET
    status = 'unknown', cause = 'message_id_conflict', last_error = 'message_id_conflict',
    settled_at = NULL, pruned_at = NULL, dead_class = NULL, claim_token = NULL, claim_expires_at = NULL, suspect = 0, lone_claim = 0,
    next_attempt_at = NULL, relay_at = NULL, updated_at = ?2
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND j.value ->> 'outcome' = 'accepted' AND outbox.provider_message_id IS NULL
    AND outbox.status <> 'unknown'";

/// A second message id for a row that is sent already: the row stays, the fact is written down once.
/// ?1 settlements, ?2 now
const SECOND_MAIL: &str = "INSERT INTO events (outbox_id, from_status, to_status, cause, at)
  SELECT o.id, o.status, o.status, 'duplicate_seen', ?2
  FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
  WHERE j.value ->> 'outcome' = 'accepted' AND o.provider_message_id IS NOT NULL
    AND o.provider_message_id <> j.value ->> 'message_id'
    AND NOT EXISTS (SELECT 1 FROM events e WHERE e.outbox_id = o.id AND e.cause = 'duplicate_seen')";

/// processing -> retry, failed, expired, dead_letter, unknown. Only for the claim that made the call; a row in doubt
/// that would end otherwise becomes unknown. ?1 settlements, ?2 token, ?3 now
const MOVE: &str = "UPDATE outbox SET
    status = moved.status, cause = moved.code, last_error = moved.code,
    dead_class = CASE WHEN moved.status = 'dead_letter' THEN moved.dead_class END,
    settled_at = CASE WHEN moved.status IN ('failed', 'expired') THEN ?3 END,
    next_attempt_at = CASE WHEN moved.status = 'retry' THEN moved.next_attempt_at END,
    relay_at = CASE WHEN moved.status = 'retry' THEN moved.relay_at END,
    attempt_count = attempt_count + moved.burns,
    claim_token = NULL, claim_expires_at = NULL, suspect = 0, lone_claim = 0, lone_deaths = 0, updated_at = ?3
  FROM (SELECT o.id AS id, j.value ->> 'code' AS code, j.value ->> 'dead_class' AS dead_class,
      j.value ->> 'next_attempt_at' AS next_attempt_at, j.value ->> 'relay_at' AS relay_at, j.value ->> 'burns' AS burns,
      CASE WHEN o.doubts > 0 AND j.value ->> 'status' <> 'retry' THEN 'unknown' ELSE j.value ->> 'status' END AS status
    FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
    WHERE j.value ->> 'outcome' <> 'accepted') AS moved
  WHERE outbox.id = moved.id AND outbox.status = 'processing' AND outbox.claim_token = ?2";

/// The row is ours to report when this settle's own move is the last thing that happened to it: at this time, with
/// this cause. Otherwise the claim was lost, whoever took it and whatever became of the row then. A repetition binds
/// the same time, so it recognises the move of the first run. ?1 settlements, ?2 now
const WHERE_NOW: &str = "SELECT o.id, o.status, o.next_attempt_at, o.provider_message_id,
    CASE WHEN o.updated_at = ?2 AND o.cause = j.value ->> 'code' THEN 0 ELSE 1 END AS foreign_claim
  FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'";

/// A new pause, or the next strike of one that its probe has just confirmed. A pause that others wrote in the same
/// moment is not a second strike. ?1 reason, ?2 now, ?3 base, ?4 cap, ?5 token
const PAUSE: &str = "INSERT INTO pauses (scope, reason, until, strikes, created_at)
  VALUES ('*', ?1, ?2 + min(?3, ?4), 1, ?2)
  ON CONFLICT (scope) DO UPDATE SET
    reason = ?1, set_by = 'system', strikes = strikes + 1, until = ?2 + min(?3 << min(strikes, 20), ?4), probe_token = NULL
  WHERE probe_token = ?5 OR until <= ?2";

/// Whether the pause began with this settle; a repetition binds the same time. ?1 now
const PAUSE_NOW: &str = "SELECT created_at = ?1 AND strikes = 1 AS begun FROM pauses WHERE scope = '*'";
