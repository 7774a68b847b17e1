//! Runs in which a pace is set that really binds: of the provider, of each family, of each recipient's domain.

use std::collections::BTreeMap;
use std::rc::Rc;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::policy::Kind;
use serde_json::json;

use super::choices::{Choices, Subject};
use super::faults::PROVIDER;
use super::setting::{BATCH_FAMILY, Fact, Program, Setting, fact_of};
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

/// How many of a thousand runs with a pace have a rush.
const RUSHES_PERMILLE: u32 = 500;
/// The kinds and the domains of the mails of a rush.
const RUSHING: [&str; 4] = ["notice", "invitation", "report", BATCH_FAMILY];
const DOMAINS: [&str; 3] = ["example.org", "example.net", "example.com"];
/// The number of the first fact of a rush.
const RUSH_FROM: u32 = 300;

impl Setting {
    /// Perhaps a pace is set. Drawn from a tape of its own. A crowd of more than a hundred would wait for hours.
    pub fn perhaps_paced(mut self, choices: &Choices) -> Self {
        let about = Subject::Pace;
        if !choices.chance(about, PACED_PERMILLE) || self.crowd > 0 {
            return self;
        }
        self.pace = choices.one(about, &PACES[1..]);
        if choices.chance(about, RUSHES_PERMILLE) {
            let count = 4 + choices.below(about, 6);
            // Of one kind, or of all.
            let kinds = choices.one(about, &[&RUSHING[..], &RUSHING[..1], &RUSHING[3..]]);
            self.facts.extend((RUSH_FROM..RUSH_FROM + count).map(|number| {
                let fact = fact_of(number, choices.one(about, kinds), (None, None), true);
                fact.at_domain(choices.one(about, &DOMAINS))
            }));
            if choices.chance(about, 300) {
                // The provider has a limit of its own, which it says often and for a moment.
                let limit = PROVIDER.into_iter().find(|(kind, _)| *kind == FaultKind::RateLimit);
                self.mix.provider = limit.into_iter().collect();
                self.mix.provider_permille = choices.one(about, &[100, 300]);
                self.mix.short_limits = true;
            }
        }
        self
    }
}

/// A rush is stated in one request.
pub fn start(sim: &Rc<Sim>) {
    let is_rushing = |fact: &&Fact| {
        let number = fact
            .name
            .rsplit(' ')
            .next()
            .and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| (RUSH_FROM..RUSH_FROM + 100).contains(&number))
    };
    let facts: Vec<Fact> = sim.setting.facts.iter().filter(is_rushing).cloned().collect();
    if !facts.is_empty() {
        super::callers::state(sim, facts);
    }
}

impl Fact {
    /// The same for a recipient at this domain.
    fn at_domain(mut self, domain: &str) -> Self {
        let name = self.to.split('@').next().unwrap_or_default();
        self.to = format!("{name}@{domain}");
        for intent in [&mut self.intent, &mut self.other] {
            intent["to"]["email"] = json!(self.to);
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
    pub fn of(setting: &Setting) -> Self {
        let version = setting.version(Program::First);
        // A version that does not know a family does not know its pace.
        let rolled_back = setting.programs.contains(&Program::RolledBack);
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
                .filter(|(name, every)| *every > 0 && !(rolled_back && name == "invitation"))
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
