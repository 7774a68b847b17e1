//! What happened, line by line: the same for the same seed, byte for byte.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::report::Invariant;

thread_local! {
    /// The trace of this thread's newest run: a run that panics leaves nothing else behind.
    static NEWEST: RefCell<Trace> = RefCell::new(Trace::new(false, 0));
}

/// The trace of one run. Lines are always counted, and kept where somebody wants to read them.
#[derive(Clone, Default)]
pub struct Trace(Rc<Lines>);

#[derive(Default)]
struct Lines {
    kept: Option<RefCell<Vec<String>>>,
    count: Cell<usize>,
    started_at: i64,
    now: Cell<i64>,
    /// After how many lines each promise was first seen broken.
    broken: RefCell<Vec<(Invariant, usize)>>,
}

impl Trace {
    fn new(keep: bool, started_at: i64) -> Self {
        Self(Rc::new(Lines {
            kept: keep.then(RefCell::default),
            started_at,
            now: Cell::new(started_at),
            ..Lines::default()
        }))
    }

    /// A trace for a new run of this thread.
    pub fn begin(keep: bool, started_at: i64) -> Self {
        let trace = Self::new(keep, started_at);
        NEWEST.replace(trace.clone());
        trace
    }

    /// The trace of this thread's newest run.
    pub fn newest() -> Self {
        NEWEST.with_borrow(Clone::clone)
    }

    pub fn line(&self, now: i64, text: impl FnOnce() -> String) {
        self.0.now.set(now);
        self.0.count.set(self.0.count.get() + 1);
        if let Some(kept) = &self.0.kept {
            kept.borrow_mut()
                .push(format!("{} {}", since(now - self.0.started_at), text()));
        }
    }

    /// Marks the line at which a promise was broken.
    pub fn broken(&self, invariant: Invariant, what: &str) {
        self.last_words(&format!("BROKEN {invariant:?}: {what}"));
        let mut broken = self.0.broken.borrow_mut();
        if !broken.iter().any(|(known, _)| *known == invariant) {
            broken.push((invariant, self.count()));
        }
    }

    /// Adds a line at the time of the one before.
    pub fn last_words(&self, text: &str) {
        self.line(self.0.now.get(), || text.to_owned());
    }

    /// After how many lines a promise was first broken.
    pub fn broken_at(&self, invariant: Invariant) -> Option<usize> {
        let broken = self.0.broken.borrow();
        broken
            .iter()
            .find(|(known, _)| *known == invariant)
            .map(|(_, line)| *line)
    }

    pub fn count(&self) -> usize {
        self.0.count.get()
    }

    pub fn lines(&self) -> Vec<String> {
        self.0
            .kept
            .as_ref()
            .map(|kept| kept.borrow().clone())
            .unwrap_or_default()
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
