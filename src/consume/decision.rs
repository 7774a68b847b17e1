//! What happens to a message: exactly one of acknowledge and retry.

use core::time::Duration;

use crate::config::Timing;
use crate::outbox::status::{Standing, Status};
use crate::outbox::time::Millis;
use crate::store::claim::RowState;
use crate::store::settle::SettledRow;

/// The decision about one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The database holds all there is to know; the message may be forgotten.
    Acknowledge,
    /// The queue must bring it again.
    Retry {
        /// After this many seconds.
        delay_seconds: u32,
    },
}

/// The longest delay that is asked for: a day is the platform's limit, and an hour keeps an outage's end in sight.
const RETRY_DELAY_SECONDS_MAX: u32 = 3_600;
/// The shortest delay worth asking for.
const RETRY_DELAY_SECONDS_MIN: u32 = 1;
/// The delay after the first failed delivery, in seconds.
const RETRY_DELAY_SECONDS_BASE: u32 = 5;

/// For a message whose work could not be done because something of ours failed (database, parking, configuration):
/// doubles with each delivery, so that a hundred retries cover days. `attempts` is 1 for the first delivery.
pub fn retry_delay(attempts: u32) -> Decision {
    let doublings = attempts.saturating_sub(1).min(16);
    Decision::Retry {
        delay_seconds: (RETRY_DELAY_SECONDS_BASE << doublings).min(RETRY_DELAY_SECONDS_MAX),
    }
}

/// Brings a message again after `wait`, within the bounds.
pub(super) fn retry_after(wait: Duration) -> Decision {
    let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
    Decision::Retry {
        delay_seconds: seconds.clamp(RETRY_DELAY_SECONDS_MIN, RETRY_DELAY_SECONDS_MAX),
    }
}

/// Whether the queue keeps the message of a row that waits this long; the relay publishes it again otherwise.
pub(super) fn queue_keeps(wait: Duration, timing: &Timing) -> bool {
    wait < timing.tick
}

/// For a row that another claim holds: one delay past the claim's end.
pub(super) fn past_the_claim(expires_at: Option<i64>, now: Millis, timing: &Timing) -> Decision {
    let end = expires_at.map_or(now, Millis::new).plus(timing.skew);
    retry_after(end.since(now).saturating_add(Duration::from_secs(1)))
}

/// For a row that this delivery did not claim.
pub(super) fn of_state(row: &RowState, now: Millis, timing: &Timing) -> Decision {
    match row.status {
        // Somebody else holds it, or its claim ended and it has to run alone.
        Status::Processing => past_the_claim(row.claim_expires_at, now, timing),
        Status::Pending | Status::Enqueued | Status::Retry => {
            let wait = Millis::new(row.due_at).since(now);
            if queue_keeps(wait, timing) {
                retry_after(wait)
            } else {
                Decision::Acknowledge
            }
        }
        Status::Sent
        | Status::Failed
        | Status::Suppressed
        | Status::Expired
        | Status::Canceled
        | Status::External
        | Status::Shadowed
        | Status::DeadLetter
        | Status::Unknown => Decision::Acknowledge,
    }
}

/// For a row that this delivery settled, or tried to.
pub(super) fn of_settled(row: &SettledRow, now: Millis, timing: &Timing) -> Decision {
    match row.status.standing() {
        Standing::Settled | Standing::AsksForAPerson => Decision::Acknowledge,
        Standing::Open => match row.next_attempt_at {
            Some(at) => {
                let wait = Millis::new(at).since(now);
                if queue_keeps(wait, timing) {
                    retry_after(wait)
                } else {
                    Decision::Acknowledge
                }
            }
            // Claimed by somebody else in the meantime.
            None => retry_after(timing.lease),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_an_hour_and_cover_days() {
        assert_eq!(retry_delay(0), Decision::Retry { delay_seconds: 5 });
        assert_eq!(retry_delay(1), Decision::Retry { delay_seconds: 5 });
        assert_eq!(retry_delay(3), Decision::Retry { delay_seconds: 20 });
        assert_eq!(retry_delay(u32::MAX), Decision::Retry { delay_seconds: 3_600 });
        let total: u64 = (1..=100)
            .map(|attempt| match retry_delay(attempt) {
                Decision::Retry { delay_seconds } => u64::from(delay_seconds),
                Decision::Acknowledge => 0,
            })
            .sum();
        assert!(total > 3 * 86_400, "{total} seconds");
    }

    #[test]
    fn no_delay_is_beyond_the_platform() {
        assert_eq!(
            retry_after(Duration::from_secs(200_000)),
            Decision::Retry { delay_seconds: 3_600 }
        );
        assert_eq!(retry_after(Duration::ZERO), Decision::Retry { delay_seconds: 1 });
        assert_eq!(
            retry_after(Duration::from_millis(1_001)),
            Decision::Retry { delay_seconds: 2 }
        );
    }
}
