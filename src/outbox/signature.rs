//! Whether an event comes from the provider: the signature scheme of Svix, version 1, which Standard Webhooks 1.0.0
//! took over.
//!
//! The sender signs `{id}.{timestamp}.{body}` with HMAC-SHA256. What is checked here are those very bytes: the
//! timestamp as it was written and the body as it came, because a number or a document that is written anew may be
//! another text.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

use crate::outbox::time::Millis;

/// Secrets that are accepted at the same time: two while one is rotated, and some to spare; each costs a hash of the body.
pub const WEBHOOK_SECRETS_MAX: usize = 8;
/// Bytes of a secret at least: 128 bits, which nobody guesses.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 16;
/// Bytes of a secret at most: longer ones are hashed down and gain nothing.
pub const WEBHOOK_SECRET_BYTES_MAX: usize = 256;
/// How far an event's timestamp may lie from now, either way, in seconds (the tolerance of Svix's own libraries).
pub const TOLERANCE_S: u64 = 300;
/// Bytes of an event's id at most: it is kept as a key.
pub const EVENT_ID_BYTES_MAX: usize = 256;
/// Digits of a timestamp at most: as many as the largest 64-bit number has.
const TIMESTAMP_DIGITS_MAX: usize = 19;
/// Bytes of the signature header at most; one signature has 47.
pub const SIGNATURE_HEADER_BYTES_MAX: usize = 4_096;
/// Signatures of one header that are looked at; a sender has one for each of its secrets.
pub const SIGNATURES_MAX: usize = 32;

/// The optional beginning of a signing secret.
const SECRET_PREFIX: &str = "whsec_";
/// The one version of the scheme that is made with a shared secret.
const VERSION: &str = "v1";

/// The three headers of a signed event, as received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignatureHeaders<'a> {
    /// `svix-id` or `webhook-id`.
    pub id: Option<&'a str>,
    /// `svix-timestamp` or `webhook-timestamp`.
    pub timestamp: Option<&'a str>,
    /// `svix-signature` or `webhook-signature`.
    pub signature: Option<&'a str>,
}

/// The names under which the headers come; the first family that is there whole counts.
pub const HEADER_NAMES: [[&str; 3]; 2] = [
    ["svix-id", "svix-timestamp", "svix-signature"],
    ["webhook-id", "webhook-timestamp", "webhook-signature"],
];

/// The secrets that events may be signed with. `Debug` shows none of them.
///
/// A wrong setting is a state of this door and no error of the configuration: mail goes on while nobody hears back.
#[derive(Clone, Debug, Default)]
pub enum WebhookSecrets {
    /// No secret is set: the door is closed.
    #[default]
    Closed,
    /// What is set is no list of secrets: the door is closed too.
    Malformed,
    /// Events signed with one of these are heard.
    Open(SigningKeys),
}

/// 1 to [`WEBHOOK_SECRETS_MAX`] decoded secrets, each ready to hash with. Made by [`WebhookSecrets::parse`] alone.
#[derive(Clone)]
pub struct SigningKeys(Vec<Hmac<Sha256>>);

impl fmt::Debug for SigningKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SigningKeys({})", self.0.len())
    }
}

impl WebhookSecrets {
    /// Reads a setting such as `whsec_base64,whsec_base64`: the standard alphabet, padded, the prefix optional.
    /// Spaces and line ends around an entry are cut. Every entry must be right: with one left out, the events of a
    /// secret that somebody believes to be set would be refused without a trace.
    pub fn parse(setting: Option<&str>) -> Self {
        let Some(setting) = setting else {
            return Self::Closed;
        };
        // One more is read than may be there, and no more than that.
        let keys: Option<Vec<_>> = setting
            .split(',')
            .take(WEBHOOK_SECRETS_MAX.saturating_add(1))
            .map(|entry| key(entry.trim()))
            .collect();
        match keys {
            Some(keys) if keys.len() <= WEBHOOK_SECRETS_MAX => Self::Open(SigningKeys(keys)),
            Some(_) | None => Self::Malformed,
        }
    }

    fn keys(&self) -> Result<&[Hmac<Sha256>], SignatureError> {
        match self {
            Self::Closed => Err(SignatureError::DoorClosed),
            Self::Malformed => Err(SignatureError::SecretInvalid),
            Self::Open(SigningKeys(keys)) => Ok(keys),
        }
    }
}

