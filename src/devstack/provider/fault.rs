//! Fault rules: which requests fail, how often, and in which way.

use serde::{Deserialize, Serialize};

pub use super::kind::{Accepts, FaultKind};

/// Rules kept at once: a test needs a handful.
pub const RULES_MAX: usize = 1_000;
/// The longest delay a rule may ask for, in milliseconds: longer than any client waits.
pub const DELAY_MS_MAX: u64 = 600_000;

/// Which requests a rule is about; a part that is absent fits every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Match {
    /// A part of the idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A part of one recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The value of a `Retry-After` header: seconds, or text sent as it is (a date, or nonsense).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RetryAfter {
    /// Seconds.
    Seconds(u64),
    /// Sent as it is.
    Text(String),
}

impl RetryAfter {
    /// As the header carries it.
    pub fn header(&self) -> String {
        match self {
            Self::Seconds(seconds) => seconds.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// One rule, as it is ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// To how many requests it happens; -1 for all until the rules are cleared.
    #[serde(default = "once")]
    pub count: i64,
    /// How many fitting requests pass first.
    #[serde(default)]
    pub skip: u64,
    /// Which requests.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// How long the request waits before it is looked at, in milliseconds.
    #[serde(default)]
    pub ms: u64,
    /// A `Retry-After` header for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<RetryAfter>,
    /// Whether the mail is accepted all the same, for the kinds that leave it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts: Option<bool>,
}

const fn once() -> i64 {
    1
}

/// Why a rule was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// `count` is neither positive nor -1.
    #[error("fault_count_invalid")]
    Count,
    /// `ms` is longer than [`DELAY_MS_MAX`].
    #[error("fault_delay_too_long")]
    Delay,
    /// `accepts` contradicts the kind.
    #[error("fault_accepts_contradicts_kind")]
    Accepts,
    /// `retryAfter` holds what no header can carry.
    #[error("fault_retry_after_invalid")]
    RetryAfter,
    /// More than [`RULES_MAX`] rules.
    #[error("fault_rules_too_many")]
    TooMany,
}

impl Fault {
    /// A rule that hits one request and has no condition.
    pub fn once(kind: FaultKind) -> Self {
        Self {
            kind,
            count: 1,
            skip: 0,
            matches: Match::default(),
            ms: 0,
            retry_after: None,
            accepts: None,
        }
    }

    /// Whether the mail goes out under this rule.
    pub fn lets_through(&self) -> bool {
        match self.kind.accepts() {
            Accepts::Always => true,
            Accepts::Never => false,
            Accepts::Unless(usual) => self.accepts.unwrap_or(usual),
        }
    }

    fn check(&self) -> Result<(), FaultError> {
        if self.count == 0 || self.count < -1 {
            return Err(FaultError::Count);
        }
        if self.ms > DELAY_MS_MAX {
            return Err(FaultError::Delay);
        }
        let header = self.retry_after.as_ref().map(RetryAfter::header).unwrap_or_default();
        if !header.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err(FaultError::RetryAfter);
        }
        match (self.kind.accepts(), self.accepts) {
            (_, None)
            | (Accepts::Unless(_), Some(_))
            | (Accepts::Always, Some(true))
            | (Accepts::Never, Some(false)) => Ok(()),
            (Accepts::Always, Some(false)) | (Accepts::Never, Some(true)) => Err(FaultError::Accepts),
        }
    }

    fn fits(&self, key: Option<&str>, to: &[String]) -> bool {
        let key_fits = self
            .matches
            .key
            .as_ref()
            .is_none_or(|part| key.is_some_and(|key| key.contains(part.as_str())));
        let to_fits = self
            .matches
            .to
            .as_ref()
            .is_none_or(|part| to.iter().any(|one| one.contains(part.as_str())));
        key_fits && to_fits
    }
}

/// One rule with what it has done so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The rule as it was ordered.
    #[serde(flatten)]
    pub fault: Fault,
    /// Fitting requests that it let pass.
    pub skipped: u64,
    /// Requests that it hit.
    pub hits: u64,
}

impl Rule {
    /// Whether it has hit as many requests as it was ordered to.
    pub fn is_used_up(&self) -> bool {
        u64::try_from(self.fault.count).is_ok_and(|count| self.hits >= count)
    }
}

/// The rules in force, in the order in which they were given.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
}

impl Faults {
    /// Adds all of these rules, or none of them.
    ///
    /// # Errors
    /// [`FaultError`] of the first rule that makes no sense.
    pub fn add(&mut self, faults: Vec<Fault>) -> Result<(), FaultError> {
        faults.iter().try_for_each(Fault::check)?;
        if self.rules.len().saturating_add(faults.len()) > RULES_MAX {
            return Err(FaultError::TooMany);
        }
        self.rules.extend(faults.into_iter().map(|fault| Rule {
            fault,
            skipped: 0,
            hits: 0,
        }));
        Ok(())
    }

    /// The fault of this request: the first rule that fits, has skipped enough and is not used up.
    pub fn take(&mut self, key: Option<&str>, to: &[String]) -> Option<Fault> {
        self.choose(key, to).map(|rule| {
            rule.hits = rule.hits.saturating_add(1);
            rule.fault.clone()
        })
    }

    /// Takes the fault back of a request on which it had no effect, because the provider's own rules refused it: the
    /// next request that fits gets it.
    pub fn give_back(&mut self, fault: &Fault) {
        let given = self.rules.iter_mut().find(|rule| rule.hits > 0 && rule.fault == *fault);
        if let Some(rule) = given {
            rule.hits = rule.hits.saturating_sub(1);
        }
    }

    /// Counts the request as skipped where it is, and finds the rule that it falls to.
    fn choose(&mut self, key: Option<&str>, to: &[String]) -> Option<&mut Rule> {
        for rule in &mut self.rules {
            if rule.is_used_up() || !rule.fault.fits(key, to) {
                continue;
            }
            if rule.skipped < rule.fault.skip {
                rule.skipped = rule.skipped.saturating_add(1);
                continue;
            }
            return Some(rule);
        }
        None
    }

    /// The rules with their counts.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Forgets every rule.
    pub fn clear(&mut self) {
        self.rules.clear();
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
