//! `/v1/replays`: a backlog is brought once more, and what it came to.

use serde_json::{Value, json};

use super::auth;
use super::failure::database_failed;
use super::http::{Answer, Request, is_json};
use super::story::time;
use crate::config::Config;
use crate::intake::IntakeError;
use crate::outbox::intent::ReplayMode;
use crate::ports::World;
use crate::replay::{Answered, Outcome, replay};
use crate::store::database::DatabaseError;
use crate::store::replays::totals;

/// `POST /v1/replays`, for producers.
pub(super) async fn post<W: World>(world: &W, config: &Config, request: &Request<'_>) -> Answer {
    if let Err(refusal) = auth::require(&config.producers, request) {
        return refusal;
    }
    if !is_json(request.content_type) {
        return Answer::problem(415, "json_expected", "Send the replay as application/json.");
    }
    let Some(body) = request.body else {
        return Answer::problem(
            413,
            "body_too_large",
            "Send fewer or smaller intents: a request holds 4 MiB.",
        );
    };
    let (batch, mode, answered) = match replay(world, config, body).await {
        Ok(answer) => answer,
        Err(IntakeError::Request(problem)) => return Answer::refused(&problem),
        Err(IntakeError::Database(error)) => return database_failed(world, &error),
    };
    match answered {
        Answered::Forecast(forecast) => Answer::json(
            200,
            json!({ "batch": batch, "mode": mode.as_str(), "dryRun": true, "forecast": forecast }),
        ),
        Answered::Done(done) => {
            // What another system sent is owed by nobody any more.
            let status = match mode {
                ReplayMode::Send => 202,
                ReplayMode::Backfill => 200,
            };
            let body = json!({
                "batch": batch,
                "mode": mode.as_str(),
                "new": done.count(Outcome::New),
                "known": done.count(Outcome::Known),
                "changed": done.count(Outcome::Changed),
                "intents": done.items,
            });
            Answer {
                to_publish: done.to_publish,
                ..Answer::json(status, body)
            }
        }
    }
}

/// `GET /v1/replays/{batch}`, for operators.
pub(super) async fn show<W: World>(world: &W, batch: &str) -> Result<Answer, DatabaseError> {
    let modes: Vec<Value> = totals(world.database(), batch)
        .await?
        .iter()
        .map(|totals| {
            json!({
                "mode": totals.mode,
                "requests": totals.requests,
                "new": totals.fresh,
                "known": totals.known,
                "changed": totals.changed,
                "firstAt": time(totals.first_at),
                "lastAt": time(totals.last_at),
            })
        })
        .collect();
    if modes.is_empty() {
        return Ok(Answer::problem(
            404,
            "no_such_replay",
            "No replay of this name was recorded.",
        ));
    }
    Ok(Answer::json(200, json!({ "batch": batch, "modes": modes })))
}
