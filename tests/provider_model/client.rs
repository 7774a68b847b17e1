//! A server in process, and a client that sees what arrives and what does not.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sealpost::devstack::provider::model::Settings;
use sealpost::devstack::provider::{Options, serve};
use serde_json::{Value, json};

/// Polls of a marker before a test gives up; each is a request to the server, so this is many seconds.
pub(super) const POLLS_MAX: usize = 20_000;

/// How long a client waits for bytes before its test fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A provider model on a free port, for as long as the value lives.
pub(super) struct Provider {
    pub(super) address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

/// What came back.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
    /// Whether the body is as long as its header promised.
    pub(super) whole: bool,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.starts_with(&format!("{name}: ")))?;
        line.split_once(": ").map(|(_, value)| value)
    }
}

impl Provider {
    pub(super) fn start() -> Self {
        let settings = Settings {
            per_second: 0,
            ..Settings::default()
        };
        Self::with(Options {
            settings,
            ..Options::default()
        })
    }

    pub(super) fn with(options: Options) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, options));
        Self {
            address,
            _runtime: runtime,
        }
    }

    /// Writes a request and leaves its answer where it is.
    pub(super) fn open(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Option<Answer> {
        answer(self.open(method, path, headers, body))
    }

    pub(super) fn control(&self, method: &str, path: &str, body: &Value) -> Value {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = self.ask(method, path, "", &text).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    pub(super) fn fault(&self, rule: Value) {
        self.control("POST", "/_/faults", &rule);
    }

    pub(super) fn accepted(&self) -> usize {
        self.control("GET", "/_/accepted", &Value::Null)
            .as_array()
            .unwrap()
            .len()
    }

    pub(super) fn open_send(&self, key: &str) -> TcpStream {
        self.open("POST", "/emails", &sending(key), &mail().to_string())
    }

    /// Sends the usual mail; `None` when the connection closed without an answer.
    pub(super) fn send(&self, key: &str) -> Option<Answer> {
        answer(self.open_send(key))
    }

    /// Waits until a marker of the server says so.
    pub(super) fn until(&self, path: &str, reached: impl Fn(&Value) -> bool) {
        let found = (0..POLLS_MAX).any(|_| reached(&self.control("GET", path, &Value::Null)));
        assert!(found, "the marker at {path} never came");
    }
}

pub(super) fn sending(key: &str) -> String {
    format!("authorization: Bearer re_test\r\nuser-agent: test/1\r\nidempotency-key: {key}\r\n")
}

pub(super) fn mail() -> Value {
    json!({ "from": "Shop <shop@acme.test>", "to": ["ada@example.com"], "subject": "Hi <b>", "html": "<p>\"Hi\"</p>" })
}

/// Reads until the connection closes; `None` when nothing arrived.
pub(super) fn answer(mut stream: TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        // A reset in the middle leaves what arrived before it; silence is another matter.
        let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!silent, "neither an answer nor the end of the connection");
    }
    let text = String::from_utf8(bytes).unwrap();
    if text.is_empty() {
        return None;
    }
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
        whole: true,
    };
    answer.whole = answer
        .header("content-length")
        .is_none_or(|length| length == body.len().to_string());
    Some(answer)
}

/// Whether nothing has arrived on this connection so far, and it is still open.
pub(super) fn is_silent(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut byte = [0_u8];
    let silent = matches!(stream.peek(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    silent
}
