//! Intake: a producer says that mails are owed.
//!
//! IO steps, and what a death right after each leaves behind:
//!
//! 1. *Record* (one transaction): rows, keys, letters, attachments, first events, and the reservation for the
//!    publication. Dead after it: the producer repeats and is told the same ids; the relay publishes when the
//!    reservation runs out.
//! 2. *Answer* 202. It never depends on the queue.
//! 3. *Publish*, after the answer (see [`crate::publish`]).

use serde::Serialize;

use crate::config::Config;
use crate::hours::{Hours, is_zone};
use crate::outbox::attachment::Attachment;
use crate::outbox::family::{Family, Mode};
use crate::outbox::id::outbox_id;
use crate::outbox::intent::{
    FamilyLookup, FamilyShape, Intent, SECRET_BYTES_MAX, SECRET_NAME_BYTES_MAX, SECRETS_MAX, parse_intents,
};
use crate::outbox::keys::{FINGERPRINT_VERSION, domain_hash, facts_for, keys_for, recipient_hash, send_id_hash};
use crate::outbox::problem::{FieldError, Problem};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;
use crate::policy::Policy;
use crate::ports::{Clock as _, Field, Level, Log as _, World, Zones};
use crate::store::database::DatabaseError;
use crate::store::intake::{NewIntent, NewKey, Recorded, RecordedIntent, conflicting_positions, record};
use crate::store::publish::Reservation;

/// Bytes that the secret of an earlier revision may add to a letter: names, texts and the marks around them.
const SECRET_ROOM_BYTES: usize = SECRETS_MAX * (SECRET_BYTES_MAX + SECRET_NAME_BYTES_MAX + 8);
/// The priority of a row without a family: the column's own default.
const PRIORITY_DEFAULT: u8 = 5;

/// What the producer is told about one intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// The row, new or known.
    pub id: String,
    /// Its place in the order of publication.
    pub seq: i64,
    /// Whether the row was there already.
    pub duplicate: bool,
    /// Its state.
    pub status: Status,
    /// Whose codes and links its mail has: `stored` for those of this request, `reused` for those of an earlier one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<&'static str>,
}

/// What an intake leaves to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// One for each intent, in the order of the request.
    pub receipts: Vec<Receipt>,
    /// To be published after the answer.
    pub to_publish: Vec<Reservation>,
}

/// Why nothing was recorded (or, for one of them, may have been).
#[derive(Clone, Debug)]
pub enum IntakeError {
    /// The producer must change the request.
    Request(Problem),
    /// The database did not take it. After `Ambiguous` it may have; a repetition finds out.
    Database(DatabaseError),
}

/// Records the intents in `body`.
///
/// # Errors
/// [`IntakeError`]; except for an ambiguous database error nothing was written.
pub async fn record_intents<W: World>(world: &W, config: &Config, body: &[u8]) -> Result<Accepted, IntakeError> {
    let zones = world.zones();
    let intents = parse_intents(body, &Families::of(config.policy, zones)).map_err(IntakeError::Request)?;
    let now = world.clock().now();
    let new = new_intents(world, config, &intents, now);
    let first_of = first_positions(&new).map_err(IntakeError::Request)?;
    let unique = uniques(&new, &first_of);
    let recorded = match record(world.database(), &unique, now)
        .await
        .map_err(IntakeError::Database)?
    {
        Recorded::Committed(recorded) => recorded,
        Recorded::MeaningConflict => return Err(conflict(world, &unique, &new).await),
    };
    let accepted = accepted(&new, &unique, &first_of, &recorded, config, now)
        .ok_or(IntakeError::Database(DatabaseError::Shape))?;
    let count = |list: usize| Field::Number(i64::try_from(list).unwrap_or(i64::MAX));
    let duplicates = accepted.receipts.iter().filter(|receipt| receipt.duplicate).count();
    let expired = new.iter().filter(|intent| intent.status == Status::Expired).count();
    let fields = [
        ("intents", count(accepted.receipts.len())),
        ("duplicates", count(duplicates)),
        ("closedBefore", count(expired)),
    ];
    world.log().note(Level::Info, "intents_recorded", &fields);
    Ok(accepted)
}

/// The rows that intents become where their keys are new, each with an id of its own.
pub(crate) fn new_intents<W: World>(world: &W, config: &Config, intents: &[Intent], now: Millis) -> Vec<NewIntent> {
    let grace = now.plus(config.timing.pending_grace);
    let mut new = Vec::with_capacity(intents.len());
    for intent in intents {
        let id = outbox_id(&intent.prefix, world.random());
        let opening = opening(world.zones(), config, intent, now);
        new.push(new_intent(config, intent, opening, id, now, grace));
    }
    new
}

