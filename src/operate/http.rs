//! Requests and answers as plain values.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::outbox::problem::Problem;
use crate::receipts::SignatureHeaders;
use crate::store::publish::Reservation;

/// The longest body that an operator's order has.
const ORDER_BYTES_MAX: usize = 64 * 1024;

/// What every page says to the browser.
const PAGE_HEADERS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("x-robots-tag", "noindex"),
];

/// What a door has to know of a request.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// The query, without its question mark.
    pub query: Option<&'a str>,
    /// The `Authorization` header.
    pub authorization: Option<&'a str>,
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// The headers of a signed event.
    pub signature: SignatureHeaders<'a>,
    /// The body; `None` where it is longer than [`super::BODY_BYTES_MAX`].
    pub body: Option<&'a [u8]>,
}

impl Request<'_> {
    /// A parameter of the query, decoded; the first one where there are several.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(self.query?.as_bytes())
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.into_owned())
    }

    /// An operator's order.
    ///
    /// # Errors
    /// The answer to give: 413, 415, or 422 with what the reader says of the field (names and types, never values).
    pub(super) fn order<T: DeserializeOwned>(&self) -> Result<T, Answer> {
        if !is_json(self.content_type) {
            return Err(Answer::problem(
                415,
                "json_expected",
                "Send the order as application/json.",
            ));
        }
        let body = self.body.filter(|body| body.len() <= ORDER_BYTES_MAX);
        let Some(body) = body else {
            return Err(Answer::problem(413, "body_too_large", "An order holds 64 KiB."));
        };
        serde_json::from_slice(body).map_err(|_| {
            Answer::problem(
                422,
                "order_invalid",
                "Send the members that this door names, each with its type, and no others.",
            )
        })
    }
}

/// Whether a content type is JSON, whatever its parameters.
pub(super) fn is_json(content_type: Option<&str>) -> bool {
    content_type
        .and_then(|text| text.split(';').next())
        .is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

/// What goes back, and what is done after it went.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers beside the usual ones.
    pub headers: Vec<(&'static str, String)>,
    /// `application/json`, `application/problem+json` or `text/html; charset=utf-8`.
    pub content_type: &'static str,
    /// The body, where it is JSON.
    pub body: Value,
    /// The body, where it is a page.
    pub page: Option<Box<str>>,
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
            page: None,
            to_publish: Vec::new(),
        }
    }

    /// A page for a person: constant text that runs nothing, loads nothing, is kept by nobody, and tells no other site
    /// where it was, because its address is the proof that it was opened with.
    pub(super) fn page(status: u16, page: &'static str) -> Self {
        Self {
            content_type: "text/html; charset=utf-8",
            headers: PAGE_HEADERS
                .iter()
                .map(|&(name, value)| (name, value.to_owned()))
                .collect(),
            page: Some(page.into()),
            ..Self::json(status, Value::Null)
        }
    }

    /// The bytes that go out.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.page {
            Some(page) => page.as_bytes().to_vec(),
            None => self.body.to_string().into_bytes(),
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
