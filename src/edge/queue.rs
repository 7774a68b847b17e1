//! The queue handler, exported by hand: the crate's own macro hides how often a message was delivered, and turns an
//! error into a panic that takes every other request of the instance with it.

use js_sys::{ArrayBuffer, JSON, Object, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use worker::Env;
use worker::worker_sys::{Context, Message, MessageBatch};

use super::log::EdgeLog;
use super::settings;
use super::world::EdgeWorld;
use crate::config::Config;
use crate::consume::{Decision, Delivery, consume, retry_delay};
use crate::dead_letter::consume_dead_letters;
use crate::outbox::envelope::NOT_TEXT_MARK;
use crate::ports::{Field, Level, Log as _};

/// Main and dead-letter queue. Resolves whatever happens to the messages: each gets exactly one of ack and retry. Only a
/// batch that has no readable list of messages is rejected, since an answer without decisions would acknowledge them all.
#[wasm_bindgen]
#[allow(unreachable_pub, reason = "an export to JavaScript has to be public")]
pub async fn queue(batch: MessageBatch, env: Env, _context: Context) -> Result<JsValue, JsValue> {
    let messages: Vec<Message> = batch
        .messages()?
        .iter()
        .map(|message| message.unchecked_into::<Message>())
        .collect();
    let deliveries: Vec<Delivery> = messages.iter().map(delivery).collect();
    let name = batch.queue().map(String::from).unwrap_or_default();
    let decisions = decide(&name, &env, &deliveries).await;
    for (message, decision) in messages.iter().zip(decisions) {
        apply(message, decision);
    }
    Ok(JsValue::UNDEFINED)
}

async fn decide(name: &str, env: &Env, deliveries: &[Delivery]) -> Vec<Decision> {
    let config = match Config::read(&settings::of(env)) {
        Ok(config) => config,
        Err(error) => {
            EdgeLog.note(
                Level::Alarm,
                "configuration_invalid",
                &[
                    ("error", Field::Code(error.code())),
                    (
                        "messages",
                        Field::Number(i64::try_from(deliveries.len()).unwrap_or(i64::MAX)),
                    ),
                ],
            );
            return retry_all(deliveries);
        }
    };
    let world = EdgeWorld::new(&config);
    if name == config.queue_name {
        consume(&world, &config, deliveries).await
    } else if name == config.dead_letter_queue_name {
        consume_dead_letters(&world, &config, deliveries).await
    } else {
        // Wired to a queue that nobody named: neither branch may guess.
        EdgeLog.note(Level::Alarm, "queue_unknown", &[]);
        retry_all(deliveries)
    }
}

fn retry_all(deliveries: &[Delivery]) -> Vec<Decision> {
    deliveries
        .iter()
        .map(|delivery| retry_delay(delivery.attempts))
        .collect()
}

fn delivery(message: &Message) -> Delivery {
    let attempts = Reflect::get(message, &"attempts".into())
        .ok()
        .and_then(|value| value.as_f64())
        .unwrap_or(1.0);
    Delivery {
        body: message.body().ok().map(|body| text_of(&body)),
        attempts: attempts as u32,
    }
}

/// The body, or what stands for one that is no text: it is parked, and there it must still be there to read.
fn text_of(body: &JsValue) -> String {
    if let Some(text) = body.as_string() {
        return text;
    }
    let bytes = match body.dyn_ref::<ArrayBuffer>() {
        Some(buffer) => Some(Uint8Array::new(buffer)),
        None => body.dyn_ref::<Uint8Array>().cloned(),
    };
    let shown = match bytes {
        Some(bytes) => Some(
            bytes
                .to_vec()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>(),
        ),
        None => JSON::stringify(body).ok().and_then(|json| json.as_string()),
    };
    format!("{NOT_TEXT_MARK}{}", shown.unwrap_or_default())
}

/// A call that throws leaves the message without a decision, which the platform takes for an ack; so it is tried as a
/// retry once more, and said.
fn apply(message: &Message, decision: Decision) {
    let done = match decision {
        Decision::Acknowledge => message.ack(),
        Decision::Retry { delay_seconds } => message.retry(delayed(delay_seconds)),
    };
    if done.is_err() {
        EdgeLog.note(Level::Alarm, "decision_not_taken", &[]);
        if message.retry(JsValue::UNDEFINED).is_err() {
            EdgeLog.note(Level::Alarm, "message_without_decision", &[]);
        }
    }
}

fn delayed(seconds: u32) -> JsValue {
    let options = Object::new();
    match Reflect::set(&options, &"delaySeconds".into(), &seconds.into()) {
        Ok(_) => options.into(),
        Err(_) => JsValue::UNDEFINED,
    }
}
