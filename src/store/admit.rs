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
/// Bulk rows that are admitted and not settled at most, whatever the pace: what waits in the queue can no longer be
/// called back by a pause or overtaken, and each page counts it. A tick's worth of 166 mails a second.
const ADMITTED_MAX: i64 = 10_000;

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
            Value::Integer(i64::try_from(page.rows_max_with_bulk).unwrap_or(i64::MAX)),
            Value::Integer(ADMITTED_MAX),
            Value::Text(page.batch_families.to_owned()),
            Value::Integer(page.domain_interval_ms),
            Value::Text(page.provider.to_owned()),
            Value::Integer(page.burst_ms.max(1)),
        ],
    )
}

/// The admitted rows that are not settled, by what they take from which bucket, as a table `out`. One of a batch family
/// takes a hundredth of a call, unless a batch that it was in was refused.
macro_rules! out {
    () => {
        "out (family, domain, refused, rows) AS MATERIALIZED (
           SELECT family, domain_hash, batch_refused, count(*) FROM outbox INDEXED BY outbox_admitted
           WHERE bulk = 1 AND status IN ('enqueued', 'processing') AND family > '' GROUP BY family, domain_hash, batch_refused)"
    };
}

/// The bulk rows that may go now, each with the moment at which the pace gets to it. What was admitted and is not settled
/// is before them in every bucket: of the provider, of the family, of the domain. A row takes one place in the buckets of
/// its family and of its domain, and a call in the provider's, or a hundredth of one where its family goes out in batches.
/// Its moment is the first at which all three have room; whose moment is too far ahead is not admitted. Rows whose
/// family and domain have room go before more urgent ones that must wait for theirs.
///
/// Their messages come in bursts, each as much as one claim can send, in time for the first moment of the burst: so the
/// mails of a slow family or domain come spread among the others and hold none of them back, an urgent mail waits for a
/// burst and not for all that was admitted, and a delivery carries many. The reservation is that of `RESERVE`, counted
/// from then on.
///
/// Nothing of a family that is paused or on hold: its rows wait where they are. What must not be sent any more is found
/// by the claim.
/// ?1 rows of a page, ?2 now, ?3 held families, ?4 family intervals, ?5 drain (ms), ?6 provider's interval, ?7 base,
/// ?8 cap, ?9 rows at most, together with those of the page, ?10 admitted at most, ?11 batch families, ?12 domain interval, ?13 provider, ?14 burst
const ADMIT: &str = concat!(
    "WITH RECURSIVE ",
    waiting_families!(),
    ", ",
    out!(),
    ",
       families (family, batch, every) AS MATERIALIZED (SELECT name,
           EXISTS (SELECT 1 FROM json_each(?11) b WHERE b.value = name),
           coalesce((SELECT f.value FROM json_each(?4) f WHERE f.key = name), 0)
         FROM (SELECT family AS name FROM out UNION SELECT family FROM waiting WHERE family IS NOT NULL)),
       room (rows, hundredths) AS MATERIALIZED (SELECT
           min(?9 - (SELECT count(*) FROM (SELECT 1 FROM ",
    singles!(),
    " AND relay_at <= ?2 LIMIT ?1)), ?10 - coalesce(sum(out.rows), 0)),
           coalesce(sum(out.rows * iif(families.batch AND out.refused = 0, 1, 100)), 0)
         FROM out JOIN families USING (family)),
       start (provider) AS MATERIALIZED (SELECT max(?2 + room.hundredths * ?6 / 100,
           coalesce((SELECT next_free_at FROM pace WHERE name = ?13), 0)) FROM room),
       paces (family, batch, every, free, rows) AS MATERIALIZED (SELECT one.*,
           iif(one.every = 0, room.rows, min(room.rows, (?2 + ?5 - one.free + one.every - 1) / max(one.every, 1)))
         FROM (SELECT waiting.family, families.batch, families.every, max(?2 + families.every *
               coalesce((SELECT sum(out.rows) FROM out WHERE out.family = waiting.family), 0),
               iif(families.every = 0, 0, coalesce((SELECT next_free_at FROM pace
                 WHERE name = 'family:' || waiting.family), 0))) AS free
             FROM waiting JOIN families USING (family)
             WHERE NOT EXISTS (SELECT 1 FROM pauses p WHERE p.scope IN ('*', waiting.family) AND p.until > ?2)
               AND NOT EXISTS (SELECT 1 FROM json_each(?3) h WHERE h.value = waiting.family)) AS one, room, start
         WHERE start.provider < ?2 + ?5 AND room.rows > 0),
       asked AS MATERIALIZED (SELECT o.seq, o.priority, o.relay_at, o.domain_hash AS domain,
           paces.free + paces.every * one.key AS family_at,
           iif(paces.batch AND o.batch_refused = 0, 1, 100) AS cost
         FROM paces JOIN json_each((SELECT json_group_array(first.seq) FROM (SELECT seq FROM ",
    bulk_waiting!("outbox_due_bulk"),
    " AND outbox.family = paces.family AND relay_at <= ?2 ORDER BY relay_at, seq LIMIT ?9) AS first)) AS one
           JOIN outbox o ON o.seq = one.value
         WHERE one.key < paces.rows),
       domains (domain, free) AS MATERIALIZED (SELECT one.domain, max(?2 + ?12 *
             coalesce((SELECT sum(out.rows) FROM out WHERE out.domain = one.domain), 0),
             coalesce((SELECT next_free_at FROM pace WHERE name = 'domain:' || one.domain), 0))
         FROM (SELECT DISTINCT domain FROM asked WHERE domain IS NOT NULL AND ?12 > 0) AS one),
       ranked AS MATERIALIZED (SELECT asked.*, start.provider
             + (sum(cost) OVER (ORDER BY priority, relay_at, seq) - cost) * ?6 / 100 AS by_urgency
         FROM asked, start),
       own AS MATERIALIZED (SELECT ranked.*, max(family_at, coalesce(domains.free, 0) + ?12 * (row_number() OVER
             (PARTITION BY ranked.domain ORDER BY max(family_at, by_urgency), priority, relay_at, seq) - 1)) AS own_at
         FROM ranked LEFT JOIN domains ON domains.domain = ranked.domain),
       first_order AS MATERIALIZED (SELECT own.*, start.provider
             + (sum(cost) OVER (ORDER BY max(own_at, by_urgency), priority, relay_at, seq) - cost) * ?6 / 100 AS provider_at
         FROM own, start),
       placed AS MATERIALIZED (SELECT seq, max(own_at, start.provider
             + (sum(cost) OVER (ORDER BY max(own_at, provider_at), priority, relay_at, seq) - cost) * ?6 / 100) AS at
         FROM first_order, start),
       admitted (seq, comes_at) AS MATERIALIZED (SELECT seq, max(?2, at / ?14 * ?14 - 1000)
         FROM placed WHERE at < ?2 + ?5 ORDER BY at, seq LIMIT (SELECT max(0, rows) FROM room))
     UPDATE outbox SET publish_count = publish_count + 1,
       relay_at = (j.value ->> 1) + min(?7 << min(publish_count, 20), ?8), updated_at = ?2
     FROM json_each((SELECT json_group_array(json_array(seq, comes_at)) FROM admitted)) j
     WHERE outbox.seq = j.value ->> 0
     RETURNING priority, seq, id, publish_count, claim_count,
       max(relay_at - min(?7 << min(publish_count - 1, 20), ?8), coalesce(next_attempt_at, 0), coalesce(not_before, 0))
         AS due_at"
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
