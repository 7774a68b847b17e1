//! The switches under `/_/`: never counted, never delayed, never subject to faults.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::faults::{FaultRule, Released};
use super::server::Server;

type Shared = State<Arc<Server>>;

/// The routes, to be nested under `/_`.
pub(super) fn router() -> Router<Arc<Server>> {
    Router::new()
        .route("/faults", get(list_faults).post(add_faults).delete(clear_faults))
        .route("/release", post(release))
        .route("/counters", get(counters))
        .route("/counters/reset", post(reset_counters))
        .route("/latency", post(latency))
        .route("/reset", post(reset))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<FaultRule>),
    One(FaultRule),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    /// Drops the held requests instead of letting them go on.
    #[serde(default)]
    discard: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Latency {
    ms: u64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reset {
    /// Empties the database too.
    #[serde(default)]
    data: bool,
}

async fn list_faults(server: Shared) -> Response {
    Json(json!({ "rules": server.faults(), "held": server.held() })).into_response()
}

async fn add_faults(server: Shared, body: Bytes) -> Response {
    let rules = match serde_json::from_slice(&body) {
        Ok(OneOrMany::Many(rules)) => rules,
        Ok(OneOrMany::One(rule)) => vec![rule],
        Err(_) => {
            return refuse("expected one fault rule or an array of them: {kind, count, skip, match, ms}");
        }
    };
    match server.add_faults(rules) {
        Ok(()) => list_faults(server).await,
        Err(error) => refuse(&error.to_string()),
    }
}

async fn clear_faults(server: Shared) -> Response {
    server.clear_faults();
    list_faults(server).await
}

async fn release(server: Shared, body: Bytes) -> Response {
    let Some(Release { discard }) = read_or_default(&body) else {
        return refuse("expected nothing or {discard}");
    };
    let how = if discard { Released::Discard } else { Released::Continue };
    Json(json!({ "released": server.release(how) })).into_response()
}

async fn counters(server: Shared) -> Response {
    Json(server.counters()).into_response()
}

async fn reset_counters(server: Shared) -> Response {
    server.reset_counters();
    Json(server.counters()).into_response()
}

async fn latency(server: Shared, body: Bytes) -> Response {
    let Ok(Latency { ms }) = serde_json::from_slice(&body) else {
        return refuse("expected {ms}");
    };
    server.set_latency_ms(ms);
    Json(json!({ "ms": ms })).into_response()
}

async fn reset(server: Shared, body: Bytes) -> Response {
    let Some(Reset { data }) = read_or_default(&body) else {
        return refuse("expected nothing or {data}");
    };
    match server.reset(data).await {
        Ok(()) => Json(json!({ "reset": true, "data": data })).into_response(),
        Err(error) => (
            StatusCode::SERVICE_UNAVAILABLE,
            Json(json!({ "error": error.to_string() })),
        )
            .into_response(),
    }
}

/// Reads a body that may be absent.
fn read_or_default<T: Default + DeserializeOwned>(body: &[u8]) -> Option<T> {
    if body.is_empty() {
        return Some(T::default());
    }
    serde_json::from_slice(body).ok()
}

fn refuse(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response()
}
