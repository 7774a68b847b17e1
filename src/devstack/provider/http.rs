//! The server in front of the model: Resend's doors.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use tokio::net::TcpListener;

use super::answer::{ErrorName, Refusal, Reply};
use super::effect::{Wire, half};
use super::list::{MAILS_MAX, VALIDATION_HEADER, Validation, id_at};
use super::model::{Call, Next, Outcome};
use super::read::PageQuery;
use super::shared::{Options, Shared};
use super::wire::{Cut, CutListener};
use super::{control, page, postman};

/// Resend's limit on a mail with its attachments in base64, in bytes.
const BODY_BYTES_MAX: usize = 40 * 1024 * 1024;
/// The length that an answer promises which stops after its headers, in bytes.
const PROMISED_BYTES: usize = 64;

/// Runs the provider model on a listener until the future is dropped.
///
/// # Errors
/// What the listener reports when it can no longer accept.
pub async fn serve(listener: TcpListener, options: Options) -> io::Result<()> {
    let shared = Shared::new(options);
    let app = Router::new()
        .route("/emails", post(send).get(list))
        .route("/emails/batch", post(send_list))
        .route("/emails/{id}", get(read))
        .merge(page::routes())
        .nest("/_", control::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::clone(&shared));
    let server = axum::serve(CutListener(listener), app.into_make_service_with_connect_info::<Cut>());
    tokio::select! {
        ended = server.into_future() => ended,
        never = postman::rounds(shared) => match never {},
    }
}

/// The headers that the rules look at, as text; bytes that are none become marks, which no rule takes for a key.
#[derive(Debug)]
struct Asking {
    authorization: Option<String>,
    user_agent: Option<String>,
    idempotency_key: Option<String>,
    validation: Option<String>,
    is_list: bool,
}

impl Asking {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| {
            headers
                .get(name)
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Self {
            authorization: text(header::AUTHORIZATION),
            user_agent: text(header::USER_AGENT),
            idempotency_key: text(HeaderName::from_static("idempotency-key")),
            validation: text(HeaderName::from_static(VALIDATION_HEADER)),
            is_list: false,
        }
    }

    fn call<'a>(&'a self, body: &'a [u8]) -> Call<'a> {
        Call {
            authorization: self.authorization.as_deref(),
            user_agent: self.user_agent.as_deref(),
            idempotency_key: self.idempotency_key.as_deref(),
            body,
            list: self.is_list.then(|| Validation::of(self.validation.as_deref())),
        }
    }
}

async fn send(State(shared): State<Arc<Shared>>, ConnectInfo(cut): ConnectInfo<Cut>, request: Request) -> Response {
    let asking = Asking::of(request.headers());
    take(shared, cut, asking, request).await
}

async fn send_list(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    request: Request,
) -> Response {
    let asking = Asking {
        is_list: true,
        ..Asking::of(request.headers())
    };
    take(shared, cut, asking, request).await
}

async fn take(shared: Arc<Shared>, cut: Cut, asking: Asking, request: Request) -> Response {
    let door = if asking.is_list { "/emails/batch" } else { "/emails" };
    let Some(body) = whole_body(request).await else {
        let text = "The request body is too large or was cut off.";
        let refusal = Refusal::new(413, ErrorName::PayloadTooLarge, text);
        let call = asking.call(b"");
        return whole(shared.model().turn_away(shared.now(), &call, "POST", door, &refusal));
    };
    // A task of its own: the provider goes on when the client hangs up.
    let task = tokio::spawn(work(Arc::clone(&shared), asking, body));
    match task.await {
        Ok(outcome) => deliver(&shared, &cut, outcome).await,
        Err(_) => closed(&cut),
    }
}

/// The body, unless it is too large or breaks off. One that says beforehand that it is too large is not read.
async fn whole_body(request: Request) -> Option<Bytes> {
    let declared = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    if declared
        .and_then(|value| value.parse::<usize>().ok())
        .is_some_and(|bytes| bytes > BODY_BYTES_MAX)
    {
        return None;
    }
    axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX).await.ok()
}

