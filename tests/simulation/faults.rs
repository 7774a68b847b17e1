//! The faults there are: their names for the report, and which of them a run has.

use sealpost::devstack::provider::fault::FaultKind;

use super::choices::{Choices, Subject};

/// What the database's wire does to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseFault {
    /// It never reaches the server.
    Refused,
    /// The server commits and the answer is lost.
    AnswerLost,
    /// Nothing happens until the client gives up.
    Stalled,
    /// The server commits, and nothing comes back until the client gives up.
    StalledAfterCommit,
    /// The client gives up, and the server does its work later.
    Late,
    /// The write lock is taken; nothing ran.
    Busy,
    /// The server gave the transaction up; nothing of it is left.
    Aborted,
    /// The server refuses us: a token, an address.
    Unauthorized,
}

pub const DATABASE: [DatabaseFault; 8] = [
    DatabaseFault::Refused,
    DatabaseFault::AnswerLost,
    DatabaseFault::Stalled,
    DatabaseFault::StalledAfterCommit,
    DatabaseFault::Late,
    DatabaseFault::Busy,
    DatabaseFault::Aborted,
    DatabaseFault::Unauthorized,
];

impl DatabaseFault {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "database: refused",
            Self::AnswerLost => "database: answer lost after commit",
            Self::Stalled => "database: stalled",
            Self::StalledAfterCommit => "database: stalled after commit",
            Self::Late => "database: ran after the client gave up",
            Self::Busy => "database: busy",
            Self::Aborted => "database: transaction aborted",
            Self::Unauthorized => "database: unauthorized",
        }
    }
}

/// What the provider does to one call: every kind of the development provider that a control door does not need.
pub const PROVIDER: [(FaultKind, &str); 25] = [
    (FaultKind::ServiceUnavailable, "provider: 503"),
    (FaultKind::AcceptThenDrop, "provider: accepted, connection cut"),
    (FaultKind::AcceptThenStall, "provider: accepted, never answered"),
    (FaultKind::StallBodyAccepted, "provider: accepted, body stalled"),
    (FaultKind::TruncatedJson, "provider: accepted, JSON cut"),
    (FaultKind::HoldAccepted, "provider: accepted, key runs on"),
    (FaultKind::Slow, "provider: slower than the time limit"),
    (FaultKind::OkWithoutId, "provider: 200 without id"),
    (FaultKind::OkNullId, "provider: 200 with null id"),
    (FaultKind::OkHtml, "provider: 200 with HTML"),
    (FaultKind::NoContent, "provider: 204"),
    (FaultKind::InternalError, "provider: 500"),
    (FaultKind::BadGatewayHtml, "provider: 502 with HTML"),
    (FaultKind::ConflictHtml, "provider: 409 with HTML"),
    (FaultKind::Stall, "provider: never answered"),
    (FaultKind::StallAfterHeaders, "provider: stalled after headers"),
    (FaultKind::RefuseConnection, "provider: connection refused"),
    (FaultKind::RateLimit, "provider: 429 rate"),
    (FaultKind::DailyQuota, "provider: 429 day"),
    (FaultKind::MonthlyQuota, "provider: 429 month"),
    (FaultKind::InProgress, "provider: 409 in progress"),
    (FaultKind::Conflict, "provider: 409 other payload"),
    (FaultKind::UnverifiedDomain, "provider: 403 domain"),
    (FaultKind::InvalidKey, "provider: 401 key"),
    (FaultKind::Refuse, "provider: 422"),
];

/// What the queue does.
pub const QUEUE: [&str; 6] = [
    "queue: refused",
    "queue: stored, and answered with an error",
    "queue: delivered twice",
    "queue: message vanished",
    "queue: batch in another order",
    "queue: input that nobody understands",
];

/// What else goes wrong.
pub const OTHERS: [&str; 13] = [
    "death: at an await",
    "death: of an instance with all it does",
    "schedule: tick skipped",
    "schedule: ticks overlap",
    "clocks: instances differ",
    "versions: two at once",
    "caller: gave up waiting",
    "caller: other meaning",
    "outage: database",
    "outage: provider",
    "outage: queue",
    "worker: not run for a while",
    "death: of everybody who touches one row",
];

