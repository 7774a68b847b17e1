//! The kinds of fault, and which of them let the mail through.

use serde::{Deserialize, Serialize};

/// The ways in which a send can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Nothing goes wrong; the answer comes `ms` later.
    Slow,
    /// The mail is accepted, the connection closes without an answer.
    AcceptThenDrop,
    /// The mail is accepted, no answer ever comes.
    AcceptThenStall,
    /// The mail is accepted, the answer stops in the middle of its body.
    StallBodyAccepted,
    /// The mail is accepted, the answer is 200 with half of its JSON.
    TruncatedJson,
    /// Nothing is accepted before a release; then all goes on as if nothing had been.
    Hold,
    /// The mail is accepted at once, the answer waits for a release; until then its key counts as running.
    HoldAccepted,
    /// 200 with `{}`.
    OkWithoutId,
    /// 200 with `{"id":null}`.
    OkNullId,
    /// 200 with an HTML page.
    OkHtml,
    /// 204 and nothing else.
    NoContent,
    /// 500 `internal_server_error`.
    InternalError,
    /// 503 `service_unavailable`.
    ServiceUnavailable,
    /// 502 with an HTML page.
    BadGatewayHtml,
    /// 409 with an HTML page.
    ConflictHtml,
    /// Not accepted, no answer ever comes.
    Stall,
    /// Not accepted, the answer stops after its headers.
    StallAfterHeaders,
    /// Not accepted, the connection closes at once.
    RefuseConnection,
    /// 429 `rate_limit_exceeded`.
    RateLimit,
    /// 429 `daily_quota_exceeded`.
    DailyQuota,
    /// 429 `monthly_quota_exceeded`.
    MonthlyQuota,
    /// 409 `concurrent_idempotent_requests`.
    InProgress,
    /// 409 `invalid_idempotent_request`.
    Conflict,
    /// 403 `validation_error`: the domain of the sender is not verified.
    UnverifiedDomain,
    /// 401 `validation_error`: the key is wrong.
    InvalidKey,
    /// 403 `invalid_api_key`: the key is wrong, in the older wording.
    InvalidKeyOld,
    /// 403 `validation_error`: this recipient is not allowed in testing.
    TestingAddress,
    /// 451 `security_error`: this mail looks wrong.
    SecurityError,
    /// 422 `validation_error` whose text repeats the recipient.
    Refuse,
}

/// Whether a kind lets the mail through before it spoils the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// By its meaning.
    Always,
    /// By its meaning not.
    Never,
    /// The rule may say so; this is what holds when it does not.
    Unless(bool),
}

impl FaultKind {
    /// Whether the mail is accepted under this kind.
    pub const fn accepts(self) -> Accepts {
        match self {
            Self::Slow
            | Self::AcceptThenDrop
            | Self::AcceptThenStall
            | Self::StallBodyAccepted
            | Self::TruncatedJson
            | Self::Hold
            | Self::HoldAccepted => Accepts::Always,
            // JSON of the provider's own: it did its work and forgot to say under which id.
            Self::OkWithoutId | Self::OkNullId => Accepts::Unless(true),
            // Something in front of the provider, or the provider before it did its work.
            Self::OkHtml
            | Self::NoContent
            | Self::InternalError
            | Self::ServiceUnavailable
            | Self::BadGatewayHtml
            | Self::ConflictHtml => Accepts::Unless(false),
            Self::Stall
            | Self::StallAfterHeaders
            | Self::RefuseConnection
            | Self::RateLimit
            | Self::DailyQuota
            | Self::MonthlyQuota
            | Self::InProgress
            | Self::Conflict
            | Self::UnverifiedDomain
            | Self::InvalidKey
            | Self::InvalidKeyOld
            | Self::TestingAddress
            | Self::SecurityError
            | Self::Refuse => Accepts::Never,
        }
    }
}
