//! The consumer's middle round trips: freeze what was rendered, take the pace, open attempts; and, where they go out
//! in waves, close the wave before in the same transaction.

use libsql::Value;
use serde::Serialize;

use super::batches::{self, BatchOpening, OpenedBatch, Opener};
use super::database::{Database, DatabaseError, Statement, Transaction};
use super::lists::lists;
use super::outside::{self, PutBack};
use super::row::{row, rows_at};
use super::settle::{self, Settled, Settlement};
use super::slots::{NO_SLOT, OPEN, PACED_WAIT_MS_MAX, TAKE_PACE};
use crate::outbox::time::Millis;

/// A row that is about to be sent.
#[derive(Clone, Debug, Serialize)]
pub struct Opening<'a> {
    /// The row.
    pub id: &'a str,
    /// The new attempt's id.
    pub attempt: &'a str,
    /// What was rendered just now; `None` where the row has its seal already.
    pub seal: Option<NewSeal<'a>>,
    /// The hash of the bytes that will be sent.
    pub sha256: &'a str,
}

/// Bytes to freeze.
#[derive(Clone, Debug, Serialize)]
pub struct NewSeal<'a> {
    /// The request body. It travels in a list of its own.
    #[serde(skip)]
    pub body: &'a str,
    /// Its length in bytes.
    pub bytes: usize,
    /// The template's version; `None` for ready content.
    pub template_version: Option<&'a str>,
}

/// A row that cannot be sent because its letter cannot be read or rendered.
#[derive(Clone, Debug, Serialize)]
pub struct Rejection<'a> {
    /// The row.
    pub id: &'a str,
    /// A code of ours.
    pub code: &'static str,
    /// The template's version that failed; a later version is tried again.
    pub template_version: Option<&'a str>,
}

/// What the middle round trip asks for.
#[derive(Clone, Debug)]
pub struct OpenRequest<'a> {
    /// Proof of the claim.
    pub token: &'a str,
    /// Now.
    pub now: Millis,
    /// The provider and its account, as they are sealed with the row.
    pub provider: &'a str,
    /// The provider account.
    pub provider_scope: &'a str,
    /// Rows to open an attempt for, the most urgent first.
    pub openings: &'a [Opening<'a>],
    /// Calls that carry several mails, after those.
    pub batches: &'a [BatchOpening<'a>],
    /// Rows that cannot be sent.
    pub rejections: &'a [Rejection<'a>],
    /// Rows to give back.
    pub put_back: &'a [PutBack],
    /// Results of the wave before; empty for the first.
    pub settlements: &'a [Settlement],
    /// Time between two calls at the provider's pace, in ms; 0 where there is none.
    pub pace_interval_ms: i64,
    /// JSON object: the time between two mails of each family that has a pace of its own, in ms.
    pub family_intervals: &'a str,
    /// Time between two mails to one domain, in ms; 0 where there is none.
    pub domain_interval_ms: i64,
    /// The longest this claim can wait for a slot, in ms.
    pub pace_wait_ms_max: i64,
}

/// An attempt that is open now: the call may be made, at `planned_at` or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedAttempt {
    /// The row.
    pub outbox_id: String,
    /// The attempt.
    pub attempt: String,
    /// Its slot (Unix ms).
    pub planned_at: i64,
    /// The seal's hash as the database has it.
    pub seal_sha256: String,
}

row!(OpenedAttempt {
    outbox_id,
    attempt,
    planned_at,
    seal_sha256
});

/// A row whose claim was lost: others have moved it since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRow {
    /// Its id.
    pub id: String,
    /// When the claim ends that holds it now, if one does (Unix ms).
    pub claim_expires_at: Option<i64>,
}

row!(LostRow { id, claim_expires_at });

/// What the middle round trip brought.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// The attempts that are open; a row without one is not to be sent now.
    pub attempts: Vec<OpenedAttempt>,
    /// The batches whose attempts are open, every one of them.
    pub batches: Vec<OpenedBatch>,
    /// Rows that were no longer ours: nothing of them was changed.
    pub lost: Vec<LostRow>,
    /// What became of the wave before.
    pub settled: Settled,
}

