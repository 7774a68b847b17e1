//! Receipts: what the provider says about mails it took.

mod signature;

pub use signature::{HEADER_NAMES, SignatureHeaders};
