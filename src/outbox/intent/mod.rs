//! From the body of a request to intents that can be recorded: everything is checked here, once.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::outbox::address::Address;
use crate::outbox::attachment::{self, Attachment};
use crate::outbox::content;
use crate::outbox::fields::{self, Fields};
use crate::outbox::identity::{self, Identity};
use crate::outbox::json::{self, ReadError};
use crate::outbox::letter::{Body, LETTER_BYTES_MAX, Letter};
use crate::outbox::problem::{Fault, Pointer, Problem, Problems};
use crate::outbox::tags::{self, TagError};
use crate::outbox::time::Millis;

mod replay;
mod schedule;
mod send;

pub use replay::{BATCH_CHARS_MAX, Fact, REPLAY_INTENTS_MAX, ReplayMode, ReplayRequest, Replayed, parse_replay};
pub use schedule::{DELAY_MS_MAX, Window};
pub use send::{SECRET_BYTES_MAX, SECRET_NAME_BYTES_MAX, SECRETS_MAX, SEND_ID_BYTES_MAX};

/// Bytes of a request (4 MiB): 100 usual letters fit with room to spare, and a Worker has 128 MB for everything.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Intents of one request: they are recorded in one transaction and published in one chunk of the queue.
pub const INTENTS_MAX: usize = 100;

/// Tags of one intent; the provider takes 75, some of which are ours.
pub const TAGS_MAX: usize = 20;

/// Bytes of a tag's name or value; the provider takes 256 characters of what cleaning makes of it.
pub const TAG_BYTES_MAX: usize = 80;

const JSON_INVALID: Fault = Fault::new("json_invalid", "Send one JSON document in UTF-8.");
const LIST_EXPECTED: Fault = Fault::new("intents_expected", "Send a list of 1 to 100 intents.");
const FAMILY_UNKNOWN: Fault = Fault::new("family_unknown", "Send the name of a family that is configured.");
const REVISION_INVALID: Fault = Fault::new("revision_invalid", "Send a whole number from 0 to 4294967295.");
const DATA_REQUIRED: Fault = Fault::new("data_required", "Add data; this family has a template to fill.");
const DATA_UNEXPECTED: Fault = Fault::new("data_unexpected", "Send content; this family has no template.");
const CONTENT_REQUIRED: Fault = Fault::new("content_required", "Add content; this family has no template.");
const CONTENT_UNEXPECTED: Fault = Fault::new("content_unexpected", "Send data; the template of this family writes.");
const LETTER_TOO_LARGE: Fault = Fault::new("letter_too_large", "Send a letter of at most 256 KiB.");
const TAGS_TOO_MANY: Fault = Fault::new("tags_too_many", "Send at most 20 tags.");
const TAG_INVALID: Fault = Fault::new("tag_invalid", "Send tag names and values of 1 to 80 bytes.");

/// What intake has to know of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyShape {
    /// The name that intents use.
    pub name: String,
    /// How the ids of its intents begin.
    pub prefix: String,
    /// The fields of its business key. Their names and their order are part of every key: changing either makes
    /// the next repetition of an old fact a new fact.
    pub key_fields: Vec<String>,
    /// Whether a template writes the mail from data; otherwise the caller sends ready content.
    pub has_template: bool,
    /// Hours from the business instant to the opening and to the closing of the family's window.
    pub window_hours: Option<(i32, i32)>,
    /// Whether its mails may carry attachments.
    pub attachments: bool,
}

/// Finds families by name.
pub trait FamilyLookup {
    /// The family of this name, if there is one.
    fn shape(&self, name: &str) -> Option<&FamilyShape>;

    /// Whether there is a zone of this name, which looks like one.
    fn has_zone(&self, name: &str) -> bool;
}

impl FamilyLookup for Vec<FamilyShape> {
    fn shape(&self, name: &str) -> Option<&FamilyShape> {
        self.iter().find(|family| family.name == name)
    }

    /// Without a platform to ask there is one zone.
    fn has_zone(&self, name: &str) -> bool {
        name == "UTC"
    }
}

