//! Names that the program gives: rows, attempts, claims.

use crate::ports::Random;

/// Random bytes in an outbox id. 120 bits: no two ever meet, and no id can be guessed from another.
const OUTBOX_RANDOM_BYTES: usize = 15;
/// Random bytes in a claim token or an attempt id.
const TOKEN_RANDOM_BYTES: usize = 16;
/// Length of the longest outbox id we ever made or will: a bound for reading envelopes.
pub const OUTBOX_ID_BYTES_MAX: usize = 64;

/// Longest message id of the provider that is believed, in characters; its own are UUIDs of 36.
pub const MESSAGE_ID_CHARS_MAX: usize = 128;

/// Lower-case Crockford-like digits: legal in a provider tag, in a URL and in an e-mail header, and no two look alike.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A new row's id: the family's prefix, then a random part.
pub fn outbox_id(prefix: &str, random: &impl Random) -> String {
    let mut bytes = [0; OUTBOX_RANDOM_BYTES];
    random.fill(&mut bytes);
    format!("{prefix}_{}", digits(&bytes))
}

/// The proof of one claim; nobody else can know it.
pub fn claim_token(random: &impl Random) -> String {
    token("clm", random)
}

/// A new attempt's id.
pub fn attempt_id(random: &impl Random) -> String {
    token("att", random)
}

/// A new batch's id, which is its idempotency key at the provider: it was never a mail's key, and is never one again.
pub fn batch_id(random: &impl Random) -> String {
    token("bat", random)
}

/// Whether a text from outside can be an outbox id at all. It says nothing about whether there is such a row.
pub fn is_outbox_id(text: &str) -> bool {
    text.len() >= 8
        && text.len() <= OUTBOX_ID_BYTES_MAX
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whether a text can be the provider's id of a mail: one that can be stored, looked up and shown without a second
/// thought.
pub fn is_message_id(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    // An id of dots alone leads elsewhere when it stands in a path.
    let leads_somewhere = text.bytes().any(|byte| byte.is_ascii_alphanumeric());
    (1..=MESSAGE_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(legal) && leads_somewhere
}

/// The row and the environment that a `Message-ID` of ours names, `<{outbox id}.{environment}@{host}>`. The header alone
/// proves nothing: a copy of a database names the same rows, and whoever got the mail can write the same header.
///
/// `None` for a header that is not of this form. The angle brackets may be left out; the host is not looked at.
pub fn message_id_names(header: &str) -> Option<(&str, &str)> {
    let text = header.trim();
    let text = match (text.strip_prefix('<'), text.strip_suffix('>')) {
        (Some(open), Some(_)) => open.strip_suffix('>')?,
        (None, None) => text,
        (Some(_), None) | (None, Some(_)) => return None,
    };
    let (local, host) = text.split_once('@')?;
    // Neither an id nor an environment has a dot.
    let (id, environment) = local.split_once('.')?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let named = is_outbox_id(id) && !environment.is_empty() && environment.bytes().all(legal);
    (named && !host.is_empty() && !host.contains('@')).then_some((id, environment))
}

fn token(prefix: &str, random: &impl Random) -> String {
    let mut bytes = [0; TOKEN_RANDOM_BYTES];
    random.fill(&mut bytes);
    format!("{prefix}_{}", digits(&bytes))
}

/// Five bits a digit; the last digit is filled up with zero bits.
fn digits(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(8).div_ceil(5));
    let (mut pending, mut bits) = (0u16, 0u8);
    for byte in bytes {
        pending = (pending << 8) | u16::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            push_digit(&mut text, pending >> bits);
            pending &= (1 << bits) - 1;
        }
    }
    if bits > 0 {
        push_digit(&mut text, pending << (5 - bits));
    }
    text
}

fn push_digit(text: &mut String, value: u16) {
    if let Some(digit) = DIGITS.get(usize::from(value & 31)) {
        text.push(char::from(*digit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u8);
    impl Random for Fixed {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(self.0);
        }
    }

    #[test]
    fn ids_are_legal_tags_and_are_recognised() {
        for byte in [0, 1, 0x5a, 0xff] {
            let id = outbox_id("inv", &Fixed(byte));
            assert_eq!(id.len(), 4 + 24, "{id}");
            assert!(is_outbox_id(&id), "{id}");
        }
        assert_eq!(outbox_id("inv", &Fixed(0xff)), "inv_zzzzzzzzzzzzzzzzzzzzzzzz");
        assert!(!is_outbox_id("inv"));
        assert!(!is_outbox_id("inv_012345é"));
        assert!(!is_outbox_id(&"x".repeat(65)));
    }

    #[test]
    fn a_message_id_of_ours_names_a_row_and_its_environment() {
        let id = outbox_id("inv", &Fixed(0x5a));
        for environment in ["production", "pre-prod_2", "-"] {
            for header in [
                format!("<{id}.{environment}@mail.example>"),
                format!(" <{id}.{environment}@mail.example>\r\n"),
                format!("{id}.{environment}@x"),
            ] {
                let names = message_id_names(&header);
                assert_eq!(names, Some((id.as_str(), environment)), "{header:?}");
            }
        }
        for header in [
            "",
            "<>",
            "@",
            "<.@x>",
            "<inv_12345678@x>",
            "<inv_12345678.@x>",
            "<.test@x>",
            "<inv.test@x>",
            "<inv_12345678.test>",
            "<inv_12345678.test@>",
            "<inv_12345678.test@x@y>",
            "<inv_12345678.te.st@x>",
            "<inv_12345678.te st@x>",
            "<inv_12345678.tést@x>",
            "<inv_1234567é.test@x>",
            "<inv_12345678.test@x",
            "inv_12345678.test@x>",
            "<inv_12345678@x.test>",
        ] {
            assert_eq!(message_id_names(header), None, "{header:?}");
        }
        assert_eq!(message_id_names("<<inv_12345678.test@x>>"), None);
        let long = "x".repeat(OUTBOX_ID_BYTES_MAX + 1);
        assert_eq!(message_id_names(&format!("<{long}.test@x>")), None);
    }
}
