//! Replays: an operator brings a backlog once more, and what has happened already does not happen again.
//!
//! A replay is an ordinary producer. Its name goes into logs, into the new rows and their first events, and never into a
//! key. IO steps, and what a death right after each leaves behind:
//!
//! 1. *Count* (one transaction that reads), for a dry run: nothing.
//! 1. *Record* (one transaction): the intake's own, with the line of the request in the list of replays. What is known
//!    with another meaning is answered for itself and keeps back nothing else. Dead after it: the same request again finds
//!    its rows, and is counted as one that found everything known; the relay publishes.
//! 2. *Answer*; then *publish*, as after an intake (see [`crate::publish`]). What another system sent is not published.

use serde::Serialize;

use crate::config::Config;
use crate::intake::{Accepted, Families, IntakeError, accepted, new_intents, uniques};
use crate::outbox::id::outbox_id;
use crate::outbox::intent::{Fact, ReplayMode, ReplayRequest, Replayed, parse_replay};
use crate::outbox::keys::{business_key, domain_hash, recipient_hash};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::database::DatabaseError;
use crate::store::intake::{NewIntent, NewKey, RecordedIntent};
use crate::store::publish::Reservation;
use crate::store::replays::{Foreseen, Replay, foresee, record_replay};

/// Positions that a dry run names of each kind: enough to look at, few enough to read.
pub const SAMPLES_MAX: usize = 10;

/// Fingerprints of facts that another system sent: no meaning is known of them, so none contradicts them.
const NO_FINGERPRINT_VERSION: u32 = 0;

/// The schema wants a letter to have a length; one that is not stored has this.
const NO_LETTER_BYTES: usize = 1;

/// A row that is never sent takes nobody's turn.
const PRIORITY_LAST: u8 = 9;

/// What one intent of a replay came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Recorded now.
    New,
    /// Recorded before, or earlier in the same request.
    Known,
    /// Recorded before with another meaning; nothing was written for it.
    Changed,
}

/// What is said of one intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// What it came to.
    pub outcome: Outcome,
    /// The row, new or known.
    pub id: String,
    /// Its place in the order of publication.
    pub seq: i64,
    /// Its state.
    pub status: Status,
    /// As for an intake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<&'static str>,
}

/// What a request of a replay came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// One for each intent, in the order of the request.
    pub items: Vec<Item>,
    /// To be published after the answer.
    pub to_publish: Vec<Reservation>,
}

impl Done {
    /// How many came to this.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.items.iter().filter(|item| item.outcome == outcome).count()
    }
}

/// One intent that a dry run names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Its position in the request.
    pub position: usize,
    /// The row that is there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// How many intents are of one kind, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// How many.
    pub count: usize,
    /// The first [`SAMPLES_MAX`] of them.
    pub samples: Vec<Sample>,
}

/// What a replay would come to. What lies outside its window and what is suppressed counts among the new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// Would be recorded.
    pub new: Kind,
    /// Are recorded already, or stand in the request before.
    pub known: Kind,
    /// Are recorded already with another meaning.
    pub changed: Kind,
    /// Would be recorded outside their window.
    pub outside_window: OutsideWindow,
    /// Would be recorded and suppressed: their recipient must not be written to.
    pub suppressed: Kind,
}

/// On which side of its window an intent is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutsideWindow {
    /// Would expire.
    pub closed: Kind,
    /// Would wait.
    pub not_yet_open: Kind,
}

/// What a request is answered with.
#[derive(Clone, Debug)]
pub enum Answered {
    /// A dry run: nothing was written.
    Forecast(Box<Forecast>),
    /// The replay itself.
    Done(Done),
}

