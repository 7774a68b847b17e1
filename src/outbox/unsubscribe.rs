//! The link with which a recipient ends one kind of mail: `{outbox id}.{proof}`.
//!
//! The proof is made with the secret of the recipient hash, which is never rotated: a mail may be read years after it
//! was sent, and its link still has to work. There is no end to it either, and nothing personal in it: the row, which
//! stays when everything else is removed, knows whom and which kind of mail the link is about.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;

use super::id::is_outbox_id;
use super::keys::{Parts, Secret};

/// A label of its own: no other proof under this secret can be a link's.
const LABEL: &str = "sealpost/unsubscribe/1";

/// Bytes of the proof: 128 bits, which nobody guesses, in 22 characters.
const PROOF_BYTES: usize = 16;

/// The token of one mail's link. Every character of it may stand in a URL as it is.
pub fn token(secret: &Secret, outbox_id: &str) -> String {
    let digest = parts(secret, outbox_id).into_mac().finalize().into_bytes();
    let proof = digest.get(..PROOF_BYTES).unwrap_or_default();
    format!("{outbox_id}.{}", URL_SAFE_NO_PAD.encode(proof))
}

/// The outbox id of a token that we made; `None` for every other text. The proof is compared in constant time.
pub fn verify<'a>(secret: &Secret, token: &'a str) -> Option<&'a str> {
    let (outbox_id, proof) = token.split_once('.')?;
    if !is_outbox_id(outbox_id) {
        return None;
    }
    let proof = URL_SAFE_NO_PAD.decode(proof).ok()?;
    // A shorter proof would be compared as far as it goes, and be guessed.
    if proof.len() != PROOF_BYTES {
        return None;
    }
    let mac = parts(secret, outbox_id).into_mac();
    mac.verify_truncated_left(&proof).is_ok().then_some(outbox_id)
}

fn parts(secret: &Secret, outbox_id: &str) -> Parts {
    let mut parts = Parts::new(secret, LABEL);
    parts.text(outbox_id);
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "ann_0123456789abcdefghjkmnpq";

    fn secret() -> Secret {
        Secret::parse("recipient:ZmVkY2JhOTg3NjU0MzIxMA==").unwrap()
    }

    #[test]
    fn a_token_never_changes_because_mails_are_read_years_later() {
        let token = token(&secret(), ID);
        assert_eq!(token, "ann_0123456789abcdefghjkmnpq.GL_4ALpk4dVa4bGOO0CpTg");
        assert_eq!(verify(&secret(), &token), Some(ID));
    }

    #[test]
    fn another_rows_proof_a_cut_one_and_a_longer_one_prove_nothing() {
        let secret = secret();
        let ours = token(&secret, ID);
        let (_, proof) = ours.split_once('.').unwrap();
        let other = format!("ann_0123456789abcdefghjkmnpr.{proof}");
        let doubled = format!("{ours}{proof}");
        let mut wrong: Vec<String> = vec![
            String::new(),
            ".".to_owned(),
            ID.to_owned(),
            format!("{ID}."),
            other,
            doubled,
            format!("{ours}="),
            format!("{ours}."),
            format!(" {ours}"),
            ours.to_uppercase(),
            format!("x.{proof}"),
        ];
        wrong.extend(ours.char_indices().map(|(end, _)| ours.get(..end).unwrap().to_owned()));
        for token in wrong {
            assert_eq!(verify(&secret, &token), None, "{token:?}");
        }
    }

    #[test]
    fn another_secret_proves_nothing() {
        let other = Secret::parse("recipient:MDEyMzQ1Njc4OWFiY2RlZg==").unwrap();
        assert_eq!(verify(&other, &token(&secret(), ID)), None);
    }

    proptest! {
        #[test]
        fn every_token_is_verified_and_fits_a_url(id in "[a-z]{3,8}_[a-z0-9]{8,24}") {
            let token = token(&secret(), &id);
            prop_assert_eq!(verify(&secret(), &token), Some(id.as_str()));
            prop_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)));
        }

        #[test]
        fn no_other_text_is_one(text in "\\PC{0,90}") {
            prop_assert_eq!(verify(&secret(), &text), None);
        }

        #[test]
        fn a_changed_character_is_noticed(at in 0_usize..50, with in "[A-Za-z0-9_-]") {
            let ours = token(&secret(), ID);
            let at = at % ours.len();
            let mut changed = ours.clone();
            changed.replace_range(at..=at, &with);
            prop_assert_eq!(verify(&secret(), &changed).is_some(), changed == ours);
        }
    }
}
