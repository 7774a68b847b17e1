//! Messages: one decision each, and none forgotten before its row can do without it.

use sealpost::consume::Decision;
use sealpost::outbox::envelope::Envelope;

use super::{Oracle, Role, Who};
use crate::report::Invariant;
use crate::store::Store;

/// Longest delay that the platform takes, in seconds.
const DELAY_SECONDS_MAX: u32 = 86_400;

impl Oracle {
    /// A batch came back with so many decisions.
    pub fn decisions(&self, messages: usize, decisions: &[Decision]) {
        let mut state = self.inner.borrow_mut();
        state.report.checked(Invariant::I11);
        if messages != decisions.len() {
            let what = format!("{messages} messages and {} decisions", decisions.len());
            state.broken(Invariant::I11, what);
        }
        for decision in decisions {
            if let Decision::Retry { delay_seconds } = decision
                && *delay_seconds > DELAY_SECONDS_MAX
            {
                state.broken(Invariant::I11, format!("a delay of {delay_seconds} s"));
            }
        }
    }

    /// An invocation decided to forget a message. What counts is how the row stood when it wrote, at any of its writes:
    /// one decides about the message, the later ones may be about other rows of its batch, and whatever others do to
    /// the row after the one that decided (drive it again, claim it) is theirs, with a message of their own.
    pub fn acknowledged(&self, who: Who, now: i64, body: &str, store: &Store) {
        let mut state = self.inner.borrow_mut();
        let state = &mut *state;
        state.report.checked(Invariant::I11);
        let Some(seen) = state.seen.get(&who.invocation).cloned() else {
            state.broken(
                Invariant::I11,
                "a message is forgotten, and nothing was written".to_owned(),
            );
            return;
        };
        let row = Envelope::read(Some(body))
            .ok()
            .map(|envelope| {
                seen.iter()
                    .filter_map(|rows| rows.get(&envelope.outbox_id))
                    .collect::<Vec<_>>()
            })
            .filter(|row| !row.is_empty());
        match row {
            None if store.one_number("SELECT count(*) FROM parking WHERE body = ?1", body) == 0 => {
                state.broken(
                    Invariant::I11,
                    "a message that nobody understood is forgotten, and was not parked".to_owned(),
                );
            }
            None => {}
            Some(stood) => {
                // The dead-letter queue gives a row that is being worked on to the relay, which knows the claim's end.
                let main = who.role == Role::Consumer;
                let alive = stood
                    .iter()
                    .all(|row| row.status == "processing" && row.expires_at.is_some_and(|end| now + who.skew < end));
                if main && alive {
                    let what = format!(
                        "the message of {} is forgotten while a claim of it is alive",
                        stood[0].id
                    );
                    state.broken(Invariant::I11, what);
                }
            }
        }
    }
}
