//! What the provider's events change: which row they belong to, what they prove, where the mail is, and who must not be
//! written to any more.
//!
//! The effects are set statements over the receipts that have a row and are not processed. The event is recorded, its
//! effects are written and it is marked as processed in one transaction, so that the set is empty outside of one, and no
//! mark stands without its effects.

use std::sync::OnceLock;

use libsql::Value;

use super::database::{Database, DatabaseError, Statement, Transaction};
use super::guard::{guarded, schema_guard};
use super::row::{row, rows_at};
use crate::outbox::receipt::{BounceKind, News};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;

/// How far back the relay looks for receipts that may have found their row meanwhile, in ms.
const WAITED_MS_MAX: i64 = 86_400_000;
/// Receipts that one tick looks at again, the newest: those of other programs on the same account wait for ever.
const WAITING_ROWS_MAX: i64 = 200;

/// An event to record.
#[derive(Clone, Copy, Debug)]
pub struct NewReceipt<'a> {
    /// The event's id: the same for every repetition of it.
    pub event_id: &'a str,
    /// What it says.
    pub news: News,
    /// Of a bounce: its kind.
    pub bounce: Option<BounceKind>,
    /// When it happened, by the provider's clock.
    pub at: Millis,
    /// The provider, as rows name it.
    pub provider: &'a str,
    /// The account that this program sends through.
    pub provider_scope: &'a str,
    /// The provider's id of the mail.
    pub message_id: &'a str,
    /// The outbox id that the mail carries.
    pub tagged_id: Option<&'a str>,
    /// Whom it is about.
    pub about: About<'a>,
}

/// Whom an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// The recipient with this hash.
    Recipient(&'a str),
    /// Nobody is named: the one recipient of the row.
    TheRow,
    /// Several are named, and it is not said which: nobody is suppressed by guess.
    Unclear,
}

/// What an event came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The row, where there is one.
    pub outbox_id: Option<String>,
    /// The row's state now.
    pub status: Option<Status>,
    /// 1 where this event proved that the mail was accepted, and nobody had known.
    pub proved: u8,
    /// 1 where it proved a second mail for the row.
    pub second_mail: u8,
    /// 1 where its message id belongs to another row.
    pub conflict: u8,
    /// 1 where it was known already.
    pub known: u8,
}

row!(Heard {
    outbox_id,
    status,
    proved,
    second_mail,
    conflict,
    known
});

/// "This happened." One batch: the receipt, what it proves, the delivery, the suppression, and its mark.
///
/// Repeatable: the event's id is there once, and every effect is taken from receipts that are not processed yet.
///
/// # Errors
/// [`DatabaseError`]; then nothing of the event was written, unless it is `Ambiguous`.
pub async fn hear(database: &impl Database, receipt: &NewReceipt<'_>, now: Millis) -> Result<Heard, DatabaseError> {
    let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
    let (recipient, of_the_row) = match receipt.about {
        About::Recipient(hash) => (Some(hash), 0),
        About::TheRow => (None, 1),
        About::Unclear => (None, 0),
    };
    let mut statements = vec![
        schema_guard(),
        Statement::new(
            RECORD,
            vec![
                text(Some(receipt.event_id)),
                text(Some(receipt.news.as_str())),
                text(receipt.bounce.map(BounceKind::as_str)),
                Value::Integer(receipt.at.get()),
                Value::Integer(now.get()),
                text(Some(receipt.provider)),
                text(Some(receipt.provider_scope)),
                text(Some(receipt.message_id)),
                text(receipt.tagged_id),
                text(recipient),
                Value::Integer(of_the_row),
            ],
        ),
    ];
    statements.extend(effects(now));
    let heard_at = statements.len();
    statements.push(Statement::new(
        HEARD,
        vec![text(Some(receipt.event_id)), Value::Integer(now.get())],
    ));
    let results = database
        .run(Transaction::repeatable_write(statements))
        .await
        .map_err(guarded)?;
    rows_at(&results, heard_at)?
        .into_iter()
        .next()
        .ok_or(DatabaseError::Shape)
}

/// The statements by which receipts that came before their mail's id find their row, once a settle has written the id.
pub(super) fn joined_by(settlements: &Value, now: Millis) -> Vec<Statement> {
    let mut statements = vec![Statement::new(JOIN_SETTLED, vec![settlements.clone()])];
    statements.extend(consequences(&Value::Integer(now.get())));
    statements
}

