//! The doors under `/_/`, which the real provider does not have: faults, clock and memory.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::answer::Reply;
use super::deliver;
use super::fault::{DELAY_MS_MAX, Fault, Rule};
use super::http::whole;
use super::ledger::Seen;
use super::shared::{Shared, Waiting};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/faults", get(faults).post(add_faults).delete(clear_faults))
        .route("/release", post(release))
        .route("/latency", post(latency))
        .route("/rate", post(rate))
        .route("/clock", post(clock))
        .route("/reset", post(reset))
        .route("/state", get(state))
        .route("/accepted", get(accepted))
        .route("/requests", get(requests))
        .merge(deliver::routes())
        .layer(middleware::from_fn(own_pages_only))
}

/// Refuses what a page of another origin sends: any site in the same browser could otherwise drive this server.
async fn own_pages_only(request: Request, next: Next) -> Response {
    if is_foreign(request.headers()) {
        return wrong(
            StatusCode::FORBIDDEN,
            "a page of another origin may not drive the provider model",
        );
    }
    next.run(request).await
}

fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => false,
        (Some(origin), Some(host)) => origin.strip_prefix("http://") != Some(&*host),
        (Some(_), None) => true,
    }
}

pub(super) fn wrong(status: StatusCode, text: &str) -> Response {
    whole(Reply::json(status.as_u16(), json!({ "error": text }).to_string()))
}

pub(super) fn done(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(body) => whole(Reply::json(200, body)),
        Err(_) => wrong(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written"),
    }
}

/// Reads an order whatever its content type says, so that a bare `curl -d` works.
pub(super) fn order<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// 400 with the reason.
pub(super) fn senseless(reason: &str) -> Response {
    wrong(StatusCode::BAD_REQUEST, reason)
}

#[derive(Serialize)]
struct FaultsNow<'a> {
    rules: &'a [Rule],
    #[serde(flatten)]
    waiting: Waiting,
}

async fn faults(State(shared): State<Arc<Shared>>) -> Response {
    let waiting = shared.waiting();
    done(&FaultsNow {
        rules: shared.model().faults().rules(),
        waiting,
    })
}

async fn add_faults(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let is_list = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let ordered = if is_list {
        order::<Vec<Fault>>(&body)
    } else {
        order::<Fault>(&body).map(|fault| vec![fault])
    };
    let faults = match ordered {
        Ok(faults) => faults,
        Err(reason) => return senseless(&reason),
    };
    let mut model = shared.model();
    match model.faults().add(faults) {
        Ok(()) => done(&json!({ "rules": model.faults().rules().len() })),
        Err(error) => senseless(&error.to_string()),
    }
}

async fn clear_faults(State(shared): State<Arc<Shared>>) -> Response {
    shared.model().faults().clear();
    done(&json!({ "rules": 0 }))
}

async fn release(State(shared): State<Arc<Shared>>) -> Response {
    done(&json!({ "released": shared.release() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyOrder {
    ms: u64,
}

async fn latency(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    match order::<LatencyOrder>(&body) {
        Ok(LatencyOrder { ms }) if ms <= DELAY_MS_MAX => {
            shared.set_latency(ms);
            done(&json!({ "ms": ms }))
        }
        Ok(LatencyOrder { .. }) => senseless("ms is at most 600000"),
        Err(reason) => senseless(&reason),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RateOrder {
    per_second: u32,
}

async fn rate(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    match order::<RateOrder>(&body) {
        Ok(RateOrder { per_second }) => {
            shared.model().set_pace(per_second);
            done(&json!({ "perSecond": per_second }))
        }
        Err(reason) => senseless(&reason),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClockOrder {
    advance_ms: Option<i64>,
    now_ms: Option<i64>,
}

async fn clock(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    match order::<ClockOrder>(&body) {
        Ok(ClockOrder {
            advance_ms: Some(by_ms),
            now_ms: None,
        }) => shared.advance_clock(by_ms),
        Ok(ClockOrder {
            advance_ms: None,
            now_ms: Some(now_ms),
        }) => shared.set_clock(now_ms),
        Ok(ClockOrder { .. }) => return senseless("give one of advanceMs and nowMs"),
        Err(reason) => return senseless(&reason),
    }
    done(&json!({ "nowMs": shared.now().get() }))
}

async fn reset(State(shared): State<Arc<Shared>>) -> Response {
    shared.reset();
    done(&json!({ "reset": true }))
}

async fn state(State(shared): State<Arc<Shared>>) -> Response {
    let waiting = shared.waiting();
    let model = shared.model();
    let (counts, news) = (model.ledger().counts(), model.news_counts());
    drop(model);
    done(&json!({
        "nowMs": shared.now().get(),
        "latencyMs": shared.latency_ms(),
        "counts": counts,
        "news": news,
        "held": waiting.held,
        "stalled": waiting.stalled,
    }))
}

async fn accepted(State(shared): State<Arc<Shared>>) -> Response {
    let model = shared.model();
    let dropped = model.ledger().counts().accepted_dropped;
    whole(Reply::json(200, model.ledger().accepted_json()).with_header("sealpost-dropped", dropped.to_string()))
}

async fn requests(State(shared): State<Arc<Shared>>) -> Response {
    let model = shared.model();
    let dropped = model.ledger().counts().requests_dropped;
    let list: Vec<&Seen> = model.ledger().requests().iter().collect();
    match serde_json::to_string(&list) {
        Ok(body) => whole(Reply::json(200, body).with_header("sealpost-dropped", dropped.to_string())),
        Err(_) => wrong(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written"),
    }
}
