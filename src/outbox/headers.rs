//! Header fields that a caller may add to ready content, and the ones that are never a caller's.

use super::address::breaks_a_header;
use super::problem::Fault;

/// Added headers of one mail; far more than any mail needs.
pub const HEADERS_MAX: usize = 20;

/// Bytes of a header's name; the longest registered names have about 40.
pub const HEADER_NAME_BYTES_MAX: usize = 64;

/// Bytes of a header's value, and of a subject: a line of RFC 5322 (section 2.1.1) at its longest.
pub const HEADER_VALUE_BYTES_MAX: usize = 998;

const NAME_INVALID: Fault = Fault::new(
    "header_name_invalid",
    "Send a header name of 1 to 64 letters, digits and hyphens or other token characters.",
);
const NAME_RESERVED: Fault = Fault::new(
    "header_reserved",
    "Remove this header; it is set from the fields of the intent, or by the mail system.",
);
const VALUE_EMPTY: Fault = Fault::new("header_value_empty", "Send a value or leave the header out.");
const VALUE_TOO_LONG: Fault = Fault::new("header_value_too_long", "Send a value of at most 998 bytes.");
const VALUE_CONTROL: Fault = Fault::new("header_control_character", "Remove line breaks and control characters.");

/// Headers that say who, to whom, when and how, or that carry proof of it.
const RESERVED: [&str; 25] = [
    "apparently-to",
    "authentication-results",
    "bcc",
    "cc",
    "date",
    "delivered-to",
    "dkim-signature",
    "domainkey-signature",
    "envelope-to",
    "errors-to",
    "from",
    "idempotency-key",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "message-id",
    "mime-version",
    "received",
    "reply-to",
    "return-path",
    "return-receipt-to",
    "sender",
    "subject",
    "to",
    "x-envelope-to",
    "x-original-to",
];

/// Whole families of such headers: MIME, resending, ARC, and what the provider, its carrier and we set.
const RESERVED_PREFIXES: [&str; 8] = [
    "arc-",
    "content-",
    "received-",
    "resend-",
    "resent-",
    "x-resend-",
    "x-sealpost-",
    "x-ses-",
];

/// Checks the name of a header: a token (RFC 9110, section 5.6.2), which is stricter than the printable ASCII
/// of RFC 5322 and is what mail servers take, and not a reserved one.
pub(crate) fn check_name(name: &str) -> Result<(), Fault> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > HEADER_NAME_BYTES_MAX || !name.bytes().all(token) {
        return Err(NAME_INVALID);
    }
    let name = name.to_ascii_lowercase();
    if RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(NAME_RESERVED);
    }
    Ok(())
}

/// Checks the value of a header or a subject: one line that says something.
pub(crate) fn check_value(value: &str) -> Result<(), Fault> {
    if value.contains(breaks_a_header) {
        return Err(VALUE_CONTROL);
    }
    if value.trim().is_empty() {
        return Err(VALUE_EMPTY);
    }
    if value.len() > HEADER_VALUE_BYTES_MAX {
        return Err(VALUE_TOO_LONG);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_callers_own_headers() {
        for name in [
            "X-Entity-Ref-ID",
            "x-a",
            "In-Reply-To",
            "References",
            "Auto-Submitted",
            "X_A.b",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        assert_eq!(check_value("<1@b.example> caf\u{e9}"), Ok(()));
    }

    #[test]
    fn a_name_cannot_smuggle_a_second_header() {
        for name in [
            "",
            "X-A\r\nBcc",
            "X-A: b\nBcc",
            "X A",
            "X:",
            "X\u{e4}",
            "\"X\"",
            &"x".repeat(65),
        ] {
            assert_eq!(check_name(name), Err(NAME_INVALID), "{name:?}");
        }
    }

    #[test]
    fn reserved_headers_are_refused_in_any_case() {
        for name in [
            "From",
            "TO",
            "cc",
            "Bcc",
            "subject",
            "Reply-To",
            "Sender",
            "Date",
            "Message-ID",
            "Return-Path",
            "Received",
            "Content-Type",
            "CONTENT-TRANSFER-ENCODING",
            "MIME-Version",
            "DKIM-Signature",
            "Resend-Idempotency-Key",
            "Resent-To",
            "Idempotency-Key",
            "List-Unsubscribe",
            "List-Unsubscribe-Post",
            "X-Sealpost-Id",
            "Received-SPF",
            "ARC-Seal",
            "X-SES-CONFIGURATION-SET",
        ] {
            assert_eq!(check_name(name), Err(NAME_RESERVED), "{name}");
        }
    }

    #[test]
    fn a_value_is_one_line_that_says_something() {
        for value in [
            "ok\r\nBcc: z@example.com",
            "a\nb",
            "a\rb",
            "a\0b",
            "a\tb",
            "a\u{7f}",
            "a\u{85}b",
            "a\u{2028}b",
            "\u{2029}",
        ] {
            assert_eq!(check_value(value), Err(VALUE_CONTROL), "{value:?}");
        }
        assert_eq!(check_value(" "), Err(VALUE_EMPTY));
        assert_eq!(check_value(&"a".repeat(998)), Ok(()));
        assert_eq!(check_value(&"a".repeat(999)), Err(VALUE_TOO_LONG));
    }
}