/// "Freeze these, and which may I call now?"
///
/// Repeatable: seals and attempts are inserted under their own ids, the rest names the claim, and the buckets follow from
/// the attempts that are there.
///
/// # Errors
/// [`DatabaseError`]; nothing was opened then, unless it is `Ambiguous`.
pub async fn open(database: &impl Database, request: &OpenRequest<'_>) -> Result<Opened, DatabaseError> {
    #[derive(Serialize)]
    struct Bytes<'a> {
        id: &'a str,
        sha256: &'a str,
        body: &'a str,
    }
    let token = Value::Text(request.token.to_owned());
    let now = Value::Integer(request.now.get());
    let seals = lists(request.openings.iter().filter_map(|opening| {
        opening.seal.as_ref().map(|seal| Bytes {
            id: opening.id,
            sha256: opening.sha256,
            body: seal.body,
        })
    }));
    let openings = Value::Text(serde_json::json!(request.openings).to_string());
    let interval = Value::Integer(request.pace_interval_ms);
    let wait = Value::Integer(request.pace_wait_ms_max);
    let families = Value::Text(request.family_intervals.to_owned());
    let domain = Value::Integer(request.domain_interval_ms);
    let provider = Value::Text(request.provider.to_owned());
    let mut statements = settle::statements(request.token, request.now, request.settlements);
    statements.push(Statement::new(
        SEAL_ROW,
        vec![
            openings.clone(),
            token.clone(),
            now.clone(),
            provider.clone(),
            Value::Text(request.provider_scope.to_owned()),
        ],
    ));
    statements.extend(
        seals
            .into_iter()
            .map(|seals| Statement::new(SEAL_BYTES, vec![seals, token.clone()])),
    );
    statements.extend([
        Statement::new(
            OPEN,
            vec![
                openings.clone(),
                token.clone(),
                now.clone(),
                provider.clone(),
                interval.clone(),
                wait.clone(),
                families.clone(),
                domain.clone(),
            ],
        ),
        Statement::new(
            TAKE_PACE,
            vec![
                openings.clone(),
                token.clone(),
                provider.clone(),
                interval.clone(),
                families.clone(),
                domain.clone(),
            ],
        ),
    ]);
    let batches = batches::opened(
        request.batches,
        &Opener {
            token: &token,
            now: &now,
            provider: &provider,
            provider_scope: &Value::Text(request.provider_scope.to_owned()),
            interval: &interval,
            wait: &wait,
            families: &families,
            domain: &domain,
            put_aside_max: &Value::Integer(PACED_WAIT_MS_MAX),
        },
    );
    let batches_at = statements
        .len()
        .saturating_add(batches.len())
        .checked_sub(1)
        .filter(|_| !batches.is_empty());
    statements.extend(batches);
    statements.extend([
        Statement::new(
            REJECT,
            vec![
                Value::Text(serde_json::json!(request.rejections).to_string()),
                token.clone(),
                now.clone(),
            ],
        ),
        Statement::new(
            NO_SLOT,
            vec![
                openings.clone(),
                token.clone(),
                now.clone(),
                provider,
                interval,
                families,
                domain,
                Value::Integer(PACED_WAIT_MS_MAX),
            ],
        ),
    ]);
    statements.extend(outside::statements(
        request.put_back,
        request.openings.is_empty() && request.batches.is_empty(),
        &token,
        &now,
    ));
    let opened_at = statements.len();
    statements.push(Statement::new(OPENED, vec![openings, token.clone()]));
    let members = request.batches.iter().flat_map(|batch| &batch.members);
    let ids: Vec<&str> = request
        .openings
        .iter()
        .map(|opening| opening.id)
        .chain(members.map(|member| member.id))
        .chain(request.rejections.iter().map(|rejection| rejection.id))
        .chain(request.put_back.iter().map(|row| row.id.as_str()))
        .collect();
    let ids = Value::Text(serde_json::json!(ids).to_string());
    statements.push(Statement::new(LOST, vec![ids, token, now]));
    let results = database.run(Transaction::repeatable_write(statements)).await?;
    Ok(Opened {
        attempts: rows_at(&results, opened_at)?,
        lost: rows_at(&results, opened_at.saturating_add(1))?,
        batches: match batches_at {
            Some(at) => rows_at(&results, at)?,
            None => Vec::new(),
        },
        settled: settle::read(&results, request.settlements)?,
    })
}

/// The hash is set once, by the claim that rendered. ?1 openings, ?2 token, ?3 now, ?4 provider, ?5 scope
const SEAL_ROW: &str = "UPDATE outbox SET
    seal_sha256 = j.value ->> 'sha256', seal_bytes = j.value ->> '$.seal.bytes',
    template_version = j.value ->> '$.seal.template_version',
    provider = ?4, provider_scope = ?5, updated_at = ?3
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND outbox.claim_token = ?2 AND outbox.status = 'processing'
    AND outbox.seal_sha256 IS NULL AND j.value -> '$.seal' <> 'null'";

/// ?1 new seals, ?2 token
const SEAL_BYTES: &str = "INSERT INTO seals (outbox_id, sha256, body)
  SELECT o.id, o.seal_sha256, j.value ->> 'body'
  FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
  WHERE o.claim_token = ?2 AND o.status = 'processing' AND o.seal_sha256 = j.value ->> 'sha256'
  ON CONFLICT (outbox_id) DO NOTHING";

/// processing -> dead_letter (unknown where in doubt). ?1 rejections, ?2 token, ?3 now
const REJECT: &str = "UPDATE outbox SET
    status = CASE WHEN doubts > 0 THEN 'unknown' ELSE 'dead_letter' END,
    dead_class = CASE WHEN doubts = 0 THEN 'pipeline' END,
    cause = j.value ->> 'code', last_error = j.value ->> 'code',
    template_version = CASE WHEN seal_sha256 IS NULL THEN j.value ->> 'template_version' ELSE template_version END,
    claim_token = NULL, claim_expires_at = NULL, relay_at = NULL, updated_at = ?3
  FROM json_each(?1) j
  WHERE outbox.id = j.value ->> 'id' AND outbox.claim_token = ?2 AND outbox.status = 'processing'";

/// ?1 openings, ?2 token
const OPENED: &str = "SELECT o.id AS outbox_id, a.id AS attempt, a.planned_at, o.seal_sha256
  FROM json_each(?1) j JOIN attempts a ON a.id = j.value ->> 'attempt' JOIN outbox o ON o.id = a.outbox_id
  WHERE a.claim_token = ?2 AND a.closed_at IS NULL AND o.claim_token = ?2 AND o.status = 'processing'
  ORDER BY a.planned_at, o.seq";

/// Neither ours now nor moved by this transaction. ?1 ids, ?2 token, ?3 now
const LOST: &str = "SELECT o.id, o.claim_expires_at FROM json_each(?1) j JOIN outbox o ON o.id = j.value
  WHERE o.claim_token IS NOT ?2
    AND NOT (o.updated_at = ?3 AND (o.cause IN ('paced', 'outside_hours') OR o.status IN ('dead_letter', 'unknown')))";
