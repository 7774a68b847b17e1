//! The seal: a request body frozen byte for byte with its SHA-256.
//!
//! The provider compares bodies under one key, so every attempt must send the bytes of the first. A [`Sealed`] can
//! only be made by sealing a fresh body or by checking a stored one against its hash.

use sha2::{Digest, Sha256};

/// Why a stored body is not the one that was sealed. The text is a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The hash of the body is not the stored one: neither may be sent.
    #[error("seal_mismatch")]
    Mismatch,
}

/// A request body that may be sent. It does not print its body, which holds personal data.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    body: String,
    sha256_hex: String,
}

/// Freezes a request body.
pub fn seal(body: String) -> Sealed {
    let sha256_hex = sha256_hex(body.as_bytes());
    Sealed { body, sha256_hex }
}

impl Sealed {
    /// Takes a stored body back, if it is still the one that was sealed.
    ///
    /// # Errors
    /// [`SealError::Mismatch`] where the hash differs; it must be 64 lower-case hex digits, as [`seal`] writes them.
    pub fn verify(body: String, sha256_hex: &str) -> Result<Self, SealError> {
        let sealed = seal(body);
        if sealed.sha256_hex == sha256_hex {
            Ok(sealed)
        } else {
            Err(SealError::Mismatch)
        }
    }

    /// The request body, byte for byte.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// SHA-256 of the body: 64 lower-case hex digits.
    pub fn sha256_hex(&self) -> &str {
        &self.sha256_hex
    }
}

impl core::fmt::Debug for Sealed {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Sealed")
            .field("bytes", &self.body.len())
            .field("sha256_hex", &self.sha256_hex)
            .finish()
    }
}

fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // FIPS 180-2, appendix B.1: the hash of "abc".
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn seals_with_sha_256() {
        let sealed = seal("abc".to_owned());
        assert_eq!(sealed.sha256_hex(), ABC);
        assert_eq!(sealed.body(), "abc");
    }

    #[test]
    fn only_the_sealed_bytes_verify() {
        assert_eq!(Sealed::verify("abc".to_owned(), ABC), Ok(seal("abc".to_owned())));
        assert_eq!(Sealed::verify("abd".to_owned(), ABC), Err(SealError::Mismatch));
        assert_eq!(Sealed::verify("abc ".to_owned(), ABC), Err(SealError::Mismatch));
        assert_eq!(Sealed::verify("abc".to_owned(), ""), Err(SealError::Mismatch));
        assert_eq!(
            Sealed::verify("abc".to_owned(), &ABC.to_uppercase()),
            Err(SealError::Mismatch)
        );
    }

    #[test]
    fn debug_shows_no_body() {
        let shown = format!("{:?}", seal("ada@example.com".to_owned()));
        assert!(!shown.contains("ada"), "{shown}");
    }
}
