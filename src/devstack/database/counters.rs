//! What the server was asked, so that a test can count round trips.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::engine::Rows;
use super::faults::first_word;

/// How many of the last requests are remembered.
pub const RECENT_MAX: usize = 1_000;

/// How much of a statement's text is remembered, in characters.
const SQL_CHARS_MAX: usize = 500;

/// The counts since the start or the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Pipeline requests that were received, whatever became of them: one for each round trip.
    pub requests: u64,
    /// Cursor requests, which are not among the pipeline requests.
    pub cursor_requests: u64,
    /// SQL texts that those requests carried, whether they ran, failed or were skipped.
    pub statements: u64,
    /// Rows that the statements visited, as the engine counts them.
    pub rows_read: u64,
    /// Rows that the statements wrote, index entries included, as the engine counts them.
    pub rows_written: u64,
    /// The last pipeline requests, oldest first.
    pub recent: VecDeque<Recent>,
}

/// One pipeline request. It names the SQL, never the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    /// Its number, from 1.
    pub n: u64,
    /// SQL texts that it carried.
    pub statements: u64,
    /// The first text that does not open or close a transaction, or the first at all; shortened where it is long.
    pub first_sql: Option<String>,
}

/// The counters behind a lock.
#[derive(Default)]
pub(super) struct Ledger {
    counters: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    counters: Counters,
    /// Rows before the last reset.
    base: Rows,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down a pipeline request.
    pub(super) fn pipeline(&self, texts: &[&str]) {
        let mut inner = self.lock();
        let counters = &mut inner.counters;
        let statements = u64::try_from(texts.len()).unwrap_or(u64::MAX);
        counters.requests += 1;
        counters.statements += statements;
        if counters.recent.len() >= RECENT_MAX {
            counters.recent.pop_front();
        }
        counters.recent.push_back(Recent {
            n: counters.requests,
            statements,
            first_sql: telling(texts).map(|text| text.chars().take(SQL_CHARS_MAX).collect()),
        });
    }

    /// Writes down a cursor request.
    pub(super) fn cursor(&self) {
        self.lock().counters.cursor_requests += 1;
    }

    /// The counts now.
    pub(super) fn read(&self, rows: Rows) -> Counters {
        let inner = self.lock();
        Counters {
            rows_read: rows.read.saturating_sub(inner.base.read),
            rows_written: rows.written.saturating_sub(inner.base.written),
            ..inner.counters.clone()
        }
    }

    /// Starts again from zero.
    pub(super) fn reset(&self, rows: Rows) {
        *self.lock() = Inner {
            counters: Counters::default(),
            base: rows,
        };
    }
}

/// The text that tells most about a request.
fn telling<'a>(texts: &[&'a str]) -> Option<&'a str> {
    let frame = |text: &&&str| {
        !["begin", "commit", "end", "rollback"]
            .iter()
            .any(|word| first_word(text).eq_ignore_ascii_case(word))
    };
    texts.iter().find(frame).or_else(|| texts.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_every_request_and_remembers_the_last_thousand() {
        let ledger = Ledger::default();
        for _ in 0..RECENT_MAX + 5 {
            ledger.pipeline(&["BEGIN IMMEDIATE", "update outbox set a = ?", "COMMIT"]);
        }
        let counters = ledger.read(Rows { read: 7, written: 2 });
        assert_eq!((counters.requests, counters.statements), (1_005, 3_015));
        assert_eq!(counters.recent.len(), RECENT_MAX);
        assert_eq!(counters.recent[0].n, 6);
        assert_eq!(counters.recent[0].first_sql.as_deref(), Some("update outbox set a = ?"));
        ledger.reset(Rows { read: 7, written: 2 });
        assert_eq!(ledger.read(Rows { read: 9, written: 2 }).rows_read, 2);
    }
}
