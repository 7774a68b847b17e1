//! Parking: what nobody understood, until somebody decides. A body is shown one at a time and on demand alone: it may
//! hold personal data.

use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Operator;
use super::http::{Answer, Request};
use super::lists::{Page, is_sha256, note, query_invalid};
use super::queues;
use crate::config::Config;
use crate::outbox::envelope::Envelope;
use crate::outbox::id::is_outbox_id;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, World};
use crate::receipts::{Reception, understand};
use crate::store::database::DatabaseError;
use crate::store::discard::{self, Kind};
use crate::store::operator_log::Order;
use crate::store::parking::{self, Entry, State, Whole};

/// Entries that one order discards at most.
const DISCARDS_MAX: usize = 100;
/// Begins the name of an entry that is a row of the outbox.
const ROW_PREFIX: &str = "row-";

/// The doors of this room.
pub(super) enum Door<'a> {
    List,
    Entry(&'a str),
    DiscardMany,
    Discard(&'a str),
    Replay(&'a str),
}

impl<'a> Door<'a> {
    /// The door behind the rest of the path.
    pub(super) fn of(rest: &[&'a str]) -> Option<Self> {
        match *rest {
            [] => Some(Self::List),
            ["discard"] => Some(Self::DiscardMany),
            [hash] => Some(Self::Entry(hash)),
            [hash, "discard"] => Some(Self::Discard(hash)),
            [hash, "replay"] => Some(Self::Replay(hash)),
            _ => None,
        }
    }

    pub(super) const fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::List | Self::Entry(_) => &["GET"],
            Self::DiscardMany | Self::Discard(_) | Self::Replay(_) => &["POST"],
        }
    }
}

/// Answers an operator.
///
/// # Errors
/// [`DatabaseError`].
pub(super) async fn answer<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &Operator,
    door: Door<'_>,
) -> Result<Answer, DatabaseError> {
    match door {
        Door::List => list(world, request).await,
        Door::DiscardMany => discard_many(world, request, operator).await,
        Door::Entry(hash) | Door::Discard(hash) | Door::Replay(hash) if !is_hash(hash) => Ok(no_such_entry()),
        Door::Entry(hash) => show(world, operator, hash).await,
        Door::Discard(hash) => discard(world, request, operator, hash).await,
        Door::Replay(hash) => replay(world, config, request, operator, hash).await,
    }
}

/// Whether a text from outside can name an entry at all.
fn is_hash(text: &str) -> bool {
    match text.strip_prefix(ROW_PREFIX) {
        Some(id) => is_outbox_id(id),
        None => is_sha256(text),
    }
}

async fn list<W: World>(world: &W, request: &Request<'_>) -> Result<Answer, DatabaseError> {
    let page = match Page::of(request) {
        Ok(page) => page,
        Err(refusal) => return Ok(refusal),
    };
    let state = match request.parameter("state").as_deref() {
        None => Some(State::Parked),
        Some(text) => State::of(text),
    };
    let after = match page.after.as_deref() {
        None => Some(None),
        Some(cursor) => cursor
            .split_once('.')
            .and_then(|(at, hash)| at.parse::<i64>().ok().map(|at| Some((at, hash)))),
    };
    let (Some(state), Some(after)) = (state, after) else {
        return Ok(query_invalid());
    };
    let entries = parking::list(world.database(), state, after, page.rows_max()).await?;
    Ok(page.answer(
        &entries,
        |entry| {
            let at = entry.closed_at.unwrap_or(entry.first_seen_at);
            format!("{at}.{}", entry.hash)
        },
        |entry| Value::Object(shown(entry)),
    ))
}

