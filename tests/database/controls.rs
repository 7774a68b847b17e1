//! Counters, latency, reset, the token, and the small routes.

use sealpost::devstack::database::Options;
use serde_json::{Value, json};

use crate::target::{Target, agent, batch, execute, http, http_with, ok};

fn get(target: &Target, path: &str) -> (u16, String) {
    let mut answer = agent().get(format!("{}{path}", target.url())).call().unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

fn counters(target: &Target) -> Value {
    serde_json::from_str(&get(target, "/_/counters").1).unwrap()
}

#[test]
fn counts_round_trips_exactly() {
    let target = http();
    target.run("create table outbox(id integer primary key, n int)");
    target.post("/_/counters/reset", b"");
    target.post("/_/faults", br#"{"kind":"bad_gateway","match":"never"}"#);
    let steps = batch(&[
        (Value::Null, "BEGIN IMMEDIATE"),
        (ok(0), "insert into outbox(n) values(1), (2), (3)"),
        (ok(1), "COMMIT"),
        (json!({ "type": "not", "cond": ok(2) }), "ROLLBACK"),
    ]);
    target.once(&[steps]);
    target.run_with(
        "select * from outbox where n > ?",
        json!([{ "type": "integer", "value": "41" }]),
    );
    target.post("/v3/pipeline", b"not json");
    target.post("/v3/cursor", br#"{"batch":{"steps":[]}}"#);
    let counted = counters(&target);
    assert_eq!(counted["requests"], 3, "{counted}");
    assert_eq!(counted["cursorRequests"], 1);
    assert_eq!(counted["statements"], 5);
    assert_eq!(counted["rowsWritten"], 3);
    assert_eq!(counted["rowsRead"], 3, "visited, though none was returned");
    assert_eq!(
        counted["recent"],
        json!([
            { "n": 1, "statements": 4, "firstSql": "insert into outbox(n) values(1), (2), (3)" },
            { "n": 2, "statements": 1, "firstSql": "select * from outbox where n > ?" },
            { "n": 3, "statements": 0, "firstSql": null },
        ])
    );
    assert!(!counted.to_string().contains("41"), "no arguments");
    let (_, zero) = target.post("/_/counters/reset", b"");
    assert_eq!((&zero["requests"], &zero["rowsRead"]), (&json!(0), &json!(0)));
}

#[test]
fn rows_read_tell_a_scan_from_a_search() {
    let target = http();
    target.run("create table t(id integer primary key, n int)");
    target.run("insert into t with recursive c(x) as (select 1 union all select x + 1 from c where x < 1000) select x, x from c");
    let read = |sql: &str| target.run(sql)["rows_read"].as_u64().unwrap();
    assert_eq!(read("select * from t where n = 5"), 1_000);
    assert_eq!(read("select * from t where id = 5"), 1);
}

#[test]
fn latency_delays_requests_and_no_control() {
    let target = http();
    let (status, body) = target.post("/_/latency", br#"{"ms":3600000}"#);
    assert_eq!((status, body), (200, json!({ "ms": 3_600_000 })));
    let server = std::sync::Arc::clone(target.server());
    let waiting = target.runtime().spawn(async move {
        let body = br#"{"requests":[]}"#.to_vec();
        server
            .pipeline(sealpost::devstack::database::proto::Version::Hrana3, body)
            .await
    });
    while counters(&target)["requests"] != 1 {
        std::thread::yield_now();
    }
    assert!(
        !waiting.is_finished(),
        "it waits for an hour; the control above did not"
    );
    target.post("/_/latency", br#"{"ms":0}"#);
    assert_eq!(target.row("select 1"), ["1"]);
}

#[test]
fn reset_forgets_and_empties() {
    let target = http();
    for sql in [
        "create table parent(id integer primary key)",
        "create table child(p int not null references parent(id))",
        "create view v as select * from parent",
        "create index i on child(p)",
        "create trigger tr after insert on parent begin insert into child values(new.id); end",
        "create virtual table f using fts5(body)",
        "create table \"odd \"\" name\"(a integer primary key autoincrement)",
        "insert into parent values(1)",
        "pragma user_version = 7",
    ] {
        assert!(target.run(sql)["code"].is_null(), "{sql}");
    }
    let (_, open) = target.pipeline(None, json!([execute("begin immediate", json!([]))]));
    target.post("/_/faults", br#"{"kind":"refuse","match":"never"}"#);
    let (status, body) = target.post("/_/reset", b"");
    assert_eq!((status, body), (200, json!({ "reset": true, "data": false })));
    assert!(target.server().faults().is_empty());
    assert_eq!(counters(&target)["requests"], 0);
    assert_eq!(
        target.row("select count(*) from parent"),
        ["1"],
        "data stays unless asked for"
    );
    let (status, body) = target.post("/_/reset", br#"{"data":true}"#);
    assert_eq!((status, body), (200, json!({ "reset": true, "data": true })));
    assert_eq!(
        target.row("select count(*) from sqlite_schema where name not like 'sqlite_%'"),
        ["0"]
    );
    assert_eq!(target.row("pragma user_version"), ["0"]);
    let (status, _) = target.pipeline(open["baton"].as_str(), json!([]));
    assert_eq!(status, 400, "open streams are gone");
}

#[test]
fn the_token_guards_the_protocol_only() {
    let target = http_with(Options {
        auth_token: Some("right".to_owned()),
        ..Options::default()
    });
    let send = |header: Option<&str>| {
        let mut request = agent().post(format!("{}/v3/pipeline", target.url()));
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let mut answer = request.send(r#"{"requests":[]}"#).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    assert_eq!(send(Some("Bearer right")).0, 200);
    for header in [
        None,
        Some("Bearer wrong"),
        Some("Basic right"),
        Some("right"),
        Some("Bearer right2"),
    ] {
        let (status, body) = send(header);
        assert_eq!(status, 401, "{header:?}");
        assert!(body.starts_with(r#"{"error":"Unauthorized: `"#), "{body}");
    }
    assert_eq!(get(&target, "/_/counters").0, 200);
    assert_eq!(counters(&target)["requests"], 1, "a request that may not enter is none");
}

#[test]
fn the_small_routes_answer() {
    let target = http();
    let hello = (200, "Hello, this is HTTP API v2 (Hrana over HTTP)".to_owned());
    assert_eq!(get(&target, "/v2"), hello);
    assert_eq!(get(&target, "/v3"), hello);
    assert_eq!(get(&target, "/health"), (200, String::new()));
    assert!(get(&target, "/version").1.starts_with("sealpost database "));
    assert_eq!(get(&target, "/nowhere"), (404, String::new()));
    assert_eq!(get(&target, "/v3/pipeline").0, 405);
}