/// Answers one request of a replay, with its name and its mode.
///
/// # Errors
/// [`IntakeError`]; except for an ambiguous database error nothing was written.
pub async fn replay<W: World>(
    world: &W,
    config: &Config,
    body: &[u8],
) -> Result<(String, ReplayMode, Answered), IntakeError> {
    let ReplayRequest {
        batch,
        dry_run,
        replayed,
    } = parse_replay(body, &Families::of(config.policy, world.zones())).map_err(IntakeError::Request)?;
    let now = world.clock().now();
    let (mode, new) = match &replayed {
        Replayed::Intents(intents) => (ReplayMode::Send, new_intents(world, config, intents, now)),
        Replayed::Facts(facts) => (ReplayMode::Backfill, new_facts(world, config, facts)),
    };
    let work = Work::of(new, now);
    let answered = if dry_run {
        let foreseen = foresee(world.database(), &work.unique, now)
            .await
            .map_err(IntakeError::Database)?;
        Answered::Forecast(Box::new(work.forecast(mode, &foreseen)))
    } else {
        Answered::Done(record(world, config, &work, &batch, mode).await?)
    };
    Ok((batch, mode, answered))
}

async fn record<W: World>(
    world: &W,
    config: &Config,
    work: &Work,
    batch: &str,
    mode: ReplayMode,
) -> Result<Done, IntakeError> {
    let replay = Replay {
        batch,
        mode,
        contradicted: work.contradicted.iter().filter(|is| **is).count(),
    };
    let recorded = record_replay(world.database(), &work.unique, work.now, &replay)
        .await
        .map_err(IntakeError::Database)?;
    let done = work
        .done(config, &recorded)
        .ok_or(IntakeError::Database(DatabaseError::Shape))?;
    let count = |outcome| Field::Number(i64::try_from(done.count(outcome)).unwrap_or(i64::MAX));
    let fields = [
        ("batch", Field::Id(batch)),
        ("mode", Field::Code(mode.as_str())),
        ("new", count(Outcome::New)),
        ("known", count(Outcome::Known)),
        ("changed", count(Outcome::Changed)),
    ];
    world.log().note(Level::Info, "replay_recorded", &fields);
    Ok(done)
}

/// The rows of facts that another system sent: settled, with their keys, and without a word of the mail.
fn new_facts<W: World>(world: &W, config: &Config, facts: &[Fact]) -> Vec<NewIntent> {
    facts
        .iter()
        .map(|fact| {
            let key_of = |secret| business_key(secret, &fact.family, &fact.identity, fact.revision);
            let key = key_of(config.keys.mint());
            let keys = config.keys.accepted().map(|secret| NewKey {
                key: key_of(secret),
                secret_id: secret.id().to_owned(),
                fingerprint: String::new(),
            });
            NewIntent {
                id: outbox_id(&fact.prefix, world.random()),
                family: fact.family.clone(),
                template: config.policy.family(&fact.family).and_then(|family| family.template),
                revision: fact.revision,
                fingerprint: String::new(),
                fingerprint_version: NO_FINGERPRINT_VERSION,
                fingerprint_secret_id: config.keys.mint().id().to_owned(),
                recipient_hash: recipient_hash(&config.recipient_secret, &fact.to),
                domain_hash: domain_hash(&config.recipient_secret, &fact.to),
                priority: PRIORITY_LAST,
                bulk: 0,
                idempotency_key: format!("sealpost-{key}-0"),
                status: Status::External,
                cause: "backfilled",
                relay_at: None,
                publish_count: 0,
                not_before: None,
                not_after: None,
                letter: String::new(),
                attachments: [].into(),
                letter_bytes: NO_LETTER_BYTES,
                keys: keys.collect(),
                send_id: None,
                facts: Vec::new(),
                secret: None,
                copies: 0,
            }
        })
        .collect()
}

/// The intents of a request, and what they are to each other.
struct Work {
    new: Vec<NewIntent>,
    /// For each the first one that states the same fact.
    first_of: Vec<usize>,
    /// Whether it gives that fact another meaning than the first one does.
    contradicted: Vec<bool>,
    /// Every fact once.
    unique: Vec<NewIntent>,
    now: Millis,
}