fn key(entry: &str) -> Option<Hmac<Sha256>> {
    let bytes = STANDARD
        .decode(entry.strip_prefix(SECRET_PREFIX).unwrap_or(entry))
        .ok()?;
    if !(WEBHOOK_SECRET_BYTES_MIN..=WEBHOOK_SECRET_BYTES_MAX).contains(&bytes.len()) {
        return None;
    }
    Hmac::new_from_slice(&bytes).ok()
}

/// Why an event is not believed. The text is the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.code())]
pub enum SignatureError {
    /// We must act: no secret is set.
    DoorClosed,
    /// We must act: what is set is no list of secrets.
    SecretInvalid,
    /// The sender must act: not all three headers are there.
    Missing,
    /// The sender must act: an id, a timestamp or a signature header that no sender of this scheme writes.
    Malformed,
    /// The sender must act: signed more than [`TOLERANCE_S`] ago or ahead. A replay, or a clock that is wrong.
    Expired,
    /// The sender must act: no signature was made with a secret of ours over these bytes.
    Invalid,
}

impl SignatureError {
    /// A stable code for answers and logs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::DoorClosed => "receipt_door_closed",
            Self::SecretInvalid => "receipt_secret_invalid",
            Self::Missing => "signature_missing",
            Self::Malformed => "signature_malformed",
            Self::Expired => "signature_expired",
            Self::Invalid => "signature_invalid",
        }
    }

    /// Whether it is our side that must act: the same event is welcome once the setting is right.
    pub const fn is_ours(self) -> bool {
        match self {
            Self::DoorClosed | Self::SecretInvalid => true,
            Self::Missing | Self::Malformed | Self::Expired | Self::Invalid => false,
        }
    }
}

/// Proof that the provider sent an event: only [`verify`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<'a> {
    event_id: &'a str,
}

impl<'a> Verified<'a> {
    /// The event's id, the same for every repetition and replay of it: 1 to [`EVENT_ID_BYTES_MAX`] visible ASCII
    /// characters without a dot.
    pub const fn event_id(self) -> &'a str {
        self.event_id
    }
}

/// Checks an event's headers against its body, byte for byte as it came.
///
/// # Errors
/// [`SignatureError`]: our own setting first, then the headers' shape, the timestamp, and last the signature, because
/// only that needs the body.
pub fn verify<'a>(
    secrets: &WebhookSecrets,
    headers: SignatureHeaders<'a>,
    body: &[u8],
    now: Millis,
) -> Result<Verified<'a>, SignatureError> {
    let keys = secrets.keys()?;
    let (Some(id), Some(timestamp), Some(signature)) = (headers.id, headers.timestamp, headers.signature) else {
        return Err(SignatureError::Missing);
    };
    if !is_event_id(id) || signature.len() > SIGNATURE_HEADER_BYTES_MAX {
        return Err(SignatureError::Malformed);
    }
    let signed_at_s = unix_seconds(timestamp).ok_or(SignatureError::Malformed)?;
    let signatures = signatures(signature)?;
    if now.get().div_euclid(1_000).abs_diff(signed_at_s) > TOLERANCE_S {
        return Err(SignatureError::Expired);
    }
    // Every key and every signature, whichever fits: how long it takes says nothing about them.
    let mut found = Choice::from(0);
    for key in keys {
        let mut mac = key.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        let expected = STANDARD.encode(mac.finalize().into_bytes());
        for given in &signatures {
            found |= expected.as_bytes().ct_eq(given.as_bytes());
        }
    }
    if bool::from(found) {
        Ok(Verified { event_id: id })
    } else {
        Err(SignatureError::Invalid)
    }
}

/// The signatures of a header that are of our version, at most [`SIGNATURES_MAX`]; spaces stand between them.
/// Versions that we do not know are no fault: a sender may add one.
fn signatures(header: &str) -> Result<Vec<&str>, SignatureError> {
    let mut parts = header.split(' ').filter_map(|part| part.split_once(',')).peekable();
    if parts.peek().is_none() {
        return Err(SignatureError::Malformed);
    }
    Ok(parts
        .take(SIGNATURES_MAX)
        .filter(|(version, _)| *version == VERSION)
        .map(|(_, signature)| signature)
        .collect())
}

/// Visible ASCII. With a dot in it, one signed text could be read as two different events.
fn is_event_id(id: &str) -> bool {
    (1..=EVENT_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.')
}

/// Digits alone: a sign or a fraction is another text for the same second.
fn unix_seconds(text: &str) -> Option<i64> {
    let legal = (1..=TIMESTAMP_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if legal { text.parse().ok() } else { None }
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
