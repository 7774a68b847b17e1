//! Rows whose quiet hours have begun: they are given back with the time at which these end.

use core::time::Duration;
use std::collections::BTreeMap;

use super::decision::{Decision, queue_keeps, retry_after};
use super::prepare::Unreadable;
use crate::config::Config;
use crate::config::Timing;
use crate::hours::Hours;
use crate::outbox::time::Millis;
use crate::outbox::window::Repetition;
use crate::ports::Zones;
use crate::store::claim::{Claimed, ClaimedRow};
use crate::store::outside::PutBack;

/// How long the others of a batch wait for what becomes of one whose time zone cannot be read.
const AGAIN: Duration = Duration::from_secs(1);

/// The code of a row whose time zone cannot be read.
const ZONE_UNKNOWN: &str = "time_zone_unknown";

/// What a claimed row's quiet hours say.
#[derive(Debug)]
enum Look {
    /// It may be called now.
    Permitted(Box<ClaimedRow>),
    /// It is given back until then.
    Outside(String, Millis),
    /// Its zone cannot be read.
    Unreadable(Unreadable),
}

/// The quiet hours of a row, where its family has any in this version.
pub(super) fn hours_of(row: &ClaimedRow, config: &Config) -> Option<Hours> {
    let family = config.policy.family(&row.family)?;
    Hours::of(family, row.time_zone.as_deref())
}

/// Looks at the claimed rows before anything is done for them: those that may be called now, those that are given back, and
/// those whose zone cannot be read. A batch is called whole or not at all, so its rows wait for each other.
pub(super) fn sort(
    claimed: Claimed,
    zones: &impl Zones,
    config: &Config,
    now: Millis,
) -> (Claimed, Vec<PutBack>, Vec<Unreadable>) {
    let (mut rows, mut asleep, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    let mut batches: BTreeMap<String, Millis> = BTreeMap::new();
    for row in claimed.rows {
        let batch = row.batch_id.clone();
        let until = match look(row, zones, config, now) {
            Look::Permitted(row) => {
                rows.push(*row);
                continue;
            }
            Look::Outside(id, at) => {
                asleep.push((batch.clone(), id, at));
                at
            }
            Look::Unreadable(row) => {
                unreadable.push(row);
                // The next claim finds the batch without it, and gives it up or ends it.
                now.plus(AGAIN)
            }
        };
        if let Some(batch) = batch {
            batches
                .entry(batch)
                .and_modify(|at| *at = until.max(*at))
                .or_insert(until);
        }
    }
    let waits = |row: &ClaimedRow| row.batch_id.as_ref().is_some_and(|id| batches.contains_key(id));
    let (waiting, rows): (Vec<ClaimedRow>, Vec<ClaimedRow>) = rows.into_iter().partition(waits);
    asleep.extend(waiting.into_iter().map(|row| (row.batch_id, row.id, now)));
    let put_back = asleep.into_iter().map(|(batch, id, at)| {
        let with_its_batch = batch.and_then(|batch| batches.get(&batch)).copied();
        put_back(id, with_its_batch.unwrap_or(at), now, &config.timing)
    });
    let put_back = put_back.collect();
    (Claimed { rows, ..claimed }, put_back, unreadable)
}

/// Looks at one row before anything is done for it.
fn look(row: ClaimedRow, zones: &impl Zones, config: &Config, now: Millis) -> Look {
    let Some(hours) = hours_of(&row, config) else {
        return Look::Permitted(Box::new(row));
    };
    match hours.permitted(zones, now) {
        Some(at) if at <= now => Look::Permitted(Box::new(row)),
        Some(at) => {
            let doubt = (row.doubts > 0)
                .then_some(row.window_anchor_at.map(Millis::new))
                .flatten();
            let at = wakes_at(at, row.not_after.map(Millis::new), doubt, now, &config.timing);
            Look::Outside(row.id, at)
        }
        None => Look::Unreadable(Unreadable {
            template_version: row.template.as_deref().and_then(|name| config.policy.version_of(name)),
            id: row.id,
            code: ZONE_UNKNOWN,
        }),
    }
}

/// When a row is looked at again that may be called at `permitted`: then, or when its window closes first, or where it
/// is in doubt, when nobody may repeat it any more. Either end is said then, and not hours later. `doubt`: when the
/// provider may first have seen the key of a doubtful mail.
pub(super) fn wakes_at(
    permitted: Millis,
    not_after: Option<Millis>,
    doubt: Option<Millis>,
    now: Millis,
    timing: &Timing,
) -> Millis {
    let closes = doubt.map(|anchor| match timing.window.judge(anchor, now) {
        Repetition::OpenUntil(end) => end,
        Repetition::Closed => now,
    });
    permitted
        .min(not_after.unwrap_or(permitted))
        .min(closes.unwrap_or(permitted))
}

fn put_back(id: String, at: Millis, now: Millis, timing: &Timing) -> PutBack {
    let keeps = queue_keeps(at.since(now), timing);
    let relay_at = if keeps { at.plus(timing.pending_grace) } else { at };
    PutBack {
        id,
        next_attempt_at: at.get(),
        relay_at: relay_at.get(),
    }
}

/// What the message of a row that was given back is told: the queue bridges less than a tick, the relay the rest.
pub(super) fn decision_of(row: &PutBack, now: Millis, timing: &Timing) -> Decision {
    let wait = Millis::new(row.next_attempt_at).since(now);
    if queue_keeps(wait, timing) {
        retry_after(wait)
    } else {
        Decision::Acknowledge
    }
}
