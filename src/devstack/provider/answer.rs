//! What the model says: whole answers, and the error bodies of Resend's API.

use serde::Serialize;

/// One HTTP answer, ready for the wire or for a simulated one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The `Content-Type` header; `None` for an answer without a body.
    pub content_type: Option<&'static str>,
    /// Further headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body as it goes out, whole or not.
    pub body: String,
}

/// `Content-Type` of every regular answer.
const JSON: &str = "application/json; charset=utf-8";
/// `Content-Type` of the answers that something in front of the provider gives.
const HTML: &str = "text/html; charset=utf-8";

impl Reply {
    /// A JSON answer.
    pub fn json(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: Some(JSON),
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// An HTML answer, as load balancers and captive portals give them.
    pub fn html(status: u16, title: &str) -> Self {
        let body =
            format!("<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>");
        Self {
            status,
            content_type: Some(HTML),
            headers: Vec::new(),
            body,
        }
    }

    /// A plain text answer, as the network in front of the provider gives it.
    pub fn text(status: u16, body: &str) -> Self {
        Self {
            status,
            content_type: Some("text/plain; charset=utf-8"),
            headers: Vec::new(),
            body: body.to_owned(),
        }
    }

    /// An answer that has a status and nothing else.
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            content_type: None,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    /// The answer to an accepted send, and to every replay of it: `{"id": ...}`.
    pub fn accepted(id: &str) -> Self {
        Self::json(200, serde_json::json!({ "id": id }).to_string())
    }

    /// The same answer with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The error names that Resend documents and this model uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorName {
    /// 400: the `Idempotency-Key` is empty or longer than 256 characters.
    InvalidIdempotencyKey,
    /// A field, a key, a domain or a recipient is wrong; Resend uses it with 400, 401, 403 and 422.
    ValidationError,
    /// 401: no `Authorization` header.
    MissingApiKey,
    /// 401: a key that may only send was used to read.
    RestrictedApiKey,
    /// 403: a wrong key, as Resend named it before it answered 401 `validation_error`.
    InvalidApiKey,
    /// 404: no such mail or no such address.
    NotFound,
    /// 405: the address knows other methods only.
    MethodNotAllowed,
    /// 409: the key was used with another body.
    InvalidIdempotentRequest,
    /// 409: the first request under the key still runs.
    ConcurrentIdempotentRequests,
    /// 413 here; Resend documents the limit of 40 MB and no name for it.
    PayloadTooLarge,
    /// 422: a required field is absent.
    MissingRequiredField,
    /// 422: `from` is not an address.
    InvalidFromAddress,
    /// 422: an attachment has neither content nor path.
    InvalidAttachment,
    /// 429: too many requests in this second.
    RateLimitExceeded,
    /// 429: the day's quota is used up.
    DailyQuotaExceeded,
    /// 429: the month's quota is used up.
    MonthlyQuotaExceeded,
    /// 451: the mail looks like a security problem.
    SecurityError,
    /// 500: the provider failed.
    InternalServerError,
    /// 503: the provider is not there for the moment.
    ServiceUnavailable,
}

impl ErrorName {
    /// The name as it stands in the body.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidIdempotencyKey => "invalid_idempotency_key",
            Self::ValidationError => "validation_error",
            Self::MissingApiKey => "missing_api_key",
            Self::RestrictedApiKey => "restricted_api_key",
            Self::InvalidApiKey => "invalid_api_key",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::InvalidIdempotentRequest => "invalid_idempotent_request",
            Self::ConcurrentIdempotentRequests => "concurrent_idempotent_requests",
            Self::PayloadTooLarge => "payload_too_large",
            Self::MissingRequiredField => "missing_required_field",
            Self::InvalidFromAddress => "invalid_from_address",
            Self::InvalidAttachment => "invalid_attachment",
            Self::RateLimitExceeded => "rate_limit_exceeded",
            Self::DailyQuotaExceeded => "daily_quota_exceeded",
            Self::MonthlyQuotaExceeded => "monthly_quota_exceeded",
            Self::SecurityError => "security_error",
            Self::InternalServerError => "internal_server_error",
            Self::ServiceUnavailable => "service_unavailable",
        }
    }
}

/// An error of the API: the status and the body that go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status; also stands in the body.
    pub status: u16,
    /// The stable part of the body.
    pub name: ErrorName,
    /// The text for a person. As with the real provider it may repeat an address from the request.
    pub message: String,
}

/// The body of an error, in the order of fields in which Resend writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorBody<'a> {
    status_code: u16,
    message: &'a str,
    name: &'a str,
}

impl Refusal {
    /// An error with its status, name and text.
    pub fn new(status: u16, name: ErrorName, message: impl Into<String>) -> Self {
        Self {
            status,
            name,
            message: message.into(),
        }
    }

    /// 422 `validation_error`: a field is there and wrong.
    pub fn field(message: impl Into<String>) -> Self {
        Self::new(422, ErrorName::ValidationError, message)
    }

    /// The error as an answer.
    pub fn reply(&self) -> Reply {
        let body = ErrorBody {
            status_code: self.status,
            message: &self.message,
            name: self.name.as_str(),
        };
        // A struct of two strings and a number always serialises; an empty body would still carry the status.
        Reply::json(self.status, serde_json::to_string(&body).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_body_has_resends_three_fields_in_resends_order() {
        let reply = Refusal::new(422, ErrorName::MissingRequiredField, "Missing `to` field.").reply();
        assert_eq!(
            reply.body,
            r#"{"statusCode":422,"message":"Missing `to` field.","name":"missing_required_field"}"#
        );
        assert_eq!(reply.status, 422);
    }

    #[test]
    fn an_acceptance_is_the_id_alone() {
        assert_eq!(Reply::accepted("a-1").body, r#"{"id":"a-1"}"#);
    }
}
