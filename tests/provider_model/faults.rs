//! Faults that only a wire can show.

use std::thread;

use serde_json::{Value, json};

use crate::client::{Provider, answer, is_silent};

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
