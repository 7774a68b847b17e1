//! In how many steps the attempts of a batch are opened.

use super::parcel::Parcel;
use crate::config::Timing;
use crate::outbox::time::Millis;
use crate::outbox::window::Repetition;

/// What is called in which order, and what this invocation has no requests left for.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) waves: Vec<Vec<Parcel>>,
    pub(super) rest: Vec<Parcel>,
}

/// All at once; but where a death would leave doubts that hardly any time is left to clear, as many as are called at
/// once. Each wave after the first costs a request, which is taken from those of the calls.
pub(super) fn plan(ready: Vec<Parcel>, now: Millis, timing: &Timing) -> Plan {
    let lease_end = now.plus(timing.lease);
    let (mut calm, narrow): (Vec<Parcel>, Vec<Parcel>) = ready.into_iter().partition(|row| {
        let anchor = row.anchor().unwrap_or(now);
        matches!(timing.window.judge(anchor, lease_end), Repetition::OpenUntil(_))
    });
    // A claim counts the calls of batches that are still to be put together; letters may turn out longer than it knew.
    let too_many = calm.split_off(calm.len().min(timing.calls_per_invocation()));
    let mut requests_left = timing.calls_per_invocation().saturating_sub(calm.len());
    let mut plan = Plan::default();
    if !calm.is_empty() || narrow.is_empty() {
        plan.waves.push(calm);
    }
    let mut narrow = narrow.into_iter();
    loop {
        let own_request = usize::from(!plan.waves.is_empty());
        let size = timing.calls_at_once.min(requests_left.saturating_sub(own_request));
        let wave: Vec<Parcel> = narrow.by_ref().take(size).collect();
        if wave.is_empty() {
            break;
        }
        requests_left = requests_left.saturating_sub(own_request.saturating_add(wave.len()));
        plan.waves.push(wave);
    }
    plan.rest = narrow.chain(too_many).collect();
    plan
}
