//! Rows after each transaction: arrows, claims, failure and proof, events.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Oracle, Role, State, Who, arrows};
use crate::report::Invariant;
use crate::store::{OutboxRow, Store};

/// States that say that nothing went out.
const NOTHING_WENT_OUT: [&str; 7] = [
    "failed",
    "expired",
    "canceled",
    "suppressed",
    "external",
    "shadowed",
    "dead_letter",
];

impl Oracle {
    /// A write transaction was committed.
    pub fn committed(&self, who: Who, now: i64, store: &Store) {
        let after = Rc::new(store.outbox());
        let attempts = store.attempts();
        let mut state = self.inner.borrow_mut();
        let state = &mut *state;
        state.transactions += 1;
        let before = std::mem::replace(&mut state.rows, Rc::clone(&after));
        let free = after
            .values()
            .filter(|row| !is_claimed(row, now + who.skew))
            .map(|row| row.id.clone());
        state.seen.entry(who.invocation).or_default().extend(free);
        let attempts_before = std::mem::replace(&mut state.attempts, attempts);
        for (id, row) in after.iter() {
            match before.get(id) {
                Some(old) if old == row => continue,
                Some(old) => {
                    state.moved(who, now, old, row);
                    state.put_aside(old, row, store);
                }
                None => state.recorded(row, store),
            }
            state.changed_at.insert(id.clone(), now);
        }
        state.report.checked(Invariant::I10);
        for id in before.keys().filter(|id| !after.contains_key(*id)) {
            state.broken(Invariant::I1, format!("the row {id} is gone"));
        }
        state.attempts_changed(who, &attempts_before);
        state.admitted(who, now, &before, &after);
        state.pauses_changed(who, now, &before, &after, store);
        state.suppressions_changed(store);
        state.replay(store, &after);
    }
}

/// Whether somebody holds the row, by this clock.
fn is_claimed(row: &OutboxRow, now: i64) -> bool {
    row.status == "processing" && row.expires_at.is_some_and(|end| now < end)
}

impl Oracle {
    /// What retention leaves of the event log still ends where each row stands.
    pub fn last_events(&self, store: &Store) {
        let mut last = BTreeMap::new();
        for event in store
            .events(0)
            .into_iter()
            .filter(|event| event.cause != "duplicate_seen")
        {
            last.insert(event.outbox_id, event.to);
        }
        let mut state = self.inner.borrow_mut();
        let rows = Rc::clone(&state.rows);
        for (id, row) in rows.iter() {
            state.report.checked(Invariant::I10);
            if last.get(id) != Some(&row.status) {
                let what = format!(
                    "{id} is {}, and the log that is kept ends at {:?}",
                    row.status,
                    last.get(id)
                );
                state.broken(Invariant::I10, what);
            }
        }
    }
}

impl State {
    fn recorded(&mut self, row: &OutboxRow, store: &Store) {
        let letter = store
            .one_text("SELECT body FROM letters WHERE outbox_id = ?1", &row.id)
            .unwrap_or_default();
        let fact = self
            .facts
            .iter()
            .find(|(_, truth)| letter.contains(&truth.to))
            .map(|(name, _)| name.clone())
            .or_else(|| self.fact_without_letter(row));
        self.report.checked(Invariant::I2);
        let Some(fact) = fact else {
            self.broken(
                Invariant::I1,
                format!("the row {} has a letter that nobody wrote", row.id),
            );
            return;
        };
        if let Some(of) = row.resend_of.clone() {
            self.made_again(row, &of);
        } else if let Some(first) = self.row_of.insert(fact.clone(), row.id.clone()) {
            self.broken(Invariant::I2, format!("{fact} has two rows, {first} and {}", row.id));
        }
        self.fact_of.insert(row.id.clone(), fact);
        self.link_recorded(row, &letter, store);
        self.key_of.insert(row.key.clone(), row.id.clone());
    }

