//! Every time and number that steers the pipeline, with its bounds, and the rules between them.

use core::time::Duration;

use super::read::{Lookup, SettingError, number};
use crate::outbox::window::ProviderWindow;

/// Messages in one batch of the queue, rows in one claim, rows in one page of the relay: the platform's own limit.
pub const BATCH_MAX: usize = 100;
/// Requests of one invocation that are kept for the database: three round trips, their repetitions, and parking.
pub const DATABASE_SUBREQUESTS: u32 = 8;
/// The platform ends a consumer after 15 minutes; a lease that is longer would outlive every owner for nothing.
const LEASE_MS_MAX: u64 = 14 * 60 * 1_000;
/// What the lease has in hand beyond calls, pace and the database: scheduling, rendering.
const LEASE_MARGIN_MS: u64 = 1_000;

/// Times and numbers. Each is a setting with a default that fits Resend and a paid plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// `PROVIDER_TIMEOUT_MS`: one call to the provider, its body included.
    pub provider_timeout: Duration,
    /// `DATABASE_TIMEOUT_MS`: one request to the database, its body included.
    pub database_timeout: Duration,
    /// `CALLS_AT_ONCE`: provider calls side by side.
    pub calls_at_once: usize,
    /// `PACE_PER_SECOND`: provider calls a second over all consumers; 0 for no limit of ours.
    pub pace_per_second: u32,
    /// `PACE_PER_DOMAIN_PER_MINUTE`: mails a minute to the recipients of one domain; 0 for no limit.
    pub pace_per_domain: u32,
    /// `PACE_WAIT_MS`: the longest a claimed row waits for its slot.
    pub pace_wait: Duration,
    /// `LEASE_MS`: how long a claim lasts.
    pub lease: Duration,
    /// `CLOCK_SKEW_MS`: how far two clocks may differ.
    pub skew: Duration,
    /// `BACKOFF_BASE_MS`: the wait after the first failure.
    pub backoff_base: Duration,
    /// `PROVIDER_WINDOW_MS` and `PROVIDER_WINDOW_MARGIN_MS`: how long the provider honours a key.
    pub window: ProviderWindow,
    /// `SUBREQUEST_BUDGET`: requests that one invocation may make.
    pub subrequest_budget: u32,
    /// `LONE_DEATHS_MAX`: how often a row may kill the worker that runs it alone.
    pub lone_deaths_max: u32,
    /// `PENDING_GRACE_MS`: how long the relay leaves a fresh row to the intake's own publication.
    pub pending_grace: Duration,
    /// `ENQUEUED_PATIENCE_MS`: when a message in the queue is taken for lost.
    pub enqueued_patience: Duration,
    /// `TICK_MS`: the schedule's interval. Shorter waits may use the queue's delay.
    pub tick: Duration,
    /// `RETENTION_MS`: how long a settled row keeps its letter, attempts and events.
    pub retention: Duration,
    /// `PAUSE_MS`: the first pause after a broken configuration; it doubles up to a quarter of an hour.
    pub pause: Duration,
}

/// Two settings that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The lease would end while calls are still planned.
    #[error(
        "LEASE_MS must be at least {needed_ms}: the calls of one batch, the pace's wait and two database requests must fit"
    )]
    LeaseTooShort {
        /// What would be enough.
        needed_ms: u64,
    },
    /// A doubtful mail could be repeated when the provider has forgotten it.
    #[error(
        "PROVIDER_WINDOW_MARGIN_MS must be at least PROVIDER_TIMEOUT_MS + PACE_WAIT_MS + CLOCK_SKEW_MS = {needed_ms}"
    )]
    MarginTooShort {
        /// What would be enough.
        needed_ms: u64,
    },
    /// No call would fit.
    #[error("SUBREQUEST_BUDGET must be at least {0}: some requests are kept for the database")]
    BudgetTooSmall(u32),
}