/// The statements by which the relay joins receipts to rows that got their message id in another way.
pub(super) fn joined_late(now: Millis) -> Vec<Statement> {
    let mut statements = vec![Statement::new(
        JOIN_LATE,
        vec![
            Value::Integer(now.get().saturating_sub(WAITED_MS_MAX)),
            Value::Integer(WAITING_ROWS_MAX),
        ],
    )];
    statements.extend(effects(now));
    statements
}

fn effects(now: Millis) -> Vec<Statement> {
    let now = Value::Integer(now.get());
    let mut statements = vec![
        Statement::new(PROVE, vec![now.clone()]),
        Statement::new(PROVE_REFUSED, vec![now.clone()]),
        Statement::new(SECOND_MAIL, vec![now.clone()]),
        Statement::new(JOIN_PROVED, Vec::new()),
    ];
    statements.extend(consequences(&now));
    statements
}

/// What follows for a mail that is known to be sent, and the mark that it followed.
fn consequences(now: &Value) -> [Statement; 3] {
    [
        Statement::new(DELIVERY, vec![now.clone(), ranks()]),
        Statement::new(SUPPRESS, vec![now.clone()]),
        Statement::new(PROCESSED, vec![now.clone()]),
    ]
}

/// What each kind of news means for `delivery`: JSON array of `{news, word, rank, worse}`.
fn ranks() -> Value {
    static RANKS: OnceLock<String> = OnceLock::new();
    let text = RANKS.get_or_init(|| {
        let list: Vec<_> = News::ALL
            .iter()
            .map(|news| {
                let worse = if news.is_worse() { news.rank() } else { 0 };
                serde_json::json!({
                    "news": news.as_str(), "word": news.delivery(), "rank": news.rank(), "worse": worse,
                })
            })
            .collect();
        serde_json::Value::Array(list).to_string()
    });
    Value::Text(text.clone())
}

/// By the id that the mail carries, otherwise by the provider's id within the account. Nothing where the event is known,
/// unless it still waits for a row and there is one now.
/// ?1 event, ?2 news, ?3 detail, ?4 at, ?5 now, ?6 provider, ?7 scope, ?8 message id, ?9 tagged id, ?10 recipient,
/// ?11 whether the row's recipient is meant
const RECORD: &str = "INSERT INTO receipts (event_id, news, detail, at, received_at, provider, provider_scope,
    message_id, tagged_id, recipient_hash, of_the_row, outbox_id)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, found.id
  FROM (SELECT coalesce(
    (SELECT o.id FROM outbox o WHERE o.id = ?9),
    (SELECT o.id FROM outbox o WHERE o.provider = ?6 AND o.provider_scope = ?7 AND o.provider_message_id = ?8)) AS id)
    AS found
  WHERE true
  ON CONFLICT (event_id) DO UPDATE SET outbox_id = excluded.outbox_id
    WHERE receipts.outbox_id IS NULL AND excluded.outbox_id IS NOT NULL";

/// Receipts that waited for a message id which this settle has written. ?1 settlements
const JOIN_SETTLED: &str = "UPDATE receipts SET outbox_id = o.id
  FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
  WHERE receipts.outbox_id IS NULL AND receipts.message_id = j.value ->> 'message_id'
    AND o.provider_message_id = receipts.message_id
    AND o.provider = receipts.provider AND o.provider_scope = receipts.provider_scope";

/// Receipts that waited, the newest ones, and have a row now. ?1 received since, ?2 rows at most
const JOIN_LATE: &str = "UPDATE receipts SET outbox_id = found.outbox_id
  FROM (SELECT r.event_id, coalesce(
      (SELECT o.id FROM outbox o WHERE o.id = r.tagged_id),
      (SELECT o.id FROM outbox o WHERE o.provider = r.provider AND o.provider_scope = r.provider_scope
        AND o.provider_message_id = r.message_id)) AS outbox_id
    FROM (SELECT * FROM receipts WHERE outbox_id IS NULL AND received_at > ?1 ORDER BY received_at DESC LIMIT ?2) r)
    AS found
  WHERE receipts.event_id = found.event_id AND found.outbox_id IS NOT NULL";

/// The receipts whose effects are to be written now.
macro_rules! unprocessed {
    () => {
        "r.outbox_id IS NOT NULL AND r.processed_at IS NULL"
    };
}

