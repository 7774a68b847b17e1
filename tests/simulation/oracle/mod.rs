//! The judge: compares what the code under test does with the world's own truth after every step.
//!
//! Its truth is what the provider accepted and which bytes it saw, what callers were told, which messages were given
//! up, and the rows as they stand after each transaction. It asks the code under test nothing.

pub mod arrows;
mod batches;
mod calls;
mod ledger;
mod messages;
mod news;
mod order;
mod pace;
mod pauses;
mod rows;
mod verdicts;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub use calls::CallId;
pub use news::Told;

use super::report::{Invariant, Report};
use super::store::{AttemptRow, OutboxRow};
use super::times::Times;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub what: String,
}

/// What the code under test was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Intake,
    Consumer,
    Relay,
    DeadLetters,
    Receipts,
    /// Operators and recipients, at their doors.
    People,
    /// A person's hand, or the world's.
    Operator,
}

/// Who did something.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub role: Role,
    /// One run of one handler.
    pub invocation: u64,
    /// Its clock's distance from the true time, in ms.
    pub skew: i64,
}

/// One business fact, as its producers know it.
#[derive(Clone, Debug)]
pub struct Truth {
    pub to: String,
    /// The family sends mails at all.
    pub shadow: bool,
    /// What its times mean.
    pub times: Times,
    /// The name of its sends, within the family.
    pub name: Option<String>,
    /// Contents of its attachments, in base64.
    pub files: Vec<String>,
}

/// A call as the world saw it.
#[derive(Clone, Debug)]
pub struct Call {
    pub key: String,
    pub at: i64,
    /// What the worker learned; `None` while it runs, or where it died.
    pub learned: Option<Learned>,
    /// The mail went out by this very call.
    pub accepted: bool,
}

/// What an answer tells its reader, by the oracle's own reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    Accepted,
    NotAccepted,
    Doubt,
}

#[derive(Default)]
pub struct Oracle {
    inner: RefCell<State>,
}

#[derive(Default)]
struct State {
    facts: BTreeMap<String, Truth>,
    /// The row of each fact, and the fact of each row (by address).
    row_of: BTreeMap<String, String>,
    fact_of: BTreeMap<String, String>,
    key_of: BTreeMap<String, String>,
    /// The rows that each batch has or had, by its key.
    batches: BTreeMap<String, BTreeSet<String>>,
    calls: Vec<Call>,
    bodies: BTreeMap<String, String>,
    keys_of: BTreeMap<String, BTreeSet<String>>,
    /// What the provider accepted for each obligation: a fact, or a row that a person wanted sent once more.
    accepted: BTreeMap<String, Vec<String>>,
    told: BTreeMap<String, String>,
    stated: BTreeSet<(String, bool)>,
    /// Claim tokens, who took them and after how many transactions.
    tokens: BTreeMap<String, (u64, u64)>,
    /// When each claim ends by itself.
    claim_ends: BTreeMap<String, i64>,
    /// Who must not be written to, by hash and family, and since how many transactions.
    suppressed: BTreeMap<(String, String), u64>,
    /// The row of each mail that the provider accepted, by its message id.
    mail_of: BTreeMap<String, String>,
    /// What the program was told about each mail, and took.
    told_of: BTreeMap<String, Vec<Told>>,
    /// After how many transactions each row was sent.
    sent_at: BTreeMap<String, u64>,
    /// The row that each row is sent again as, by what people were told.
    again: BTreeMap<String, String>,
    /// What happened to mails after their acceptance.
    happened: Vec<Told>,
    /// The links of letters by their rows, in the order in which they were recorded.
    links: Vec<(String, String)>,
    transactions: u64,
    rows: Rc<BTreeMap<String, OutboxRow>>,
    /// For each invocation the rows that stood without a live claim after one of its own writes: what it may forget.
    seen: BTreeMap<u64, BTreeSet<String>>,
    attempts: BTreeMap<String, AttemptRow>,
    /// When each row was last changed, by the true time.
    changed_at: BTreeMap<String, i64>,
    replayed: BTreeMap<String, String>,
    /// What the events say of each row's delivery.
    delivery_of: BTreeMap<String, String>,
    /// When each dead letter was last driven again.
    driven: BTreeMap<String, i64>,
    last_event: i64,
    violations: Vec<Violation>,
    report: Report,
    window_ms: i64,
    skew_ms: i64,
    call_ms: i64,
    pace: pace::Account,
    order: order::Account,
    pauses: pauses::Account,
}

/// What the oracle must know of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The used part of the provider window.
    pub window_ms: i64,
    /// How far two clocks may differ.
    pub skew_ms: i64,
    /// The time limit of a call.
    pub call_ms: i64,
}

impl Oracle {
    pub fn new(limits: Limits) -> Self {
        let oracle = Self::default();
        {
            let mut state = oracle.inner.borrow_mut();
            state.window_ms = limits.window_ms;
            state.skew_ms = limits.skew_ms;
            state.call_ms = limits.call_ms;
        }
        oracle
    }

