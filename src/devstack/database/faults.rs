//! Faults on request: which requests they hit, and the place where held requests wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// How many rules may stand at once.
pub const RULES_MAX: usize = 100;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Nothing runs; the connection is closed without an answer.
    Refuse,
    /// The request runs; then the connection is closed without an answer.
    DropAfterCommit,
    /// Nothing runs; HTTP 502 with an HTML page, as a gateway in between would send it.
    BadGateway,
    /// The request runs; the answer is lost to an HTTP 502 with an HTML page.
    BadGatewayAfterCommit,
    /// Every `BEGIN` in the request fails with `SQLITE_BUSY`. Requests without one do not match.
    Busy,
    /// Nothing runs and nothing is sent until the time is up or the release comes; then the connection is closed.
    Stall,
    /// The request runs and the headers go out; the body follows when the time is up or the release comes.
    StallAfterHeaders,
    /// The request waits before it runs. It runs after the wait even where its client is gone.
    HoldBefore,
    /// The request runs, and its answer waits.
    HoldAfter,
}

/// One rule: which requests go wrong, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// What goes wrong.
    pub kind: FaultKind,
    /// How many requests it hits; -1 for all until the rules are cleared.
    #[serde(default = "once")]
    pub count: i64,
    /// How many matching requests pass before the first hit.
    #[serde(default)]
    pub skip: u64,
    /// Only requests with this in one of their SQL texts (letters as written); absent for all.
    #[serde(default, rename = "match")]
    pub matches: Option<String>,
    /// How long a stall or hold lasts, in milliseconds; absent until `POST /_/release`.
    #[serde(default)]
    pub ms: Option<u64>,
}

fn once() -> i64 {
    1
}

/// A rule as `GET /_/faults` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleState {
    /// The rule as it was given.
    #[serde(flatten)]
    pub rule: FaultRule,
    /// Matching requests that were let pass for `skip`.
    pub passed: u64,
    /// Requests that it hit.
    pub hits: u64,
    /// Requests that it will still hit; -1 without an end.
    pub remaining: i64,
}

/// How the held requests go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// They go on as if they had not been held.
    Continue,
    /// They are dropped: what did not run never runs, and no answer is sent.
    Discard,
}

/// The rules and the requests that wait.
pub(super) struct Faults {
    rules: Mutex<Vec<RuleState>>,
    held: watch::Sender<usize>,
    /// A new value lets everybody go who waits now.
    release: watch::Sender<Released>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Mutex::default(),
            held: watch::Sender::new(0),
            release: watch::Sender::new(Released::Continue),
        }
    }
}

/// The rule list is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault_rules_too_many")]
pub struct TooManyRules;

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Vec<RuleState>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rules after those that stand.
    pub(super) fn add(&self, rules: Vec<FaultRule>) -> Result<(), TooManyRules> {
        let mut standing = self.lock();
        if standing.len() + rules.len() > RULES_MAX {
            return Err(TooManyRules);
        }
        standing.extend(rules.into_iter().map(|rule| RuleState {
            passed: 0,
            hits: 0,
            remaining: rule.count.max(-1),
            rule,
        }));
        Ok(())
    }

    /// All rules, used up or not, in the order in which they were given.
    pub(super) fn list(&self) -> Vec<RuleState> {
        self.lock().clone()
    }

    /// Forgets the rules. Requests that are held stay held.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// The fault for a request with these SQL texts: that of the first rule which is due.
    pub(super) fn pick(&self, texts: &[&str]) -> Option<FaultRule> {
        let mut rules = self.lock();
        for state in rules.iter_mut() {
            if state.remaining == 0 || !applies(&state.rule, texts) {
                continue;
            }
            if state.passed < state.rule.skip {
                state.passed += 1;
                continue;
            }
            state.hits += 1;
            state.remaining = if state.remaining > 0 { state.remaining - 1 } else { -1 };
            return Some(state.rule.clone());
        }
        None
    }

    /// How many requests wait now.
    pub(super) fn held(&self) -> usize {
        *self.held.borrow()
    }

    /// Follows the number of requests that wait.
    pub(super) fn watch_held(&self) -> watch::Receiver<usize> {
        self.held.subscribe()
    }

    /// Lets every waiting request go; tells how many there were.
    pub(super) fn release(&self, how: Released) -> usize {
        let held = self.held();
        self.release.send_replace(how);
        held
    }

    /// Takes a place among the waiting. It counts as held from this call on.
    pub(super) fn park(self: &std::sync::Arc<Self>, ms: Option<u64>) -> Parked {
        let release = self.release.subscribe();
        self.held.send_modify(|held| *held += 1);
        Parked {
            faults: std::sync::Arc::clone(self),
            release,
            limit: ms.map(Duration::from_millis),
        }
    }
}

