//! The doors of delivery news: where they go and whether by themselves, and one at a time on order.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::control::{done, order, senseless, wrong};
use super::postman::{News, fresh_event_id, signing_time_s};
use super::shared::{Shared, Webhook};
use super::webhook::sign;

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
    let Some(svix_id) = wanted.svix_id.or_else(fresh_event_id) else {
        return wrong(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the machine has no randomness to give",
        );
    };
    let timestamp_s = wanted.timestamp_s.unwrap_or_else(signing_time_s);
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
