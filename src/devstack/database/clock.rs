//! The engine's idea of time: idle streams and long transactions end by it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::outbox::time::Millis;

/// A clock that threads can share.
///
/// The port [`crate::ports::Clock`] belongs to one thread and can wait; the engine only asks what time it is.
pub trait EngineClock: Send + Sync {
    /// The time now, in Unix milliseconds.
    fn now(&self) -> Millis;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl EngineClock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "the development database is native only, and this is the one place where it reads the time"
    )]
    fn now(&self) -> Millis {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Millis::new(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is moved by hand.
#[derive(Debug, Default)]
pub struct HandClock(AtomicI64);

impl HandClock {
    /// A clock that shows `start`.
    pub fn new(start: Millis) -> Self {
        Self(AtomicI64::new(start.get()))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl EngineClock for HandClock {
    fn now(&self) -> Millis {
        Millis::new(self.0.load(Ordering::SeqCst))
    }
}
