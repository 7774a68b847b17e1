//! What a run exercised: faults, arrows and invariants, counted. A zero is a failure, not a pass.

use std::collections::BTreeMap;

/// The promises that the oracle watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Nothing accepted is lost: in the end every intent is settled or asks for a person.
    I1,
    /// The provider accepts at most one mail for one business fact.
    I2,
    /// No row says that nothing went out while something may have.
    I3,
    /// `sent` has the message id of the very mail.
    I4,
    /// All requests for one mail are the same bytes under the same key.
    I5,
    /// No call at a time, under a claim or through an account that does not allow it.
    I6,
    /// No call for an address that was suppressed before the claim.
    I7,
    /// No personal data outside its tables.
    I8,
    /// The write of a lost claim changes nothing but its own attempt and proof of acceptance.
    I9,
    /// The states add up to the intents recorded, and the event log replays to the current state.
    I10,
    /// Each delivered message gets one decision, and an acknowledgement only after its write.
    I11,
    /// Rows that cannot move never hold back rows that can.
    I12,
    /// Every call has a slot of its own in the buckets of the provider, of its family and of its domain.
    P1,
    /// What is urgent goes first, and no more bulk mails are handed over than the pace drains.
    P2,
    /// Nothing is claimed while a pause stands; one probe goes first, and what ends the pause wakes what it put aside.
    P3,
}

pub const INVARIANTS: [Invariant; 15] = [
    Invariant::I1,
    Invariant::I2,
    Invariant::I3,
    Invariant::I4,
    Invariant::I5,
    Invariant::I6,
    Invariant::I7,
    Invariant::I8,
    Invariant::I9,
    Invariant::I10,
    Invariant::I11,
    Invariant::I12,
    Invariant::P1,
    Invariant::P2,
    Invariant::P3,
];

impl Invariant {
    pub const fn promise(self) -> &'static str {
        match self {
            Self::I1 => "nothing accepted is lost",
            Self::I2 => "one business fact, one mail",
            Self::I3 => "no false failure",
            Self::I4 => "sent has its message id",
            Self::I5 => "the same bytes under the same key",
            Self::I6 => "no call outside its time, claim or account",
            Self::I7 => "no call for a suppressed address",
            Self::I8 => "no personal data outside its tables",
            Self::I9 => "a lost claim changes nothing",
            Self::I10 => "states add up and events replay",
            Self::I11 => "one decision, after its write",
            Self::I12 => "nobody is held back",
            Self::P1 => "no call without its slot of the pace",
            Self::P2 => "the urgent first, bulk mails as the pace drains",
            Self::P3 => "a pause stops, probes once and wakes",
        }
    }
}

/// Parts of the promises whose features do not exist yet. They are named in every report, and never counted as passed.
pub const NOT_EXERCISED: &[&str] = &["I1: rows of the letterbox (there is no letterbox yet)"];

/// Limits that must have kept something back, or a promise about them was held against nothing.
pub const BOUND: &[&str] = &[
    "pace: the provider's kept a call back",
    "pace: a family's kept a call back",
    "pace: a domain's kept a call back",
    "pace: a batch took its slots",
    "pace: a mail was put aside",
    "bulk: a mail waited for its admission",
    "bulk: a mail was admitted",
    "priority: the urgent one went first",
    "pause: a mail was put aside",
    "pause: a probe called",
    "pause: its probe ended it",
    "pause: what its probe woke",
    "pause: what a lift woke",
];

/// Counts of one run or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub seeds: u64,
    pub steps: u64,
    pub violations: u64,
    pub faults: BTreeMap<&'static str, u64>,
    pub arrows: BTreeMap<String, u64>,
    pub checks: BTreeMap<Invariant, u64>,
    pub events: BTreeMap<&'static str, u64>,
}

impl Report {
    pub fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub fn arrow(&mut self, arrow: String) {
        *self.arrows.entry(arrow).or_default() += 1;
    }

    pub fn checked(&mut self, invariant: Invariant) {
        *self.checks.entry(invariant).or_default() += 1;
    }

    pub fn event(&mut self, kind: &'static str) {
        *self.events.entry(kind).or_default() += 1;
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.violations += other.violations;
        for (kind, count) in &other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (arrow, count) in &other.arrows {
            *self.arrows.entry(arrow.clone()).or_default() += count;
        }
        for (invariant, count) in &other.checks {
            *self.checks.entry(*invariant).or_default() += count;
        }
        for (kind, count) in &other.events {
            *self.events.entry(kind).or_default() += count;
        }
    }

    /// What was never exercised and should have been.
    pub fn zeros(&self) -> Vec<String> {
        let mut zeros = Vec::new();
        let faults = super::faults::ALL
            .iter()
            .filter(|kind| !self.faults.contains_key(**kind));
        zeros.extend(faults.map(|kind| format!("fault {kind}")));
        let arrows = super::oracle::arrows::ALL.iter().map(|arrow| arrow.name());
        zeros.extend(
            arrows
                .filter(|name| !self.arrows.contains_key(name))
                .map(|name| format!("arrow {name}")),
        );
        let bound = BOUND.iter().filter(|event| !self.events.contains_key(**event));
        zeros.extend(bound.map(|event| format!("event {event}")));
        zeros.extend(self.unchecked());
        zeros
    }

    /// Promises that nothing was held against.
    pub fn unchecked(&self) -> impl Iterator<Item = String> {
        let checks = INVARIANTS
            .iter()
            .filter(|invariant| !self.checks.contains_key(*invariant));
        checks.map(|invariant| format!("invariant {invariant:?}"))
    }

    /// The tables that a person reads.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec!["invariants checked:".to_owned()];
        for invariant in INVARIANTS {
            let count = self.checks.get(&invariant).copied().unwrap_or(0);
            lines.push(format!(
                "  {:<4} {:<46} {count}",
                format!("{invariant:?}"),
                invariant.promise()
            ));
        }
        lines.push("not exercised:".to_owned());
        lines.extend(NOT_EXERCISED.iter().map(|part| format!("  {part}")));
        lines.push("faults:".to_owned());
        lines.extend(self.faults.iter().map(|(kind, count)| format!("  {kind:<40} {count}")));
        lines.push("arrows:".to_owned());
        lines.extend(
            self.arrows
                .iter()
                .map(|(arrow, count)| format!("  {arrow:<40} {count}")),
        );
        lines.push("events:".to_owned());
        lines.extend(self.events.iter().map(|(kind, count)| format!("  {kind:<40} {count}")));
        lines
    }
}
