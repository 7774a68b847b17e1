//! Requests and answers as plain values.

use serde::Serialize;
use serde_json::{Value, json};

use crate::outbox::problem::Problem;
use crate::store::publish::Reservation;

/// What a door has to know of a request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// The `Authorization` header.
    pub authorization: Option<&'a str>,
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// The body; `None` where it is longer than [`super::BODY_BYTES_MAX`].
    pub body: Option<&'a [u8]>,
}

/// What goes back, and what is done after it went.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers beside the usual ones.
    pub headers: Vec<(&'static str, String)>,
    /// `application/json` or `application/problem+json`.
    pub content_type: &'static str,
    /// The body.
    pub body: Value,
    /// Rows to publish after the answer.
    pub to_publish: Vec<Reservation>,
}

impl Answer {
    /// A success.
    pub(super) fn json(status: u16, body: impl Serialize) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content_type: "application/json",
            body: serde_json::to_value(body).unwrap_or(Value::Null),
            to_publish: Vec::new(),
        }
    }

    /// A failure: problem details (RFC 9457) with a stable code and nothing of what the request carried.
    pub(super) fn problem(status: u16, code: &'static str, detail: &'static str) -> Self {
        Self {
            content_type: "application/problem+json",
            ..Self::json(
                status,
                json!({
                    "type": format!("urn:sealpost:problem:{code}"),
                    "title": title(status),
                    "status": status,
                    "code": code,
                    "detail": detail,
                }),
            )
        }
    }

    /// A refused request, with the fields that are wrong.
    pub(super) fn refused(problem: &Problem) -> Self {
        let detail = match problem.status {
            409 => "Nothing was written. The list names the intents whose key is known with another meaning.",
            413 => "Send a smaller body.",
            _ => "Nothing was written. The list names every field that has to change.",
        };
        let mut answer = Self::problem(problem.status, problem.code, detail);
        if let Value::Object(members) = &mut answer.body {
            members.insert(
                "errors".to_owned(),
                serde_json::to_value(&problem.errors).unwrap_or(Value::Null),
            );
        }
        answer
    }

    pub(super) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not found",
        405 => "Method not allowed",
        409 => "Conflict",
        413 => "Content too large",
        415 => "Unsupported media type",
        422 => "Unprocessable content",
        503 => "Service unavailable",
        _ => "Internal error",
    }
}