/// The obligation to send one mail to one recipient, checked and normalised. Its `Debug` shows no personal data.
#[derive(Clone, PartialEq, Eq)]
pub struct Intent {
    /// The family's name.
    pub family: String,
    /// How the id of this intent begins.
    pub prefix: String,
    /// What makes another intent of the family the same fact.
    pub identity: Identity,
    /// Counted by the producer: a higher one is a new mail about the same thing.
    pub revision: u32,
    /// The one recipient; the same value stands in the letter.
    pub to: Address,
    /// What is stored in the table of letters.
    pub letter: Letter,
    /// What is stored in the table of attachments.
    pub attachments: Vec<Attachment>,
    /// No call to the provider before this time, as the caller said it.
    pub not_before: Option<Millis>,
    /// No call to the provider after this time, as the caller said it.
    pub not_after: Option<Millis>,
    /// The same within the family's window: what counts, and what is stored.
    pub window: Window,
    /// How long after its recording it may go out at the earliest. An option of this send: no part of its meaning.
    pub delay: Option<Duration>,
    /// The caller's name of this send: while one of its family waits, another records nothing.
    pub send_id: Option<String>,
}

impl fmt::Debug for Intent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Intent")
            .field("family", &self.family)
            .field("revision", &self.revision)
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// Reads `{"intents": [...]}`: all intents, or everything that is wrong with them.
///
/// # Errors
/// [`Problem`]: 413 `body_too_large`, 400 `json_invalid`, 422 `intents_invalid` with the fields.
pub fn parse_intents(body: &[u8], families: &dyn FamilyLookup) -> Result<Vec<Intent>, Problem> {
    let root = Pointer::default();
    let document = read_document(body, &root)?;
    let mut problems = Problems::default();
    let intents = check_list(&document, &root, families, &mut problems);
    problems.into_result(422, "intents_invalid")?;
    Ok(intents)
}

fn read_document(body: &[u8], root: &Pointer) -> Result<Value, Problem> {
    if body.len() > BODY_BYTES_MAX {
        return Err(Problem::new(413, "body_too_large"));
    }
    json::read(body).map_err(|error| match error {
        ReadError::Syntax => Problem {
            errors: vec![JSON_INVALID.at(root)],
            ..Problem::new(400, "json_invalid")
        },
        ReadError::Refused(field) => Problem {
            errors: vec![field],
            ..Problem::new(422, "intents_invalid")
        },
    })
}

fn check_list(document: &Value, root: &Pointer, families: &dyn FamilyLookup, problems: &mut Problems) -> Vec<Intent> {
    let Some(fields) = Fields::open(document, root, |name| name == "intents", problems) else {
        return Vec::new();
    };
    let list = fields.required("intents", problems, |value| match value.as_array() {
        Some(list) if (1..=INTENTS_MAX).contains(&list.len()) => Ok(list),
        Some(_) | None => Err(LIST_EXPECTED),
    });
    let place = fields.place("intents");
    let mut intents = Vec::new();
    for (index, value) in list.into_iter().flatten().enumerate() {
        if problems.is_full() {
            break;
        }
        let request = IntentRequest {
            value,
            place: place.index(index),
        };
        intents.extend(request.check(families, problems));
    }
    intents
}

/// One intent as it arrived, unchecked, with its place in the request.
#[derive(Clone)]
pub struct IntentRequest<'a> {
    value: &'a Value,
    place: Pointer,
}

impl<'a> IntentRequest<'a> {
    /// An intent that the program itself makes, as a flow does; it passes the same checks as a caller's.
    pub fn new(value: &'a Value) -> Self {
        Self {
            value,
            place: Pointer::default(),
        }
    }

    /// Checks one intent by itself; paths start at the intent.
    ///
    /// # Errors
    /// [`Problem`]: 422 `intents_invalid` with the fields.
    pub fn into_intent(self, families: &dyn FamilyLookup) -> Result<Intent, Problem> {
        let mut problems = Problems::default();
        let intent = self.check(families, &mut problems);
        problems.into_result(422, "intents_invalid")?;
        intent.ok_or_else(|| Problem::new(422, "intents_invalid"))
    }

