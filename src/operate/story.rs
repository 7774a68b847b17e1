//! `GET /v1/intents/{id}`: one intent's story, without personal data.

use serde_json::{Value, json};

use super::http::Answer;
use crate::outbox::time::Millis;
use crate::ports::World;
use crate::store::database::DatabaseError;
use crate::store::inspect;

/// The story of a row.
///
/// # Errors
/// [`DatabaseError`].
pub(super) async fn story<W: World>(world: &W, id: &str) -> Result<Answer, DatabaseError> {
    let Some(story) = inspect::story(world.database(), id).await? else {
        return Ok(Answer::problem(
            404,
            "no_such_intent",
            "There is no intent with this id.",
        ));
    };
    let attempts: Vec<Value> = story
        .attempts
        .iter()
        .map(|attempt| {
            json!({
                "id": attempt.id,
                "openedAt": time(attempt.opened_at),
                "closedAt": attempt.closed_at.map(time),
                "outcome": attempt.outcome,
                "httpStatus": attempt.http_status,
                "code": attempt.error,
            })
        })
        .collect();
    let events: Vec<Value> = story
        .events
        .iter()
        .map(|event| {
            let mut shown =
                json!({ "from": event.from_status, "to": event.to_status, "cause": event.cause, "at": time(event.at) });
            if let (Some(batch), Some(members)) = (&event.replay_batch, shown.as_object_mut()) {
                members.insert("replayBatch".to_owned(), batch.as_str().into());
            }
            shown
        })
        .collect();
    let receipts: Vec<Value> = story
        .receipts
        .iter()
        .map(|receipt| {
            json!({
                "news": receipt.news,
                "detail": receipt.detail,
                "at": time(receipt.at),
                "receivedAt": time(receipt.received_at),
            })
        })
        .collect();
    let row = story.intent;
    Ok(Answer::json(
        200,
        json!({
            "id": row.id,
            "seq": row.seq,
            "family": row.family,
            "revision": row.revision,
            "status": row.status,
            "cause": row.cause,
            "deadLetterClass": row.dead_class,
            "delivery": row.delivery,
            "deliveryAt": row.delivery_at.map(time),
            "deliveryDetail": row.delivery_detail,
            "resend": row.resend,
            "resendOf": row.resend_of,
            "replayBatch": row.replay_batch,
            "batchId": row.batch_id,
            "resolvedAt": row.resolved_at.map(time),
            "attemptCount": row.attempt_count,
            "claimCount": row.claim_count,
            "publishCount": row.publish_count,
            "nextAttemptAt": row.next_attempt_at.map(time),
            "notBefore": row.not_before.map(time),
            "notAfter": row.not_after.map(time),
            "providerMessageId": row.provider_message_id,
            "lastError": row.last_error,
            "createdAt": time(row.created_at),
            "updatedAt": time(row.updated_at),
            "settledAt": row.settled_at.map(time),
            "attempts": attempts,
            "events": events,
            "receipts": receipts,
        }),
    ))
}

/// A moment as every answer shows it.
pub(super) fn time(unix_ms: i64) -> String {
    Millis::new(unix_ms).to_string()
}
