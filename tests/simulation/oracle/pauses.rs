//! Pauses. What is promised: no row is claimed while a pause of its family or of everything is in force on the clock of
//! the one who claims; what an operator was told is paused stays so until then, or until somebody orders a lift. Once it
//! has run out, a claim of its rows is its probe and makes a single call of them. A pause that is lifted, or that its
//! probe has ended, wakes in the same transaction whatever it put aside and no other pause keeps.

use std::collections::{BTreeMap, BTreeSet};

use super::{Oracle, Role, State, Who};
use crate::report::Invariant;
use crate::store::{OutboxRow, PauseRow, Store};

/// What the oracle knows of pauses.
#[derive(Default)]
pub(super) struct Account {
    stand: BTreeMap<String, PauseRow>,
    /// What operators were told, and nobody has ordered to lift since.
    told: BTreeMap<String, i64>,
    /// What somebody has ordered to lift: an order whose answer was lost may land at any time.
    to_be_lifted: BTreeSet<String>,
    /// The pauses that each claim is the probe of, by its token, and the keys of the calls made for each.
    probes: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Oracle {
    /// An operator was told that this is paused until then.
    pub fn is_paused(&self, scope: &str, until: i64) {
        let pauses = &mut self.inner.borrow_mut().pauses;
        if !pauses.to_be_lifted.contains(scope) {
            pauses.told.insert(scope.to_owned(), until);
        }
    }

    /// An operator is about to lift it.
    pub fn is_to_be_lifted(&self, scope: &str) {
        let pauses = &mut self.inner.borrow_mut().pauses;
        pauses.told.remove(scope);
        pauses.to_be_lifted.insert(scope.to_owned());
    }

    /// Whether a probe of some pause is under way.
    pub fn is_probing(&self) -> bool {
        let state = self.inner.borrow();
        state.pauses.stand.values().any(|pause| pause.probe.is_some())
    }

    /// Whether a call is under way.
    pub fn is_calling(&self) -> bool {
        let state = self.inner.borrow();
        state.calls.last().is_some_and(|call| call.learned.is_none())
    }
}

impl State {
    /// Claims against the pauses as they stood, and what their ends woke.
    pub(super) fn pauses_changed(
        &mut self,
        who: Who,
        now: i64,
        rows_before: &BTreeMap<String, OutboxRow>,
        rows: &BTreeMap<String, OutboxRow>,
        store: &Store,
    ) {
        let stand = store.pauses();
        let before = std::mem::replace(&mut self.pauses.stand, stand.clone());
        let local = now + who.skew;
        for (id, row) in rows {
            let old = rows_before.get(id);
            if row.cause == "paused" && old.is_none_or(|old| old.cause != "paused") {
                self.report.event("pause: a mail was put aside");
            }
            if row.cause == "paced" && old.is_none_or(|old| old.cause != "paced") {
                self.report.event("pace: a mail was put aside");
            }
            if let Some(token) = &row.token
                && old.is_none_or(|old| old.token.as_ref() != Some(token))
            {
                self.claimed_against(row, token, local, &before, &stand);
            }
        }
        for (scope, pause) in &before {
            let lifted = match stand.get(scope) {
                None => true,
                Some(now) => who.role == Role::People && now.until < pause.until,
            };
            if lifted {
                self.wakes(who, scope, local, rows_before, rows, &stand);
            }
        }
    }

    fn claimed_against(
        &mut self,
        row: &OutboxRow,
        token: &str,
        local: i64,
        before: &BTreeMap<String, PauseRow>,
        after: &BTreeMap<String, PauseRow>,
    ) {
        let is_probe = |scope: &str| {
            after
                .get(scope)
                .is_some_and(|pause| pause.probe.as_deref() == Some(token))
        };
        for scope in ["*", row.family.as_str()] {
            if is_probe(scope) {
                let probes = self.pauses.probes.entry(token.to_owned()).or_default();
                probes.entry(scope.to_owned()).or_default();
            }
            let told = self.pauses.told.get(scope).copied().unwrap_or(i64::MIN);
            // A repetition of the probe's own claim finds what the first one wrote.
            if let Some(pause) = before.get(scope).filter(|pause| pause.probe.as_deref() != Some(token)) {
                self.report.checked(Invariant::P3);
                if pause.until > local {
                    self.broken(Invariant::P3, format!("{} is claimed while {scope} is paused", row.id));
                } else if !is_probe(scope) && !is_probe("*") {
                    let what = format!("{} is claimed past the probe of {scope}", row.id);
                    self.broken(Invariant::P3, what);
                }
            }
            if told > local {
                self.report.checked(Invariant::P3);
                let what = format!("{} is claimed while an operator has {scope} paused", row.id);
                self.broken(Invariant::P3, what);
            }
        }
    }

    fn wakes(
        &mut self,
        who: Who,
        scope: &str,
        local: i64,
        before: &BTreeMap<String, OutboxRow>,
        rows: &BTreeMap<String, OutboxRow>,
        stand: &BTreeMap<String, PauseRow>,
    ) {
        self.report.checked(Invariant::P3);
        if who.role == Role::Consumer {
            self.report.event("pause: its probe ended it");
        }
        let of_scope = |row: &&OutboxRow| scope == "*" || row.family == scope;
        let others = |row: &OutboxRow| {
            stand
                .keys()
                .any(|other| other != scope && (other == "*" || *other == row.family))
        };
        let mut asleep = Vec::new();
        for row in rows.values().filter(of_scope) {
            if row.status == "retry"
                && row.cause == "paused"
                && row.next_attempt_at.is_some_and(|at| at > local)
                && !others(row)
            {
                asleep.push(format!("{} sleeps on when the pause of {scope} is over", row.id));
            }
            let was_aside = before.get(&row.id).is_some_and(|old| old.cause == "paused");
            if was_aside && row.cause == "pause_lifted" {
                self.report.event(if who.role == Role::Consumer {
                    "pause: what its probe woke"
                } else {
                    "pause: what a lift woke"
                });
            }
        }
        for what in asleep {
            self.broken(Invariant::P3, what);
        }
    }

    /// A call under a claim that is the probe of a pause is the only one for it.
    pub(super) fn probes_once(&mut self, who: Who, key: &str) {
        let tokens: BTreeSet<String> = self
            .rows_under(key)
            .into_iter()
            .filter_map(|row| row.token)
            .filter(|token| {
                self.tokens
                    .get(token)
                    .is_some_and(|(owner, _)| *owner == who.invocation)
            })
            .collect();
        let families: BTreeSet<String> = self.rows_under(key).into_iter().map(|row| row.family).collect();
        let mut wrong = Vec::new();
        for token in tokens {
            for (scope, keys) in self.pauses.probes.get_mut(&token).into_iter().flatten() {
                if scope != "*" && !families.contains(scope) {
                    continue;
                }
                self.report.checked(Invariant::P3);
                self.report.event("pause: a probe called");
                keys.insert(key.to_owned());
                if keys.len() > 1 {
                    wrong.push(format!("the probe of {scope} lets {} calls through", keys.len()));
                }
            }
        }
        for what in wrong {
            self.broken(Invariant::P3, what);
        }
    }
}