impl Timing {
    /// Reads all of them and checks them against each other.
    pub(super) fn read(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        let ms = |name, default, bounds| number(lookup, name, default, bounds).map(Duration::from_millis);
        let count = |name, default, bounds| {
            number(lookup, name, default, bounds).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
        };
        let timing = Self {
            provider_timeout: ms("PROVIDER_TIMEOUT_MS", 10_000, (100, 60_000))?,
            database_timeout: ms("DATABASE_TIMEOUT_MS", 10_000, (100, 60_000))?,
            calls_at_once: usize::try_from(count("CALLS_AT_ONCE", 5, (1, 100))?).unwrap_or(1),
            pace_per_second: count("PACE_PER_SECOND", 5, (0, 10_000))?,
            pace_per_domain: count("PACE_PER_DOMAIN_PER_MINUTE", 300, (0, 60_000))?,
            pace_wait: ms("PACE_WAIT_MS", 30_000, (0, 300_000))?,
            lease: ms("LEASE_MS", 300_000, (500, LEASE_MS_MAX))?,
            skew: ms("CLOCK_SKEW_MS", 2_000, (0, 60_000))?,
            backoff_base: ms("BACKOFF_BASE_MS", 10_000, (10, 600_000))?,
            window: ProviderWindow {
                length: ms("PROVIDER_WINDOW_MS", 86_400_000, (0, 604_800_000))?,
                margin: ms("PROVIDER_WINDOW_MARGIN_MS", 3_600_000, (0, 86_400_000))?,
            },
            subrequest_budget: count("SUBREQUEST_BUDGET", 50, (1, 10_000))?,
            lone_deaths_max: count("LONE_DEATHS_MAX", 5, (1, 100))?,
            pending_grace: ms("PENDING_GRACE_MS", 30_000, (10, 600_000))?,
            enqueued_patience: ms("ENQUEUED_PATIENCE_MS", 600_000, (10, 86_400_000))?,
            tick: ms("TICK_MS", 60_000, (10, 3_600_000))?,
            retention: ms("RETENTION_MS", 604_800_000, (3_600_000, 34_560_000_000))?,
            pause: ms("PAUSE_MS", 60_000, (10, 3_600_000))?,
        };
        timing.check()?;
        Ok(timing)
    }

    /// The rules between the numbers.
    ///
    /// # Errors
    /// [`TimingError`] says what would be enough.
    pub fn check(&self) -> Result<(), TimingError> {
        if self.subrequest_budget <= DATABASE_SUBREQUESTS {
            return Err(TimingError::BudgetTooSmall(DATABASE_SUBREQUESTS.saturating_add(1)));
        }
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let rounds = u64::try_from(self.rows_per_invocation().div_ceil(self.calls_at_once)).unwrap_or(u64::MAX);
        let needed_ms = rounds
            .saturating_mul(ms(self.provider_timeout))
            .saturating_add(ms(self.pace_wait))
            .saturating_add(ms(self.database_timeout).saturating_mul(2))
            .saturating_add(ms(self.skew))
            .saturating_add(LEASE_MARGIN_MS);
        if ms(self.lease) < needed_ms {
            return Err(TimingError::LeaseTooShort { needed_ms });
        }
        let needed_ms = ms(self.provider_timeout)
            .saturating_add(ms(self.pace_wait))
            .saturating_add(ms(self.skew));
        if !self.window.length.is_zero() && ms(self.window.margin) < needed_ms {
            return Err(TimingError::MarginTooShort { needed_ms });
        }
        Ok(())
    }

    /// How many provider calls one invocation may make.
    pub fn calls_per_invocation(&self) -> usize {
        usize::try_from(self.subrequest_budget.saturating_sub(DATABASE_SUBREQUESTS)).unwrap_or(usize::MAX)
    }

    /// How many rows one invocation claims at most.
    pub fn rows_per_invocation(&self) -> usize {
        self.calls_per_invocation().min(BATCH_MAX)
    }

    /// Time between two calls at the provider's pace, in ms; 0 for no limit.
    pub fn pace_interval_ms(&self) -> i64 {
        interval_ms(1_000, self.pace_per_second)
    }

    /// Time between two mails to one domain, in ms; 0 for no limit.
    pub fn domain_interval_ms(&self) -> i64 {
        interval_ms(60_000, self.pace_per_domain)
    }
}

/// Time between two of so many in `within_ms`, in ms, rounded up: a pace is never exceeded. 0 for no limit.
pub(crate) fn interval_ms(within_ms: u32, count: u32) -> i64 {
    if count == 0 {
        0
    } else {
        i64::from(within_ms.div_ceil(count))
    }
}
