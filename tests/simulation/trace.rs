//! What happened, line by line: the same for the same seed, byte for byte.

use std::cell::{Cell, RefCell};

/// The trace of one run. Lines are always counted, and kept where somebody wants to read them.
pub struct Trace {
    kept: Option<RefCell<Vec<String>>>,
    count: Cell<usize>,
    started_at: i64,
}

impl Trace {
    pub fn new(keep: bool, started_at: i64) -> Self {
        Self {
            kept: keep.then(RefCell::default),
            count: Cell::new(0),
            started_at,
        }
    }

    pub fn line(&self, now: i64, text: impl FnOnce() -> String) {
        self.count.set(self.count.get() + 1);
        if let Some(kept) = &self.kept {
            kept.borrow_mut()
                .push(format!("{} {}", since(now - self.started_at), text()));
        }
    }

    pub fn count(&self) -> usize {
        self.count.get()
    }

    pub fn lines(&self) -> Vec<String> {
        self.kept.as_ref().map(|kept| kept.borrow().clone()).unwrap_or_default()
    }
}

/// `1d 02:03:04.005`, or without the day.
fn since(ms: i64) -> String {
    let (days, ms) = (ms / 86_400_000, ms % 86_400_000);
    let clock = format!(
        "{:02}:{:02}:{:02}.{:03}",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1_000 % 60,
        ms % 1_000
    );
    if days == 0 { clock } else { format!("{days}d {clock}") }
}
