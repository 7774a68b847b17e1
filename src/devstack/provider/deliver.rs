//! The doors that send delivery news: where they go, and one at a time on order.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::control::{done, order, senseless, wrong};
use super::http::fresh_id;
use super::shared::{Shared, Webhook, wall_ms};
use super::webhook::sign;

/// How long a receiver of delivery news may take, in milliseconds: Svix's limit.
const WEBHOOK_MS_MAX: u64 = 15_000;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/webhook", post(webhook))
        .route("/deliver", post(deliver))
}

async fn webhook(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let webhook = match order::<Webhook>(&body) {
        Ok(webhook) => webhook,
        Err(reason) => return senseless(&reason),
    };
    // A secret that cannot sign is found now, not with the first news.
    if let Err(error) = sign(&webhook.secret, "check", 0, "") {
        return senseless(&error.to_string());
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
        Err(reason) => return senseless(&reason),
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
        Err(error) => return senseless(&error.to_string()),
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
