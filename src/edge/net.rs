//! Outgoing requests: one fetch each, bounded in time and size, body included.

use core::time::Duration;

use futures_util::StreamExt as _;
use web_sys::{RequestInit, RequestRedirect};
use worker::{AbortSignal, Fetch, Headers, Response};

use crate::ports::{LookUp, MailAnswer, MailRequest, Mailer};
use crate::provider::look_up::PAGE_MAILS;
use crate::store::hrana::{Reply, Transport, TransportError};

/// Bytes of a provider answer that are read; a real one has a few hundred.
const PROVIDER_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an answer to a look-up that are read: a page of a hundred mails, or one mail with all its text.
const LOOK_UP_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a database answer that are read; a claim brings 4 MiB of letters, escaped at worst twice that and more.
const DATABASE_ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Named in every request; the provider refuses requests without one.
const USER_AGENT: &str = concat!("sealpost/", env!("CARGO_PKG_VERSION"));

/// The database server.
#[derive(Clone, Debug)]
pub(super) struct DatabaseTransport {
    pub(super) url: String,
    pub(super) token: Option<String>,
    pub(super) timeout: Duration,
}

/// The provider.
#[derive(Clone, Debug)]
pub(super) struct ProviderMailer {
    pub(super) url: String,
    pub(super) key: String,
    pub(super) reading_key: String,
    pub(super) timeout: Duration,
}

impl Transport for DatabaseTransport {
    async fn post(&self, base_url: Option<&str>, path: &str, body: String) -> Result<Reply, TransportError> {
        let url = format!("{}{path}", base_url.unwrap_or(&self.url).trim_end_matches('/'));
        let headers = Headers::new();
        let mut set = headers.set("content-type", "application/json");
        if let Some(token) = &self.token {
            set = set.and(headers.set("authorization", &format!("Bearer {token}")));
        }
        set.map_err(|_| TransportError::Disconnected)?;
        let signal = time_limit(self.timeout);
        let mut response = post(&url, headers, &body, &signal)
            .await
            .map_err(|_| failure(&signal))?;
        let status = response.status_code();
        match read(&mut response, DATABASE_ANSWER_BYTES_MAX).await {
            Some(body) => Ok(Reply { status, body }),
            None => Err(failure(&signal)),
        }
    }
}

impl Mailer for ProviderMailer {
    async fn send(&self, request: MailRequest<'_>) -> MailAnswer {
        let headers = Headers::new();
        let set = headers
            .set("content-type", "application/json")
            .and(headers.set("user-agent", USER_AGENT))
            .and(headers.set("authorization", &format!("Bearer {}", self.key)))
            .and(headers.set("idempotency-key", request.idempotency_key));
        if set.is_err() {
            return MailAnswer::Disconnected;
        }
        let door = if request.batch { "emails/batch" } else { "emails" };
        let signal = time_limit(self.timeout);
        let url = format!("{}/{door}", self.url);
        let response = post(&url, headers, request.body, &signal).await;
        mail_answer(response, &signal, PROVIDER_ANSWER_BYTES_MAX).await
    }

    async fn look_up(&self, query: LookUp<'_>) -> MailAnswer {
        let headers = Headers::new();
        let set = headers
            .set("user-agent", USER_AGENT)
            .and(headers.set("authorization", &format!("Bearer {}", self.reading_key)));
        if set.is_err() {
            return MailAnswer::Disconnected;
        }
        let url = match query {
            LookUp::Mail(id) => format!("{}/emails/{id}", self.url),
            LookUp::Page { after: None } => format!("{}/emails?limit={PAGE_MAILS}", self.url),
            LookUp::Page { after: Some(id) } => format!("{}/emails?limit={PAGE_MAILS}&after={id}", self.url),
        };
        let signal = time_limit(self.timeout);
        let response = fetch(&url, "GET", headers, None, &signal).await;
        mail_answer(response, &signal, LOOK_UP_ANSWER_BYTES_MAX).await
    }
}

/// What came back of one call to the provider.
async fn mail_answer(response: worker::Result<Response>, signal: &AbortSignal, bytes_max: usize) -> MailAnswer {
    match response {
        Ok(mut response) => MailAnswer::Response {
            status: response.status_code(),
            retry_after: response.headers().get("retry-after").ok().flatten(),
            body: read(&mut response, bytes_max).await,
        },
        Err(_) if signal.aborted() => MailAnswer::TimedOut,
        Err(_) => MailAnswer::Disconnected,
    }
}

/// One limit for the whole exchange: the signal also ends the reading of the body.
fn time_limit(timeout: Duration) -> AbortSignal {
    let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    AbortSignal::from(web_sys::AbortSignal::timeout_with_u32(ms))
}

fn failure(signal: &AbortSignal) -> TransportError {
    if signal.aborted() {
        TransportError::TimedOut
    } else {
        TransportError::Disconnected
    }
}

async fn post(url: &str, headers: Headers, body: &str, signal: &AbortSignal) -> worker::Result<Response> {
    fetch(url, "POST", headers, Some(body), signal).await
}

/// Redirects are answers, not instructions: a body with personal data and a token goes to one address only.
async fn fetch(
    url: &str,
    method: &str,
    headers: Headers,
    body: Option<&str>,
    signal: &AbortSignal,
) -> worker::Result<Response> {
    // The platform's own types: those of the library carry its caching and image options along.
    let init = RequestInit::new();
    init.set_method(method);
    init.set_headers(&headers.0);
    if let Some(body) = body {
        init.set_body(&body.into());
    }
    init.set_redirect(RequestRedirect::Manual);
    let request = web_sys::Request::new_with_str_and_init(url, &init)?;
    Fetch::Request(request.into()).send_with_signal(signal).await
}

/// The whole body, or nothing: a body that stalls, breaks off or grows too long has not arrived.
async fn read(response: &mut Response, bytes_max: usize) -> Option<Vec<u8>> {
    let Ok(mut stream) = response.stream() else {
        // No body at all.
        return Some(Vec::new());
    };
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.ok()?;
        if body.len().saturating_add(chunk.len()) > bytes_max {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(body)
}