/// One send from arrival to answer.
async fn work(shared: Arc<Shared>, asking: Asking, body: Bytes) -> Outcome {
    let Ok(id) = fresh_id() else {
        let text = "The machine has no randomness to give.";
        let reply = Refusal::new(500, ErrorName::InternalServerError, text).reply();
        return Outcome {
            reply,
            wire: Wire::Whole,
        };
    };
    let arrival = shared.model().arrive(shared.now(), &asking.call(&body));
    shared.travel(arrival.wait_ms).await;
    let (ticket, held) = match arrival.next {
        Next::Answered(outcome) => return outcome,
        Next::Running { ticket, held } => (ticket, held),
    };
    if held {
        shared.hold().await;
    }
    let outcome = shared.model().finish(shared.now(), ticket, &id);
    // The id is this send's own: where it went to a mail, the mail is new.
    let mails = if asking.is_list { MAILS_MAX } else { 1 };
    for place in 0..mails {
        shared.follow(&id_at(&id, place));
    }
    if outcome.wire != Wire::AfterRelease {
        return outcome;
    }
    shared.hold().await;
    let wire = if shared.model().released(ticket) {
        Wire::Whole
    } else {
        Wire::Cut
    };
    Outcome {
        reply: outcome.reply,
        wire,
    }
}

async fn read(State(shared): State<Arc<Shared>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    shared.travel(0).await;
    let reply = shared.model().get(shared.now(), &Asking::of(&headers).call(b""), &id);
    whole(reply)
}

#[derive(Deserialize)]
struct ListQuery {
    limit: Option<String>,
    after: Option<String>,
    before: Option<String>,
}

async fn list(State(shared): State<Arc<Shared>>, Query(query): Query<ListQuery>, headers: HeaderMap) -> Response {
    shared.travel(0).await;
    let query = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    };
    let reply = shared
        .model()
        .list(shared.now(), &Asking::of(&headers).call(b""), &query);
    whole(reply)
}

async fn unknown(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let refusal = Refusal::new(404, ErrorName::NotFound, "The requested endpoint does not exist");
    turn_away(&shared, &method, &uri, &headers, &refusal)
}

async fn wrong_method(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let text = "This endpoint does not support the specified HTTP method.";
    let refusal = Refusal::new(405, ErrorName::MethodNotAllowed, text);
    turn_away(&shared, &method, &uri, &headers, &refusal)
}

fn turn_away(shared: &Shared, method: &Method, uri: &Uri, headers: &HeaderMap, refusal: &Refusal) -> Response {
    let asking = Asking::of(headers);
    let reply = shared
        .model()
        .turn_away(shared.now(), &asking.call(b""), method.as_str(), uri.path(), refusal);
    whole(reply)
}

/// Puts an outcome on the wire, or keeps it from it.
async fn deliver(shared: &Arc<Shared>, cut: &Cut, outcome: Outcome) -> Response {
    match outcome.wire {
        Wire::Whole | Wire::AfterRelease => whole(outcome.reply),
        Wire::Cut => closed(cut),
        Wire::Stall => {
            shared.stall().await;
            closed(cut)
        }
        Wire::StallBody => stalling(shared, outcome.reply),
    }
}

/// Closes the connection: the answer that the handler must give never leaves.
fn closed(cut: &Cut) -> Response {
    cut.throw();
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// A reply as a response. A header that HTTP cannot carry is left out; the fault rules check theirs before.
pub(super) fn whole(reply: Reply) -> Response {
    let body = reply.body.clone();
    with_body(&reply, Body::from(body))
}

fn with_body(reply: &Reply, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = reply.content_type.map(|value| ("content-type", value.to_owned()));
    for (name, value) in content_type.into_iter().chain(reply.headers.iter().cloned()) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    response
}

/// A response that promises its whole body, sends half of it and then waits.
fn stalling(shared: &Arc<Shared>, reply: Reply) -> Response {
    let promised = if reply.body.is_empty() {
        PROMISED_BYTES
    } else {
        reply.body.len()
    };
    let first = half(&reply.body);
    let stall = shared.stall();
    let begin = stream::once(async move { Ok::<_, io::Error>(Bytes::from(first)) });
    let never = stream::once(async move {
        stall.await;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let reply = reply.with_header("content-length", promised.to_string());
    with_body(&reply, Body::from_stream(begin.chain(never)))
}

/// A random UUID (RFC 9562, version 4), as Resend's message ids look.
pub(super) fn fresh_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    let versioned = (u128::from_be_bytes(bytes) & !(0xf << 76) & !(0b11 << 62)) | (0x4 << 76) | (0b10 << 62);
    let part = |shift: u32, mask: u128| (versioned >> shift) & mask;
    Ok(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 0xffff_ffff),
        part(80, 0xffff),
        part(64, 0xffff),
        part(48, 0xffff),
        part(0, 0xffff_ffff_ffff)
    ))
}