/// Every fact of the request once, with how often it stands there once more.
pub(crate) fn uniques(new: &[NewIntent], first_of: &[usize]) -> Vec<NewIntent> {
    let stated = |position: usize| first_of.iter().filter(|first| **first == position).count();
    new.iter()
        .enumerate()
        .filter(|(position, _)| first_of.get(*position) == Some(position))
        .map(|(position, intent)| NewIntent {
            copies: u32::try_from(stated(position).saturating_sub(1)).unwrap_or(u32::MAX),
            ..intent.clone()
        })
        .collect()
}

/// The families of this version, as the parser asks for them.
pub(crate) struct Families<'a, Z> {
    shapes: Vec<FamilyShape>,
    zones: &'a Z,
}

impl<'a, Z> Families<'a, Z> {
    pub(crate) fn of(policy: &Policy, zones: &'a Z) -> Self {
        Self {
            shapes: policy
                .families()
                .map(|family| FamilyShape {
                    name: family.name.to_owned(),
                    prefix: family.prefix.to_owned(),
                    key_fields: family.key_fields.iter().map(|&field| field.to_owned()).collect(),
                    has_template: family.template.is_some(),
                    window_hours: family.window_hours,
                    attachments: family.attachments,
                })
                .collect(),
            zones,
        }
    }
}

impl<Z: Zones> FamilyLookup for Families<'_, Z> {
    fn shape(&self, name: &str) -> Option<&FamilyShape> {
        self.shapes.iter().find(|family| family.name == name)
    }

    fn has_zone(&self, name: &str) -> bool {
        is_zone(self.zones, name)
    }
}

/// When a new row may go out.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// Not before: the window's opening, the delay's end, or the end of the quiet hours that these fall into.
    not_before: Option<Millis>,
    /// There is no such time before the window closes: it will never go out.
    never: bool,
}

/// Looks at window, delay and quiet hours. A zone that cannot be read any more leaves the hours to the consumer, which
/// parks such a row.
fn opening(zones: &impl Zones, config: &Config, intent: &Intent, now: Millis) -> Opening {
    let opens = intent.window.opens.max(intent.delay.map(|delay| now.plus(delay)));
    let at = opens.unwrap_or(now).max(now);
    let permitted = config
        .policy
        .family(&intent.family)
        .and_then(|family| Hours::of(family, intent.letter.time_zone.as_deref()))
        .and_then(|hours| hours.permitted(zones, at))
        .unwrap_or(at);
    let never = intent.window.closes.is_some_and(|end| permitted >= end);
    let not_before = if permitted > at { Some(permitted) } else { opens };
    Opening {
        not_before: if never { intent.window.opens } else { not_before },
        never,
    }
}

/// The row that an intent becomes if its key is new. `grace`: when the relay takes over from the intake.
fn new_intent(config: &Config, intent: &Intent, opening: Opening, id: String, now: Millis, grace: Millis) -> NewIntent {
    let not_before = opening.not_before;
    let keys: Vec<NewKey> = keys_for(&config.keys, intent)
        .into_iter()
        .map(|keys| NewKey {
            key: keys.key,
            secret_id: keys.secret_id,
            fingerprint: keys.fingerprint,
        })
        .collect();
    let (key, fingerprint, secret_id) = keys
        .first()
        .map(|mint| (mint.key.clone(), mint.fingerprint.clone(), mint.secret_id.clone()))
        .unwrap_or_default();
    let family = config.policy.family(&intent.family);
    let (status, cause) = match family.map(|family| family.mode) {
        Some(Mode::Shadow) => (Status::Shadowed, "shadow_mode"),
        Some(Mode::Live | Mode::Hold) | None if opening.never => (Status::Expired, "window_missed"),
        Some(Mode::Hold) => (Status::Pending, "held"),
        Some(Mode::Live) | None => (Status::Pending, "recorded"),
    };
    // Due within a tick: published at once, and the queue bridges the rest. Later: the relay's, when it is due. Bulk: the
    // relay's in any case, which admits no more than the pace drains.
    let bulk = family.is_some_and(|family| family.bulk);
    let publishes_now = status == Status::Pending
        && cause == "recorded"
        && !bulk
        && not_before.is_none_or(|at| at < now.plus(config.timing.tick));
    let relay_at = match (status, not_before) {
        (Status::Shadowed | Status::Expired, _) => None,
        (_, Some(at)) if !publishes_now => Some(at.max(now)),
        (Status::Pending, None) if bulk && cause == "recorded" => Some(now),
        (_, Some(at)) => Some(at.plus(config.timing.pending_grace).max(grace)),
        (_, None) => Some(grace),
    };
    let letter = intent.letter.to_json();
    let facts = match family {
        Some(family) if family.template.is_some() => facts_for(&config.keys, &intent.family, &intent.identity),
        Some(_) | None => Vec::new(),
    };
    // A later revision may get the secret of an earlier one, which nobody has read yet.
    let room = if facts.is_empty() || intent.revision == 0 {
        0
    } else {
        SECRET_ROOM_BYTES
    };
    let attachments: Vec<String> = intent.attachments.iter().map(Attachment::to_json).collect();
    let attachment_bytes: usize = attachments.iter().map(String::len).sum();
    NewIntent {
        id,
        family: intent.family.clone(),
        template: family.and_then(|family: &Family| family.template),
        revision: intent.revision,
        fingerprint,
        fingerprint_version: FINGERPRINT_VERSION,
        fingerprint_secret_id: secret_id,
        recipient_hash: recipient_hash(&config.recipient_secret, &intent.to),
        domain_hash: domain_hash(&config.recipient_secret, &intent.to),
        priority: family.map_or(PRIORITY_DEFAULT, |family| family.priority),
        bulk: u8::from(bulk),
        // The fact itself names the request: even a lost row that is recorded again meets the provider under it.
        idempotency_key: format!("sealpost-{key}-0"),
        status,
        cause,
        relay_at: relay_at.map(Millis::get),
        publish_count: u8::from(publishes_now),
        not_before: not_before.map(Millis::get),
        not_after: intent.window.closes.map(Millis::get),
        letter_bytes: letter.len().saturating_add(room).saturating_add(attachment_bytes),
        letter,
        attachments: attachments.into(),
        keys,
        send_id: intent
            .send_id
            .as_deref()
            .map(|name| send_id_hash(&config.recipient_secret, &intent.family, name)),
        facts,
        secret: intent.letter.secret_json(),
        copies: 0,
    }
}