/// The message ids that they prove, one for each row.
macro_rules! proofs {
    () => {
        concat!(
            "(SELECT r.outbox_id AS id, min(r.message_id) AS message_id, min(r.provider) AS provider,
                min(r.provider_scope) AS provider_scope
              FROM receipts r WHERE ",
            unprocessed!(),
            " AND r.message_id IS NOT NULL GROUP BY r.outbox_id) AS proof"
        )
    };
}

/// any state without a message id -> sent. An event of the mail proves that it was accepted, whoever holds the row and
/// whatever was thought of it; a message id that a person named, and that nothing has confirmed, gives way to it.
/// OR IGNORE leaves out a row whose message id another row has. ?1 now
const PROVE: &str = concat!(
    "UPDATE OR IGNORE outbox SET
       status = 'sent', cause = 'proved_by_receipt', provider_message_id = proof.message_id,
       provider = coalesce(outbox.provider, proof.provider),
       provider_scope = coalesce((SELECT b.provider_scope FROM provider_batches b WHERE b.id = outbox.batch_id),
         outbox.provider_scope, proof.provider_scope),
       settled_at = coalesce(settled_at, ?1), dead_class = NULL, last_error = NULL,
       claim_token = NULL, claim_expires_at = NULL, suspect = 0, lone_claim = 0, lone_deaths = 0,
       next_attempt_at = NULL, relay_at = NULL, updated_at = ?1
     FROM ",
    proofs!(),
    " WHERE outbox.id = proof.id
       AND (outbox.provider_message_id IS NULL OR (outbox.cause = 'verdict_sent' AND outbox.delivery IS NULL
         AND outbox.provider_message_id <> proof.message_id))"
);

/// open, dead_letter, failed, ... -> unknown: accepted, but under an id that proves another mail. A row that is unknown
/// already says so from now on. ?1 now
const PROVE_REFUSED: &str = concat!(
    "UPDATE outbox SET
       status = 'unknown', cause = 'message_id_conflict', last_error = 'message_id_conflict',
       settled_at = NULL, pruned_at = NULL, dead_class = NULL, claim_token = NULL, claim_expires_at = NULL,
       suspect = 0, lone_claim = 0, next_attempt_at = NULL, relay_at = NULL, updated_at = ?1
     FROM ",
    proofs!(),
    " WHERE outbox.id = proof.id AND outbox.provider_message_id IS NULL
       AND (outbox.status <> 'unknown' OR (outbox.cause <> 'message_id_conflict' AND outbox.resolved_at IS NULL))"
);

/// An event of a mail that carries the row's id under another message id: a second mail, written down once. ?1 now
const SECOND_MAIL: &str = concat!(
    "INSERT INTO events (outbox_id, from_status, to_status, cause, at)
     SELECT DISTINCT o.id, o.status, o.status, 'duplicate_seen', ?1
     FROM receipts r JOIN outbox o ON o.id = r.outbox_id
     WHERE ",
    unprocessed!(),
    " AND o.provider_message_id <> r.message_id
       AND NOT EXISTS (SELECT 1 FROM events e WHERE e.outbox_id = o.id AND e.cause = 'duplicate_seen')"
);

