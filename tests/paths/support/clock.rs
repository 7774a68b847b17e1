//! A clock that moves by hand, and by sleeping.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use sealpost::outbox::time::Millis;
use sealpost::ports::Clock;

/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;
/// Rounds for which the next sleeper of all stays in bed, so that whoever is up goes to sleep before time moves.
const ROUNDS: u32 = 8;

#[derive(Clone)]
pub struct HandClock(Rc<Cell<i64>>, Rc<Sleepers>);

/// Those who sleep, by the end of their sleep and the order in which they lay down.
#[derive(Default)]
struct Sleepers {
    in_order: Cell<bool>,
    count: Cell<u64>,
    all: RefCell<BTreeSet<(i64, u64)>>,
}

/// Takes a sleeper out, also where its future is dropped.
struct Bed(Rc<Sleepers>, (i64, u64));

impl Drop for Bed {
    fn drop(&mut self) {
        self.0.all.borrow_mut().remove(&self.1);
    }
}

impl HandClock {
    pub fn new() -> Self {
        Self(Rc::new(Cell::new(START_MS)), Rc::default())
    }

    pub fn advance(&self, by: Duration) {
        self.0.set(self.0.get() + i64::try_from(by.as_millis()).unwrap());
    }

    /// From now on whoever wakes first wakes first, where several sleep side by side.
    pub fn wake_in_order(&self) {
        self.1.in_order.set(true);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Millis {
        Millis::new(self.0.get())
    }

    /// Sleeping is what moves time: to the end of the sleep, unless another sleeper has moved it further already.
    async fn sleep(&self, duration: Duration) {
        let until = self.now().plus(duration).get();
        self.1.count.set(self.1.count.get() + 1);
        let bed = Bed(Rc::clone(&self.1), (until, self.1.count.get()));
        self.1.all.borrow_mut().insert(bed.1);
        let mut rounds = 0;
        while rounds < ROUNDS {
            tokio::task::yield_now().await;
            let is_next = self.1.all.borrow().first() == Some(&bed.1);
            rounds = match (self.1.in_order.get(), is_next) {
                (false, _) => ROUNDS,
                (true, true) => rounds + 1,
                (true, false) => 0,
            };
        }
        self.0.set(self.0.get().max(until));
    }
}
