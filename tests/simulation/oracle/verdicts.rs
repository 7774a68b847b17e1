//! What people decide: what they may know, and the rows that they have made.

use super::{Learned, Oracle, State};
use crate::report::Invariant;
use crate::store::OutboxRow;

impl Oracle {
    /// The provider's ids of what it accepted for a row.
    pub fn mails_of(&self, row: &str) -> Vec<String> {
        let state = self.inner.borrow();
        let mails = state.mail_of.iter().filter(|(_, of)| *of == row);
        mails.map(|(id, _)| id.clone()).collect()
    }

    /// When the last call for a row began; long ago where there was none.
    pub fn last_call(&self, row: &OutboxRow) -> i64 {
        let keys = self.keys_of(row);
        let state = self.inner.borrow();
        let calls = state.calls.iter().filter(|call| keys.contains(&call.key));
        calls.map(|call| call.at).max().unwrap_or_default()
    }

    /// A person has made sure that nothing went out for a row: its doubts are over.
    pub fn ruled_out(&self, row: &OutboxRow) {
        let keys = self.keys_of(row);
        let mut state = self.inner.borrow_mut();
        let calls = state.calls.iter_mut();
        for call in calls.filter(|call| keys.contains(&call.key) && !call.accepted) {
            call.learned = Some(Learned::NotAccepted);
        }
    }

    /// A person was told that a row is sent again as another one: always the same one.
    pub fn sent_again(&self, row: &str, again: &str) {
        let mut state = self.inner.borrow_mut();
        state.report.checked(Invariant::I2);
        let is_its_own = state.rows.get(again).and_then(|row| row.resend_of.as_deref()) == Some(row);
        if !is_its_own {
            let what = format!("{row} is said to be sent again as {again}, which is no row of it");
            state.broken(Invariant::I2, what);
        }
        match state.again.get(row).cloned() {
            Some(first) if first != again => {
                let what = format!("{row} is sent again as {first} and as {again}");
                state.broken(Invariant::I2, what);
            }
            Some(_) => {}
            None => {
                state.again.insert(row.to_owned(), again.to_owned());
            }
        }
    }
}

impl State {
    /// What a row owes: its fact, or, where a person wanted it sent once more, that and nothing else.
    pub(super) fn obligation(&self, row: &OutboxRow) -> String {
        let fact = self.fact_of.get(&row.id).cloned().unwrap_or_default();
        if row.resend_of.is_some() {
            format!("{fact}, again as {}", row.id)
        } else {
            fact
        }
    }

    /// A row that a person had made: of an unknown one, once.
    pub(super) fn made_again(&mut self, row: &OutboxRow, of: &str) {
        self.report.checked(Invariant::I2);
        let first = self.rows.get(of).cloned();
        let right = first.is_some_and(|first| {
            first.key != row.key && first.recipient_hash == row.recipient_hash && first.family == row.family
        });
        if !right {
            let what = format!("{} is no repetition of {of}", row.id);
            self.broken(Invariant::I2, what);
        }
        let others = self
            .rows
            .values()
            .filter(|other| other.resend_of.as_deref() == Some(of));
        if others.count() > 1 {
            self.broken(Invariant::I2, format!("{of} is sent again twice"));
        }
    }
}