/// What was said of a mail before anybody knew whose it is, now that an event has told.
const JOIN_PROVED: &str = concat!(
    "UPDATE receipts SET outbox_id = proved.id
     FROM (SELECT DISTINCT o.id, o.provider, o.provider_message_id
       FROM receipts r JOIN outbox o ON o.id = r.outbox_id AND o.provider_message_id = r.message_id
       WHERE ",
    unprocessed!(),
    ") AS proved
     WHERE receipts.outbox_id IS NULL AND receipts.message_id = proved.provider_message_id
       AND receipts.provider = proved.provider"
);

/// Where the mail is. News of a later time outranks an earlier one, at the same time the one that says more; what is
/// worse stays, whatever comes after it. The ids are asked for twice: without, the planner walks the whole outbox.
/// ?1 now, ?2 ranks
const DELIVERY: &str = concat!(
    "UPDATE outbox SET delivery = news.word, delivery_at = news.at, delivery_rank = news.rank,
       delivery_detail = news.detail, updated_at = ?1
     FROM (SELECT r.outbox_id AS id, r.at, r.detail, k.value ->> 'word' AS word, k.value ->> 'rank' AS rank,
         k.value ->> 'worse' AS worse,
         row_number() OVER (PARTITION BY r.outbox_id
           ORDER BY k.value ->> 'worse' DESC, r.at DESC, k.value ->> 'rank' DESC) AS place
       FROM receipts r JOIN outbox o ON o.id = r.outbox_id AND o.provider_message_id = r.message_id
         JOIN json_each(?2) k ON k.value ->> 'news' = r.news
       WHERE ",
    unprocessed!(),
    ") AS news
     WHERE outbox.id = news.id AND news.place = 1 AND outbox.status = 'sent'
       AND outbox.id IN (SELECT r.outbox_id FROM receipts r WHERE ",
    unprocessed!(),
    ")
       AND (outbox.delivery IS NULL OR (news.worse, news.at, news.rank) > (
         coalesce((SELECT max(k.value ->> 'worse') FROM json_each(?2) k WHERE k.value ->> 'word' = outbox.delivery), 0),
         outbox.delivery_at, outbox.delivery_rank))"
);

/// Whether the news is newer than all that the entry knows of.
macro_rules! is_new {
    () => {
        "excluded.news_at > coalesce(suppressions.news_at, 0)"
    };
}

/// A permanent bounce or a complaint suppresses the one recipient that it is about, for good. News that the entry does not
/// know of renews one that somebody has lifted or given an end; news that it knows of, told once more, does not.
/// ?1 now
const SUPPRESS: &str = concat!(
    "INSERT INTO suppressions (recipient_hash, family, reason, until, created_at, fact_at, news_at, outbox_id)
     SELECT news.recipient_hash, '*', CASE WHEN max(news.complained) THEN 'complained' ELSE 'bounced' END, NULL, ?1,
       max(news.at), max(news.at), min(news.outbox_id)
     FROM (SELECT coalesce(r.recipient_hash, CASE WHEN r.of_the_row THEN o.recipient_hash END) AS recipient_hash,
         r.news = 'complained' AS complained, r.at, r.outbox_id
       FROM receipts r JOIN outbox o ON o.id = r.outbox_id
       WHERE ",
    unprocessed!(),
    " AND (r.news = 'complained' OR (r.news = 'bounced' AND r.detail = 'permanent'))) AS news
     WHERE news.recipient_hash IS NOT NULL
     GROUP BY news.recipient_hash
     ON CONFLICT (recipient_hash, family) DO UPDATE SET
       reason = CASE WHEN lifted_at IS NULL AND reason = 'complained' THEN reason
         WHEN ",
    is_new!(),
    " OR (lifted_at IS NULL AND excluded.reason = 'complained') THEN excluded.reason
         ELSE reason END,
       created_at = CASE WHEN ",
    is_new!(),
    " AND (lifted_at IS NOT NULL OR until IS NOT NULL) THEN excluded.created_at
         ELSE created_at END,
       outbox_id = CASE WHEN ",
    is_new!(),
    " THEN excluded.outbox_id ELSE outbox_id END,
       until = CASE WHEN ",
    is_new!(),
    " THEN NULL ELSE until END,
       lifted_at = CASE WHEN ",
    is_new!(),
    " THEN NULL ELSE lifted_at END,
       fact_at = CASE WHEN ",
    is_new!(),
    " THEN excluded.fact_at ELSE fact_at END,
       news_at = max(coalesce(news_at, 0), excluded.news_at)"
);

/// ?1 now
const PROCESSED: &str = "UPDATE receipts SET processed_at = ?1 WHERE outbox_id IS NOT NULL AND processed_at IS NULL";

/// ?1 event, ?2 now
const HEARD: &str = "SELECT r.outbox_id, o.status, r.received_at <> ?2 AS known,
    coalesce(o.cause = 'proved_by_receipt' AND o.settled_at IS NOT NULL AND EXISTS (SELECT 1 FROM events e
      WHERE e.outbox_id = o.id AND e.cause = 'proved_by_receipt' AND e.at = ?2), 0) AS proved,
    coalesce(o.cause = 'message_id_conflict' AND o.updated_at = ?2, 0) AS conflict,
    EXISTS (SELECT 1 FROM events e WHERE e.outbox_id = o.id AND e.cause = 'duplicate_seen' AND e.at = ?2) AS second_mail
  FROM receipts r LEFT JOIN outbox o ON o.id = r.outbox_id
  WHERE r.event_id = ?1";