    /// `None` exactly where something was noted.
    fn check(&self, families: &dyn FamilyLookup, problems: &mut Problems) -> Option<Intent> {
        let before = problems.found();
        let fields = Fields::open(self.value, &self.place, is_field, problems)?;
        let family = fields.required("family", problems, |value| {
            families.shape(fields::text(value)?).ok_or(FAMILY_UNKNOWN)
        });
        let identity = identity::check(&fields, family, problems);
        let revision = fields.optional("revision", problems, |value| {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            number.ok_or(REVISION_INVALID)
        });
        let to = fields.required_address("to", problems);
        let body = check_body(&fields, family, problems);
        let tags = check_tags(&fields, problems);
        let schedule = schedule::check(&fields, family, families, problems);
        let send_id = send::check_id(&fields, problems);
        let secret = send::check_secret(&fields, family, problems);
        let attachments = attachment::check(&fields, family.map(|family| family.attachments), problems);

        let (family, to) = (family?, to?);
        let letter = Letter {
            to: to.clone(),
            body: body?,
            tags,
            time_zone: schedule.time_zone,
            secret,
            attachments: attachments.len(),
        };
        if letter.to_json().len() > LETTER_BYTES_MAX {
            problems.refuse(&fields.place(letter.body.kind()), LETTER_TOO_LARGE);
        }
        if problems.found() > before {
            return None;
        }
        Some(Intent {
            family: family.name.clone(),
            prefix: family.prefix.clone(),
            identity: identity?,
            revision: revision.unwrap_or(0),
            to,
            letter,
            attachments,
            not_before: schedule.said.opens,
            not_after: schedule.said.closes,
            window: schedule.window,
            delay: schedule.delay,
            send_id,
        })
    }
}

fn is_field(name: &str) -> bool {
    matches!(
        name,
        "family"
            | "key"
            | "idempotencyKey"
            | "revision"
            | "to"
            | "data"
            | "content"
            | "tags"
            | "attachments"
            | "notBefore"
            | "notAfter"
            | "businessAt"
            | "delay"
            | "timeZone"
            | "id"
            | "secret"
    )
}

/// Data for a family with a template, content for one without. What was sent is checked either way.
fn check_body(intent: &Fields<'_>, family: Option<&FamilyShape>, problems: &mut Problems) -> Option<Body> {
    let data = intent.optional("data", problems, |value| fields::object(value).cloned());
    let content = content::check(intent, problems);
    let has_template = family?.has_template;
    let (wanted, missing) = if has_template {
        ("data", DATA_REQUIRED)
    } else {
        ("content", CONTENT_REQUIRED)
    };
    let (unwanted, unexpected) = if has_template {
        ("content", CONTENT_UNEXPECTED)
    } else {
        ("data", DATA_UNEXPECTED)
    };
    if !intent.has(wanted) {
        problems.refuse(&intent.place(wanted), missing);
    }
    if intent.has(unwanted) {
        problems.refuse(&intent.place(unwanted), unexpected);
    }
    if has_template {
        data.map(Body::Data)
    } else {
        content.map(|content| Body::Content(Box::new(content)))
    }
}

fn check_tags(intent: &Fields<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let place = intent.place("tags");
    let Some(members) = intent.optional("tags", problems, fields::object) else {
        return BTreeMap::new();
    };
    if members.len() > TAGS_MAX {
        problems.refuse(&place, TAGS_TOO_MANY);
        return BTreeMap::new();
    }
    let fits = |text: &str| (1..=TAG_BYTES_MAX).contains(&text.len());
    let mut tags = BTreeMap::new();
    for (name, value) in members {
        let checked = fields::text(value).and_then(|value| {
            let both_fit = fits(name) && fits(value);
            both_fit.then_some(value).ok_or(TAG_INVALID)
        });
        if let Some(value) = problems.keep(&place.field(name), checked) {
            tags.insert(name.clone(), value.to_owned());
        }
    }
    // Refused here, not after the provider has refused the mail.
    if let Err(error) = tags::clean_user(&tags) {
        problems.refuse(&place, tag_fault(error));
    }
    tags
}

const fn tag_fault(error: TagError) -> Fault {
    match error {
        TagError::Reserved => Fault::new("tag_reserved", "Choose another tag name; this one is ours."),
        TagError::TooMany => TAGS_TOO_MANY,
        TagError::Empty => TAG_INVALID,
        TagError::TooLong => Fault::new(
            "tag_too_long",
            "Send a shorter tag: what is no letter, digit, hyphen or underscore takes four characters a byte.",
        ),
    }
}

#[cfg(test)]
mod tests;
