//! The consumer's first round trip: end what must not be sent, claim what may, and say where the rest stands.

use libsql::Value;

use super::batches::{self, ClaimedBatch, FETCH_BATCHES, whole_batches};
use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::ready::{of_the_batch, own_account, ready, sendable};
use super::row::{row, rows_at};
use super::shared_sql::{due, held, movable, paused_until, stop_assignments, stop_cause};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// How long a row is put aside that this version or this account must not send now (hold mode, another provider
/// scope): somebody has to act, and the relay looks again each hour.
const PUT_ASIDE_MS: i64 = 3_600_000;
/// Rows that one claim takes at most beyond its first: a batch's members come with the one that was asked for, and what is
/// claimed is settled in one transaction.
const CLAIM_ROWS_MAX: i64 = 500;

/// What a claim asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest<'a> {
    /// The rows that the delivered envelopes point to, each once.
    pub ids: &'a [&'a str],
    /// Proof of this claim, fresh and secret.
    pub token: &'a str,
    /// Now.
    pub now: Millis,
    /// When the claim ends by itself.
    pub expires_at: Millis,
    /// How long after its end the relay waits before it looks (clock skew), in ms.
    pub skew_ms: i64,
    /// At most this many rows, mails that go out in one call counting as one.
    pub rows_max: usize,
    /// At most this many where a suspect waits among the ids: one of them must fit into the invocation too, or a
    /// steady stream of healthy rows would keep it waiting for ever.
    pub rows_max_beside_suspects: usize,
    /// At most this many bytes of letters with their attachments and of seals; one row may be larger and then comes alone.
    pub bytes_max: usize,
    /// `true` claims rows whose last claim ended without a settle, and only those.
    pub suspects: bool,
    /// Lone deaths that end a row.
    pub lone_deaths_max: u32,
    /// The used part of the provider window, in ms.
    pub window_ms: i64,
    /// Name of the provider that this program sends through.
    pub provider: &'a str,
    /// The provider account.
    pub provider_scope: &'a str,
    /// JSON array of `{family, template, version}` that this version can render.
    pub known_templates: &'a str,
    /// JSON array of families that are on hold.
    pub held_families: &'a str,
    /// JSON array of families whose mails go out together.
    pub batch_families: &'a str,
}

/// A row that is ours until the claim's end.
#[derive(Clone, Debug)]
pub struct ClaimedRow {
    /// Its id.
    pub id: String,
    /// Its family.
    pub family: String,
    /// Its template; `None` where the letter is ready content.
    pub template: Option<String>,
    /// Tries that were counted so far.
    pub attempt_count: u32,
    /// How often it was claimed, this time included.
    pub claim_count: i64,
    /// Attempts that may have been accepted.
    pub doubts: u32,
    /// When the provider may first have seen the key (Unix ms).
    pub window_anchor_at: Option<i64>,
    /// Not to be sent at or after this time (Unix ms).
    pub not_after: Option<i64>,
    /// Goes to the provider with the request.
    pub idempotency_key: String,
    /// The hash of its seal, once it has one.
    pub seal_sha256: Option<String>,
    /// The sealed bytes; `None` where it has no seal, or where the seal is missing although it has the hash.
    pub seal_body: Option<String>,
    /// The letter as JSON; only for rows without a seal.
    pub letter: Option<String>,
    /// The recipient's time zone as the letter names it; empty where nobody can tell whether it names one.
    pub time_zone: Option<String>,
    /// The attachments as a JSON list; only for rows without a seal, and only where there are some.
    pub attachments: Option<String>,
    /// The batch that it is frozen in; its bytes are the batch's.
    pub batch_id: Option<String>,
    /// Its place there.
    pub batch_position: Option<usize>,
    /// 1 where a batch that it was in was refused: it goes out alone.
    pub batch_refused: u8,
}

row!(ClaimedRow {
    id,
    family,
    template,
    attempt_count,
    claim_count,
    doubts,
    window_anchor_at,
    not_after,
    idempotency_key,
    seal_sha256,
    seal_body,
    letter,
    time_zone,
    attachments,
    batch_id,
    batch_position,
    batch_refused,
});

