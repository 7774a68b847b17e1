//! The doors, the clock, delivery news, the inbox page and the command.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use sealpost::devstack::provider::Options;
use serde_json::{Value, json};

use crate::client::{Provider, answer, mail, sending};

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
