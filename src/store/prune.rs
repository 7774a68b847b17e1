//! What goes when a row has been settled for long enough: letter, attachments, attempts, and all events but the last. The row and its
//! keys stay as a tombstone without personal data, so that a replay in a year is still a duplicate. Rows that are open, or
//! that ask for a person, are never touched. Receipts go by their own age: what they said stands in the rows and in the
//! suppressions, which stay. Parked input goes once it has been decided about for as long; what waits for a person stays,
//! but an event of the provider, which names people, loses its body after the same time.

use libsql::Value;

use super::database::Statement;
use crate::outbox::time::Millis;

/// Rows that one tick prunes at most: it drains 144,000 rows a day, and never delays a publication.
const ROWS_MAX: i64 = 100;
/// Receipts that one tick prunes at most: a mail has several.
const RECEIPTS_MAX: i64 = 1_000;
/// Closed entries of the parking that one tick prunes at most: ten orders that discard as many as one may.
const CLOSED_ENTRIES_MAX: i64 = 1_000;
/// Parked events that lose their bodies in one tick at most: a body has up to 64 KiB.
const PARKED_BODIES_MAX: i64 = 200;
/// How long a complaint or a permanent bounce waits for its mail, in ms: a person may say weeks later which mail it was.
const GRAVE_NEWS_MS: i64 = 90 * 86_400_000;

/// The statements that prune the next rows which were settled at or before `settled_until`. They belong into one
/// transaction, in this order: the last one takes the rows out of the page of all.
///
/// Repeatable: a second run prunes the next rows.
pub(super) fn statements(now: Millis, settled_until: Millis) -> Vec<Statement> {
    let page = vec![Value::Integer(settled_until.get()), Value::Integer(ROWS_MAX)];
    let resolved = page.clone();
    vec![
        Statement::new(LETTERS, page.clone()),
        Statement::new(FACTS, page.clone()),
        Statement::new(ATTACHMENTS, page.clone()),
        Statement::new(ATTEMPTS, page.clone()),
        Statement::new(EVENTS, page),
        Statement::new(
            MARK,
            vec![
                Value::Integer(settled_until.get()),
                Value::Integer(ROWS_MAX),
                Value::Integer(now.get()),
            ],
        ),
        Statement::new(
            RECEIPTS,
            vec![
                Value::Integer(settled_until.get()),
                Value::Integer(RECEIPTS_MAX),
                Value::Integer(now.get().saturating_sub(GRAVE_NEWS_MS)),
            ],
        ),
        Statement::new(RESOLVED_LETTERS, resolved.clone()),
        Statement::new(RESOLVED_ATTACHMENTS, resolved.clone()),
        Statement::new(RESOLVED_SEALS, resolved.clone()),
        Statement::new(RESOLVED_FACTS, resolved.clone()),
        Statement::new(MARK_RESOLVED, resolved),
        Statement::new(
            CLOSED_ENTRIES,
            vec![Value::Integer(settled_until.get()), Value::Integer(CLOSED_ENTRIES_MAX)],
        ),
        Statement::new(
            PARKED_BODIES,
            vec![Value::Integer(settled_until.get()), Value::Integer(PARKED_BODIES_MAX)],
        ),
    ]
}

/// ?1 settled until, ?2 rows at most
macro_rules! page {
    () => {
        "(SELECT id FROM outbox WHERE settled_at <= ?1 AND pruned_at IS NULL ORDER BY settled_at LIMIT ?2)"
    };
}

const LETTERS: &str = concat!("DELETE FROM letters WHERE outbox_id IN ", page!());

/// With the letter goes its secret, and what found it there.
const FACTS: &str = concat!("DELETE FROM letter_secrets WHERE outbox_id IN ", page!());
const ATTACHMENTS: &str = concat!("DELETE FROM attachments WHERE outbox_id IN ", page!());

const ATTEMPTS: &str = concat!("DELETE FROM attempts WHERE outbox_id IN ", page!());

/// The last event is the snapshot that the log replays to.
const EVENTS: &str = concat!(
    "DELETE FROM events WHERE outbox_id IN ",
    page!(),
    " AND seq < (SELECT max(later.seq) FROM events later WHERE later.outbox_id = events.outbox_id)"
);

/// ?3 now
const MARK: &str = concat!("UPDATE outbox SET pruned_at = ?3 WHERE id IN ", page!());

/// ?1 received until, ?2 at most, ?3 the same for grave news that still waits
const RECEIPTS: &str = "DELETE FROM receipts WHERE event_id IN
  (SELECT event_id FROM receipts WHERE received_at <= ?1
     AND (outbox_id IS NOT NULL OR received_at <= ?3 OR NOT (news = 'complained' OR detail IS 'permanent'))
   ORDER BY received_at LIMIT ?2)";

/// Rows that stay unknown although a person has decided about them: what is personal goes after the same time.
/// ?1 resolved until, ?2 at most
macro_rules! resolved {
    () => {
        "(SELECT id FROM outbox WHERE resolved_at <= ?1 AND resolved_at IS NOT NULL AND letter_gone = 0
          ORDER BY resolved_at LIMIT ?2)"
    };
}

const RESOLVED_LETTERS: &str = concat!("DELETE FROM letters WHERE outbox_id IN ", resolved!());

const RESOLVED_ATTACHMENTS: &str = concat!("DELETE FROM attachments WHERE outbox_id IN ", resolved!());

const RESOLVED_SEALS: &str = concat!("DELETE FROM seals WHERE outbox_id IN ", resolved!());

const RESOLVED_FACTS: &str = concat!("DELETE FROM letter_secrets WHERE outbox_id IN ", resolved!());

const MARK_RESOLVED: &str = concat!("UPDATE outbox SET letter_gone = 1 WHERE id IN ", resolved!());

/// Their bodies went when they were closed. ?1 closed until, ?2 at most
const CLOSED_ENTRIES: &str = "DELETE FROM parking WHERE hash IN
  (SELECT hash FROM parking WHERE state <> 'parked' AND closed_at <= ?1 ORDER BY closed_at, hash LIMIT ?2)";

/// The entry stays and still asks; the same event again brings its body back. ?1 last seen until, ?2 at most
const PARKED_BODIES: &str = "UPDATE parking SET body = '' WHERE hash IN
  (SELECT hash FROM parking WHERE state = 'parked' AND source = 'receipts' AND body <> '' AND last_seen_at <= ?1
   ORDER BY last_seen_at, hash LIMIT ?2)";