/// For each intent the first one of the request that states the same fact. One fact with two meanings is refused.
fn first_positions(new: &[NewIntent]) -> Result<Vec<usize>, Problem> {
    let mut errors = Vec::new();
    let mut firsts = Vec::with_capacity(new.len());
    for (position, intent) in new.iter().enumerate() {
        let first = new
            .iter()
            .position(|other| other.idempotency_key == intent.idempotency_key)
            .unwrap_or(position);
        if new
            .get(first)
            .is_some_and(|other| other.fingerprint != intent.fingerprint)
        {
            errors.push(other_meaning(position));
        }
        firsts.push(first);
    }
    if errors.is_empty() {
        Ok(firsts)
    } else {
        Err(conflict_problem(errors))
    }
}

async fn conflict<W: World>(world: &W, unique: &[NewIntent], all: &[NewIntent]) -> IntakeError {
    match conflicting_positions(world.database(), unique).await {
        Ok(positions) => {
            // By the fact, not by the row: a fact that stands in the request twice is wrong in both places.
            let facts: Vec<&str> = positions
                .iter()
                .filter_map(|position| unique.get(*position))
                .map(|intent| intent.idempotency_key.as_str())
                .collect();
            let errors = all
                .iter()
                .enumerate()
                .filter(|(_, intent)| facts.contains(&intent.idempotency_key.as_str()))
                .map(|(position, _)| other_meaning(position))
                .collect();
            IntakeError::Request(conflict_problem(errors))
        }
        Err(error) => IntakeError::Database(error),
    }
}

fn conflict_problem(errors: Vec<FieldError>) -> Problem {
    Problem {
        errors,
        ..Problem::new(409, "key_known_with_other_meaning")
    }
}

fn other_meaning(position: usize) -> FieldError {
    FieldError {
        path: format!("/intents/{position}"),
        code: "key_known_with_other_meaning",
        detail: "This key was recorded with another recipient, content, attachments or window. Raise the revision to send a second mail on purpose.",
    }
}

pub(crate) fn accepted(
    new: &[NewIntent],
    unique: &[NewIntent],
    first_of: &[usize],
    recorded: &[RecordedIntent],
    config: &Config,
    now: Millis,
) -> Option<Accepted> {
    let mut receipts = Vec::with_capacity(new.len());
    let mut to_publish = Vec::new();
    for (position, first) in first_of.iter().enumerate() {
        let intent = new.get(*first)?;
        let at = unique.iter().position(|other| other.id == intent.id)?;
        let row = recorded.iter().find(|row| row.position == at)?;
        let duplicate = row.id != intent.id || position != *first;
        receipts.push(Receipt {
            id: row.id.clone(),
            seq: row.seq,
            duplicate,
            status: row.status,
            secret: whose_secret(row),
        });
        let due_at = intent.not_before.unwrap_or(0);
        if !duplicate && intent.publish_count == 1 && Millis::new(due_at) < now.plus(config.timing.tick) {
            to_publish.push(Reservation {
                id: row.id.clone(),
                publish_count: 1,
                claim_count: 0,
                due_at,
            });
        }
    }
    Some(Accepted { receipts, to_publish })
}

/// As the database says it, in a word that the answer may carry.
fn whose_secret(row: &RecordedIntent) -> Option<&'static str> {
    match row.secret.as_deref() {
        Some("stored") => Some("stored"),
        Some(_) => Some("reused"),
        None => None,
    }
}