/// What happens to the provider's events.
pub const WEBHOOKS: [&str; 9] = [
    "webhook: delivered twice",
    "webhook: lost",
    "webhook: late by hours",
    "webhook: late by days",
    "webhook: at once",
    "webhook: without our tag",
    "webhook: of another environment",
    "webhook: about a mail that nobody knows",
    "webhook: input that nobody understands",
];

/// Every fault's name.
pub static ALL: std::sync::LazyLock<Vec<&'static str>> = std::sync::LazyLock::new(|| {
    let mut all: Vec<&'static str> = DATABASE.iter().map(|fault| fault.name()).collect();
    all.extend(PROVIDER.iter().map(|(_, name)| *name));
    all.extend(QUEUE);
    all.extend(OTHERS);
    all.extend(WEBHOOKS);
    all
});

/// Which faults one run has, and how often: a few kinds at a time find more than all at once.
#[derive(Clone, Debug, Default)]
pub struct Mix {
    pub database: Vec<DatabaseFault>,
    pub database_permille: u32,
    pub provider: Vec<(FaultKind, &'static str)>,
    pub provider_permille: u32,
    /// The provider names times of a second or two.
    pub short_limits: bool,
    /// In the order of [`QUEUE`].
    pub queue_permille: [u32; 6],
    pub death_permille: u32,
    pub instance_deaths: u32,
    pub skip_permille: u32,
    pub overlap_permille: u32,
    /// Requests to the database around which the worker is not run for a while.
    pub freeze_permille: u32,
    /// While it lasts, nothing reaches the database, every call meets the same fault, the queue takes nothing.
    pub database_outage: Option<Outage>,
    pub provider_outage: Option<(Outage, (FaultKind, &'static str))>,
    pub queue_outage: Option<Outage>,
}

/// A time in which something is wholly away, in ms since the run's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    pub from: i64,
    pub until: i64,
}

impl Outage {
    fn draw(choices: &Choices) -> Self {
        // Half of them are there from the start, when most rows make their first attempts.
        let from = choices.one(Subject::Setting, &[0, 600_000]);
        let from = i64::from(choices.below(Subject::Setting, from));
        let lasts = choices.one(Subject::Setting, &[60_000, 300_000, 1_800_000]);
        Self {
            from,
            until: from + lasts,
        }
    }

    pub fn covers(&self, since_start: i64) -> bool {
        (self.from..self.until).contains(&since_start)
    }
}

impl Mix {
    pub fn draw(choices: &Choices) -> Self {
        let setting = Subject::Setting;
        let mut mix = Self::default();
        if choices.chance(setting, 700) {
            mix.database_permille = choices.one(setting, &[30, 80, 200]);
            mix.database = DATABASE.into_iter().filter(|_| choices.chance(setting, 400)).collect();
        }
        if choices.chance(setting, 800) {
            mix.provider_permille = choices.one(setting, &[100, 300, 600]);
            mix.provider = PROVIDER.into_iter().filter(|_| choices.chance(setting, 250)).collect();
        }
        for permille in &mut mix.queue_permille {
            if choices.chance(setting, 350) {
                *permille = choices.one(setting, &[50, 150, 300]);
            }
        }
        if choices.chance(setting, 600) {
            mix.death_permille = choices.one(setting, &[50, 150, 300]);
        }
        if choices.chance(setting, 300) {
            mix.instance_deaths = 1 + choices.below(setting, 4);
        }
        if choices.chance(setting, 300) {
            mix.skip_permille = choices.one(setting, &[200, 500]);
        }
        if choices.chance(setting, 300) {
            mix.overlap_permille = choices.one(setting, &[200, 500]);
        }
        if choices.chance(setting, 80) {
            mix.database_outage = Some(Outage::draw(choices));
        }
        if choices.chance(setting, 250) {
            mix.provider_outage = Some((Outage::draw(choices), choices.one(setting, &PROVIDER)));
        }
        if choices.chance(setting, 80) {
            mix.queue_outage = Some(Outage::draw(choices));
        }
        if choices.chance(setting, 300) {
            mix.freeze_permille = choices.one(setting, &[50, 150]);
        }
        mix
    }
}
