//! `GET /health`: whether the pipeline behind the doors moves, not only whether the doors answer.

use core::time::Duration;

use serde_json::json;

use super::auth::bearer;
use super::http::{Answer, Request};
use super::pauses::shown;
use crate::config::Config;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, World};
use crate::receipts::WebhookSecrets;
use crate::store::guard::SCHEMA_VERSION;
use crate::store::inspect;

/// Ticks that may be missed before the relay counts as stopped.
const TICKS_MISSED_MAX: u32 = 5;
/// How late the oldest due row may be before the pipeline counts as late.
const LATE_MAX: Duration = Duration::from_secs(600);

/// 200 where intake and pipeline work, 503 otherwise; details for operators only.
pub(super) async fn health<W: World>(world: &W, config: &Config, request: &Request<'_>) -> Answer {
    let now = world.clock().now();
    let mut troubles: Vec<&'static str> = Vec::new();
    let mut pauses = Vec::new();
    let health = match inspect::health(world.database(), now).await {
        Ok((health, list)) => {
            pauses = list;
            Some(health)
        }
        Err(error) => {
            troubles.push(error.code());
            None
        }
    };
    if let Some(health) = &health {
        let too_old = health.schema_version.is_none_or(|version| version < SCHEMA_VERSION);
        let too_new = health.schema_serves_from.is_none_or(|oldest| oldest > SCHEMA_VERSION);
        if too_old || too_new {
            troubles.push("schema_mismatch");
        }
        let silence = config.timing.tick.saturating_mul(TICKS_MISSED_MAX);
        match health.last_tick_at {
            Some(at) if now.since(Millis::new(at)) <= silence => {}
            Some(_) => troubles.push("relay_stopped"),
            None => troubles.push("relay_never_ran"),
        }
        if health
            .oldest_due_at
            .is_some_and(|at| now.since(Millis::new(at)) > LATE_MAX)
        {
            troubles.push("rows_late");
        }
        if health.broker_error.is_some() {
            troubles.push("queue_refuses");
        }
        if health.pause_reason.is_some() {
            troubles.push("sending_paused");
        }
        if config.parked_alarm_at > 0 && health.parked >= i64::from(config.parked_alarm_at) {
            troubles.push("input_parked");
        }
        if config.producers.is_closed() {
            troubles.push("producer_door_closed");
        }
        match &config.webhooks {
            WebhookSecrets::Closed => troubles.push("receipt_door_closed"),
            WebhookSecrets::Malformed => troubles.push("receipt_secret_invalid"),
            WebhookSecrets::Open(_) => {}
        }
    }
    let status = if troubles.is_empty() { "ok" } else { "troubled" };
    let mut body = json!({ "status": status, "troubles": troubles });
    if bearer(request).is_some_and(|token| config.operators.admits(token))
        && let (Some(health), Some(members)) = (&health, body.as_object_mut())
    {
        let time = |at: Option<i64>| at.map(|at| Millis::new(at).to_string());
        members.insert("schemaVersion".to_owned(), json!(health.schema_version));
        members.insert("lastTickAt".to_owned(), json!(time(health.last_tick_at)));
        members.insert("oldestDueAt".to_owned(), json!(time(health.oldest_due_at)));
        members.insert(
            "pause".to_owned(),
            json!({ "reason": health.pause_reason, "until": time(health.pause_until) }),
        );
        members.insert(
            "pauses".to_owned(),
            pauses.iter().map(|pause| shown(pause, now)).collect(),
        );
        members.insert(
            "bulk".to_owned(),
            json!({ "waiting": health.bulk_waiting, "oldestDueAt": time(health.bulk_due_at) }),
        );
        members.insert("queueError".to_owned(), json!(health.broker_error));
        members.insert("parked".to_owned(), json!(health.parked));
        members.insert("unknown".to_owned(), json!(health.unknown));
    }
    Answer::json(if troubles.is_empty() { 200 } else { 503 }, body).with_header("cache-control", "no-store")
}
