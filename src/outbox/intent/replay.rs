//! The body of a replay: intents as at the intake, under the name of the replay that brings them.

use serde_json::Value;

use super::{FAMILY_UNKNOWN, FamilyLookup, Intent, IntentRequest, REVISION_INVALID, is_field, read_document};
use crate::outbox::address::Address;
use crate::outbox::fields::{self, Fields};
use crate::outbox::identity::{self, Identity};
use crate::outbox::problem::{Fault, Pointer, Problem, Problems};

/// Intents of one request of a replay: an operator drives it, and 4 MiB hold as many usual letters.
pub const REPLAY_INTENTS_MAX: usize = 500;

/// Characters of a replay's name; it stands in logs and in events.
pub const BATCH_CHARS_MAX: usize = 64;

const LIST_EXPECTED: Fault = Fault::new("replay_intents_expected", "Send a list of 1 to 500 intents.");
const BATCH_INVALID: Fault = Fault::new(
    "replay_batch_invalid",
    "Send a name of 1 to 64 letters, digits, dots, underscores and hyphens that names nobody.",
);
const MODE_INVALID: Fault = Fault::new("replay_mode_invalid", "Send send or backfill, or leave the field out.");
const FLAG_EXPECTED: Fault = Fault::new("flag_expected", "Send true or false, or leave the field out.");

/// What a replay does with facts that are new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayMode {
    /// Owes their mails, as the intake does.
    Send,
    /// Records that another system sent them.
    Backfill,
}

impl ReplayMode {
    /// The word in JSON and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Backfill => "backfill",
        }
    }
}

/// A fact without what its mail says: all that is kept of a mail that another system sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Fact {
    /// The family's name.
    pub family: String,
    /// How the id of its row begins.
    pub prefix: String,
    /// What makes another intent of the family the same fact.
    pub identity: Identity,
    /// Counted by the producer.
    pub revision: u32,
    /// Who got the mail.
    pub to: Address,
}

/// What a replay brings, by its mode.
#[derive(Clone, PartialEq, Eq)]
pub enum Replayed {
    /// Mails that are owed.
    Intents(Vec<Intent>),
    /// Mails that another system sent.
    Facts(Vec<Fact>),
}

/// One request of a replay.
#[derive(Clone, PartialEq, Eq)]
pub struct ReplayRequest {
    /// The name of the replay: 1 to [`BATCH_CHARS_MAX`] letters, digits, dots, underscores and hyphens.
    pub batch: String,
    /// Whether it only counts.
    pub dry_run: bool,
    /// What it brings.
    pub replayed: Replayed,
}

/// Reads `{"batch": ..., "mode": ..., "dryRun": ..., "intents": [...]}`: the request, or everything that is wrong with it.
///
/// # Errors
/// As for [`super::parse_intents`].
pub fn parse_replay(body: &[u8], families: &dyn FamilyLookup) -> Result<ReplayRequest, Problem> {
    let root = Pointer::default();
    let document = read_document(body, &root)?;
    let mut problems = Problems::default();
    let request = check(&document, &root, families, &mut problems);
    problems.into_result(422, "intents_invalid")?;
    request.ok_or_else(|| Problem::new(422, "intents_invalid"))
}

fn check(
    document: &Value,
    root: &Pointer,
    families: &dyn FamilyLookup,
    problems: &mut Problems,
) -> Option<ReplayRequest> {
    let known = |name: &str| matches!(name, "batch" | "mode" | "dryRun" | "intents");
    let fields = Fields::open(document, root, known, problems)?;
    let batch = fields.required("batch", problems, batch);
    let mode = fields.optional("mode", problems, |value| match fields::text(value)? {
        "send" => Ok(ReplayMode::Send),
        "backfill" => Ok(ReplayMode::Backfill),
        _ => Err(MODE_INVALID),
    });
    let dry_run = fields.optional("dryRun", problems, |value| value.as_bool().ok_or(FLAG_EXPECTED));
    let list = fields.required("intents", problems, |value| match value.as_array() {
        Some(list) if (1..=REPLAY_INTENTS_MAX).contains(&list.len()) => Ok(list),
        Some(_) | None => Err(LIST_EXPECTED),
    });
    let place = fields.place("intents");
    let replayed = match mode.unwrap_or(ReplayMode::Send) {
        ReplayMode::Send => Replayed::Intents(each(list?, &place, problems, |request, problems| {
            request.check(families, problems)
        })),
        ReplayMode::Backfill => Replayed::Facts(each(list?, &place, problems, |request, problems| {
            fact(&request, families, problems)
        })),
    };
    Some(ReplayRequest {
        batch: batch?,
        dry_run: dry_run.unwrap_or(false),
        replayed,
    })
}

/// A name that may stand in a log, an event and a path as it is.
fn batch(value: &Value) -> Result<String, Fault> {
    let text = fields::text(value)?;
    is_batch(text).then(|| text.to_owned()).ok_or(BATCH_INVALID)
}

/// Whether a text can be the name of a replay at all.
pub(crate) fn is_batch(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=BATCH_CHARS_MAX).contains(&text.len()) && text.bytes().all(legal)
}

fn each<'a, T>(
    list: &'a [Value],
    place: &Pointer,
    problems: &mut Problems,
    check: impl Fn(IntentRequest<'a>, &mut Problems) -> Option<T>,
) -> Vec<T> {
    let mut checked = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        if problems.is_full() {
            break;
        }
        let request = IntentRequest {
            value,
            place: place.index(index),
        };
        checked.extend(check(request, problems));
    }
    checked
}

/// What a mail said that another system sent is not looked at: nothing of it is kept.
fn fact(request: &IntentRequest<'_>, families: &dyn FamilyLookup, problems: &mut Problems) -> Option<Fact> {
    let fields = Fields::open(request.value, &request.place, is_field, problems)?;
    let family = fields.required("family", problems, |value| {
        families.shape(fields::text(value)?).ok_or(FAMILY_UNKNOWN)
    });
    let identity = identity::check(&fields, family, problems);
    let revision = fields.optional("revision", problems, |value| {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.ok_or(REVISION_INVALID)
    });
    let to = fields.required_address("to", problems);
    let family = family?;
    Some(Fact {
        family: family.name.clone(),
        prefix: family.prefix.clone(),
        identity: identity?,
        revision: revision.unwrap_or(0),
        to: to?,
    })
}
