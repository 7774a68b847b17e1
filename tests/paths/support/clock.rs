//! A clock that moves by hand, and by sleeping.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use sealpost::outbox::time::Millis;
use sealpost::ports::Clock;

/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;

#[derive(Clone)]
pub struct HandClock(Rc<Cell<i64>>);

impl HandClock {
    pub fn new() -> Self {
        Self(Rc::new(Cell::new(START_MS)))
    }

    pub fn advance(&self, by: Duration) {
        self.0.set(self.0.get() + i64::try_from(by.as_millis()).unwrap());
    }
}

impl Clock for HandClock {
    fn now(&self) -> Millis {
        Millis::new(self.0.get())
    }

    /// Sleeping is what moves time: to the end of the sleep, unless another sleeper has moved it further already.
    async fn sleep(&self, duration: Duration) {
        let until = self.now().plus(duration).get();
        tokio::task::yield_now().await;
        self.0.set(self.0.get().max(until));
    }
}
