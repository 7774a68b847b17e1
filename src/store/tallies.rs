//! Counts that the rows cannot give afterwards: what was told twice and owed once, and what a family in shadow mode would
//! have been kept from sending.

use libsql::Value;

use super::database::Statement;
use super::intake::is_changed;
use super::replays::Replay;
use crate::outbox::intent::ReplayMode;
use crate::outbox::time::Millis;

/// Counts what an intake found, after its rows are in; it writes nothing where there is nothing to count. Facts that
/// another system sent are no mails that were kept back, and are not counted.
///
/// Repeatable: a tally remembers the request that it counted last.
pub(super) fn count(list: &Value, now: Millis, replay: Option<&Replay<'_>>) -> Option<Statement> {
    match replay.map(|replay| replay.mode) {
        Some(ReplayMode::Backfill) => None,
        Some(ReplayMode::Send) | None => Some(Statement::new(COUNT, vec![list.clone(), Value::Integer(now.get())])),
    }
}

/// A row is new where it has the id that was chosen for it. ?1 intents, ?2 now
const COUNT: &str = concat!(
    "INSERT INTO tallies (name, family, value, request)
     SELECT page.name, page.family, sum(page.times), ?1 ->> '$[0].id' FROM (
       SELECT CASE WHEN j.value ->> 'status' = 'shadowed' THEN 'shadow_duplicate'
           WHEN o.id IS NOT NULL OR EXISTS (SELECT 1 FROM intent_keys known WHERE known.key = j.value ->> '$.keys[0].key')
             THEN 'duplicate'
           ELSE 'send_id_duplicate' END AS name,
         j.value ->> 'family' AS family, (j.value ->> 'copies') + (o.id IS NULL) AS times
       FROM json_each(?1) j LEFT JOIN outbox o ON o.id = j.value ->> 'id'
       WHERE (o.id IS NULL OR (j.value ->> 'copies') > 0) AND NOT ",
    is_changed!(),
    "  UNION ALL
       SELECT 'shadow_recipient_suppressed', o.family, 1 FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
       WHERE j.value ->> 'status' = 'shadowed' AND EXISTS (SELECT 1 FROM suppressions s
         WHERE s.recipient_hash = o.recipient_hash AND s.family IN ('*', o.family)
           AND s.lifted_at IS NULL AND (s.until IS NULL OR s.until > ?2))
       UNION ALL
       SELECT 'shadow_window_closed', o.family, 1 FROM json_each(?1) j JOIN outbox o ON o.id = j.value ->> 'id'
       WHERE j.value ->> 'status' = 'shadowed' AND o.not_after <= ?2) AS page
     WHERE true
     GROUP BY page.name, page.family
     ON CONFLICT (name, family) DO UPDATE SET value = value + excluded.value, request = excluded.request
       WHERE tallies.request <> excluded.request"
);
