//! The secrets that keys are made with, and how they change without making a second mail.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _};
use sha2::Sha256;

/// Secrets that are accepted at the same time: each one costs a row for every intent.
pub const SECRETS_MAX: usize = 8;

/// Bytes of a secret at least: 128 bits, which nobody guesses.
pub const SECRET_BYTES_MIN: usize = 16;

/// Bytes of a secret at most: longer ones are hashed down and gain nothing.
pub const SECRET_BYTES_MAX: usize = 256;

/// Bytes of a secret's id, which stands beside every key in the database.
pub const SECRET_ID_BYTES_MAX: usize = 32;

/// One secret. Its `Debug` shows the id alone.
#[derive(Clone)]
pub struct Secret {
    id: String,
    mac: Hmac<Sha256>,
    /// Tells two secrets apart while a ring is read.
    bytes: Vec<u8>,
}

/// Why a setting with secrets was refused. The text is a stable code and names no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing is set, or an entry is empty.
    #[error("secret_missing")]
    Missing,
    /// An entry is not `id:base64`.
    #[error("secret_malformed")]
    Malformed,
    /// An id is not 1 to [`SECRET_ID_BYTES_MAX`] of `a-z`, `0-9`, `_` and `-`.
    #[error("secret_id_invalid")]
    IdInvalid,
    /// Shorter than [`SECRET_BYTES_MIN`] or longer than [`SECRET_BYTES_MAX`].
    #[error("secret_length_invalid")]
    LengthInvalid,
    /// More than [`SECRETS_MAX`] entries.
    #[error("secrets_too_many")]
    TooMany,
    /// Two entries have the same id.
    #[error("secret_id_twice")]
    IdTwice,
    /// Two entries have the same bytes: their keys would be equal, and an intent would collide with itself.
    #[error("secret_twice")]
    SecretTwice,
}

impl Secret {
    /// Reads `id:base64` (the standard alphabet, padded); spaces and line ends around it are cut.
    ///
    /// # Errors
    /// [`SecretError`], for the entry alone.
    pub fn parse(entry: &str) -> Result<Self, SecretError> {
        let entry = entry.trim();
        if entry.is_empty() {
            return Err(SecretError::Missing);
        }
        let (id, text) = entry.split_once(':').ok_or(SecretError::Malformed)?;
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if id.is_empty() || id.len() > SECRET_ID_BYTES_MAX || !id.bytes().all(allowed) {
            return Err(SecretError::IdInvalid);
        }
        let bytes = STANDARD.decode(text).map_err(|_| SecretError::Malformed)?;
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            return Err(SecretError::LengthInvalid);
        }
        let mac = Hmac::new_from_slice(&bytes).map_err(|_| SecretError::LengthInvalid)?;
        Ok(Self {
            id: id.to_owned(),
            mac,
            bytes,
        })
    }

    /// The id, which is no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A fresh HMAC-SHA256 under this secret.
    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        self.mac.clone()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secret({}, ..)", self.id)
    }
}

/// The secrets of the business keys. The first one mints; all are accepted, which means that every intent is
/// recorded under each of them. A secret is accepted everywhere before anything mints with it, and is retired
/// after the longest time in which a fact may be repeated.
#[derive(Clone, Debug)]
pub struct KeyRing {
    mint: Secret,
    older: Vec<Secret>,
}

impl KeyRing {
    /// Reads a setting such as `k2:base64,k1:base64`; the first entry mints.
    ///
    /// # Errors
    /// [`SecretError`] names what is wrong with the setting, and no part of it.
    pub fn parse(setting: &str) -> Result<Self, SecretError> {
        let mut entries = setting.trim().split(',');
        let mint = Secret::parse(entries.next().unwrap_or_default())?;
        let mut ring = Self {
            mint,
            older: Vec::new(),
        };
        for entry in entries {
            let secret = Secret::parse(entry)?;
            if ring.accepted().any(|other| other.id == secret.id) {
                return Err(SecretError::IdTwice);
            }
            if ring.accepted().any(|other| other.bytes == secret.bytes) {
                return Err(SecretError::SecretTwice);
            }
            if ring.accepted().count() >= SECRETS_MAX {
                return Err(SecretError::TooMany);
            }
            ring.older.push(secret);
        }
        Ok(ring)
    }

    /// The secret whose key is the intent's own.
    pub const fn mint(&self) -> &Secret {
        &self.mint
    }

    /// All secrets, the minting one first.
    pub fn accepted(&self) -> impl Iterator<Item = &Secret> {
        core::iter::once(&self.mint).chain(&self.older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "a:YWFhYWFhYWFhYWFhYWFhYQ==";
    const B: &str = "b:YmJiYmJiYmJiYmJiYmJiYg==";

    #[test]
    fn the_first_secret_mints_and_all_are_accepted() {
        let ring = KeyRing::parse(&format!(" {B}, {A}\n")).unwrap();
        assert_eq!(ring.mint().id(), "b");
        assert_eq!(ring.accepted().map(Secret::id).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn a_wrong_setting_is_refused_by_code() {
        let nine: Vec<String> = (0..9)
            .map(|index| format!("k{index}:{}", STANDARD.encode([index; 16])))
            .collect();
        for (setting, code) in [
            ("", "secret_missing"),
            (&format!("{A},"), "secret_missing"),
            ("YWFhYWFhYWFhYWFhYWFhYQ==", "secret_malformed"),
            ("a:not base64", "secret_malformed"),
            (":YWFhYWFhYWFhYWFhYWFhYQ==", "secret_id_invalid"),
            ("A:YWFhYWFhYWFhYWFhYWFhYQ==", "secret_id_invalid"),
            ("a:YWFhYWFhYWFhYWFhYWFh", "secret_length_invalid"),
            (&format!("{A},{A}"), "secret_id_twice"),
            (&format!("{A},c:YWFhYWFhYWFhYWFhYWFhYQ=="), "secret_twice"),
            (&nine.join(","), "secrets_too_many"),
        ] {
            assert_eq!(KeyRing::parse(setting).unwrap_err().to_string(), code);
        }
        assert!(KeyRing::parse(&nine[..8].join(",")).is_ok());
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", KeyRing::parse(A).unwrap());
        assert_eq!(shown, "KeyRing { mint: Secret(a, ..), older: [] }");
    }
}