    fn moved(&mut self, who: Who, now: i64, old: &OutboxRow, row: &OutboxRow) {
        self.claims(who, now, old, row);
        self.report.checked(Invariant::I4);
        if row.status == "sent" && old.status != "sent" {
            self.sent_at.insert(row.id.clone(), self.transactions);
            self.proof(row);
        }
        if old.status == "sent" && row.status != "sent" {
            self.broken(Invariant::I4, format!("{} was sent and is {} now", row.id, row.status));
        }
        if NOTHING_WENT_OUT.contains(&row.status.as_str()) {
            self.report.checked(Invariant::I3);
            if self.keys(row).iter().any(|key| self.may_have_gone(key)) {
                let what = format!("{} is {} ({}), and it may have gone out", row.id, row.status, row.cause);
                self.broken(Invariant::I3, what);
            }
        }
        if old.key != row.key {
            self.broken(Invariant::I5, format!("{} has another key now", row.id));
        }
        self.batched(old, row);
        let given_up = old.batch.is_some() && row.batch.is_none();
        if old.sha256.is_some() && old.sha256 != row.sha256 && !given_up {
            self.broken(Invariant::I5, format!("{} was sealed again", row.id));
        }
    }

    /// A row is only put aside for a pause or a hold of its own.
    fn put_aside(&mut self, old: &OutboxRow, row: &OutboxRow, store: &Store) {
        if row.status != "retry" || (old.cause == row.cause && old.next_attempt_at == row.next_attempt_at) {
            return;
        }
        let own = match row.cause.as_str() {
            "paused" => store.one_number("SELECT count(*) FROM pauses WHERE scope IN ('*', ?1)", &row.family) > 0,
            "held" => row.family == crate::setting::HELD_FAMILY,
            _ => return,
        };
        self.report.checked(Invariant::I12);
        if !own {
            self.broken(Invariant::I12, format!("{} is {} for others", row.id, row.cause));
        }
    }

    /// Claims: who took one, and whether anybody touched a row that another holds.
    fn claims(&mut self, who: Who, now: i64, old: &OutboxRow, row: &OutboxRow) {
        if let Some(token) = row.token.clone().filter(|token| Some(token) != old.token.as_ref()) {
            let taken = (who.invocation, self.transactions);
            self.claim_ends.extend(row.expires_at.map(|end| (token.clone(), end)));
            if let Some((other, _)) = self.tokens.insert(token, taken)
                && other != who.invocation
            {
                self.broken(Invariant::I9, format!("{} is claimed with another's token", row.id));
            }
        }
        let Some(token) = &old.token else {
            self.without_claim(who, old, row);
            return;
        };
        self.report.checked(Invariant::I9);
        let own = self
            .tokens
            .get(token)
            .is_some_and(|(owner, _)| *owner == who.invocation);
        let alive = old.expires_at.is_some_and(|end| now + who.skew < end);
        let proof = row.status == "sent" || row.cause == "message_id_conflict";
        let untouched =
            old.status == row.status && old.token == row.token && old.next_attempt_at == row.next_attempt_at;
        if !own && alive && !proof && !untouched {
            let what = format!(
                "{:?} moved {} from {} to {} ({}) while another's claim was alive",
                who.role, row.id, old.status, row.status, row.cause
            );
            self.broken(Invariant::I9, what);
        }
    }

    /// A consumer moves a row that nobody holds: it claims it, ends it for what forbids the mail, puts it aside, or
    /// wakes what a pause kept back that its probe has lifted. What
    /// an answer of the provider asks for is a settle's alone, and a settle needs the claim.
    fn without_claim(&mut self, who: Who, old: &OutboxRow, row: &OutboxRow) {
        const CAUSES: [&str; 13] = [
            "batch_stopped",
            "claimed",
            "provider_window_closed",
            "recipient_suppressed",
            "first_was_sent",
            "window_missed",
            "claims_exhausted",
            "outbox_id_unclaimed",
            "paused",
            "pause_lifted",
            "held",
            "provider_scope_changed",
            "message_id_conflict",
        ];
        if who.role != Role::Consumer || row.status == "sent" {
            return;
        }
        self.report.checked(Invariant::I9);
        let moved = old.status != row.status || old.next_attempt_at != row.next_attempt_at;
        // The answer to a probe lifts its pause: what that put aside is due.
        let woken = (
            old.status.as_str(),
            old.cause.as_str(),
            row.status.as_str(),
            row.cause.as_str(),
        ) == ("retry", "paused", "retry", "pause_lifted");
        if moved && !woken && !CAUSES.contains(&row.cause.as_str()) {
            let what = format!(
                "a consumer without a claim moved {} from {} to {} ({})",
                row.id, old.status, row.status, row.cause
            );
            self.broken(Invariant::I9, what);
        }
    }

