//! The doors under `/_/`, which the real provider does not have: faults, clock, memory, delivery news.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::Reply;
use super::fault::{DELAY_MS_MAX, Fault, Rule};
use super::http::{fresh_id, whole};
use super::ledger::Seen;
use super::shared::{Shared, Waiting, Webhook, wall_ms};
use super::webhook::sign;

/// How long a receiver of delivery news may take, in milliseconds: Svix's limit.
const WEBHOOK_MS_MAX: u64 = 15_000;

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
        .route("/webhook", post(webhook))
        .route("/deliver", post(deliver))
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

fn wrong(status: StatusCode, text: &str) -> Response {
    whole(Reply::json(status.as_u16(), json!({ "error": text }).to_string()))
}

fn done(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(body) => whole(Reply::json(200, body)),
        Err(_) => wrong(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written"),
    }
}

/// Reads an order whatever its content type says, so that a bare `curl -d` works.
fn order<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    serde_json::from_slice(body).map_err(|error| wrong(StatusCode::BAD_REQUEST, &error.to_string()))
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
        Err(response) => return response,
    };
    let mut model = shared.model();
    match model.faults().add(faults) {
        Ok(()) => done(&json!({ "rules": model.faults().rules().len() })),
        Err(error) => wrong(StatusCode::BAD_REQUEST, &error.to_string()),
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
        Ok(LatencyOrder { .. }) => wrong(StatusCode::BAD_REQUEST, "ms is at most 600000"),
        Err(response) => response,
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
        Err(response) => response,
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
        Ok(ClockOrder { .. }) => return wrong(StatusCode::BAD_REQUEST, "give one of advanceMs and nowMs"),
        Err(response) => return response,
    }
    done(&json!({ "nowMs": shared.now().get() }))
}

async fn reset(State(shared): State<Arc<Shared>>) -> Response {
    shared.reset();
    done(&json!({ "reset": true }))
}

async fn state(State(shared): State<Arc<Shared>>) -> Response {
    let waiting = shared.waiting();
    let counts = shared.model().ledger().counts();
    done(&json!({
        "nowMs": shared.now().get(),
        "latencyMs": shared.latency_ms(),
        "counts": counts,
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

async fn webhook(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let webhook = match order::<Webhook>(&body) {
        Ok(webhook) => webhook,
        Err(response) => return response,
    };
    // A secret that cannot sign is found now, not with the first news.
    if let Err(error) = sign(&webhook.secret, "check", 0, "") {
        return wrong(StatusCode::BAD_REQUEST, &error.to_string());
    }
    let answer = done(&json!({ "url": webhook.url }));
    shared.set_webhook(Some(webhook));
    answer
}

/// Delivery news to send.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeliverOrder {
    /// The provider's message id.
    id: String,
    /// `email.delivered` and the like.
    #[serde(rename = "type")]
    kind: String,
    /// Laid over the event's data; a null takes a field out.
    #[serde(default)]
    data: Map<String, Value>,
    /// The id of an earlier delivery, to send the same one again; a fresh one otherwise.
    svix_id: Option<String>,
    /// The signed time in Unix seconds; now on the machine's clock otherwise, because the receiver compares it with its own.
    timestamp_s: Option<i64>,
    /// Another secret than the configured one, to send news that must be refused.
    secret: Option<String>,
}

async fn deliver(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let wanted = match order::<DeliverOrder>(&body) {
        Ok(wanted) => wanted,
        Err(response) => return response,
    };
    let Some(target) = shared.webhook() else {
        return wrong(
            StatusCode::CONFLICT,
            "no webhook is configured: POST /_/webhook {url, secret} first",
        );
    };
    let Ok(fresh) = fresh_id() else {
        return wrong(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the machine has no randomness to give",
        );
    };
    let svix_id = wanted
        .svix_id
        .unwrap_or_else(|| format!("msg_{}", fresh.replace('-', "")));
    let timestamp_s = wanted.timestamp_s.unwrap_or_else(|| wall_ms().div_euclid(1_000));
    let secret = wanted.secret.unwrap_or(target.secret);
    let event = shared
        .model()
        .event(shared.now(), &wanted.id, &wanted.kind, wanted.data);
    let signed = event.and_then(|body| Ok((sign(&secret, &svix_id, timestamp_s, &body)?, body)));
    let (signature, body) = match signed {
        Ok(signed) => signed,
        Err(error) => return wrong(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let news = News {
        url: target.url,
        svix_id: svix_id.clone(),
        timestamp_s,
        signature: signature.clone(),
        body: body.clone(),
    };
    match tokio::task::spawn_blocking(move || news.post()).await {
        Ok(Ok(status)) => done(&json!({
            "status": status, "svixId": svix_id, "timestampS": timestamp_s, "signature": signature, "body": body,
        })),
        Ok(Err(text)) => wrong(StatusCode::BAD_GATEWAY, &text),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// One signed event on its way.
struct News {
    url: String,
    svix_id: String,
    timestamp_s: i64,
    signature: String,
    body: String,
}

impl News {
    /// Posts it once and gives the receiver's status.
    fn post(self) -> Result<u16, String> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_millis(WEBHOOK_MS_MAX)))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .into();
        let sent = agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header("user-agent", "Svix-Webhooks/1 (provider model)")
            .header("svix-id", &self.svix_id)
            .header("svix-timestamp", self.timestamp_s.to_string())
            .header("svix-signature", &self.signature)
            .send(&self.body);
        sent.map(|response| response.status().as_u16())
            .map_err(|error| format!("the receiver did not answer: {error}"))
    }
}
