//! Why an address was refused, and what its sender can do about it.

use crate::outbox::problem::Fault;

/// Why an address was refused. The text is a stable code and holds nothing of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault().code)]
pub enum AddressError {
    /// Nothing but spaces.
    Empty,
    /// A control character or a line separator, in the address or in the name.
    ControlCharacter,
    /// A character that nobody can see: zero width, direction marks, soft hyphen.
    InvisibleCharacter,
    /// More than one address.
    Several,
    /// A space inside the address.
    Space,
    /// No `@`.
    AtMissing,
    /// More than one `@`.
    AtRepeated,
    /// A local part in quotes: legal, never real, and read in different ways by different mail servers.
    LocalQuoted,
    /// Nothing before the `@`.
    LocalEmpty,
    /// A dot at the start or the end of the local part, or two in a row.
    LocalDots,
    /// A letter beyond ASCII before the `@`: the provider refuses it.
    LocalNotAscii,
    /// A character before the `@` that RFC 5322 does not allow there.
    LocalCharacter,
    /// More than [`LOCAL_BYTES_MAX`](super::LOCAL_BYTES_MAX) bytes before the `@`.
    LocalTooLong,
    /// A domain without a dot, which no public mail server can reach.
    DomainWithoutDot,
    /// Not a domain name (STD 3, IDNA 2008 with UTS 46), or an IP address.
    DomainInvalid,
    /// More than [`EMAIL_BYTES_MAX`](super::EMAIL_BYTES_MAX) bytes.
    TooLong,
    /// More than [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes of display name.
    NameTooLong,
    /// A display name without quotes that holds a character with a meaning of its own.
    NameNeedsQuotes,
    /// Brackets or quotes that do not close, or text after the address.
    Malformed,
}

impl AddressError {
    /// The code and the sentence of the answer.
    pub(crate) const fn fault(self) -> Fault {
        match self {
            Self::Empty => Fault::new("address_empty", "Send an address."),
            Self::ControlCharacter => Fault::new(
                "address_control_character",
                "Remove line breaks and control characters.",
            ),
            Self::InvisibleCharacter => Fault::new("address_invisible_character", "Remove invisible characters."),
            Self::Several => Fault::new(
                "address_several",
                "Send one address; make one intent for each recipient.",
            ),
            Self::Space => Fault::new("address_space", "Remove the space inside the address."),
            Self::AtMissing => Fault::new("address_at_missing", "Send an address with an @."),
            Self::AtRepeated => Fault::new("address_at_repeated", "Send an address with one @."),
            Self::LocalQuoted => Fault::new(
                "address_local_quoted",
                "Send an address whose part before the @ has no quotes.",
            ),
            Self::LocalEmpty => Fault::new("address_local_empty", "Send an address with a part before the @."),
            Self::LocalDots => Fault::new(
                "address_local_dots",
                "Send an address without a dot at either end of the part before the @ and without two in a row.",
            ),
            Self::LocalNotAscii => Fault::new(
                "address_local_not_ascii",
                "Send an address with ASCII characters before the @; the provider takes no others.",
            ),
            Self::LocalCharacter => Fault::new(
                "address_local_character",
                "Remove the character before the @ that no address may have.",
            ),
            Self::LocalTooLong => Fault::new(
                "address_local_too_long",
                "Send an address with at most 64 bytes before the @.",
            ),
            Self::DomainWithoutDot => Fault::new("address_domain_without_dot", "Send an address with a full domain."),
            Self::DomainInvalid => Fault::new("address_domain_invalid", "Send an address with a valid domain name."),
            Self::TooLong => Fault::new("address_too_long", "Send an address of at most 254 bytes."),
            Self::NameTooLong => Fault::new("address_name_too_long", "Send a name of at most 256 bytes."),
            Self::NameNeedsQuotes => Fault::new(
                "address_name_needs_quotes",
                "Put the name in double quotes, or send an object with email and name.",
            ),
            Self::Malformed => Fault::new(
                "address_malformed",
                "Send an address, a name with the address in angle brackets, or an object with email and name.",
            ),
        }
    }
}