/// A request that waits for its release or its time.
pub(super) struct Parked {
    faults: std::sync::Arc<Faults>,
    release: watch::Receiver<Released>,
    limit: Option<Duration>,
}

impl Parked {
    /// Waits.
    pub(super) async fn wait(mut self) -> Released {
        let limit = self.limit;
        let released = async {
            match self.release.changed().await {
                Ok(()) => *self.release.borrow_and_update(),
                // The server is gone: nobody is left to answer.
                Err(_) => Released::Discard,
            }
        };
        match limit {
            Some(limit) => tokio::time::timeout(limit, released)
                .await
                .unwrap_or(Released::Continue),
            None => released.await,
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.faults.held.send_modify(|held| *held = held.saturating_sub(1));
    }
}

fn applies(rule: &FaultRule, texts: &[&str]) -> bool {
    let contains = rule
        .matches
        .as_deref()
        .is_none_or(|part| texts.iter().any(|text| text.contains(part)));
    contains && (rule.kind != FaultKind::Busy || texts.iter().any(|text| begins_transaction(text)))
}

/// Whether a text starts a transaction.
pub(super) fn begins_transaction(text: &str) -> bool {
    first_word(text).eq_ignore_ascii_case("begin")
}

/// The first word of a statement.
pub(super) fn first_word(text: &str) -> &str {
    text.trim_start()
        .split(|letter: char| !letter.is_ascii_alphabetic())
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> FaultRule {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn skips_then_hits_as_often_as_told() {
        let faults = Faults::default();
        faults
            .add(vec![rule(r#"{"kind":"refuse","count":2,"skip":1,"match":"outbox"}"#)])
            .unwrap();
        assert_eq!(faults.pick(&["select 1"]), None);
        assert_eq!(faults.pick(&["select * from outbox"]), None);
        assert!(faults.pick(&["begin", "update outbox set a=1"]).is_some());
        assert!(faults.pick(&["delete from outbox"]).is_some());
        assert_eq!(faults.pick(&["delete from outbox"]), None);
        let state = &faults.list()[0];
        assert_eq!((state.passed, state.hits, state.remaining), (1, 2, 0));
    }

    #[test]
    fn busy_hits_only_what_begins_a_transaction() {
        let faults = Faults::default();
        faults.add(vec![rule(r#"{"kind":"busy","count":-1}"#)]).unwrap();
        assert_eq!(faults.pick(&["insert into t values('begin')"]), None);
        assert!(faults.pick(&[" Begin Immediate", "select 1"]).is_some());
        assert!(faults.pick(&["BEGIN"]).is_some());
        assert_eq!(faults.list()[0].remaining, -1);
    }

    #[test]
    fn refuses_rules_with_words_it_does_not_know() {
        assert!(serde_json::from_str::<FaultRule>(r#"{"kind":"refuse","times":2}"#).is_err());
        let many = vec![rule(r#"{"kind":"refuse"}"#); RULES_MAX + 1];
        assert_eq!(Faults::default().add(many), Err(TooManyRules));
    }
}