/// Where a row stands after the claim, whoever holds it.
#[derive(Clone, Debug)]
pub struct RowState {
    /// Its id.
    pub id: String,
    /// Its state.
    pub status: Status,
    /// When its current claim ends (Unix ms).
    pub claim_expires_at: Option<i64>,
    /// When it may be tried again (Unix ms), the later of back-off and window.
    pub due_at: i64,
    /// 1 where it must run alone.
    pub suspect: u8,
    /// 1 where this claim ended it in a state that asks for a person.
    pub stopped: u8,
    /// The batch that it is frozen in. It is due, and runs alone, as its batch does.
    pub batch_id: Option<String>,
}

row!(RowState {
    id,
    status,
    claim_expires_at,
    due_at,
    suspect,
    stopped,
    batch_id
});

/// What the claim brought.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// Ours now, the most urgent first, then the oldest. Being in this list is the one proof of the claim.
    pub rows: Vec<ClaimedRow>,
    /// Every row that exists, ours included.
    pub states: Vec<RowState>,
    /// The batches of the claimed rows.
    pub batches: Vec<ClaimedBatch>,
    /// Rows beside the delivered ones that became unknown with their batch.
    pub stopped_beside: Vec<String>,
}

/// "Which of these rows may I send, and where do the others stand?"
///
/// Repeatable: a second run finds the rows it has already claimed by its own token, and the states are read afresh.
///
/// # Errors
/// [`DatabaseError`]; `SchemaMismatch` where program and schema do not fit.
pub async fn claim(database: &impl Database, request: &ClaimRequest<'_>) -> Result<Claimed, DatabaseError> {
    let ids = Value::Text(serde_json::json!(request.ids).to_string());
    let now = Value::Integer(request.now.get());
    let token = Value::Text(request.token.to_owned());
    let window = Value::Integer(request.window_ms);
    let known = Value::Text(request.known_templates.to_owned());
    let deaths = Value::Integer(i64::from(request.lone_deaths_max));
    let families = Value::Text(request.batch_families.to_owned());
    let [stop_batch, dissolve] = batches::judged(&ids, &now, &window, &known, &deaths);
    let statements = vec![
        schema_guard(),
        stop_batch,
        dissolve,
        Statement::new(STOP, vec![ids.clone(), now.clone(), window, known, deaths]),
        Statement::new(
            PROBE,
            vec![
                ids.clone(),
                now.clone(),
                token.clone(),
                Value::Integer(request.expires_at.get()),
                Value::Integer(i64::from(request.suspects)),
                Value::Text(request.held_families.to_owned()),
                Value::Text(request.provider.to_owned()),
                Value::Text(request.provider_scope.to_owned()),
                families.clone(),
            ],
        ),
        Statement::new(
            PROBE_FAMILIES,
            vec![
                ids.clone(),
                now.clone(),
                token.clone(),
                Value::Integer(request.expires_at.get()),
                Value::Integer(i64::from(request.suspects)),
                Value::Text(request.held_families.to_owned()),
                Value::Text(request.provider.to_owned()),
                Value::Text(request.provider_scope.to_owned()),
                families.clone(),
            ],
        ),
        Statement::new(
            CLAIM,
            vec![
                ids.clone(),
                now.clone(),
                token.clone(),
                Value::Integer(request.expires_at.get()),
                Value::Integer(i64::from(request.suspects)),
                Value::Integer(request.expires_at.get().saturating_add(request.skew_ms)),
                Value::Text(request.held_families.to_owned()),
                Value::Text(request.provider.to_owned()),
                Value::Text(request.provider_scope.to_owned()),
                Value::Integer(i64::try_from(request.rows_max).unwrap_or(i64::MAX)),
                Value::Integer(i64::try_from(request.bytes_max).unwrap_or(i64::MAX)),
                Value::Integer(i64::try_from(request.rows_max_beside_suspects).unwrap_or(i64::MAX)),
                families,
                Value::Integer(CLAIM_ROWS_MAX),
            ],
        ),
        Statement::new(
            PUT_ASIDE,
            vec![
                ids.clone(),
                now,
                token.clone(),
                Value::Text(request.held_families.to_owned()),
                Value::Text(request.provider.to_owned()),
                Value::Text(request.provider_scope.to_owned()),
                Value::Integer(request.now.get().saturating_add(PUT_ASIDE_MS)),
            ],
        ),
        Statement::new(FETCH, vec![ids.clone(), token.clone()]),
        Statement::new(STATES, vec![ids.clone(), Value::Integer(request.now.get())]),
        Statement::new(FETCH_BATCHES, vec![ids.clone(), token]),
        batches::stopped_beside(ids, request.now),
    ];
    let results = database
        .run(Transaction::repeatable_write(statements))
        .await
        .map_err(guarded)?;
    Ok(Claimed {
        rows: rows_at(&results, 8)?,
        states: rows_at(&results, 9)?,
        batches: rows_at(&results, 10)?,
        stopped_beside: batches::beside(&results, 11)?,
    })
}