impl Work {
    fn of(new: Vec<NewIntent>, now: Millis) -> Self {
        let mut first_of = Vec::with_capacity(new.len());
        let mut contradicted = Vec::with_capacity(new.len());
        for (position, intent) in new.iter().enumerate() {
            let same = |other: &NewIntent| other.idempotency_key == intent.idempotency_key;
            let first = new.iter().position(same).unwrap_or(position);
            let meaning = new.get(first).map(|other| &other.fingerprint);
            first_of.push(first);
            contradicted.push(meaning != Some(&intent.fingerprint));
        }
        // What contradicts the first is neither recorded nor a copy of it.
        let counted: Vec<usize> = first_of
            .iter()
            .zip(&contradicted)
            .map(|(first, contradicts)| if *contradicts { usize::MAX } else { *first })
            .collect();
        let unique = uniques(&new, &counted);
        Self {
            new,
            first_of,
            contradicted,
            unique,
            now,
        }
    }

    /// `None` where the database did not answer for every fact.
    fn done(&self, config: &Config, recorded: &[RecordedIntent]) -> Option<Done> {
        let Accepted { receipts, to_publish } =
            accepted(&self.new, &self.unique, &self.first_of, recorded, config, self.now)?;
        let changed: Vec<&str> = recorded
            .iter()
            .filter(|row| row.changed != 0)
            .filter_map(|row| self.unique.get(row.position))
            .map(|intent| intent.id.as_str())
            .collect();
        let items = receipts.into_iter().enumerate().map(|(position, receipt)| {
            let is_changed = self.contradicted.get(position) == Some(&true)
                || self
                    .first(position)
                    .is_some_and(|first| changed.contains(&first.id.as_str()));
            Item {
                outcome: match (is_changed, receipt.duplicate) {
                    (true, _) => Outcome::Changed,
                    (false, true) => Outcome::Known,
                    (false, false) => Outcome::New,
                },
                id: receipt.id,
                seq: receipt.seq,
                status: receipt.status,
                secret: receipt.secret,
            }
        });
        Some(Done {
            items: items.collect(),
            to_publish,
        })
    }

    fn first(&self, position: usize) -> Option<&NewIntent> {
        self.new.get(*self.first_of.get(position)?)
    }

    fn forecast(&self, mode: ReplayMode, foreseen: &[Foreseen]) -> Forecast {
        let mut forecast = Forecast::default();
        let mut named: Vec<&str> = Vec::new();
        for (position, intent) in self.new.iter().enumerate() {
            let row = self
                .first(position)
                .and_then(|first| self.unique.iter().position(|other| other.id == first.id))
                .and_then(|at| foreseen.iter().find(|row| row.position == at));
            let sample = Sample {
                position,
                id: row.and_then(|row| row.id.clone()),
                status: row.and_then(|row| row.status),
            };
            let is_first = self.first_of.get(position) == Some(&position);
            let name = intent.send_id.as_deref();
            let is_changed = row.is_some_and(|row| row.changed != 0);
            if is_changed || self.contradicted.get(position) == Some(&true) {
                forecast.changed.add(sample);
            } else if sample.id.is_some() || !is_first || name.is_some_and(|name| named.contains(&name)) {
                forecast.known.add(sample);
            } else {
                named.extend(name);
                if mode == ReplayMode::Send {
                    let closed = intent.not_after.is_some_and(|at| at <= self.now.get());
                    if closed || intent.status == Status::Expired {
                        forecast.outside_window.closed.add(sample.clone());
                    } else if intent.not_before.is_some_and(|at| at > self.now.get()) {
                        forecast.outside_window.not_yet_open.add(sample.clone());
                    }
                    if row.is_some_and(|row| row.suppressed != 0) {
                        forecast.suppressed.add(sample.clone());
                    }
                }
                forecast.new.add(sample);
            }
        }
        forecast
    }
}

impl Kind {
    fn add(&mut self, sample: Sample) {
        self.count = self.count.saturating_add(1);
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(sample);
        }
    }
}
