//! Who may write: one connection at a time, in the order of arrival, and nobody for ever.
//!
//! SQLite alone lets writers poll for the lock. The real server queues them instead, and ends a transaction that has
//! held the lock for five seconds, but only when another writer waits for it; so does this queue.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::clock::EngineClock;
use super::session::Session;
use crate::outbox::time::Millis;

/// How long a transaction may keep other writers waiting; the real server's limit.
pub const TRANSACTION_MS_MAX: u64 = 5_000;

/// How often a waiter looks at the clock: short, so that a clock moved by hand is noticed at once.
const LOOK_MS: u64 = 10;

/// The write lock of one database.
#[derive(Default)]
pub(super) struct Writer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    holder: Option<Holder>,
    waiting: VecDeque<u64>,
}

struct Holder {
    id: u64,
    since: Millis,
    session: Weak<Mutex<Session>>,
}

impl Writer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of the connection `id`. Returns at once where it has the lock already.
    ///
    /// The wait is bounded: each one before it in the queue is ended after [`TRANSACTION_MS_MAX`].
    pub(super) fn acquire(&self, id: u64, session: &Weak<Mutex<Session>>, clock: &dyn EngineClock) {
        let mut state = self.lock();
        if state.holder.as_ref().is_some_and(|holder| holder.id == id) {
            return;
        }
        state.waiting.push_back(id);
        loop {
            match &state.holder {
                None if state.waiting.front() == Some(&id) => {
                    state.waiting.pop_front();
                    state.holder = Some(Holder {
                        id,
                        since: clock.now(),
                        session: Weak::clone(session),
                    });
                    return;
                }
                Some(holder) if clock.now().since(holder.since) >= Duration::from_millis(TRANSACTION_MS_MAX) => {
                    let overdue = Weak::clone(&holder.session);
                    drop(state);
                    if let Some(overdue) = overdue.upgrade() {
                        // Waits for the statement that runs just now; then the transaction is over, one way or another.
                        let mut overdue = overdue.lock().unwrap_or_else(PoisonError::into_inner);
                        overdue.force_rollback();
                    }
                    state = self.lock();
                    if state.holder.is_none() {
                        continue;
                    }
                }
                None | Some(_) => {}
            }
            state = self
                .changed
                .wait_timeout(state, Duration::from_millis(LOOK_MS))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Gives the lock back; nothing happens where `id` does not have it.
    pub(super) fn release(&self, id: u64) {
        let mut state = self.lock();
        if state.holder.as_ref().is_some_and(|holder| holder.id == id) {
            state.holder = None;
            self.changed.notify_all();
        }
    }

    /// Whether the connection `id` has the lock.
    pub(super) fn holds(&self, id: u64) -> bool {
        self.lock().holder.as_ref().is_some_and(|holder| holder.id == id)
    }
}
