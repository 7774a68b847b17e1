//! Receipts: what the provider says about mails it took.

mod signature;

pub use signature::{
    EVENT_ID_BYTES_MAX, HEADER_NAMES, SIGNATURE_HEADER_BYTES_MAX, SIGNATURES_MAX, SignatureError, SignatureHeaders,
    SigningKeys, TOLERANCE_S, Verified, WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN, WEBHOOK_SECRETS_MAX,
    WebhookSecrets, verify,
};
