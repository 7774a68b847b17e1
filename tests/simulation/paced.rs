//! Runs in which a pace is set that really binds: of the provider, of each family, of each recipient's domain.

use std::collections::BTreeMap;
use std::rc::Rc;

use sealpost::policy::Kind;

use super::choices::{Choices, Subject};
use super::setting::{Setting, Version};
use super::sim::Sim;
use super::store::OutboxRow;

/// How many of a thousand runs have a pace beside their profile's.
const PACED_PERMILLE: u32 = 350;

/// Which buckets are small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// The profile's own, which is none but for one.
    #[default]
    AsTheProfile,
    /// One call a second.
    Provider,
    /// A mail to a domain every ten seconds.
    Domain,
    /// A mail of a family every half minute, so that four bulk mails are admitted.
    Family,
    /// All of them.
    Each,
}

pub const PACES: [Pace; 5] = [
    Pace::AsTheProfile,
    Pace::Provider,
    Pace::Domain,
    Pace::Family,
    Pace::Each,
];

impl Pace {
    pub const fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::AsTheProfile | Self::Family => &[],
            Self::Provider => &[("PACE_PER_SECOND", "1")],
            Self::Domain => &[("PACE_PER_DOMAIN_PER_MINUTE", "6")],
            Self::Each => &[("PACE_PER_SECOND", "1"), ("PACE_PER_DOMAIN_PER_MINUTE", "20")],
        }
    }

    const fn of_a_family(self) -> u32 {
        match self {
            Self::AsTheProfile | Self::Provider | Self::Domain => 0,
            Self::Family => 2,
            Self::Each => 6,
        }
    }

    /// The families with this pace.
    pub fn kinds(self, mut kinds: Vec<Kind>) -> Vec<Kind> {
        for kind in &mut kinds {
            kind.family.pace_per_minute = self.of_a_family();
        }
        kinds
    }
}

impl Setting {
    /// Perhaps a pace is set. Drawn from a tape of its own. A crowd of more than a hundred would wait for hours.
    pub fn perhaps_paced(mut self, choices: &Choices) -> Self {
        if choices.chance(Subject::Pace, PACED_PERMILLE) && self.crowd == 0 {
            self.pace = choices.one(Subject::Pace, &PACES[1..]);
        }
        self
    }
}

/// The time between two mails of a bucket, in ms; 0 for no limit.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    pub provider: i64,
    pub domain: i64,
    pub families: BTreeMap<String, i64>,
    /// How long what is admitted may take to drain.
    pub drain: i64,
}

impl Intervals {
    /// By the world's own reckoning, from what is set and not from what the program makes of it.
    pub fn of(version: &Version) -> Self {
        let every = |within: i64, count: u32| {
            if count == 0 {
                0
            } else {
                (within + i64::from(count) - 1) / i64::from(count)
            }
        };
        let timing = &version.config.timing;
        let families = version.config.policy.families();
        Self {
            provider: every(1_000, timing.pace_per_second),
            domain: every(60_000, timing.pace_per_domain),
            families: families
                .map(|family| (family.name.to_owned(), every(60_000, family.pace_per_minute)))
                .filter(|(_, every)| *every > 0)
                .collect(),
            drain: 2 * super::schedule::TICK_MS,
        }
    }
}

/// A bulk row that waits while others of its family, or of all where the provider's pace counts, were admitted and are not
/// settled: its turn comes after them.
pub fn waits_for_others(sim: &Rc<Sim>, row: &OutboxRow) -> bool {
    let is_bulk = |row: &OutboxRow| sealpost::outbox::family::find(&row.family).is_some_and(|family| family.bulk);
    sim.setting.pace != Pace::AsTheProfile
        && ["pending", "retry"].contains(&row.status.as_str())
        && is_bulk(row)
        && sim
            .oracle
            .rows()
            .values()
            .any(|other| is_bulk(other) && ["enqueued", "processing"].contains(&other.status.as_str()))
}
