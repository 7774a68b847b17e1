//! Bearer tokens: only their SHA-256 is known here.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::read::SettingError;

/// Tokens of one role; several at a time, so that they can be rotated.
const TOKENS_MAX: usize = 16;

/// The hashes of the tokens of one role. Empty means that the door is closed.
#[derive(Clone, Default)]
pub struct TokenList(Vec<[u8; 32]>);

impl core::fmt::Debug for TokenList {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "TokenList({})", self.0.len())
    }
}

impl TokenList {
    /// Reads SHA-256 hashes in hex, separated by commas. Not set means closed.
    pub(super) fn parse(name: &'static str, text: Option<String>) -> Result<Self, SettingError> {
        let wrong = || SettingError::invalid(name, "must be up to 16 SHA-256 hashes in hex, comma separated");
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let hashes: Vec<[u8; 32]> = text
            .split(',')
            .map(|hash| unhex(hash.trim()))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        if hashes.len() > TOKENS_MAX {
            return Err(wrong());
        }
        Ok(Self(hashes))
    }

    /// Whether there is any token at all.
    pub fn is_closed(&self) -> bool {
        self.0.is_empty()
    }

    /// What a log may call the holder of `token`: the first eight digits of its hash; `None` where it is not one of them.
    pub fn name_of(&self, token: &str) -> Option<String> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let beginning = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        self.admits(token).then_some(beginning)
    }

    /// Whether `token` is one of them. Every hash is compared, in constant time.
    pub fn admits(&self, token: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.0.iter().fold(false, |found, known| {
            found | bool::from(known.as_slice().ct_eq(hash.as_slice()))
        })
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    // Each is looked at: as a number, a pair of digits may have a sign.
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_only_whose_hash_it_knows() {
        let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let list = TokenList::parse("X", Some(format!("{hash}, {}", "0".repeat(64)))).unwrap();
        assert!(list.admits("test"));
        assert!(!list.admits("test "));
        assert!(!list.admits(hash), "the hash is not the token");
        assert!(!TokenList::default().admits(""));
        assert!(TokenList::parse("X", Some("test".into())).is_err());
        assert!(TokenList::parse("X", Some("+f".repeat(32))).is_err());
    }
}
