//! The list of doors: method and path to what stands behind them.

use super::auth;
use super::health::health;
use super::http::{Answer, Request};
use super::story::story;
use crate::config::{Config, SettingError};
use crate::intake::{IntakeError, record_intents};
use crate::outbox::id::is_outbox_id;
use crate::ports::{Field, Level, Log as _, World};
use crate::store::database::DatabaseError;

/// The longest body that is read at any door.
pub use crate::outbox::intent::BODY_BYTES_MAX;

/// A door, once its path is recognised.
enum Door<'a> {
    Intents,
    Intent(&'a str),
    Health,
}

impl Door<'_> {
    const fn method(&self) -> &'static str {
        match self {
            Self::Intents => "POST",
            Self::Intent(_) | Self::Health => "GET",
        }
    }
}

fn door<'a>(path: &'a str) -> Option<Door<'a>> {
    match path {
        "/v1/intents" => Some(Door::Intents),
        "/health" => Some(Door::Health),
        _ => path
            .strip_prefix("/v1/intents/")
            .filter(|id| !id.contains('/'))
            .map(Door::Intent),
    }
}

/// Answers a request. Never fails: whatever happens is an answer.
pub async fn answer<W: World>(world: &W, config: &Config, request: &Request<'_>) -> Answer {
    let Some(door) = door(request.path) else {
        return Answer::problem(404, "no_such_door", "See the README for the doors there are.");
    };
    if request.method != door.method() {
        return Answer::problem(405, "method_not_allowed", "Use the method that the Allow header names.")
            .with_header("allow", door.method());
    }
    match door {
        Door::Health => health(world, config, request).await,
        Door::Intents => intents(world, config, request).await,
        Door::Intent(id) => match auth::require(&config.producers, request) {
            Ok(()) if is_outbox_id(id) => match story(world, id).await {
                Ok(answer) => answer,
                Err(error) => database_failed(world, &error),
            },
            Ok(()) => Answer::problem(404, "no_such_intent", "There is no intent with this id."),
            Err(refusal) => refusal,
        },
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

fn is_json(content_type: Option<&str>) -> bool {
    content_type
        .and_then(|text| text.split(';').next())
        .is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

/// A failure of ours. The code says which; the advice is the same for all that may pass: repeat the very same request.
pub(super) fn database_failed<W: World>(world: &W, error: &DatabaseError) -> Answer {
    world
        .log()
        .note(Level::Warn, "database_failed", &[("error", Field::Code(error.code()))]);
    let code = error.code();
    match error {
        DatabaseError::Busy => {
            Answer::problem(503, code, "Nothing was written. Repeat the request.").with_header("retry-after", "1")
        }
        DatabaseError::Ambiguous => Answer::problem(
            503,
            code,
            "The request may have been recorded. Repeat the very same request: it is recorded once.",
        )
        .with_header("retry-after", "2"),
        DatabaseError::Refused { .. } | DatabaseError::SchemaMismatch => Answer::problem(
            503,
            code,
            "Nothing was written. The service cannot use its database; its operators have to act.",
        )
        .with_header("retry-after", "60"),
        DatabaseError::Constraint { .. } | DatabaseError::Failed { .. } | DatabaseError::Shape => Answer::problem(
            500,
            code,
            "This is an error of the service. Nothing needs to change in the request.",
        ),
    }
}
