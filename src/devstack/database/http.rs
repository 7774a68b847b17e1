//! The HTTP face: routes, the bearer token, and connections that can be cut.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::serve::{IncomingStream, Listener};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::answer::Answer;
use super::controls;
use super::faults::Released;
use super::proto::Version;
use super::server::{Outcome, Server};

/// The longest request body. The real server takes at least as much.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The greeting of the real server on every version's path.
const GREETING: &str = "Hello, this is HTTP API v2 (Hrana over HTTP)";

/// Answers requests on the listener until the future is dropped.
///
/// # Errors
/// Where the listener itself fails; a broken connection is no error.
pub async fn serve(listener: TcpListener, server: Arc<Server>) -> io::Result<()> {
    let app = router(server).into_make_service_with_connect_info::<Line>();
    axum::serve(Lines(listener), app).await
}

fn router(server: Arc<Server>) -> Router {
    let protocol = Router::new()
        .route("/v2/pipeline", post(pipeline_2))
        .route("/v3/pipeline", post(pipeline_3))
        .route("/v3/cursor", post(cursor))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&server), check_token));
    Router::new()
        .merge(protocol)
        .route("/v2", get(async || GREETING))
        .route("/v3", get(async || GREETING))
        .route("/health", get(async || StatusCode::OK))
        .route(
            "/version",
            get(async || concat!("sealpost database ", env!("CARGO_PKG_VERSION"))),
        )
        .nest("/_", controls::router())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(server)
}

async fn pipeline_2(server: State<Arc<Server>>, line: ConnectInfo<Line>, body: Bytes) -> Response {
    pipeline(&server.0, Version::Hrana2, &line.0, body).await
}

async fn pipeline_3(server: State<Arc<Server>>, line: ConnectInfo<Line>, body: Bytes) -> Response {
    pipeline(&server.0, Version::Hrana3, &line.0, body).await
}

async fn pipeline(server: &Arc<Server>, version: Version, line: &Line, body: Bytes) -> Response {
    match server.pipeline(version, body.into()).await {
        Outcome::Answer(answer) => respond(answer.status, answer.content_type, answer.body.into()),
        Outcome::Cut => {
            line.cut();
            StatusCode::NO_CONTENT.into_response()
        }
        Outcome::Headers(answer, wait) => {
            let line = line.clone();
            let bytes = answer.body;
            let late = futures_util::stream::once(async move {
                match wait.wait().await {
                    Released::Continue => Ok(bytes),
                    Released::Discard => {
                        line.cut();
                        Err(io::Error::from(io::ErrorKind::ConnectionReset))
                    }
                }
            });
            respond(answer.status, answer.content_type, Body::from_stream(late))
        }
    }
}

async fn cursor(server: State<Arc<Server>>, body: Bytes) -> Response {
    let Answer {
        status,
        content_type,
        body,
    } = server.cursor(body.into()).await;
    respond(status, content_type, body.into())
}

fn respond(status: u16, content_type: &'static str, body: Body) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, content_type)], body).into_response()
}

async fn check_token(server: State<Arc<Server>>, request: Request, next: Next) -> Response {
    match refuse(server.auth_token.as_deref(), request.headers()) {
        None => next.run(request).await,
        Some(reason) => {
            let body = serde_json::json!({ "error": format!("Unauthorized: `{reason}`") }).to_string();
            respond(401, "application/json", body.into())
        }
    }
}

/// Why the request may not pass, in the real server's words; `None` where it may.
fn refuse(expected: Option<&str>, headers: &HeaderMap) -> Option<&'static str> {
    let expected = expected?;
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        return Some("Expected authorization header but none given");
    };
    let Ok(given) = given.to_str() else {
        return Some("Non-ASCII auth header");
    };
    let Some((scheme, token)) = given.split_once(' ') else {
        return Some("Auth string does not conform to '<scheme> <token>' form");
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Some("The authentication scheme in the `Authorization` HTTP header is not supported");
    }
    let same = token.as_bytes().ct_eq(expected.as_bytes());
    if same.into() { None } else { Some("The JWT is invalid") }
}

/// The switch of one connection.
#[derive(Clone, Default)]
struct Line {
    cut: Arc<AtomicBool>,
}

impl Line {
    /// From now on nothing is written: the connection breaks before its next byte.
    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.cut.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl Connected<IncomingStream<'_, Lines>> for Line {
    fn connect_info(stream: IncomingStream<'_, Lines>) -> Self {
        stream.io().line.clone()
    }
}

/// A listener whose connections can be cut.
struct Lines(TcpListener);

impl Listener for Lines {
    type Io = CuttableStream;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        // Answers are small and awaited: nothing is gained by collecting them. Where it cannot be set, they are slower.
        let _slower = stream.set_nodelay(true).is_err();
        let line = Line::default();
        (CuttableStream { stream, line }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

struct CuttableStream {
    stream: TcpStream,
    line: Line,
}

impl AsyncRead for CuttableStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CuttableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.line.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
