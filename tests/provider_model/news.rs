//! Delivery news that follow mails by themselves: what arrives at a receiver, how often, and what the doors show of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use sealpost::devstack::provider::courier::{FIRST_WAIT_MS, RETRY_WAITS_MS};
use sealpost::devstack::provider::webhook::sign;
use serde_json::{Value, json};

use crate::client::{PATIENCE, Provider, answer, is_silent, sending};

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A receiver of news that answers when the test says what.
struct Hook {
    url: String,
    arrived: Receiver<TcpStream>,
}

/// One event as it arrived.
#[derive(Debug)]
struct Event {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

impl Event {
    fn kind(&self) -> String {
        let event: Value = serde_json::from_str(&self.body).unwrap();
        event["type"].as_str().unwrap().to_owned()
    }

    fn is_signed(&self) -> bool {
        let timestamp = self.timestamp.parse().unwrap();
        sign(SECRET, &self.id, timestamp, &self.body).unwrap() == self.signature
    }
}

impl Hook {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (sender, arrived) = channel();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if sender.send(stream).is_err() {
                    break;
                }
            }
        });
        Self { url, arrived }
    }

    /// The next event; it is answered with this status.
    fn next(&self, status: u16) -> Event {
        let stream = self.arrived.recv_timeout(PATIENCE).expect("an event");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = BufReader::new(stream);
        let head: Vec<String> = reader
            .by_ref()
            .lines()
            .map(|line| line.unwrap())
            .take_while(|line| !line.is_empty())
            .collect();
        let header = |name: &str| {
            let found = head
                .iter()
                .find_map(|line| line.split_once(": ").filter(|(known, _)| *known == name));
            found.expect("a header").1.to_owned()
        };
        let mut body = vec![0; header("content-length").parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let answer = format!("HTTP/1.1 {status} Said\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        reader.into_inner().write_all(answer.as_bytes()).unwrap();
        Event {
            id: header("svix-id"),
            timestamp: header("svix-timestamp"),
            signature: header("svix-signature"),
            body: String::from_utf8(body).unwrap(),
        }
    }
}

fn with_auto(url: &str) -> Provider {
    let provider = Provider::start();
    provider.control(
        "POST",
        "/_/webhook",
        &json!({ "url": url, "secret": SECRET, "auto": true }),
    );
    provider
}

/// Sends a mail and lets the time pass until its news are due.
fn send(provider: &Provider, to: &str) {
    let mail = json!({ "from": "a@acme.test", "to": to, "subject": "s", "text": "t" });
    let sent = provider
        .ask("POST", "/emails", &sending(to), &mail.to_string())
        .unwrap();
    assert_eq!(sent.status, 200, "{}", sent.body);
    provider.control("POST", "/_/clock", &json!({ "advanceMs": FIRST_WAIT_MS }));
}

/// Waits until the counts of news are these.
fn until_news(provider: &Provider, sent: u64, refused: u64, given_up: u64, waiting: u64) {
    let wanted = json!({ "sent": sent, "refused": refused, "givenUp": given_up, "waiting": waiting });
    provider.until("/_/state", |state| state["news"] == wanted);
}

#[test]
fn news_follow_a_mail_by_themselves_and_the_page_shows_the_last() {
    let hook = Hook::open();
    let provider = with_auto(&hook.url);
    send(&provider, "Bo <bounced+today@resend.dev>");
    let events = [hook.next(200), hook.next(202)];
    assert_eq!(events.each_ref().map(Event::kind), ["email.sent", "email.bounced"]);
    assert!(events.iter().all(Event::is_signed));
    assert_ne!(events[0].id, events[1].id);
    until_news(&provider, 2, 0, 0, 0);
    let page = provider.ask("GET", "/", "", "").unwrap().body;
    assert!(page.contains(r#"<span class="event">bounced</span>"#), "{page}");
    assert!(!page.contains("given up"));
}

#[test]
fn a_mail_sent_twice_under_one_key_and_one_that_was_refused_have_no_further_news() {
    let hook = Hook::open();
    let provider = with_auto(&hook.url);
    provider.fault(json!({ "kind": "security_error", "match": { "to": "never" } }));
    let mail = json!({ "from": "a@acme.test", "to": "never@acme.test", "subject": "s", "text": "t" });
    let refused = provider
        .ask("POST", "/emails", &sending("k"), &mail.to_string())
        .unwrap();
    assert_eq!(
        (refused.status, &refused.json()["name"]),
        (451, &json!("security_error"))
    );
    for _ in 0..2 {
        send(&provider, "ada@acme.test");
    }
    assert_eq!(
        [hook.next(200).kind(), hook.next(200).kind()],
        ["email.sent", "email.delivered"]
    );
    until_news(&provider, 2, 0, 0, 0);
}

#[test]
fn without_the_order_nothing_goes_out_by_itself() {
    let hook = Hook::open();
    let provider = Provider::start();
    provider.control("POST", "/_/webhook", &json!({ "url": hook.url, "secret": SECRET }));
    send(&provider, "ada@acme.test");
    until_news(&provider, 0, 0, 0, 0);
    assert!(hook.arrived.try_recv().is_err());
}

#[test]
fn what_is_not_answered_2xx_comes_again_as_the_same_event() {
    let hook = Hook::open();
    let provider = with_auto(&hook.url);
    send(&provider, "ada@acme.test");
    let first = hook.next(500);
    assert_eq!(hook.next(204).kind(), "email.delivered");
    until_news(&provider, 1, 1, 0, 1);
    provider.control("POST", "/_/clock", &json!({ "advanceMs": RETRY_WAITS_MS[0] }));
    let again = hook.next(200);
    assert_eq!((&again.id, &again.body), (&first.id, &first.body));
    assert!(first.is_signed() && again.is_signed());
    until_news(&provider, 2, 1, 0, 0);
}

#[test]
fn a_receiver_that_stays_away_is_given_up_and_the_page_says_so() {
    // A port that was free a moment ago, and that nobody listens at.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let provider = with_auto(&format!("http://{nobody}/"));
    send(&provider, "ada@acme.test");
    let mut refused = 2;
    for wait_ms in RETRY_WAITS_MS {
        until_news(&provider, 0, refused, 0, 2);
        provider.control("POST", "/_/clock", &json!({ "advanceMs": wait_ms }));
        refused += 2;
    }
    until_news(&provider, 0, refused, 2, 0);
    let page = provider.ask("GET", "/", "", "").unwrap().body;
    assert!(page.contains("2 events were given up"), "{page}");
}

#[test]
fn news_may_be_there_before_the_answer() {
    let hook = Hook::open();
    let provider = with_auto(&hook.url);
    provider.fault(json!({ "kind": "hold_accepted" }));
    let stream = provider.open_send("k");
    provider.until("/_/faults", |now| now["held"] == 1);
    provider.control("POST", "/_/clock", &json!({ "advanceMs": FIRST_WAIT_MS }));
    assert_eq!(
        [hook.next(200).kind(), hook.next(200).kind()],
        ["email.sent", "email.delivered"]
    );
    assert!(is_silent(&stream));
    provider.control("POST", "/_/release", &Value::Null);
    assert_eq!(answer(stream).unwrap().status, 200);
}
