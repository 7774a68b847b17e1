//! `POST /v1/receipts/resend`: what the provider has to say about mails it took.

use serde_json::json;

use super::failure::database_failed;
use super::http::{Answer, Request};
use crate::config::Config;
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::receipts::{SignatureError, receive, verify};

/// Bytes of an event that are read; a real one has a few thousand.
const EVENT_BYTES_MAX: usize = 256 * 1024;

/// Answers the provider. The signature is checked over the bytes as they came, before anything of them is read.
pub(super) async fn answer<W: World>(world: &W, config: &Config, request: &Request<'_>) -> Answer {
    let Some(body) = request.body.filter(|body| body.len() <= EVENT_BYTES_MAX) else {
        return Answer::problem(413, "body_too_large", "An event holds 256 KiB.");
    };
    let event = match verify(&config.webhooks, request.signature, body, world.clock().now()) {
        Ok(event) => event,
        Err(error) => return refused(world, error),
    };
    match receive(world, config, &event, body).await {
        Ok(reception) => Answer::json(200, json!({ "result": reception.code() })),
        Err(error) => database_failed(world, &error),
    }
}

/// Who cannot show that they are the provider learns why, and nothing is written.
fn refused<W: World>(world: &W, error: SignatureError) -> Answer {
    let code = error.code();
    world
        .log()
        .note(Level::Warn, "receipt_refused", &[("error", Field::Code(code))]);
    match error {
        SignatureError::DoorClosed => Answer::problem(403, code, "No secret is configured for this door."),
        SignatureError::SecretInvalid => Answer::problem(403, code, "The secret of this door cannot be read."),
        SignatureError::Missing => {
            Answer::problem(400, code, "Send the id, the timestamp and the signature as headers.")
        }
        SignatureError::Malformed => Answer::problem(400, code, "The headers of the signature cannot be read."),
        SignatureError::Expired => Answer::problem(401, code, "The event was signed more than five minutes from now."),
        SignatureError::Invalid => Answer::problem(401, code, "No signature fits this body."),
    }
}