async fn show<W: World>(world: &W, operator: &Operator, hash: &str) -> Result<Answer, DatabaseError> {
    let order = operator.order(None, world.clock().now());
    Ok(match parking::show(world.database(), hash, &order).await? {
        Some(Whole { entry, body }) => {
            let mut members = shown(&entry);
            members.insert("body".to_owned(), body.into());
            Answer::json(200, members)
        }
        None => no_such_entry(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NoteOrder {
    note: Option<String>,
}

async fn discard<W: World>(
    world: &W,
    request: &Request<'_>,
    operator: &Operator,
    hash: &str,
) -> Result<Answer, DatabaseError> {
    let read = || -> Result<_, Answer> {
        let order: NoteOrder = request.order()?;
        reason_why(order.note)
    };
    let note = match read() {
        Ok(note) => note,
        Err(refusal) => return Ok(refusal),
    };
    let order = operator.order(Some(&note), world.clock().now());
    Ok(match discard::discard(world.database(), hash, &order).await? {
        None => no_such_entry(),
        Some((_, false)) => entry_closed(),
        Some((entry, true)) => Answer::json(200, shown(&entry)),
    })
}

/// What a discard must not do without.
fn reason_why(text: Option<String>) -> Result<String, Answer> {
    note(text)?.ok_or_else(|| Answer::problem(422, "note_required", "Say in note why this input is not needed."))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ManyOrder {
    source: Option<String>,
    reason: Option<String>,
    limit: Option<usize>,
    note: Option<String>,
}

async fn discard_many<W: World>(
    world: &W,
    request: &Request<'_>,
    operator: &Operator,
) -> Result<Answer, DatabaseError> {
    let read = || -> Result<_, Answer> {
        let mut order: ManyOrder = request.order()?;
        let note = reason_why(order.note.take())?;
        let limit = order.limit.unwrap_or(DISCARDS_MAX);
        // All of them by accident is not what an empty order means.
        if (order.source.is_none() && order.reason.is_none()) || !(1..=DISCARDS_MAX).contains(&limit) {
            return Err(Answer::problem(
                422,
                "selection_invalid",
                "Send at least one of source and reason; limit is 1 to 100.",
            ));
        }
        Ok((order, limit, note))
    };
    let (asked, limit, note) = match read() {
        Ok(order) => order,
        Err(refusal) => return Ok(refusal),
    };
    let kind = Kind {
        source: asked.source.as_deref(),
        reason: asked.reason.as_deref(),
    };
    let order = operator.order(Some(&note), world.clock().now());
    let rows_max = i64::try_from(limit).unwrap_or(i64::MAX);
    let discarded = discard::discard_many(world.database(), kind, rows_max, &order).await?;
    Ok(Answer::json(
        200,
        json!({ "discarded": discarded.count, "more": discarded.more }),
    ))
}

async fn replay<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &Operator,
    hash: &str,
) -> Result<Answer, DatabaseError> {
    let note = match request.order().and_then(|order: NoteOrder| note(order.note)) {
        Ok(note) => note,
        Err(refusal) => return Ok(refusal),
    };
    let order = operator.order(note.as_deref(), world.clock().now());
    let Some(whole) = parking::whole(world.database(), hash).await? else {
        return Ok(no_such_entry());
    };
    if whole.entry.state != State::Parked {
        return Ok(entry_closed());
    }
    if whole.entry.body_gone == 1 {
        return Ok(Answer::problem(
            409,
            "body_gone",
            "The body was removed after the retention, so it cannot be read again. Let its sender send it again, or discard it.",
        ));
    }
    if whole.entry.body_bytes > whole.body.len() {
        return Ok(Answer::problem(
            409,
            "body_was_cut",
            "The input was too long to be kept whole, so it cannot be read again. Discard it.",
        ));
    }
    match whole.entry.source.as_str() {
        "queue" | "dead_letter_queue" => replay_envelope(world, hash, &whole.body, &order).await,
        "outbox" => replay_row(world, config, &whole.entry, &order).await,
        "receipts" => replay_event(world, config, &whole, &order).await,
        _ => Ok(still_not_understood()),
    }
}

/// A message of a queue, read by the program that runs now.
async fn replay_envelope<W: World>(
    world: &W,
    hash: &str,
    body: &str,
    order: &Order<'_>,
) -> Result<Answer, DatabaseError> {
    let Ok(envelope) = Envelope::read(Some(body)) else {
        return Ok(still_not_understood());
    };
    let replayed = parking::replay_envelope(world.database(), hash, &envelope.outbox_id, order).await?;
    Ok(match replayed {
        Some(entry) => Answer::json(200, shown(&entry)),
        None => still_not_understood(),
    })
}

/// An event of the provider, read by the program that runs now. Its signature was good when it came. It is heard first:
/// who dies in between leaves an entry that can be replayed again, and an event that is known.
async fn replay_event<W: World>(
    world: &W,
    config: &Config,
    whole: &Whole,
    order: &Order<'_>,
) -> Result<Answer, DatabaseError> {
    let event_id = whole.entry.origin.as_deref().unwrap_or(&whole.entry.hash);
    let reception = understand(world, config, event_id, whole.body.as_bytes()).await?;
    if let Reception::Parked(_) = reception {
        return Ok(still_not_understood());
    }
    let Some(entry) = parking::understood(world.database(), &whole.entry.hash, order).await? else {
        return Ok(entry_closed());
    };
    let mut members = shown(&entry);
    members.insert("event".to_owned(), json!(reception.code()));
    Ok(Answer::json(200, members))
}

/// A row that no version could read: its retry is the replay. The row's own change of state closes the entry.
async fn replay_row<W: World>(
    world: &W,
    config: &Config,
    entry: &Entry,
    order: &Order<'_>,
) -> Result<Answer, DatabaseError> {
    let id = entry.origin.as_deref().unwrap_or_default();
    let retried = queues::retry(world, config, &[id], None, order).await?;
    let Some(row) = retried.first().filter(|row| row.result != "still_unreadable") else {
        return Ok(still_not_understood());
    };
    let Some(whole) = parking::whole(world.database(), &entry.hash).await? else {
        return Ok(no_such_entry());
    };
    let mut members = shown(&whole.entry);
    members.insert("row".to_owned(), queues::item(row));
    Ok(Answer::json(200, members))
}

fn no_such_entry() -> Answer {
    Answer::problem(404, "no_such_entry", "Nothing is parked under this hash.")
}

fn entry_closed() -> Answer {
    Answer::problem(
        409,
        "entry_closed",
        "It was replayed or discarded before. Where the same input arrives again, it is parked again.",
    )
}

fn still_not_understood() -> Answer {
    Answer::problem(
        409,
        "still_not_understood",
        "This version does not understand it either, or the row that it names is not there. It stays parked.",
    )
}

fn shown(entry: &Entry) -> serde_json::Map<String, Value> {
    let time = |at: i64| Value::String(Millis::new(at).to_string());
    let members = [
        ("hash", json!(entry.hash)),
        ("source", json!(entry.source)),
        ("reason", json!(entry.reason)),
        ("origin", json!(entry.origin)),
        ("bodyBytes", json!(entry.body_bytes)),
        ("bodyGone", json!(entry.body_gone == 1)),
        ("times", json!(entry.times)),
        ("firstSeenAt", time(entry.first_seen_at)),
        ("lastSeenAt", time(entry.last_seen_at)),
        ("state", json!(entry.state)),
        ("closedAt", entry.closed_at.map_or(Value::Null, time)),
    ];
    let mut shown = serde_json::Map::new();
    shown.extend(members.map(|(name, value)| (name.to_owned(), value)));
    shown
}
