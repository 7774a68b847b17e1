//! Whether an event comes from the provider: the signature scheme of Svix, version 1.

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
