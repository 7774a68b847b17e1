//! Faults over HTTP, as a Worker meets them, and held requests with their markers.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::target::{Target, agent, batch, execute, http, ok};

fn set(target: &Target, rules: &Value) {
    let (status, body) = target.post("/_/faults", rules.to_string().as_bytes());
    assert_eq!(status, 200, "{body}");
}

fn control(target: &Target, method: &str, path: &str) -> Value {
    let url = format!("{}{path}", target.url());
    let mut answer = match method {
        "GET" => agent().get(url).call(),
        _ => agent().delete(url).call(),
    }
    .unwrap();
    serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap()
}

/// Sends an insert, and gives what the client sees: a status, or nothing.
fn insert(target: &Target) -> Option<u16> {
    let body = json!({ "requests": [execute("insert into t values(1)", json!([])), { "type": "close" }] });
    let sent = agent()
        .post(format!("{}/v3/pipeline", target.url()))
        .send(body.to_string());
    let mut answer = sent.ok()?;
    answer.body_mut().read_to_string().ok()?;
    Some(answer.status().as_u16())
}

fn count(target: &Target) -> String {
    target.row("select count(*) from t")[0].clone()
}

fn with_table() -> Target {
    let target = http();
    target.run("create table t(n)");
    target
}

#[test]
fn each_fault_says_what_it_did() {
    let target = with_table();
    let expected = [
        ("refuse", None, "0"),
        ("drop_after_commit", None, "1"),
        ("bad_gateway", Some(502), "1"),
        ("bad_gateway_after_commit", Some(502), "2"),
    ];
    for (kind, status, rows) in expected {
        set(&target, &json!({ "kind": kind, "match": "insert into t" }));
        assert_eq!(insert(&target), status, "{kind}");
        assert_eq!(count(&target), rows, "{kind}");
        assert_eq!(insert_and_undo(&target), Some(200), "{kind} hits once");
    }
    let rules = control(&target, "GET", "/_/faults");
    assert!(
        rules["rules"]
            .as_array()
            .unwrap()
            .iter()
            .all(|rule| rule["hits"] == 1 && rule["remaining"] == 0)
    );
    assert_eq!(
        control(&target, "DELETE", "/_/faults"),
        json!({ "rules": [], "held": 0 })
    );
}

fn insert_and_undo(target: &Target) -> Option<u16> {
    let status = insert(target);
    target.run("delete from t where rowid = (select max(rowid) from t)");
    status
}

#[test]
fn the_page_of_a_bad_gateway_is_html() {
    let target = with_table();
    set(&target, &json!([{ "kind": "bad_gateway" }]));
    let answer = agent()
        .post(format!("{}/v3/pipeline", target.url()))
        .send("{\"requests\":[]}")
        .unwrap();
    assert_eq!(answer.status().as_u16(), 502);
    assert_eq!(answer.headers()["content-type"], "text/html");
}

#[test]
fn busy_fails_the_begin_and_nothing_runs() {
    let target = with_table();
    set(&target, &json!({ "kind": "busy" }));
    assert_eq!(insert(&target), Some(200), "no BEGIN, no fault");
    let steps = batch(&[
        (Value::Null, "BEGIN IMMEDIATE"),
        (ok(0), "insert into t values(2)"),
        (ok(1), "COMMIT"),
    ]);
    let answer = &target.once(std::slice::from_ref(&steps))[0]["response"]["result"];
    assert_eq!(
        answer["step_errors"],
        json!([{ "message": "SQLite error: database is locked", "code": "SQLITE_BUSY" }, null, null])
    );
    assert_eq!(answer["step_results"], json!([null, null, null]));
    assert_eq!(count(&target), "1");
    target.once(&[steps]);
    assert_eq!(count(&target), "2", "once is enough");
}