    /// Announces a fact that callers may state.
    pub fn fact(&self, name: &str, truth: Truth) {
        self.inner.borrow_mut().facts.insert(name.to_owned(), truth);
    }

    pub fn report(&self) -> std::cell::RefMut<'_, Report> {
        std::cell::RefMut::map(self.inner.borrow_mut(), |state| &mut state.report)
    }

    pub fn violations(&self) -> Vec<Violation> {
        self.inner.borrow().violations.clone()
    }

    /// Whether a promise was broken so far.
    pub fn has_broken(&self, invariant: Invariant) -> bool {
        let state = self.inner.borrow();
        state.violations.iter().any(|known| known.invariant == invariant)
    }

    pub fn violation(&self, invariant: Invariant, what: String) {
        self.inner.borrow_mut().broken(invariant, what);
    }

    /// The rows as they stand.
    pub fn rows(&self) -> Rc<BTreeMap<String, OutboxRow>> {
        Rc::clone(&self.inner.borrow().rows)
    }

    /// Since when a row is due for the relay, by the true time: a write that was long on its way may name a time that is
    /// past when it lands, and the row is due from then on.
    pub fn due_since(&self, row: &OutboxRow) -> Option<i64> {
        let state = self.inner.borrow();
        let changed = state.changed_at.get(&row.id).copied().unwrap_or_default();
        row.relay_at.map(|at| at.max(changed))
    }

    /// Whether this run of a handler has an attempt open.
    pub fn has_open_attempt(&self, who: Who) -> bool {
        let state = self.inner.borrow();
        let owner = |token: &String| state.tokens.get(token).map(|(owner, _)| *owner);
        let mut open = state.attempts.values().filter(|attempt| attempt.outcome.is_none());
        open.any(|attempt| owner(&attempt.token) == Some(who.invocation))
    }

    /// A caller was told that this fact is accepted under this id.
    pub fn told(&self, fact: &str, id: &str) {
        let mut state = self.inner.borrow_mut();
        state.report.checked(Invariant::I1);
        if !state.rows.contains_key(id) {
            state.broken(
                Invariant::I1,
                format!("{fact} was accepted as {id}, and there is no such row"),
            );
        }
        if state.is_absorbed(fact, id) {
            return;
        }
        state.report.checked(Invariant::I2);
        match state.told.get(fact).cloned() {
            Some(first) if first != id => {
                state.broken(Invariant::I2, format!("{fact} was accepted as {first} and as {id}"));
            }
            Some(_) => {}
            None => {
                state.told.insert(fact.to_owned(), id.to_owned());
            }
        }
    }

    /// A caller states a fact, in its first meaning or the other one.
    pub fn stated(&self, fact: &str, other: bool) {
        self.inner.borrow_mut().stated.insert((fact.to_owned(), other));
    }

    /// Whether any of these facts was stated in both meanings.
    pub fn stated_both<'a>(&self, mut facts: impl Iterator<Item = &'a str>) -> bool {
        let state = self.inner.borrow();
        facts.any(|fact| {
            [true, false]
                .iter()
                .all(|other| state.stated.contains(&(fact.to_owned(), *other)))
        })
    }

    /// A text went where no personal data may go.
    pub fn public_text(&self, place: &str, text: &str) {
        let mut state = self.inner.borrow_mut();
        state.report.checked(Invariant::I8);
        if text.to_ascii_lowercase().contains(super::setting::MARKER) {
            state.broken(Invariant::I8, format!("{place} holds personal data"));
        }
    }

    /// At the end, when faults have stopped and time has run on.
    pub fn end(&self, held: &BTreeSet<String>) {
        let mut state = self.inner.borrow_mut();
        let rows: Vec<OutboxRow> = state.rows.values().cloned().collect();
        for row in rows {
            state.report.checked(Invariant::I1);
            let open = ["pending", "enqueued", "processing", "retry"].contains(&row.status.as_str());
            if open && !held.contains(&row.family) {
                let what = format!(
                    "{} is still {} ({}) when all has been quiet for days",
                    row.id, row.status, row.cause
                );
                state.broken(Invariant::I1, what);
            }
        }
        let lost: Vec<String> = state
            .told
            .iter()
            .filter(|(_, id)| !state.rows.contains_key(*id))
            .map(|(fact, id)| format!("{fact} was accepted as {id}, and the row is gone"))
            .collect();
        for what in lost {
            state.broken(Invariant::I1, what);
        }
        state.news_arrived();
    }
}

impl State {
    fn broken(&mut self, invariant: Invariant, what: String) {
        // The same break shows itself at every step; once is enough.
        if !self
            .violations
            .iter()
            .any(|known| known.invariant == invariant && known.what == what)
        {
            crate::trace::Trace::newest().broken(invariant, &what);
            self.violations.push(Violation { invariant, what });
        }
    }

    /// Calls under a key that may have been accepted, as far as a worker can know or the provider did.
    fn may_have_gone(&self, key: &str) -> bool {
        self.calls.iter().any(|call| {
            call.key == key
                && (call.accepted || matches!(call.learned, None | Some(Learned::Doubt | Learned::Accepted)))
        })
    }
}
