//! What the provider says about mails: it proves them, it says where they are, and whom not to write to any more.

use super::{Oracle, State};
use crate::report::Invariant;
use crate::store::{EventRow, Store};

/// An event that the program took.
#[derive(Clone, Debug)]
pub struct Told {
    pub message_id: String,
    /// `delivered` and the like, as the provider calls it.
    pub news: &'static str,
    pub at: i64,
    /// It carries our id.
    pub tagged: bool,
    /// Nobody may write to this recipient any more, by hash.
    pub suppresses: Option<String>,
    /// When the program answered it well.
    pub heard_at: i64,
    /// Accounts changed in this run: an event without our id may have come to the wrong one.
    pub may_be_lost: bool,
}

/// What is worse stays; otherwise what is later counts, and at the same time what says more.
fn weight(told: &Told) -> (u8, i64, u8) {
    let (worse, rank) = match told.news {
        "scheduled" => (0, 0),
        "sent" => (0, 1),
        "delivery_delayed" => (0, 2),
        "delivered" | "opened" | "clicked" => (0, 3),
        "failed" => (4, 4),
        "suppressed" => (5, 5),
        "bounced" => (6, 6),
        "complained" => (7, 7),
        other => panic!("no news: {other}"),
    };
    (worse, told.at, rank)
}

/// The word in the row.
fn word(news: &'static str) -> &'static str {
    match news {
        "delivery_delayed" => "delayed",
        "opened" | "clicked" => "delivered",
        other => other,
    }
}

impl Oracle {
    /// Something happened to a mail, and the provider will say so.
    pub fn said(&self, told: &Told) {
        let mut state = self.inner.borrow_mut();
        state.happened.push(told.clone());
    }

    /// The program answered an event well: what it says must be known from now on.
    pub fn heard(&self, told: Told, store: &Store) {
        let mut state = self.inner.borrow_mut();
        let state = &mut *state;
        let row = state
            .mail_of
            .get(&told.message_id)
            .and_then(|id| state.rows.get(id))
            .cloned();
        if let Some(row) = row.filter(|_| told.tagged) {
            state.report.checked(Invariant::I3);
            // Unless another row has its id.
            let taken = state
                .rows
                .values()
                .any(|other| other.id != row.id && other.message_id.as_ref() == Some(&told.message_id));
            let known = row.status == "sent" || (row.cause == "message_id_conflict" && taken);
            if !known {
                let what = format!(
                    "{} was proved by an event and is {} ({})",
                    row.id, row.status, row.cause
                );
                state.broken(Invariant::I3, what);
            }
            if let Some(hash) = &told.suppresses {
                state.report.checked(Invariant::I7);
                let lifted = store.one_number(
                    "SELECT coalesce(max(lifted_at), 0) FROM suppressions WHERE recipient_hash = ?1 AND family = '*'",
                    hash,
                );
                let stands = state.suppressed.contains_key(&(hash.clone(), "*".to_owned()));
                // What somebody lifted after the fact stays lifted; the clocks of the two may differ.
                if !stands && lifted + state.skew_ms < told.at {
                    let what = format!("{} said {}, and may be written to", row.id, told.news);
                    state.broken(Invariant::I7, what);
                }
            }
        }
        state.told_of.entry(told.message_id.clone()).or_default().push(told);
    }
}

impl State {
    /// Suppressions come and go; a call is judged by those that stood before its claim.
    pub(super) fn suppressions_changed(&mut self, store: &Store) {
        let now = self.transactions;
        let active = store.suppressed();
        self.suppressed.retain(|of, _| active.contains(of));
        for of in active {
            if self.suppressed.contains_key(&of) {
                continue;
            }
            let by_news = store.one_number(
                "SELECT count(*) FROM suppressions WHERE recipient_hash = ?1 AND fact_at IS NOT NULL
                   AND reason IN ('bounced', 'complained') AND lifted_at IS NULL",
                &of.0,
            );
            let said = |told: &&Told| told.suppresses.as_ref() == Some(&of.0);
            let last = self.happened.iter().filter(said).map(|told| told.at).max();
            // What somebody lifted comes back for news alone: for what had not been heard when it was lifted, and is newer
            // than what had.
            let lifted = store.one_number(
                "SELECT coalesce(max(at), 0) FROM suppression_history
                 WHERE recipient_hash = ?1 AND family = '*' AND change = 'lifted'",
                &of.0,
            );
            let heard = self.told_of.values().flatten().filter(said);
            let before = heard.filter(|told| told.heard_at + self.skew_ms < lifted);
            let known = before.map(|told| told.at).max();
            if by_news > 0 && last.is_none_or(|last| known.is_some_and(|known| last <= known)) {
                let what = "a recipient is suppressed of whom nobody said anything, or nothing new".to_owned();
                self.broken(Invariant::I7, what);
            }
            self.suppressed.insert(of, now);
        }
    }

    /// Events that say something and move nothing.
    pub(super) fn moves_nothing(&mut self, event: &EventRow) -> bool {
        if event.cause == "batch_dissolved" {
            self.report.event("event: batch_dissolved");
            return true;
        }
        if event.cause == "duplicate_seen" {
            self.report.event("event: duplicate_seen");
            return true;
        }
        if let Some(delivery) = event.cause.strip_prefix("delivery_") {
            self.report.checked(Invariant::I10);
            if self.replayed.get(&event.outbox_id) != Some(&event.to) {
                let what = format!("news of {} was written beside another state", event.outbox_id);
                self.broken(Invariant::I10, what);
            }
            let id = event.outbox_id.clone();
            let before = self.delivery_of.insert(id, delivery.to_owned());
            let undone = |worse: &str| before.as_deref() == Some(worse) && delivery == "delivered";
            if undone("bounced") || undone("complained") {
                let what = format!("{} was {before:?} and is {delivery} now", event.outbox_id);
                self.broken(Invariant::I10, what);
            }
            return true;
        }
        false
    }

    /// In the end, where each mail is said to be is what the events that were taken say, whatever their order; or more,
    /// where an event was taken and its answer never came back.
    pub(super) fn news_arrived(&mut self) {
        let mut broken = Vec::new();
        for (message_id, told) in &self.told_of {
            let row = self
                .rows
                .values()
                .find(|row| row.message_id.as_deref() == Some(message_id));
            let known = told.iter().filter(|told| told.tagged || !told.may_be_lost);
            let (Some(row), Some(last)) = (row, known.max_by_key(|told| weight(told))) else {
                continue;
            };
            self.report.checked(Invariant::I1);
            let mut possible = self
                .happened
                .iter()
                .filter(|told| told.message_id == *message_id && weight(told) >= weight(last));
            if !possible.any(|told| row.delivery.as_deref() == Some(word(told.news))) {
                broken.push(format!(
                    "{} is {:?} at its recipient, and the provider said {}",
                    row.id, row.delivery, last.news
                ));
            }
        }
        for what in broken {
            self.broken(Invariant::I1, what);
        }
    }
}