/// open -> suppressed, expired, dead_letter or unknown. ?1 ids, ?2 now, ?3 window, ?4 known, ?5 deaths
const STOP: &str = concat!(
    "UPDATE outbox SET ",
    stop_assignments!("?2"),
    " FROM (SELECT o.id AS id, ",
    stop_cause!("?2", "?3", "?4", "?5"),
    " AS cause FROM json_each(?1) j JOIN outbox o ON o.id = j.value WHERE ",
    movable!("?2"),
    ") AS stop WHERE outbox.id = stop.id AND stop.cause IS NOT NULL"
);

/// A pause of everything that has run out lets one claim through, for a single row; until that claim ends the pause
/// holds for everybody else. Only a claim that will find a row may take the probe: one that comes away empty would
/// keep everybody waiting for nothing, and among suspects alone for ever.
/// ?1 ids, ?2 now, ?3 token, ?4 claim's end, ?5 suspects only, ?6 held families, ?7 provider, ?8 scope, ?9 batch families
const PROBE: &str = concat!(
    "UPDATE pauses SET probe_token = ?3, until = ?4
     WHERE scope = '*' AND until <= ?2
       AND EXISTS (SELECT 1 FROM ",
    ready!("?2", "?3", "?5", "?6", "?7", "?8", "?9"),
    ")"
);

/// The same for a pause of one family, whose other rows wait for the probe while other families go on. Where this claim
/// is the probe of everything, it has a single row anyway. The parameters are those of [`PROBE`].
const PROBE_FAMILIES: &str = concat!(
    "UPDATE pauses SET probe_token = ?3, until = ?4
     WHERE scope <> '*' AND until <= ?2
       AND NOT EXISTS (SELECT 1 FROM pauses everything WHERE everything.scope = '*' AND everything.probe_token = ?3)
       AND scope IN (SELECT family FROM ",
    ready!("?2", "?3", "?5", "?6", "?7", "?8", "?9"),
    ")"
);

/// pending, enqueued, retry, processing (its claim ended) -> processing. The probe of a family comes first, or it could
/// find no room for ever; then what is most urgent, then the oldest. What is called at once counts as one: a batch, and up
/// to a hundred mails that will be one.
/// ?1 ids, ?2 now, ?3 token, ?4 claim's end, ?5 suspects only, ?6 relay time, ?7 held families, ?8 provider, ?9 scope,
/// ?10 calls at most, ?11 bytes at most, ?12 calls at most where a suspect waits, ?13 batch families, ?14 rows at most
const CLAIM: &str = concat!(
    "UPDATE outbox SET
       status = 'processing', cause = 'claimed', claim_token = ?3, claim_expires_at = ?4,
       claim_count = claim_count + (claim_token IS NOT ?3),
       lone_deaths = lone_deaths + (status = 'processing' AND lone_claim = 1 AND claim_token <> ?3),
       lone_claim = ?5, suspect = 0, next_attempt_at = NULL, relay_at = ?6, updated_at = ?2
     WHERE id IN (SELECT id FROM (
       SELECT id,
         dense_rank() OVER urgent_first AS place,
         sum(bytes) OVER urgent_first AS bytes_so_far,
         count(*) OVER urgent_first AS rows_so_far,
         sum(begins) OVER urgent_first AS calls_so_far
       FROM (SELECT turn.*, CASE
             WHEN batch_id IS NOT NULL THEN seq = unit_seq
             WHEN joins IS NOT NULL
               THEN (row_number() OVER (PARTITION BY joins ORDER BY unit_priority, seq) - 1) % 100 = 0
             ELSE 1 END AS begins
           FROM (SELECT ready.*,
               dense_rank() OVER (PARTITION BY family ORDER BY unit_priority, unit_seq) AS of_family
             FROM ",
    ready!("?2", "?3", "?5", "?7", "?8", "?9", "?13"),
    ") AS turn
           WHERE probing = 0 OR of_family = 1)
       WINDOW urgent_first AS (ORDER BY probing DESC, unit_priority, unit_seq))
     WHERE (place = 1 OR (bytes_so_far <= ?11 AND rows_so_far <= ?14
         AND NOT EXISTS (SELECT 1 FROM pauses WHERE scope = '*' AND probe_token = ?3)))
       AND calls_so_far <= CASE
         WHEN EXISTS (SELECT 1 FROM json_each(?1) j JOIN outbox o ON o.id = j.value
           WHERE (o.suspect = 1 OR o.status = 'processing') AND ",
    movable!("?2"),
    " AND ",
    due!("?2"),
    ") THEN ?12 ELSE ?10 END)"
);

/// pending, enqueued, retry, processing (its claim ended) -> retry: due, but a pause, a hold or another account keeps
/// it back. It remembers whether it must run alone. The mails of a batch are put aside together, or they would never be due
/// together. ?1 ids, ?2 now, ?3 token, ?4 held, ?5 provider, ?6 scope, ?7 later
const PUT_ASIDE: &str = concat!(
    "UPDATE outbox SET
       status = 'retry', cause = aside.cause, next_attempt_at = aside.until, relay_at = aside.until,
       suspect = max(suspect, status = 'processing'),
       lone_deaths = lone_deaths + (status = 'processing' AND lone_claim = 1), lone_claim = 0,
       claim_token = NULL, claim_expires_at = NULL, updated_at = ?2
     FROM (SELECT o.id AS id,
         CASE WHEN ",
    paused_until!("?2", "?3"),
    " IS NOT NULL THEN 'paused'
              WHEN ",
    held!("?4"),
    " THEN 'held'
              WHEN o.seal_sha256 IS NOT NULL AND NOT ",
    own_account!("?5", "?6"),
    "
                THEN 'provider_scope_changed' END AS cause,
         coalesce(",
    paused_until!("?2", "?3"),
    ", ?7) AS until
       FROM ",
    whole_batches!(),
    " w JOIN outbox o ON o.id = w.id
       WHERE ",
    movable!("?2"),
    " AND ",
    due!("?2"),
    ") AS aside
     WHERE outbox.id = aside.id AND aside.cause IS NOT NULL"
);

/// Attachments are JSON already: a list of them is their texts with commas between. ?1 ids, ?2 token
const FETCH: &str = concat!(
    "SELECT o.id, o.family, o.template, o.attempt_count, o.claim_count, o.doubts, o.window_anchor_at,
       o.not_after, o.idempotency_key, o.seal_sha256, s.body AS seal_body,
       CASE WHEN o.seal_sha256 IS NULL THEN l.body END AS letter,
       CASE WHEN json_valid(l.body) THEN CAST(l.body ->> '$.timeZone' AS TEXT) ELSE '' END AS time_zone,
       CASE WHEN o.seal_sha256 IS NULL THEN (SELECT '[' || group_concat(a.body, ',') || ']'
         FROM (SELECT body FROM attachments WHERE outbox_id = o.id ORDER BY position) a) END AS attachments,
       o.batch_id, o.batch_position, o.batch_refused
     FROM ",
    whole_batches!(),
    " w JOIN outbox o ON o.id = w.id
       LEFT JOIN letters l ON l.outbox_id = o.id
       LEFT JOIN seals s ON s.outbox_id = o.id
     WHERE o.status = 'processing' AND o.claim_token = ?2
     ORDER BY o.priority, o.seq"
);

/// ?1 ids, ?2 now
const STATES: &str = concat!(
    "SELECT o.id, o.status, o.claim_expires_at, o.batch_id,
       coalesce(CASE WHEN o.relay_at IS NOT NULL THEN ",
    of_the_batch!("max(m.suspect = 1 OR (m.status = 'processing' AND m.claim_expires_at <= ?2))"),
    " END, o.suspect) AS suspect,
       o.updated_at = ?2 AND o.status IN ('dead_letter', 'unknown') AS stopped,
       max(coalesce(o.next_attempt_at, 0), coalesce(o.not_before, 0), coalesce(",
    of_the_batch!(
        "max(max(coalesce(m.next_attempt_at, 0), coalesce(m.not_before, 0),
          CASE WHEN m.claim_expires_at > ?2 THEN m.claim_expires_at ELSE 0 END))"
    ),
    ", 0)) AS due_at
     FROM json_each(?1) j JOIN outbox o ON o.id = j.value"
);
