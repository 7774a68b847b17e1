//! The names under which answers of the provider are recorded, counted and shown.

/// Declares the enum, its strings and the list of all, so that none of the three can lack one.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What an answer of the provider was about: a closed list, so that no text from outside gets into a row, a
        /// log or a metric label.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ProviderCode {
            $($(#[$doc])* $variant,)*
        }

        impl ProviderCode {
            /// Every code, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name, in snake_case. It is stored: never change one.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    // About this mail alone.
    /// Our idempotency key was not accepted: a defect of ours.
    InvalidIdempotencyKey = "invalid_idempotency_key",
    /// A field was refused, without a closer name.
    ValidationError = "validation_error",
    /// A required field was absent.
    MissingRequiredField = "missing_required_field",
    /// A parameter was refused.
    InvalidParameter = "invalid_parameter",
    /// The sender's address was refused.
    InvalidFromAddress = "invalid_from_address",
    /// An attachment was refused.
    InvalidAttachment = "invalid_attachment",
    /// The access asked for does not exist.
    InvalidAccess = "invalid_access",
    /// The region asked for does not exist.
    InvalidRegion = "invalid_region",
    /// The recipient is not the account's own address, and the account may only send tests.
    TestingRecipient = "testing_recipient",
    /// The request was larger than the provider takes.
    RequestTooLarge = "request_too_large",
    /// Status 400 with an error that has no known name.
    BadRequest = "bad_request",
    /// Status 422 with an error that has no known name.
    Unprocessable = "unprocessable",
    /// Another 4xx status with an error of the provider.
    RequestRefused = "request_refused",
    /// The provider sees a security problem in this mail (status 451); perhaps not for ever.
    SecurityError = "security_error",

    // About our account, key, domain or address of the service: a person must act.
    /// The API key is absent.
    MissingApiKey = "missing_api_key",
    /// The API key is not known.
    InvalidApiKey = "invalid_api_key",
    /// The API key may not send.
    RestrictedApiKey = "restricted_api_key",
    /// The API key or its account is suspended.
    SuspendedApiKey = "suspended_api_key",
    /// The sender's domain is not verified.
    DomainNotVerified = "domain_not_verified",
    /// Status 401 for another reason.
    Unauthorized = "unauthorized",
    /// Status 402: the account's bill.
    PaymentRequired = "payment_required",
    /// Status 403 for another reason, such as a request without a user agent.
    Forbidden = "forbidden",
    /// There is nothing at the configured address: 3xx, 404, 405, 407 or 410.
    EndpointWrong = "endpoint_wrong",

    // Nobody can know whether the mail was taken.
    /// A 2xx answer without a usable message id.
    AnswerWithoutId = "answer_without_id",
    /// A 4xx answer that the provider's application did not write, or that did not arrive whole.
    AnswerUnreadable = "answer_unreadable",
    /// A status that means nothing here.
    StatusUnexpected = "status_unexpected",
    /// The provider gave up waiting (408), will not take early data (425), or a proxy broke off (421, 499).
    RequestInterrupted = "request_interrupted",
    /// A conflict that is neither of the two the provider documents.
    ConflictUnknown = "conflict_unknown",
    /// An error of the provider, by its own name.
    ApplicationError = "application_error",
    /// An error of the provider, by its own name.
    InternalServerError = "internal_server_error",
    /// The provider is not available, by its own name or with status 503.
    ServiceUnavailable = "service_unavailable",
    /// Status 502 or 504, or one that a proxy makes for a server it cannot reach.
    GatewayError = "gateway_error",
    /// Another 5xx status.
    ServerError = "server_error",
    /// No status within the time limit.
    TimedOut = "timed_out",
    /// The connection failed or was reset.
    Disconnected = "disconnected",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = ProviderCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), ProviderCode::ALL.len());
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        );
    }
}