#[test]
fn rules_skip_match_and_end() {
    let target = with_table();
    set(
        &target,
        &json!([{ "kind": "bad_gateway", "match": "insert", "skip": 1, "count": 2 }, { "kind": "refuse", "match": "no such text", "count": -1 }]),
    );
    let seen: Vec<_> = (0..4).map(|_| insert(&target)).collect();
    assert_eq!(seen, [Some(200), Some(502), Some(502), Some(200)]);
    let rules = control(&target, "GET", "/_/faults");
    assert_eq!(
        rules["rules"][0],
        json!({
            "kind": "bad_gateway", "count": 2, "skip": 1, "match": "insert", "ms": null,
            "passed": 1, "hits": 2, "remaining": 0,
        })
    );
    assert_eq!(rules["rules"][1]["hits"], 0);
    let (status, _) = target.post("/_/faults", br#"{"kind":"explode"}"#);
    assert_eq!(status, 400);
}

#[test]
fn a_request_held_before_runs_on_release() {
    let target = with_table();
    set(&target, &json!({ "kind": "hold_before", "match": "insert" }));
    std::thread::scope(|scope| {
        let held = scope.spawn(|| insert(&target));
        target.runtime().block_on(target.server().wait_held(1));
        assert_eq!(control(&target, "GET", "/_/faults")["held"], 1);
        assert_eq!(count(&target), "0");
        let (_, released) = target.post("/_/release", b"");
        assert_eq!(released, json!({ "released": 1 }));
        assert_eq!(held.join().unwrap(), Some(200));
    });
    assert_eq!(count(&target), "1");
    assert_eq!(target.server().held(), 0);
}

#[test]
fn a_request_held_after_has_run() {
    let target = with_table();
    set(&target, &json!({ "kind": "hold_after", "match": "insert" }));
    std::thread::scope(|scope| {
        let held = scope.spawn(|| insert(&target));
        target.runtime().block_on(target.server().wait_held(1));
        assert_eq!(count(&target), "1");
        assert!(!held.is_finished());
        target.post("/_/release", br#"{"discard":true}"#);
        assert_eq!(held.join().unwrap(), None, "discarded: no answer");
    });
}

#[test]
fn a_held_request_outlives_its_client() {
    let target = with_table();
    set(&target, &json!({ "kind": "hold_before", "match": "insert" }));
    let body = json!({ "requests": [execute("insert into t values(1)", json!([])), { "type": "close" }] });
    let address = target.url().trim_start_matches("http://").to_owned();
    let mut client = TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /v3/pipeline HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n",
        body.to_string().len()
    );
    client.write_all(format!("{head}{body}").as_bytes()).unwrap();
    target.runtime().block_on(target.server().wait_held(1));
    drop(client);
    target.post("/_/release", b"");
    // Nobody is told when a request without a client has run.
    while count(&target) == "0" {
        std::thread::yield_now();
    }
    assert_eq!(count(&target), "1");
}

#[test]
fn a_discarded_request_never_runs() {
    let target = with_table();
    set(&target, &json!({ "kind": "hold_before", "match": "insert" }));
    std::thread::scope(|scope| {
        let held = scope.spawn(|| insert(&target));
        target.runtime().block_on(target.server().wait_held(1));
        target.post("/_/release", br#"{"discard":true}"#);
        assert_eq!(held.join().unwrap(), None);
    });
    assert_eq!(count(&target), "0");
}

#[test]
fn stalls_end_when_told() {
    let target = with_table();
    set(&target, &json!({ "kind": "stall", "match": "insert", "ms": 1 }));
    assert_eq!(insert(&target), None);
    assert_eq!(count(&target), "0", "a stalled request never runs");
    set(&target, &json!({ "kind": "stall_after_headers", "match": "insert" }));
    let body = json!({ "requests": [execute("insert into t values(1)", json!([])), { "type": "close" }] });
    let mut answer = agent()
        .post(format!("{}/v3/pipeline", target.url()))
        .send(body.to_string())
        .unwrap();
    assert_eq!(answer.status().as_u16(), 200, "the headers are there");
    assert_eq!(count(&target), "1", "and it has run");
    assert_eq!(target.server().held(), 1, "but the body waits");
    target.post("/_/release", b"");
    let text = answer.body_mut().read_to_string().unwrap();
    assert!(text.contains("\"affected_row_count\":1"), "{text}");
}

#[test]
fn without_http_a_fault_is_an_outcome() {
    use sealpost::devstack::database::Outcome;
    use sealpost::devstack::database::proto::Version;
    let target = with_table();
    set(
        &target,
        &json!([{ "kind": "refuse" }, { "kind": "stall_after_headers", "ms": 1 }]),
    );
    let send = || {
        let body = br#"{"requests":[]}"#.to_vec();
        target
            .runtime()
            .block_on(target.server().pipeline(Version::Hrana3, body))
    };
    assert!(matches!(send(), Outcome::Cut));
    assert!(matches!(send(), Outcome::Headers(answer, _) if answer.status == 200));
    assert!(matches!(send(), Outcome::Answer(answer) if answer.status == 200));
}
