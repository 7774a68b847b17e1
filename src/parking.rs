//! What nobody understood is kept before it is acknowledged; where it cannot be kept, it comes again.

use sha2::{Digest, Sha256};

use crate::consume::{Decision, Delivery, retry_delay};
use crate::outbox::envelope::{Envelope, EnvelopeError};
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::database::DatabaseError;
use crate::store::parking::{Parked, park};

/// Bytes of a queue's raw body that are kept; its hash and length tell the rest. An envelope of ours is far shorter.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a signed event that are kept. It comes once, and what was cut can never be read again: ten times the length
/// of an event with many tags and headers.
const EVENT_BODY_BYTES_MAX: usize = 64 * 1024;
/// Where signed events come from.
const RECEIPTS: &str = "receipts";
/// Bytes of an event's id that are kept; the provider's have about 40.
const EVENT_ID_BYTES_MAX: usize = 256;
/// Bytes that one byte of a body may become in the statement's argument: a control character is six in JSON.
const WRITTEN_BYTES_MAX: usize = 6;
/// Bytes of an entry beside its body: hash, codes, names and punctuation, rounded up.
const ENTRY_BYTES: usize = 512;
/// Bytes of one statement's argument. The server takes no value over 5 MB, and would refuse a whole batch of the longest
/// bodies for ever.
const STATEMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Parks bodies that are no envelopes of ours. One decision for each.
pub(crate) async fn park_all<W: World>(
    world: &W,
    source: &'static str,
    deliveries: &[Delivery],
    unreadable: &[(usize, EnvelopeError)],
) -> Vec<(usize, Decision)> {
    let list: Vec<(usize, &'static str)> = unreadable
        .iter()
        .map(|(index, error)| (*index, envelope_code(*error)))
        .collect();
    park_as(world, source, deliveries, &list).await
}

/// Parks envelopes that point to no row.
pub(crate) async fn park_orphans<W: World>(
    world: &W,
    source: &'static str,
    deliveries: &[Delivery],
    indexes: &[usize],
) -> Vec<(usize, Decision)> {
    let list: Vec<(usize, &'static str)> = indexes.iter().map(|index| (*index, "envelope_without_row")).collect();
    park_as(world, source, deliveries, &list).await
}

async fn park_as<W: World>(
    world: &W,
    source: &'static str,
    deliveries: &[Delivery],
    list: &[(usize, &'static str)],
) -> Vec<(usize, Decision)> {
    let mut decided = Vec::with_capacity(list.len());
    for part in parts(deliveries, list) {
        decided.extend(park_part(world, source, deliveries, &part).await);
    }
    decided
}

/// The list in pieces that one statement can carry; usually it is one.
fn parts(deliveries: &[Delivery], list: &[(usize, &'static str)]) -> Vec<Vec<(usize, &'static str)>> {
    let mut parts: Vec<Vec<(usize, &'static str)>> = Vec::new();
    let mut room = 0usize;
    for (index, reason) in list {
        let body = deliveries.get(*index).and_then(|delivery| delivery.body.as_deref());
        let kept = body.map_or(0, |body| body.len().min(BODY_BYTES_MAX));
        let bytes = kept.saturating_mul(WRITTEN_BYTES_MAX).saturating_add(ENTRY_BYTES);
        match (parts.last_mut(), room.checked_sub(bytes)) {
            (Some(part), Some(left)) => {
                part.push((*index, *reason));
                room = left;
            }
            (_, _) => {
                parts.push(vec![(*index, *reason)]);
                room = STATEMENT_BYTES_MAX.saturating_sub(bytes);
            }
        }
    }
    parts
}

async fn park_part<W: World>(
    world: &W,
    source: &'static str,
    deliveries: &[Delivery],
    list: &[(usize, &'static str)],
) -> Vec<(usize, Decision)> {
    let mut parked: Vec<Parked> = Vec::new();
    for (index, reason) in list {
        let body = deliveries
            .get(*index)
            .and_then(|delivery| delivery.body.as_deref())
            .unwrap_or_default();
        // An envelope names the row that it misses; what is no envelope names none.
        let origin = Envelope::read(Some(body)).ok().map(|envelope| envelope.outbox_id);
        let entry = parked_body(source, reason, origin, body);
        note_parked(world, reason);
        if parked.iter().all(|other| other.hash != entry.hash) {
            parked.push(entry);
        }
    }
    let kept = park(world.database(), &parked, world.clock().now()).await;
    if let Err(error) = &kept {
        note_failed(world, error);
    }
    list.iter()
        .map(|(index, _)| {
            let attempts = deliveries.get(*index).map_or(1, |delivery| delivery.attempts);
            (
                *index,
                if kept.is_ok() {
                    Decision::Acknowledge
                } else {
                    retry_delay(attempts)
                },
            )
        })
        .collect()
}

/// Parks a signed event that cannot be read or has no effect that we know. `event_id` is the provider's: the same event
/// again is the same entry. Bytes that are no UTF-8 are kept as replacement characters.
///
/// # Errors
/// [`DatabaseError`]; then the provider has to send it again.
pub(crate) async fn park_receipt<W: World>(
    world: &W,
    reason: &'static str,
    event_id: &str,
    body: &[u8],
) -> Result<(), DatabaseError> {
    let body = String::from_utf8_lossy(body);
    let origin = event_id.get(..event_id.floor_char_boundary(EVENT_ID_BYTES_MAX));
    let entry = parked_body(RECEIPTS, reason, origin.map(str::to_owned), &body);
    note_parked(world, reason);
    let kept = park(world.database(), &[entry], world.clock().now()).await;
    if let Err(error) = &kept {
        note_failed(world, error);
    }
    kept
}

fn note_parked<W: World>(world: &W, reason: &'static str) {
    world
        .log()
        .note(Level::Alarm, "input_parked", &[("reason", Field::Code(reason))]);
}

fn note_failed<W: World>(world: &W, error: &DatabaseError) {
    world
        .log()
        .note(Level::Warn, "parking_failed", &[("error", Field::Code(error.code()))]);
}

fn parked_body(source: &'static str, reason: &'static str, origin: Option<String>, body: &str) -> Parked {
    let mut hash = Sha256::new();
    hash.update(source.as_bytes());
    hash.update([0]);
    hash.update(reason.as_bytes());
    hash.update([0]);
    hash.update(body.as_bytes());
    let bytes_max = if source == RECEIPTS {
        EVENT_BODY_BYTES_MAX
    } else {
        BODY_BYTES_MAX
    };
    let kept = body.floor_char_boundary(bytes_max);
    Parked {
        hash: hex(&hash.finalize()),
        source,
        reason,
        origin,
        body: body.get(..kept).unwrap_or_default().to_owned(),
        body_bytes: body.len(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn envelope_code(error: EnvelopeError) -> &'static str {
    match error {
        EnvelopeError::NotText => "envelope_not_text",
        EnvelopeError::TooLong => "envelope_too_long",
        EnvelopeError::Unreadable => "envelope_unreadable",
        EnvelopeError::KindUnknown => "envelope_kind_unknown",
        EnvelopeError::VersionUnknown => "envelope_version_unknown",
        EnvelopeError::IdInvalid => "envelope_id_invalid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_input_is_one_entry_and_another_source_or_reason_is_another() {
        let entry = |source, reason, body: &str| parked_body(source, reason, None, body).hash;
        let first = entry("receipts", "event_unreadable", "{}");
        assert_eq!(first, entry("receipts", "event_unreadable", "{}"));
        for other in [
            entry("queue", "event_unreadable", "{}"),
            entry("receipts", "event_unknown", "{}"),
            entry("receipts", "event_unreadable", "{} "),
            // What is cut off counts too.
            entry("receipts", "event_unreadable", &"x".repeat(EVENT_BODY_BYTES_MAX + 1)),
            entry("receipts", "event_unreadable", &"x".repeat(EVENT_BODY_BYTES_MAX + 2)),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn a_body_is_cut_between_characters_and_says_how_long_it_was() {
        for (source, kept) in [
            ("queue", BODY_BYTES_MAX),
            ("dead_letter_queue", BODY_BYTES_MAX),
            ("receipts", EVENT_BODY_BYTES_MAX),
        ] {
            let whole = format!("x{}", "\u{e9}".repeat(kept));
            let entry = parked_body(source, "event_unreadable", Some("msg_1".to_owned()), &whole);
            // One less: a character would have been halved.
            assert_eq!(
                (entry.body.len(), entry.body_bytes),
                (kept - 1, 2 * kept + 1),
                "{source}"
            );
            assert_eq!(entry.origin.as_deref(), Some("msg_1"));
        }
        let short = parked_body("receipts", "event_unreadable", None, "");
        assert_eq!((short.body.len(), short.body_bytes), (0, 0));
    }
}
