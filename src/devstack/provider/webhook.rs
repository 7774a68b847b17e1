//! Delivery news: the event that the provider sends, and its signature as Svix makes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use super::ledger::Sent;
use super::model::Model;
use crate::outbox::time::Millis;

/// The optional beginning of a signing secret.
const SECRET_PREFIX: &str = "whsec_";
/// What an event's type begins with; the rest is the news.
const TYPE_PREFIX: &str = "email.";
/// The news there are about a mail that was sent, as Resend names them.
const NEWS: [&str; 10] = [
    "sent",
    "delivered",
    "delivery_delayed",
    "bounced",
    "complained",
    "opened",
    "clicked",
    "failed",
    "scheduled",
    "suppressed",
];

/// Why an event cannot be signed or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The secret is not base64, or empty.
    #[error("webhook_secret_invalid")]
    Secret,
    /// The message id holds a dot or a space, or is empty: the signature's parts could not be told apart.
    #[error("webhook_id_invalid")]
    Id,
    /// No accepted mail has this id.
    #[error("webhook_mail_unknown")]
    UnknownMail,
    /// Not one of Resend's types for a mail that was sent.
    #[error("webhook_type_unknown")]
    UnknownType,
}

/// The `svix-signature` header: HMAC-SHA256 over `{id}.{timestamp}.{body}` with the decoded secret, in base64, behind
/// its version (Svix's scheme, version 1; Standard Webhooks 1.0.0 names the same).
///
/// # Errors
/// [`WebhookError`] for a secret or an id that nobody could verify.
pub fn sign(secret: &str, id: &str, timestamp_s: i64, body: &str) -> Result<String, WebhookError> {
    let encoded = secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret);
    let key = STANDARD.decode(encoded).map_err(|_| WebhookError::Secret)?;
    if key.is_empty() {
        return Err(WebhookError::Secret);
    }
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.') {
        return Err(WebhookError::Id);
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| WebhookError::Secret)?;
    mac.update(format!("{id}.{timestamp_s}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

impl Model {
    /// The body of an event about an accepted mail, and the mail's `last_event` with it. `extra` is laid over the
    /// event's data: `bounce`, `suppressed`, `failed`, another `to`; a null takes a field out.
    ///
    /// # Errors
    /// [`WebhookError`] for a mail or a type that nobody knows.
    pub fn event(
        &mut self,
        now: Millis,
        id: &str,
        kind: &str,
        extra: Map<String, Value>,
    ) -> Result<String, WebhookError> {
        let news = kind
            .strip_prefix(TYPE_PREFIX)
            .filter(|news| NEWS.contains(news))
            .ok_or(WebhookError::UnknownType)?;
        let sent = self.ledger.find_mut(id).ok_or(WebhookError::UnknownMail)?;
        news.clone_into(&mut sent.last_event);
        let mut data = data(sent);
        if let Some((name, value)) = usual_detail(news) {
            data.insert(name.to_owned(), value);
        }
        for (name, value) in extra {
            if value.is_null() {
                data.remove(&name);
            } else {
                data.insert(name, value);
            }
        }
        Ok(json!({ "type": kind, "created_at": now.to_string(), "data": data }).to_string())
    }
}

/// The data of every event about a mail. The tags, sent as an array, come back as an object.
fn data(sent: &Sent) -> Map<String, Value> {
    let mail = &sent.mail;
    let mut data = Map::new();
    data.insert("email_id".to_owned(), json!(sent.id));
    data.insert("created_at".to_owned(), json!(sent.accepted_at.to_string()));
    data.insert("from".to_owned(), json!(mail.from));
    data.insert("to".to_owned(), json!(mail.to));
    data.insert("subject".to_owned(), json!(mail.subject));
    if !mail.tags.is_empty() {
        let tags: Map<String, Value> = mail
            .tags
            .iter()
            .map(|tag| (tag.name.clone(), json!(tag.value)))
            .collect();
        data.insert("tags".to_owned(), Value::Object(tags));
    }
    if !mail.headers.is_empty() {
        let headers: Vec<Value> = mail
            .headers
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        data.insert("headers".to_owned(), Value::Array(headers));
    }
    data
}

/// The part that only this kind of news has, in the form that means it plainly.
fn usual_detail(news: &str) -> Option<(&'static str, Value)> {
    match news {
        "bounced" => Some((
            "bounce",
            json!({
                "type": "Permanent",
                "subType": "General",
                "message": "The recipient's mail server rejected the mail.",
                "diagnosticCode": ["smtp; 550 5.1.1 no such user"],
            }),
        )),
        "failed" => Some(("failed", json!({ "reason": "reached_daily_quota" }))),
        "suppressed" => Some((
            "suppressed",
            json!({
                "type": "OnAccountSuppressionList",
                "reason": "previous_bounce",
                "message": "The recipient is on the suppression list.",
                "diagnosticCode": [],
            }),
        )),
        _ => None,
    }
}

#[cfg(test)]
#[path = "webhook_tests.rs"]
mod tests;
