//! The provider model over a real socket: Resend's doors, the faults that only a wire can show, and the inbox page.
//!
//! The rules themselves are tested beside their code, with time moved by hand. Here a server runs in process on a free
//! port and a client that reads bytes looks at what arrives, and at what does not.
#![cfg(feature = "cli")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use sealpost::devstack::provider::model::Settings;
use sealpost::devstack::provider::{Options, serve};
use serde_json::{Value, json};

/// Polls of a marker before a test gives up; each is a request to the server, so this is many seconds.
const POLLS_MAX: usize = 20_000;

/// How long a client waits for bytes before its test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A provider model on a free port, for as long as the value lives.
struct Provider {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

/// What came back.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    head: String,
    body: String,
    /// Whether the body is as long as its header promised.
    whole: bool,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.starts_with(&format!("{name}: ")))?;
        line.split_once(": ").map(|(_, value)| value)
    }
}

impl Provider {
    fn start() -> Self {
        let settings = Settings {
            per_second: 0,
            ..Settings::default()
        };
        Self::with(Options {
            settings,
            ..Options::default()
        })
    }

    fn with(options: Options) -> Self {
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
    fn open(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Option<Answer> {
        answer(self.open(method, path, headers, body))
    }

    fn control(&self, method: &str, path: &str, body: &Value) -> Value {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = self.ask(method, path, "", &text).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    fn fault(&self, rule: Value) {
        self.control("POST", "/_/faults", &rule);
    }

    fn accepted(&self) -> usize {
        self.control("GET", "/_/accepted", &Value::Null)
            .as_array()
            .unwrap()
            .len()
    }

    fn open_send(&self, key: &str) -> TcpStream {
        self.open("POST", "/emails", &sending(key), &mail().to_string())
    }

    /// Sends the usual mail; `None` when the connection closed without an answer.
    fn send(&self, key: &str) -> Option<Answer> {
        answer(self.open_send(key))
    }

    /// Waits until a marker of the server says so.
    fn until(&self, path: &str, reached: impl Fn(&Value) -> bool) {
        let found = (0..POLLS_MAX).any(|_| reached(&self.control("GET", path, &Value::Null)));
        assert!(found, "the marker at {path} never came");
    }
}

fn sending(key: &str) -> String {
    format!("authorization: Bearer re_test\r\nuser-agent: test/1\r\nidempotency-key: {key}\r\n")
}

fn mail() -> Value {
    json!({ "from": "Shop <shop@acme.test>", "to": ["ada@example.com"], "subject": "Hi <b>", "html": "<p>\"Hi\"</p>" })
}

/// Reads until the connection closes; `None` when nothing arrived.
fn answer(mut stream: TcpStream) -> Option<Answer> {
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
fn is_silent(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut byte = [0_u8];
    let silent = matches!(stream.peek(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    silent
}

#[test]
fn an_answer_that_is_lost_after_acceptance_is_a_closed_connection_and_one_mail() {
    let provider = Provider::start();
    provider.fault(json!({ "kind": "accept_then_drop" }));
    assert_eq!(provider.send("k"), None);
    assert_eq!(provider.accepted(), 1);
    let replay = provider.send("k").unwrap();
    let list = provider.control("GET", "/_/accepted", &Value::Null);
    assert_eq!(replay.json()["id"], list[0]["id"]);
    assert_eq!(list[0]["idempotencyKey"], "k");
    assert_eq!(list[0]["to"], json!(["ada@example.com"]));
    assert_eq!(provider.accepted(), 1);
    let requests = provider.control("GET", "/_/requests", &Value::Null);
    assert_eq!(requests[0]["outcome"], "accepted");
    assert_eq!(requests[0]["status"], Value::Null);
    assert_eq!(requests[0]["fault"], "accept_then_drop");
    assert_eq!(requests[1]["outcome"], "replayed");
    assert_eq!(requests[1]["status"], 200);
    assert_eq!(requests[0]["bodySha256"], requests[1]["bodySha256"]);
}

#[test]
fn a_refused_connection_is_a_closed_connection_and_no_mail() {
    let provider = Provider::start();
    provider.fault(json!({ "kind": "refuse_connection" }));
    assert_eq!(provider.send("k"), None);
    assert_eq!(provider.accepted(), 0);
}

#[test]
fn a_stall_is_silence_until_a_reset_cuts_it() {
    for (kind, accepted) in [("stall", 0), ("accept_then_stall", 1)] {
        let provider = Provider::start();
        provider.fault(json!({ "kind": kind }));
        let stream = provider.open_send("k");
        provider.until("/_/faults", |now| now["stalled"] == 1);
        assert!(is_silent(&stream), "{kind}");
        assert_eq!(provider.accepted(), accepted, "{kind}");
        provider.control("POST", "/_/reset", &Value::Null);
        assert_eq!(answer(stream), None, "{kind}");
        provider.until("/_/faults", |now| now["stalled"] == 0);
    }
}

#[test]
fn a_client_that_hangs_up_ends_its_stall() {
    let provider = Provider::start();
    provider.fault(json!({ "kind": "stall" }));
    let stream = provider.open_send("k");
    provider.until("/_/faults", |now| now["stalled"] == 1);
    drop(stream);
    provider.until("/_/faults", |now| now["stalled"] == 0);
}

#[test]
fn a_body_that_stalls_has_its_headers_and_not_its_end() {
    for (kind, accepted) in [("stall_after_headers", 0), ("stall_body_accepted", 1)] {
        let provider = Provider::start();
        provider.fault(json!({ "kind": kind }));
        let stream = provider.open_send("k");
        provider.until("/_/faults", |now| now["stalled"] == 1);
        assert_eq!(provider.accepted(), accepted, "{kind}");
        let reader = thread::spawn(move || answer(stream));
        provider.control("POST", "/_/reset", &Value::Null);
        let cut = reader.join().unwrap().unwrap();
        assert_eq!((cut.status, cut.whole), (200, false), "{kind}");
        assert!(serde_json::from_str::<Value>(&cut.body).is_err(), "{kind}");
    }
}

#[test]
fn answers_without_a_usable_id_arrive_as_they_were_ordered() {
    let provider = Provider::start();
    let cases = [
        ("ok_without_id", 200, Some("{}")),
        ("ok_null_id", 200, Some(r#"{"id":null}"#)),
        ("no_content", 204, Some("")),
        ("ok_html", 200, None),
        ("bad_gateway_html", 502, None),
        ("conflict_html", 409, None),
    ];
    for (kind, status, body) in cases {
        provider.fault(json!({ "kind": kind }));
        let answer = provider.send(kind).unwrap();
        assert_eq!(answer.status, status, "{kind}");
        match body {
            Some(body) => assert_eq!(answer.body, body, "{kind}"),
            None => {
                assert!(answer.body.starts_with("<!doctype html>"), "{kind}");
                assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
            }
        }
    }
    provider.fault(json!({ "kind": "truncated_json" }));
    let half = provider.send("truncated").unwrap();
    assert_eq!((half.status, half.whole), (200, true));
    assert!(serde_json::from_str::<Value>(&half.body).is_err());
}

#[test]
fn a_held_request_is_accepted_at_the_release_and_meanwhile_its_key_is_taken() {
    let provider = Provider::start();
    provider.fault(json!({ "kind": "hold" }));
    let stream = provider.open_send("k");
    provider.until("/_/faults", |now| now["held"] == 1);
    assert!(is_silent(&stream));
    assert_eq!(provider.accepted(), 0);
    let second = provider.send("k").unwrap();
    assert_eq!(
        (second.status, &second.json()["name"]),
        (409, &json!("concurrent_idempotent_requests"))
    );
    assert_eq!(
        provider.control("POST", "/_/release", &Value::Null),
        json!({ "released": 1 })
    );
    let first = answer(stream).unwrap();
    assert_eq!(first.status, 200);
    assert_eq!(provider.send("k").unwrap().json(), first.json());
    assert_eq!(provider.accepted(), 1);
}

#[test]
fn a_held_request_is_accepted_even_when_its_client_is_gone() {
    let provider = Provider::start();
    provider.fault(json!({ "kind": "hold" }));
    let stream = provider.open_send("k");
    provider.until("/_/faults", |now| now["held"] == 1);
    drop(stream);
    provider.control("POST", "/_/release", &Value::Null);
    provider.until("/_/state", |now| now["counts"]["accepted"] == 1);
    assert_eq!(provider.send("k").unwrap().status, 200);
    assert_eq!(provider.accepted(), 1);
}

#[test]
fn a_mail_can_be_out_while_its_answer_is_held() {
    let provider = Provider::start();
    provider.fault(json!({ "kind": "hold_accepted", "match": { "key": "k" } }));
    let stream = provider.open_send("k");
    provider.until("/_/faults", |now| now["held"] == 1);
    assert_eq!(provider.accepted(), 1);
    assert_eq!(provider.send("k").unwrap().status, 409);
    assert_eq!(provider.send("other").unwrap().status, 200);
    provider.control("POST", "/_/release", &Value::Null);
    let first = answer(stream).unwrap();
    assert_eq!(provider.send("k").unwrap().json(), first.json());
}

#[test]
fn a_reset_cuts_what_is_held_and_nothing_of_it_goes_out() {
    let provider = Provider::start();
    provider.fault(json!({ "kind": "hold" }));
    let stream = provider.open_send("k");
    provider.until("/_/faults", |now| now["held"] == 1);
    provider.control("POST", "/_/reset", &Value::Null);
    assert_eq!(answer(stream), None);
    assert_eq!(provider.accepted(), 0);
    assert_eq!(provider.control("GET", "/_/requests", &Value::Null), json!([]));
    assert_eq!(provider.send("k").unwrap().status, 200);
}

#[test]
fn a_moved_clock_lets_a_key_run_out_and_a_reset_brings_the_time_back() {
    let provider = Provider::start();
    let first = provider.send("k").unwrap().json();
    let day_ms = 24 * 60 * 60 * 1_000;
    provider.control("POST", "/_/clock", &json!({ "advanceMs": day_ms - 60_000 }));
    assert_eq!(provider.send("k").unwrap().json(), first);
    provider.control("POST", "/_/clock", &json!({ "advanceMs": 60_000 }));
    assert_ne!(provider.send("k").unwrap().json(), first);
    assert_eq!(provider.accepted(), 2);
    provider.control("POST", "/_/clock", &json!({ "nowMs": 0 }));
    let early = provider.control("GET", "/_/state", &Value::Null)["nowMs"]
        .as_i64()
        .unwrap();
    assert!((0..60_000).contains(&early), "{early}");
    provider.control("POST", "/_/reset", &Value::Null);
    let late = provider.control("GET", "/_/state", &Value::Null)["nowMs"]
        .as_i64()
        .unwrap();
    assert!(late > day_ms);
}

#[test]
fn doors_and_headers_are_the_providers() {
    let provider = Provider::with(Options::default());
    let body = mail().to_string();
    let anonymous = provider
        .ask("POST", "/emails", "user-agent: test/1\r\n", &body)
        .unwrap();
    assert_eq!(
        (anonymous.status, &anonymous.json()["name"]),
        (401, &json!("missing_api_key"))
    );
    let nameless = provider
        .ask("POST", "/emails", "authorization: Bearer re_a\r\n", &body)
        .unwrap();
    assert_eq!((nameless.status, nameless.body.as_str()), (403, "error code: 1010"));
    let sent = provider.send("k").unwrap();
    assert_eq!(sent.header("ratelimit-policy"), Some("5;w=1"));
    assert_eq!(sent.header("ratelimit-remaining"), Some("4"));
    assert_eq!(sent.header("content-type"), Some("application/json; charset=utf-8"));
    let id = sent.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 36);
    assert_eq!(&id[14..15], "4");
    let ask = |method: &str, path: &str| provider.ask(method, path, &sending("x"), "").unwrap();
    assert_eq!(ask("GET", &format!("/emails/{id}")).json()["subject"], "Hi <b>");
    assert_eq!(ask("GET", "/nothing").json()["name"], "not_found");
    assert_eq!(ask("DELETE", "/emails").json()["name"], "method_not_allowed");
}

#[test]
fn a_body_beyond_the_limit_is_refused_and_listed() {
    let provider = Provider::start();
    let mut stream = TcpStream::connect(provider.address).unwrap();
    let length = 40 * 1024 * 1024 + 1;
    let head = format!(
        "POST /emails HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{}content-length: {length}\r\n\r\n",
        sending("k")
    );
    stream.write_all(head.as_bytes()).unwrap();
    let refused = answer(stream).unwrap();
    assert_eq!(
        (refused.status, &refused.json()["name"]),
        (413, &json!("payload_too_large"))
    );
    assert_eq!(provider.control("GET", "/_/requests", &Value::Null)[0]["status"], 413);
}

#[test]
fn orders_that_make_no_sense_are_refused_and_a_foreign_page_may_not_give_any() {
    let provider = Provider::start();
    let ask = |path: &str, headers: &str, body: &str| provider.ask("POST", path, headers, body).unwrap().status;
    assert_eq!(ask("/_/faults", "", r#"[{"kind":"stall"},{"kind":"nonsense"}]"#), 400);
    assert_eq!(ask("/_/faults", "", r#"{"kind":"stall","count":0}"#), 400);
    assert_eq!(ask("/_/clock", "", r#"{"nowMs":1,"advanceMs":1}"#), 400);
    assert_eq!(
        ask(
            "/_/webhook",
            "",
            r#"{"url":"http://127.0.0.1:1/","secret":"whsec_***"}"#
        ),
        400
    );
    assert_eq!(ask("/_/deliver", "", r#"{"id":"a","type":"email.sent"}"#), 409);
    assert_eq!(ask("/_/reset", "origin: http://evil.test\r\n", ""), 403);
    assert_eq!(
        ask("/_/reset", &format!("origin: http://{}\r\n", provider.address), ""),
        200
    );
    assert_eq!(provider.control("GET", "/_/faults", &Value::Null)["rules"], json!([]));
}

#[test]
fn delivery_news_are_posted_with_their_signature() {
    let provider = Provider::start();
    let id = provider.send("k").unwrap().json()["id"].clone();
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", receiver.local_addr().unwrap());
    let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    provider.control("POST", "/_/webhook", &json!({ "url": url, "secret": secret }));
    let received = thread::spawn(move || {
        let (mut stream, _) = receiver.accept().unwrap();
        let mut text = String::new();
        let mut buffer = [0_u8; 4_096];
        while !text.contains("email.bounced") {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the event ended early: {text}");
            text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
        stream
            .write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        text
    });
    let order = json!({ "id": id, "type": "email.bounced", "svixId": "msg_1", "timestampS": 1_649_367_553 });
    let told = provider.control("POST", "/_/deliver", &order);
    assert_eq!(told["status"], 202);
    let text = received.join().unwrap();
    assert!(text.contains("svix-id: msg_1\r\n"), "{text}");
    assert!(text.contains("svix-timestamp: 1649367553\r\n"), "{text}");
    let signature = told["signature"].as_str().unwrap();
    assert!(text.contains(&format!("svix-signature: {signature}\r\n")), "{text}");
    let mail = provider
        .ask("GET", &format!("/emails/{}", id.as_str().unwrap()), &sending("x"), "")
        .unwrap();
    assert_eq!(mail.json()["last_event"], "bounced");
}

#[test]
fn the_inbox_page_shows_mail_and_lets_none_of_it_out_of_its_frame() {
    let provider = Provider::start();
    let page = |path: &str| provider.ask("GET", path, "", "").unwrap();
    assert!(page("/").body.contains("No mail yet."));
    let id = provider.send("k").unwrap().json()["id"].as_str().unwrap().to_owned();
    let list = page("/");
    assert!(list.body.contains(&format!("href=\"/inbox/{id}\"")));
    assert!(list.body.contains("Hi &lt;b&gt;"));
    assert!(!list.body.contains("Hi <b>"));
    let one = page(&format!("/inbox/{id}"));
    assert!(
        !one.body.contains("<p>\"Hi\"</p>"),
        "the mail's own HTML stands in the page"
    );
    assert!(one.body.contains("&lt;p&gt;&quot;Hi&quot;&lt;"), "{}", one.body);
    assert!(
        one.body
            .contains("sandbox=\"allow-popups allow-popups-to-escape-sandbox\"")
    );
    for answer in [&list, &one] {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(!policy.contains("script-src 'unsafe-inline'"), "{policy}");
    }
    assert_eq!(page("/inbox/nobody").status, 404);
    assert_eq!(
        page("/inbox.js").header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
}

#[test]
fn the_list_has_pages_and_the_page_shows_the_rules_that_are_active() {
    let provider = Provider::start();
    for n in 0..51 {
        assert_eq!(provider.send(&format!("k{n}")).unwrap().status, 200);
    }
    provider.fault(json!({ "kind": "stall", "match": { "key": "never" } }));
    let first = provider.ask("GET", "/", "", "").unwrap().body;
    assert!(first.contains("1 fault rule is active"));
    let list = provider.control("GET", "/_/accepted", &Value::Null);
    let oldest = list[0]["id"].as_str().unwrap();
    let next = format!("/?before={}", list[1]["id"].as_str().unwrap());
    assert!(first.contains(&next));
    assert!(!first.contains(oldest));
    assert!(provider.ask("GET", &next, "", "").unwrap().body.contains(oldest));
}

#[test]
fn a_port_in_use_ends_the_command_with_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_sealpost"))
        .args(["provider", "--listen", &address])
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    assert!(!run.status.success());
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(
        said.contains(&format!("{address} is in use by another program")),
        "{said}"
    );
}
