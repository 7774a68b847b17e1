//! The list of doors: method and path to what stands behind them.

use super::auth;
use super::cancel::cancel;
use super::failure::database_failed;
use super::health::health;
use super::http::{Answer, Request, is_json};
use super::story::story;
use super::{metrics, parking, pauses, queues, receipts, replays, suppressions, unknown, unsubscribe};
use crate::config::{Config, SettingError};
use crate::intake::{IntakeError, record_intents};
use crate::outbox::id::is_outbox_id;
use crate::ports::World;

/// The longest body that is read at any door.
pub use crate::outbox::intent::BODY_BYTES_MAX;

/// A door, once its path is recognised.
enum Door<'a> {
    Intents,
    Intent(&'a str),
    Cancel(&'a str),
    Health,
    Replays,
    Receipts,
    Unsubscribe(&'a str),
    Operators(Room<'a>),
}

/// What only operators may enter.
enum Room<'a> {
    Suppressions(suppressions::Door),
    Parking(parking::Door<'a>),
    Pauses(pauses::Door<'a>),
    Unknown(unknown::Door<'a>),
    Queue(queues::Door<'a>),
    Replay(&'a str),
    Metrics,
}

impl Door<'_> {
    const fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::Intents | Self::Cancel(_) | Self::Replays | Self::Receipts => &["POST"],
            Self::Intent(_) | Self::Health => &["GET"],
            Self::Unsubscribe(_) => &["GET", "POST"],
            Self::Operators(room) => match room {
                Room::Suppressions(door) => door.methods(),
                Room::Parking(door) => door.methods(),
                Room::Pauses(door) => door.methods(),
                Room::Unknown(door) => door.methods(),
                Room::Queue(door) => door.methods(),
                Room::Replay(_) | Room::Metrics => &["GET"],
            },
        }
    }
}

fn door<'a>(path: &'a str) -> Option<Door<'a>> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    Some(match parts.as_slice() {
        ["health"] => Door::Health,
        ["metrics"] => Door::Operators(Room::Metrics),
        ["v1", "replays"] => Door::Replays,
        ["v1", "replays", batch] => Door::Operators(Room::Replay(batch)),
        ["v1", "intents"] => Door::Intents,
        ["v1", "intents", id] => Door::Intent(id),
        ["v1", "intents", id, "cancel"] => Door::Cancel(id),
        ["v1", "receipts", "resend"] => Door::Receipts,
        ["v1", "unsubscribe", token] => Door::Unsubscribe(token),
        ["v1", "suppressions", rest @ ..] => Door::Operators(Room::Suppressions(suppressions::Door::of(rest)?)),
        ["v1", "parking", rest @ ..] => Door::Operators(Room::Parking(parking::Door::of(rest)?)),
        ["v1", "pauses", rest @ ..] => Door::Operators(Room::Pauses(pauses::Door::of(rest)?)),
        ["v1", "unknown", rest @ ..] => Door::Operators(Room::Unknown(unknown::Door::of(rest)?)),
        ["v1", "queues", rest @ ..] => Door::Operators(Room::Queue(queues::Door::of(rest)?)),
        _ => return None,
    })
}

/// Answers a request. Never fails: whatever happens is an answer.
pub async fn answer<W: World>(world: &W, config: &Config, request: &Request<'_>) -> Answer {
    let Some(door) = door(request.path) else {
        return Answer::problem(404, "no_such_door", "See the README for the doors there are.");
    };
    if !door.methods().contains(&request.method) {
        return Answer::problem(405, "method_not_allowed", "Use the method that the Allow header names.")
            .with_header("allow", door.methods().join(", "));
    }
    let cancels = matches!(door, Door::Cancel(_));
    match door {
        Door::Health => health(world, config, request).await,
        Door::Intents => intents(world, config, request).await,
        Door::Replays => replays::post(world, config, request).await,
        Door::Intent(id) | Door::Cancel(id) => match auth::require(&config.producers, request) {
            Ok(()) if is_outbox_id(id) => {
                let done = if cancels {
                    cancel(world, id).await
                } else {
                    story(world, id).await
                };
                done.unwrap_or_else(|error| database_failed(world, &error))
            }
            Ok(()) => Answer::problem(404, "no_such_intent", "There is no intent with this id."),
            Err(refusal) => refusal,
        },
        Door::Receipts => receipts::answer(world, config, request).await,
        Door::Unsubscribe(token) => unsubscribe::answer(world, config, request, token).await,
        Door::Operators(room) => match auth::operator(&config.operators, request) {
            Ok(operator) => order(world, config, request, &operator, room).await,
            Err(refusal) => refusal,
        },
    }
}

async fn order<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &auth::Operator,
    room: Room<'_>,
) -> Answer {
    let done = match room {
        Room::Suppressions(door) => suppressions::answer(world, config, request, operator, door).await,
        Room::Parking(door) => parking::answer(world, config, request, operator, door).await,
        Room::Pauses(door) => pauses::answer(world, config, request, operator, door).await,
        Room::Unknown(door) => unknown::answer(world, config, request, operator, door).await,
        Room::Queue(door) => queues::answer(world, config, request, operator, door).await,
        Room::Replay(batch) => replays::show(world, batch).await,
        Room::Metrics => metrics::show(world, config).await,
    };
    match done {
        Ok(answer) => answer.with_header("cache-control", "no-store"),
        Err(error) => database_failed(world, &error),
    }
}

/// The answer where the configuration cannot be read: every door is closed, and says so.
pub fn not_configured(error: &SettingError, request: &Request<'_>) -> Answer {
    let mut answer = Answer::problem(
        503,
        error.code(),
        "The configuration is incomplete. See /health for the setting.",
    )
    .with_header("retry-after", "60");
    if request.path == "/health"
        && let serde_json::Value::Object(members) = &mut answer.body
    {
        // Names a setting and its rule, never a value.
        members.insert("detail".to_owned(), error.to_string().into());
    }
    answer
}

async fn intents<W: World>(world: &W, config: &Config, request: &Request<'_>) -> Answer {
    if let Err(refusal) = auth::require(&config.producers, request) {
        return refusal;
    }
    if !is_json(request.content_type) {
        return Answer::problem(415, "json_expected", "Send the intents as application/json.");
    }
    let Some(body) = request.body else {
        return Answer::problem(
            413,
            "body_too_large",
            "Send fewer or smaller intents: a request holds 4 MiB.",
        );
    };
    match record_intents(world, config, body).await {
        Ok(accepted) => Answer {
            to_publish: accepted.to_publish,
            ..Answer::json(202, serde_json::json!({ "intents": accepted.receipts }))
        },
        Err(IntakeError::Request(problem)) => Answer::refused(&problem),
        Err(IntakeError::Database(error)) => database_failed(world, &error),
    }
}
