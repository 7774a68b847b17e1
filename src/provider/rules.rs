//! The table of answers that are not 2xx. The first line that fits decides, so closer lines stand above wider ones.
//!
//! The provider's pages disagree on the status of a bad key (400, 401 or 403), hence the lines that look at the
//! message. The sentences are compared in lower case.

use crate::provider::{classify::ThrottleKind, code::ProviderCode};

/// What a line of the table decides; waits are filled in when it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This mail, for good.
    Refuse(ProviderCode),
    /// This mail, perhaps not for good.
    Decline(ProviderCode),
    /// Our side; a person must act.
    Misconfigured(ProviderCode),
    /// A limit.
    Throttle(ThrottleKind),
    /// The first request with this key still runs.
    InProgress,
    /// The key was used with other bytes.
    PayloadConflict,
    /// Nobody can know.
    Doubt(ProviderCode),
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// The first status of the line.
    pub(crate) from: u16,
    /// The last status of the line.
    pub(crate) to: u16,
    /// The error's `name`, where the line asks for one.
    pub(crate) name: Option<&'static str>,
    /// Words in the error's `message`, in lower case, where the line asks for some.
    pub(crate) says: Option<&'static str>,
    /// The line asks for a body that is a JSON object.
    pub(crate) readable: bool,
    /// What it decides.
    pub(crate) verdict: Verdict,
}

/// A line for one status, whatever the body.
const fn any(status: u16, verdict: Verdict) -> Rule {
    range(status, status, verdict)
}

/// A line for a range of statuses, whatever the body.
const fn range(from: u16, to: u16, verdict: Verdict) -> Rule {
    Rule {
        from,
        to,
        name: None,
        says: None,
        readable: false,
        verdict,
    }
}

/// A line for a status with a name.
const fn named(status: u16, name: &'static str, verdict: Verdict) -> Rule {
    Rule {
        name: Some(name),
        ..any(status, verdict)
    }
}

/// A line for a status with words in the message, whatever the name.
const fn says(status: u16, words: &'static str, verdict: Verdict) -> Rule {
    Rule {
        says: Some(words),
        ..any(status, verdict)
    }
}

/// A line for a range of statuses with a body that the provider's application wrote.
const fn readable(from: u16, to: u16, verdict: Verdict) -> Rule {
    Rule {
        readable: true,
        ..range(from, to, verdict)
    }
}

/// The words with which the provider refuses a recipient of an account that may only send tests. They come under the
/// same status and name as an unverified domain, and even mention verifying one, but concern one mail.
const TESTING_WORDS: &str = "only send testing emails to your own email address";

use ProviderCode as Code;
use Verdict::{Decline, Doubt, InProgress, Misconfigured, PayloadConflict, Refuse, Throttle};

/// The table.
pub(crate) static RULES: &[Rule] = &[
    // The address of the service answers with directions: our configuration, and nothing was taken.
    range(300, 399, Misconfigured(Code::EndpointWrong)),
    // 400: the key by its message, then the mail by its name; unread, it proves nothing about the mail.
    says(400, "api key is invalid", Misconfigured(Code::InvalidApiKey)),
    named(400, "invalid_api_key", Misconfigured(Code::InvalidApiKey)),
    named(400, "missing_api_key", Misconfigured(Code::MissingApiKey)),
    named(400, "invalid_idempotency_key", Refuse(Code::InvalidIdempotencyKey)),
    named(400, "validation_error", Refuse(Code::ValidationError)),
    readable(400, 400, Refuse(Code::BadRequest)),
    any(400, Doubt(Code::AnswerUnreadable)),
    // 401: the key.
    named(401, "missing_api_key", Misconfigured(Code::MissingApiKey)),
    named(401, "restricted_api_key", Misconfigured(Code::RestrictedApiKey)),
    named(401, "invalid_api_key", Misconfigured(Code::InvalidApiKey)),
    says(401, "api key is invalid", Misconfigured(Code::InvalidApiKey)),
    any(401, Misconfigured(Code::Unauthorized)),
    any(402, Misconfigured(Code::PaymentRequired)),
    // 403: one kind concerns one mail, every other one all mails.
    says(403, TESTING_WORDS, Refuse(Code::TestingRecipient)),
    named(403, "invalid_api_key", Misconfigured(Code::InvalidApiKey)),
    says(403, "api key is invalid", Misconfigured(Code::InvalidApiKey)),
    named(403, "restricted_api_key", Misconfigured(Code::RestrictedApiKey)),
    named(403, "suspended_api_key", Misconfigured(Code::SuspendedApiKey)),
    says(403, "is not verified", Misconfigured(Code::DomainNotVerified)),
    any(403, Misconfigured(Code::Forbidden)),
    range(404, 405, Misconfigured(Code::EndpointWrong)),
    any(407, Misconfigured(Code::EndpointWrong)),
    any(408, Doubt(Code::RequestInterrupted)),
    // 409: only the provider's own two names mean something; neither means "sent".
    named(409, "concurrent_idempotent_requests", InProgress),
    named(409, "invalid_idempotent_request", PayloadConflict),
    any(409, Doubt(Code::ConflictUnknown)),
    any(410, Misconfigured(Code::EndpointWrong)),
    any(413, Refuse(Code::RequestTooLarge)),
    any(421, Doubt(Code::RequestInterrupted)),
    // 422: this mail, whatever the name.
    named(422, "invalid_attachment", Refuse(Code::InvalidAttachment)),
    named(422, "invalid_from_address", Refuse(Code::InvalidFromAddress)),
    named(422, "invalid_access", Refuse(Code::InvalidAccess)),
    named(422, "invalid_parameter", Refuse(Code::InvalidParameter)),
    named(422, "invalid_region", Refuse(Code::InvalidRegion)),
    named(422, "missing_required_field", Refuse(Code::MissingRequiredField)),
    named(422, "validation_error", Refuse(Code::ValidationError)),
    any(422, Refuse(Code::Unprocessable)),
    any(425, Doubt(Code::RequestInterrupted)),
    // 429: the two quotas by name; everything else is the rate.
    named(429, "daily_quota_exceeded", Throttle(ThrottleKind::Day)),
    named(429, "monthly_quota_exceeded", Throttle(ThrottleKind::Month)),
    any(429, Throttle(ThrottleKind::Rate)),
    // Something about this mail looked wrong: the others go on.
    any(451, Decline(Code::SecurityError)),
    any(499, Doubt(Code::RequestInterrupted)),
    // Any other 4xx.
    readable(400, 499, Refuse(Code::RequestRefused)),
    range(400, 499, Doubt(Code::AnswerUnreadable)),
    // 5xx: the provider may have taken the mail before it failed.
    named(500, "application_error", Doubt(Code::ApplicationError)),
    named(500, "internal_server_error", Doubt(Code::InternalServerError)),
    named(500, "service_unavailable", Doubt(Code::ServiceUnavailable)),
    any(502, Doubt(Code::GatewayError)),
    any(503, Doubt(Code::ServiceUnavailable)),
    any(504, Doubt(Code::GatewayError)),
    range(520, 530, Doubt(Code::GatewayError)),
    range(500, 599, Doubt(Code::ServerError)),
];
