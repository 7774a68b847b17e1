//! Calls that carry several mails: whose they are, and what their key means for each.

use std::collections::BTreeSet;

use super::{Oracle, State};
use crate::report::Invariant;
use crate::store::OutboxRow;

impl Oracle {
    /// Every key under which a row was or may be sent: its own, and those of its batches.
    pub fn keys_of(&self, row: &OutboxRow) -> Vec<String> {
        self.inner.borrow().keys(row)
    }
}

impl State {
    /// Every key under which a row was or may be sent: its own, and those of its batches.
    pub(super) fn keys(&self, row: &OutboxRow) -> Vec<String> {
        let of_batches = self.batches.iter().filter(|(_, rows)| rows.contains(&row.id));
        of_batches
            .map(|(key, _)| key.clone())
            .chain([row.key.clone()])
            .collect()
    }

    /// The rows that a call under this key is about: those of the batch, or the one whose key it is.
    pub(super) fn rows_under(&self, key: &str) -> Vec<OutboxRow> {
        let of_batch = self.rows.values().filter(|row| row.batch.as_deref() == Some(key));
        let of_key = self.key_of.get(key).and_then(|id| self.rows.get(id));
        of_batch.chain(of_key).cloned().collect()
    }

    /// The row whose mail to this fact's address went out under this key.
    pub(super) fn row_under(&self, key: &str, fact: &str) -> Option<String> {
        if let Some(id) = self.key_of.get(key) {
            return Some(id.clone());
        }
        let rows = self.batches.get(key)?;
        let of_fact = |id: &&String| self.fact_of.get(*id).is_some_and(|known| known == fact);
        rows.iter().find(of_fact).cloned()
    }

    /// A row came into a batch, or left one. It leaves only where the provider has certainly not taken the batch.
    pub(super) fn batched(&mut self, old: &OutboxRow, row: &OutboxRow) {
        if let Some(key) = row.batch.clone().filter(|key| Some(key) != old.batch.as_ref()) {
            self.report.event("batch: frozen");
            self.batches.entry(key).or_default().insert(row.id.clone());
        }
        if let Some(key) = old.batch.clone().filter(|key| Some(key) != row.batch.as_ref()) {
            self.report.event("batch: given up");
            self.report.checked(Invariant::I5);
            if self.may_have_gone(&key) {
                let what = format!("{} has left its batch, which may have been accepted", row.id);
                self.broken(Invariant::I5, what);
            }
        }
    }

    /// A fact is requested under one key; under another one only where all that was tried under the first is known not to
    /// have been accepted.
    pub(super) fn under_one_key(&mut self, key: &str, body: &str) {
        let facts: Vec<String> = self
            .facts
            .iter()
            .filter(|(_, truth)| body.contains(&truth.to))
            .map(|(name, _)| name.clone())
            .collect();
        for fact in facts {
            let of_a_resend = self
                .row_under(key, &fact)
                .and_then(|id| self.rows.get(&id))
                .is_some_and(|row| row.resend_of.is_some());
            if of_a_resend {
                continue;
            }
            let keys = self.keys_of.entry(fact.clone()).or_default();
            keys.insert(key.to_owned());
            let others: BTreeSet<String> = keys.iter().filter(|other| *other != key).cloned().collect();
            let batched = others
                .iter()
                .chain([&key.to_owned()])
                .any(|key| self.batches.contains_key(key));
            if others.iter().any(|other| !batched || self.may_have_gone(other)) {
                self.broken(Invariant::I5, format!("{fact} was requested under two keys"));
            }
        }
    }
}
