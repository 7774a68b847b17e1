//! What a fault makes of an answer, and what the wire does with it.

use super::answer::{ErrorName, Refusal, Reply};
use super::fault::{Fault, FaultKind, RetryAfter};
use super::rate::rate_limit_exceeded;

/// What happens to the answer on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// It arrives.
    Whole,
    /// The connection closes and nothing arrives.
    Cut,
    /// Nothing arrives, and the connection stays open.
    Stall,
    /// The status and the headers arrive, half of the body at most, and the connection stays open.
    StallBody,
    /// It arrives after a release.
    AfterRelease,
}

/// The limit that a 429 by fault names when the model itself has none: Resend's default, in requests a second.
const USUAL_LIMIT: u32 = 5;
/// The `Retry-After` of a 429 by fault when the rule names none, in seconds: Resend's window.
const USUAL_RETRY_AFTER_S: u64 = 1;

/// The answer to a request under a fault. `honest` is what the model would answer without it, for the kinds that let
/// the mail through; `to` is repeated by the kinds that repeat a recipient.
pub fn answer(fault: &Fault, honest: Option<Reply>, to: &[String], per_second: u32) -> (Reply, Wire) {
    let recipient = to.first().map_or("", String::as_str);
    let limit = if per_second == 0 { USUAL_LIMIT } else { per_second };
    let error = |status, name, message: &str| Refusal::new(status, name, message).reply();
    // A kind that always lets the mail through is never asked without an honest answer.
    let honest = || honest.clone().unwrap_or_else(|| Reply::empty(200));
    let (reply, wire) = match fault.kind {
        FaultKind::Slow | FaultKind::Hold => (honest(), Wire::Whole),
        FaultKind::HoldAccepted => (honest(), Wire::AfterRelease),
        FaultKind::AcceptThenDrop | FaultKind::RefuseConnection => (Reply::empty(200), Wire::Cut),
        FaultKind::AcceptThenStall | FaultKind::Stall => (Reply::empty(200), Wire::Stall),
        FaultKind::StallBodyAccepted => (honest(), Wire::StallBody),
        FaultKind::StallAfterHeaders => (Reply::json(200, ""), Wire::StallBody),
        FaultKind::TruncatedJson => {
            let mut reply = honest();
            reply.body = half(&reply.body);
            (reply, Wire::Whole)
        }
        FaultKind::OkWithoutId => (Reply::json(200, "{}"), Wire::Whole),
        FaultKind::OkNullId => (Reply::json(200, r#"{"id":null}"#), Wire::Whole),
        FaultKind::OkHtml => (Reply::html(200, "Welcome"), Wire::Whole),
        FaultKind::NoContent => (Reply::empty(204), Wire::Whole),
        FaultKind::InternalError => (
            error(500, ErrorName::InternalServerError, "An unexpected error occurred."),
            Wire::Whole,
        ),
        FaultKind::ServiceUnavailable => (
            error(
                503,
                ErrorName::ServiceUnavailable,
                "The service is temporarily unavailable.",
            ),
            Wire::Whole,
        ),
        FaultKind::BadGatewayHtml => (Reply::html(502, "502 Bad Gateway"), Wire::Whole),
        FaultKind::ConflictHtml => (Reply::html(409, "409 Conflict"), Wire::Whole),
        FaultKind::RateLimit => (rate_limit_exceeded(limit).reply(), Wire::Whole),
        FaultKind::DailyQuota => (
            error(
                429,
                ErrorName::DailyQuotaExceeded,
                "You have reached your daily email quota.",
            ),
            Wire::Whole,
        ),
        FaultKind::MonthlyQuota => (
            error(
                429,
                ErrorName::MonthlyQuotaExceeded,
                "You have reached your monthly email quota.",
            ),
            Wire::Whole,
        ),
        FaultKind::InProgress => (concurrent().reply(), Wire::Whole),
        FaultKind::Conflict => (other_payload().reply(), Wire::Whole),
        FaultKind::UnverifiedDomain => {
            let text = "The domain is not verified. Please, add and verify your domain on the provider's page.";
            (error(403, ErrorName::ValidationError, text), Wire::Whole)
        }
        FaultKind::InvalidKey => (
            error(401, ErrorName::ValidationError, "API key is invalid"),
            Wire::Whole,
        ),
        FaultKind::InvalidKeyOld => (error(403, ErrorName::InvalidApiKey, "API key is invalid"), Wire::Whole),
        FaultKind::TestingAddress => {
            let text = "You can only send testing emails to your own email address. To send emails to other recipients, \
                        please verify a domain, and change the `from` address to an email using this domain.";
            (error(403, ErrorName::ValidationError, text), Wire::Whole)
        }
        FaultKind::SecurityError => {
            let text = "We may have found a security issue with the request.";
            (error(451, ErrorName::SecurityError, text), Wire::Whole)
        }
        FaultKind::Refuse => (
            Refusal::field(format!("Invalid `to` field: {recipient}")).reply(),
            Wire::Whole,
        ),
    };
    let usual = (fault.kind == FaultKind::RateLimit).then_some(RetryAfter::Seconds(USUAL_RETRY_AFTER_S));
    match fault.retry_after.clone().or(usual) {
        Some(value) => (reply.with_header("retry-after", value.header()), wire),
        None => (reply, wire),
    }
}

/// 409 while the first request under the key runs.
pub fn concurrent() -> Refusal {
    Refusal::new(
        409,
        ErrorName::ConcurrentIdempotentRequests,
        "There is another request in progress with the same idempotency key. Please retry this request later.",
    )
}

/// 409 for other bytes under a used key.
pub fn other_payload() -> Refusal {
    Refusal::new(
        409,
        ErrorName::InvalidIdempotentRequest,
        "This idempotency key has already been used on a request that had a different payload. Retrying this request is \
         useless without changing the idempotency key or payload.",
    )
}

/// The first half of a text, by characters.
pub fn half(text: &str) -> String {
    text.chars().take(text.chars().count() / 2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, error name (empty for none) and wire of each kind that never accepts.
    #[test]
    fn each_refusal_has_the_status_and_name_of_the_real_one() {
        let cases = [
            (FaultKind::RateLimit, 429, "rate_limit_exceeded"),
            (FaultKind::DailyQuota, 429, "daily_quota_exceeded"),
            (FaultKind::MonthlyQuota, 429, "monthly_quota_exceeded"),
            (FaultKind::InProgress, 409, "concurrent_idempotent_requests"),
            (FaultKind::Conflict, 409, "invalid_idempotent_request"),
            (FaultKind::UnverifiedDomain, 403, "validation_error"),
            (FaultKind::TestingAddress, 403, "validation_error"),
            (FaultKind::InvalidKey, 401, "validation_error"),
            (FaultKind::InvalidKeyOld, 403, "invalid_api_key"),
            (FaultKind::SecurityError, 451, "security_error"),
            (FaultKind::Refuse, 422, "validation_error"),
            (FaultKind::InternalError, 500, "internal_server_error"),
            (FaultKind::ServiceUnavailable, 503, "service_unavailable"),
        ];
        for (kind, status, name) in cases {
            let (reply, wire) = answer(&Fault::once(kind), None, &["ada@example.com".into()], 0);
            let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
            assert_eq!((reply.status, wire), (status, Wire::Whole), "{kind:?}");
            assert_eq!(body["name"], name, "{kind:?}");
            assert_eq!(body["statusCode"], status, "{kind:?}");
        }
    }

    #[test]
    fn a_refusal_of_a_recipient_repeats_the_recipient() {
        let (reply, _) = answer(&Fault::once(FaultKind::Refuse), None, &["ada@example.com".into()], 0);
        assert!(reply.body.contains("ada@example.com"));
    }

    #[test]
    fn retry_after_is_the_rules_own_or_the_rate_limits_usual_one() {
        let mut fault = Fault::once(FaultKind::RateLimit);
        assert_eq!(answer(&fault, None, &[], 0).0.header("retry-after"), Some("1"));
        fault.retry_after = Some(RetryAfter::Text("Wed, 21 Oct 2026 07:28:00 GMT".into()));
        assert_eq!(
            answer(&fault, None, &[], 0).0.header("retry-after"),
            Some("Wed, 21 Oct 2026 07:28:00 GMT")
        );
        assert_eq!(
            answer(&Fault::once(FaultKind::DailyQuota), None, &[], 0)
                .0
                .header("retry-after"),
            None
        );
    }

    #[test]
    fn a_truncated_answer_is_no_json() {
        let (reply, _) = answer(
            &Fault::once(FaultKind::TruncatedJson),
            Some(Reply::accepted("abc-123")),
            &[],
            0,
        );
        assert!(!reply.body.is_empty());
        assert!(serde_json::from_str::<serde_json::Value>(&reply.body).is_err());
    }
}