    fn proof(&mut self, row: &OutboxRow) {
        let Some(id) = &row.message_id else {
            self.broken(Invariant::I4, format!("{} is sent without a message id", row.id));
            return;
        };
        let owed = self.obligation(row);
        let accepted = self.accepted.get(&owed).is_some_and(|ids| ids.contains(id));
        if !accepted {
            let what = format!(
                "{} is sent with {id}, and the provider gave that id to no such mail",
                row.id
            );
            self.broken(Invariant::I4, what);
        }
    }

    fn attempts_changed(&mut self, who: Who, before: &BTreeMap<String, crate::store::AttemptRow>) {
        if who.role == Role::Operator {
            return;
        }
        let mut broken = Vec::new();
        for (id, attempt) in &self.attempts {
            let changed = before.get(id) != Some(attempt);
            let owner = self.tokens.get(&attempt.token).map(|(owner, _)| *owner);
            if changed && owner != Some(who.invocation) {
                broken.push(format!(
                    "{:?} closed another's attempt of {}",
                    who.role, attempt.outbox_id
                ));
            }
        }
        for what in broken {
            self.broken(Invariant::I9, what);
        }
    }

    /// Two versions that can both not read a row must not hand it to each other at every tick.
    fn driven_again(&mut self, id: &str, at: i64) {
        const REST_MS: i64 = 5 * 60_000;
        self.report.checked(Invariant::I12);
        if let Some(before) = self.driven.insert(id.to_owned(), at)
            && at - before < REST_MS
        {
            self.broken(Invariant::I12, format!("{id} runs in circles between two versions"));
        }
    }

    /// The event log, replayed: each event is an arrow that exists, begins where the one before ended, and the last
    /// ends where the row stands. One transaction may take a row along two arrows.
    fn replay(&mut self, store: &Store, rows: &BTreeMap<String, OutboxRow>) {
        for event in store.events(self.last_event) {
            self.last_event = event.seq;
            if self.moves_nothing(&event) {
                continue;
            }
            let from = event.from.as_deref().unwrap_or_default();
            self.report.arrow(arrows::name(from, &event.to));
            if event.cause == "readable_again" {
                self.driven_again(&event.outbox_id, event.at);
            }
            if event.to == "suppressed" {
                // A call that the suppression kept from being made.
                self.report.checked(Invariant::I7);
            }
            if !arrows::is_legal(from, &event.to, &event.cause) {
                let what = format!(
                    "{} went from {from:?} to {} ({})",
                    event.outbox_id, event.to, event.cause
                );
                self.broken(Invariant::I10, what);
            }
            let known = self.replayed.get(&event.outbox_id).cloned();
            if known != event.from {
                let what = format!(
                    "an event of {} begins at {:?} and not at {known:?}",
                    event.outbox_id, event.from
                );
                self.broken(Invariant::I10, what);
            }
            self.replayed.insert(event.outbox_id, event.to);
        }
        let mut broken = Vec::new();
        for (id, row) in rows {
            if self.delivery_of.get(id) != row.delivery.as_ref() {
                let replayed = self.delivery_of.get(id);
                broken.push(format!(
                    "{id} is {:?} at its recipient, and its events end at {replayed:?}",
                    row.delivery
                ));
            }
            if self.replayed.get(id) != Some(&row.status) {
                let replayed = self.replayed.get(id);
                broken.push(format!("{id} is {}, and its events end at {replayed:?}", row.status));
            }
        }
        for what in broken {
            self.broken(Invariant::I10, what);
        }
    }
}
