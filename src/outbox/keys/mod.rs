//! The keys of an intent: which fact it is, what it means, and whom it is for, none of which can be read back.
//!
//! Each is an HMAC-SHA256 over parts that are written one after the other: a label that names the kind and its
//! version, then every part with its type and length, so that no two lists of parts have the same bytes.
//! A text is `t`, its length in bytes as four bytes, its bytes; a whole number is `i` and eight bytes; a count is
//! `n` and four bytes; what is absent is `-`. Numbers have their highest byte first. The database keeps the
//! results for years, so the encoding never changes: a new one gets a new label.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

mod names;
mod secrets;

pub use names::{facts_for, send_id_hash};
pub use secrets::{KeyRing, SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRET_ID_BYTES_MAX, SECRETS_MAX, Secret, SecretError};

use crate::outbox::address::Address;
use crate::outbox::canonical::canonical;
use crate::outbox::identity::{Identity, KeyValue};
use crate::outbox::intent::Intent;
use crate::outbox::time::Millis;

/// The version of the fingerprint's encoding; fingerprints of two versions cannot be compared.
pub const FINGERPRINT_VERSION: u32 = 1;

const TUPLE_LABEL: &str = "sealpost/key/tuple/1";
const CALLER_LABEL: &str = "sealpost/key/caller/1";
const FINGERPRINT_LABEL: &str = "sealpost/fingerprint/1";
const RECIPIENT_LABEL: &str = "sealpost/recipient/1";
const DOMAIN_LABEL: &str = "sealpost/domain/1";

/// What one accepted secret makes of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysOf {
    /// Whose keys they are.
    pub secret_id: String,
    /// See [`business_key`].
    pub key: String,
    /// See [`fingerprint`].
    pub fingerprint: String,
}

/// The keys of an intent under every accepted secret, the minting one first.
pub fn keys_for(ring: &KeyRing, intent: &Intent) -> Vec<KeysOf> {
    ring.accepted()
        .map(|secret| KeysOf {
            secret_id: secret.id().to_owned(),
            key: business_key(secret, &intent.family, &intent.identity, intent.revision),
            fingerprint: fingerprint(secret, intent),
        })
        .collect()
}

/// Which fact it is: equal for two intents exactly where they are the same mail. 64 hexadecimal digits.
///
/// A caller's own key and a family's tuple have labels of their own and never meet.
pub fn business_key(secret: &Secret, family: &str, identity: &Identity, revision: u32) -> String {
    let label = match identity {
        Identity::Tuple(_) => TUPLE_LABEL,
        Identity::Caller(_) => CALLER_LABEL,
    };
    let mut parts = Parts::new(secret, label);
    parts.text(family);
    parts.integer(i64::from(revision));
    parts.identity(identity);
    parts.finish()
}

/// What it means: recipient, letter, tags, window and attachments. Two intents with one key and two fingerprints contradict
/// each other. The recipient counts by what makes it one person ([`Address::hash_input`]). 64 hexadecimal digits.
pub fn fingerprint(secret: &Secret, intent: &Intent) -> String {
    let letter = &intent.letter;
    let mut parts = Parts::new(secret, FINGERPRINT_LABEL);
    parts.text(&letter.to.hash_input());
    match &letter.to.name {
        Some(name) => parts.text(name),
        None => parts.absent(),
    }
    parts.text(letter.body.kind());
    parts.text(&canonical(&letter.body.to_value()));
    parts.count(letter.tags.len());
    for (name, value) in &letter.tags {
        parts.text(name);
        parts.text(value);
    }
    parts.time(intent.not_before);
    parts.time(intent.not_after);
    // Nothing where there are none: what was recorded before there were any keeps its fingerprint.
    if !intent.attachments.is_empty() {
        parts.text("attachments");
        parts.count(intent.attachments.len());
        for attachment in &intent.attachments {
            parts.text(&attachment.file_name);
            match &attachment.content_type {
                Some(content_type) => parts.text(content_type),
                None => parts.absent(),
            }
            parts.text(&attachment.content);
        }
    }
    parts.finish()
}

/// Whom it is for, with a secret of its own that never changes: suppressions are found by it. 64 hexadecimal digits.
pub fn recipient_hash(secret: &Secret, address: &Address) -> String {
    let mut parts = Parts::new(secret, RECIPIENT_LABEL);
    parts.text(&address.hash_input());
    parts.finish()
}

/// Which domain it goes to, with the recipients' secret under a label of its own: mails to one domain share a pace.
/// 64 hexadecimal digits.
pub fn domain_hash(secret: &Secret, address: &Address) -> String {
    let mut parts = Parts::new(secret, DOMAIN_LABEL);
    // The domain of a parsed address is lower-case ASCII already; the last @ is the one before it.
    let domain = address.email.rsplit('@').next().unwrap_or_default();
    parts.text(&domain.to_ascii_lowercase());
    parts.finish()
}

/// Writes parts into an HMAC, as the head of this file says.
pub(super) struct Parts(Hmac<Sha256>);

impl Parts {
    pub(super) fn new(secret: &Secret, label: &str) -> Self {
        let mut parts = Self(secret.mac());
        parts.text(label);
        parts
    }

    pub(super) fn text(&mut self, text: &str) {
        self.0.update(b"t");
        self.length(text.len());
        self.0.update(text.as_bytes());
    }

    fn identity(&mut self, identity: &Identity) {
        match identity {
            Identity::Caller(key) => self.text(key),
            Identity::Tuple(fields) => {
                self.count(fields.len());
                for (name, value) in fields {
                    self.text(name);
                    match value {
                        KeyValue::Text(text) => self.text(text),
                        KeyValue::Integer(integer) => self.integer(*integer),
                    }
                }
            }
        }
    }

    fn integer(&mut self, integer: i64) {
        self.0.update(b"i");
        self.0.update(&integer.to_be_bytes());
    }

    fn count(&mut self, count: usize) {
        self.0.update(b"n");
        self.length(count);
    }

    fn absent(&mut self) {
        self.0.update(b"-");
    }

    fn time(&mut self, time: Option<Millis>) {
        match time {
            Some(time) => self.integer(time.get()),
            None => self.absent(),
        }
    }

    /// Every part is bounded far below 4 GiB where it is read; the cap is never reached.
    fn length(&mut self, length: usize) {
        self.0.update(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }

    /// The HMAC over all parts, for a proof that is compared and not stored.
    pub(super) fn into_mac(self) -> Hmac<Sha256> {
        self.0
    }

    fn finish(self) -> String {
        let digest = self.0.finalize().into_bytes();
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
        let digits = digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        digits.collect()
    }
}

#[cfg(test)]
mod tests;
