//! Bulk rows: a queue knows no order of urgency, so they wait in the database, and the relay admits no more of them than
//! the pace drains before its next two ticks. However many wait, a page reads the first ones of each family alone.

use libsql::Value;

use super::database::Statement;
use super::publish::PageRequest;
use super::shared_sql::{bulk_waiting, singles, stop_assignments, stop_cause, waiting_families};
use crate::outbox::time::Millis;

/// Rows that wait for their admission and are looked at in one tick, for those that must not be sent any more: 40,000
/// are seen within forty ticks, and the claim looks again in any case.
const LOOKED_AT_MAX: i64 = 1_000;

/// What the admission of a page needs.
pub(super) struct AdmitRequest<'a> {
    pub(super) page: &'a PageRequest<'a>,
    pub(super) held: Value,
}

/// Reserves the next ones for publication. The rows that need no admission must not have been reserved before.
pub(super) fn reserve(request: &AdmitRequest<'_>) -> Statement {
    let page = request.page;
    Statement::new(
        ADMIT,
        vec![
            Value::Integer(i64::try_from(page.rows_max).unwrap_or(i64::MAX)),
            Value::Integer(page.now.get()),
            request.held.clone(),
            Value::Text(page.family_intervals.to_owned()),
            Value::Integer(page.drain_ms),
            Value::Integer(page.pace_interval_ms),
            Value::Integer(page.republish_base_ms),
            Value::Integer(page.republish_cap_ms),
        ],
    )
}

/// The bulk rows that may go now: of each family what its pace drains, of all what the provider's drains, less what was
/// admitted and is not settled; the most urgent first, and no more than the page has room beside the rows that need no
/// admission. Nothing of a family that is paused or on hold: its rows wait where they are. What must not be sent any more
/// is found by the claim. The reservation is that of `RESERVE`.
/// ?1 rows at most, ?2 now, ?3 held families, ?4 family intervals, ?5 drain (ms), ?6 provider's interval, ?7 base, ?8 cap
const ADMIT: &str = concat!(
    "WITH RECURSIVE ",
    waiting_families!(),
    ",
            room (total) AS MATERIALIZED (SELECT min(
                ?1 - (SELECT count(*) FROM (SELECT 1 FROM ",
    singles!(),
    " AND relay_at <= ?2 LIMIT ?1)),
                iif(?6 = 0, ?1, ?5 / max(?6, 1) - (SELECT count(*) FROM (SELECT 1 FROM outbox INDEXED BY outbox_admitted
                  WHERE bulk = 1 AND status IN ('enqueued', 'processing') AND family > '' LIMIT ?5 / max(?6, 1)))))),
            paces (family, every) AS MATERIALIZED (SELECT waiting.family,
                coalesce((SELECT f.value FROM json_each(?4) f WHERE f.key = waiting.family), 0)
              FROM waiting WHERE waiting.family IS NOT NULL AND (SELECT total FROM room) > 0
                AND NOT EXISTS (SELECT 1 FROM pauses p WHERE p.scope IN ('*', waiting.family) AND p.until > ?2)
                AND NOT EXISTS (SELECT 1 FROM json_each(?3) h WHERE h.value = waiting.family)),
            rooms (family, room) AS MATERIALIZED (SELECT family, iif(every = 0, ?1, ?5 / max(every, 1) -
                (SELECT count(*) FROM outbox INDEXED BY outbox_admitted
                 WHERE bulk = 1 AND status IN ('enqueued', 'processing') AND outbox.family = paces.family))
              FROM paces),
            admitted (seq) AS MATERIALIZED (SELECT o.seq FROM rooms
                JOIN json_each((SELECT json_group_array(first.seq) FROM (SELECT seq FROM ",
    bulk_waiting!("outbox_due_bulk"),
    " AND outbox.family = rooms.family AND relay_at <= ?2 ORDER BY relay_at, seq LIMIT ?1) AS first)) AS one
                JOIN outbox o ON o.seq = one.value
              WHERE one.key < rooms.room
              ORDER BY o.priority, o.relay_at, o.seq LIMIT max(0, (SELECT total FROM room)))
          UPDATE outbox SET publish_count = publish_count + 1,
            relay_at = ?2 + min(?7 << min(publish_count, 20), ?8), updated_at = ?2
          WHERE seq IN (SELECT seq FROM admitted)
          RETURNING priority, seq, id, publish_count, claim_count,
            max(coalesce(next_attempt_at, 0), coalesce(not_before, 0)) AS due_at"
);

/// The next of the rows that wait are judged, in the order of their numbers, round and round: what must not be sent any
/// more ends within bounded time, however long the pace lets it wait. The first statement returns the states of what it
/// ended.
pub(super) fn look_through(now: Millis, window_ms: i64, known_templates: &str) -> [Statement; 2] {
    [
        Statement::new(
            STOP_WAITING,
            vec![
                Value::Integer(LOOKED_AT_MAX),
                Value::Integer(now.get()),
                Value::Integer(window_ms),
                Value::Text(known_templates.to_owned()),
            ],
        ),
        Statement::new(LOOKED_AT, vec![Value::Integer(LOOKED_AT_MAX)]),
    ]
}

/// ?1 rows at most
macro_rules! next_waiting {
    () => {
        concat!(
            "(SELECT seq FROM ",
            bulk_waiting!("outbox_bulk"),
            " AND seq > coalesce((SELECT bulk_seen_seq FROM relay_health WHERE id = 1), 0) ORDER BY seq LIMIT ?1)"
        )
    };
}

/// open -> suppressed, expired, canceled, dead_letter. ?2 now, ?3 window, ?4 known
const STOP_WAITING: &str = concat!(
    "UPDATE outbox SET ",
    stop_assignments!("?2"),
    " FROM (SELECT o.id AS id, ",
    stop_cause!("?2", "?3", "?4", "9223372036854775807"),
    " AS cause FROM ",
    next_waiting!(),
    " page JOIN outbox o ON o.seq = page.seq) AS stop
    WHERE outbox.id = stop.id AND stop.cause IS NOT NULL RETURNING outbox.id, outbox.status"
);

/// Past the last one it begins anew. What the statement before ended is in the page no more, so that it may look a
/// little further than that one did; the next round sees those.
const LOOKED_AT: &str = concat!(
    "UPDATE relay_health SET bulk_seen_seq = coalesce((SELECT iif(count(*) < ?1, 0, max(seq)) FROM ",
    next_waiting!(),
    " AS page), 0) WHERE id = 1"
);
