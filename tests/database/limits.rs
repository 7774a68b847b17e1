//! Limits in time and number, on a clock that is moved by hand, and what survives a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sealpost::devstack::database::Options;
use sealpost::devstack::database::clock::EngineClock;
use sealpost::devstack::database::engine::Engine;
use sealpost::devstack::database::proto::Version;
use sealpost::devstack::database::streams::{CONNECTIONS_MAX, IDLE_MS_MAX};
use sealpost::outbox::time::Millis;
use serde_json::json;

use crate::target::{Target, engine, execute, http_with};

fn open_stream(target: &Target, sql: &[&str]) -> String {
    let requests: Vec<_> = sql.iter().map(|sql| execute(sql, json!([]))).collect();
    let (status, body) = target.pipeline(None, json!(requests));
    assert_eq!(status, 200, "{body}");
    body["baton"].as_str().unwrap().to_owned()
}

#[test]
fn an_idle_stream_expires() {
    let target = engine();
    let clock = target.clock.as_ref().unwrap();
    target.run("create table t(n)");
    let baton = open_stream(&target, &["begin immediate", "insert into t values(1)"]);
    clock.advance(Duration::from_millis(IDLE_MS_MAX - 1));
    let (status, body) = target.pipeline(Some(&baton), json!([]));
    assert_eq!(status, 200, "each request starts the time anew");
    let baton = body["baton"].as_str().unwrap().to_owned();
    clock.advance(Duration::from_millis(IDLE_MS_MAX));
    let (status, body) = target.pipeline(Some(&baton), json!([]));
    let expired = json!({ "message": "The stream has expired due to inactivity", "code": "STREAM_EXPIRED" });
    assert_eq!((status, body), (400, expired));
    target.run("insert into t values(2)");
    assert_eq!(
        target.row("select group_concat(n) from t"),
        ["2"],
        "its transaction is rolled back"
    );
    clock.advance(Duration::from_secs(300));
    let (status, body) = target.pipeline(Some(&baton), json!([]));
    assert_eq!(
        (status, body),
        (400, json!("Received an invalid baton")),
        "and at last it is forgotten"
    );
}

#[test]
fn a_long_transaction_that_nobody_waits_for_may_commit() {
    let target = engine();
    target.run("create table t(n)");
    let baton = open_stream(&target, &["begin immediate", "insert into t values(1)"]);
    target.clock.as_ref().unwrap().advance(Duration::from_millis(6_500));
    assert_eq!(
        target.row("select count(*) from t"),
        ["0"],
        "a reader is no writer that waits"
    );
    let (status, body) = target.pipeline(Some(&baton), json!([execute("commit", json!([])), { "type": "close" }]));
    assert_eq!((status, &body["results"][0]["type"]), (200, &json!("ok")));
    assert_eq!(target.row("select count(*) from t"), ["1"]);
}

/// A clock that moves a little whenever somebody looks at it, once it is told to.
#[derive(Default)]
struct LookedAt {
    now_ms: AtomicI64,
    step_ms: AtomicI64,
}

impl EngineClock for LookedAt {
    fn now(&self) -> Millis {
        let step = self.step_ms.load(Ordering::SeqCst);
        Millis::new(self.now_ms.fetch_add(step, Ordering::SeqCst))
    }
}

#[test]
fn connections_run_out_and_come_back() {
    let clock = Arc::new(LookedAt::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let engine = runtime
        .block_on(Engine::open(None, Arc::clone(&clock) as Arc<_>))
        .unwrap();
    let ask = || engine.pipeline(Version::Hrana3, br#"{"requests":[]}"#);
    for _ in 0..CONNECTIONS_MAX {
        assert_eq!(ask().status, 200);
    }
    clock.step_ms.store(300, Ordering::SeqCst);
    let refused = ask();
    clock.step_ms.store(0, Ordering::SeqCst);
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.body,
        br#"{"error":"Timed out while opening database connection"}"#
    );
    assert!(clock.now().get() < 5_000, "it waited for about a second");
    clock
        .now_ms
        .fetch_add(i64::try_from(IDLE_MS_MAX).unwrap(), Ordering::SeqCst);
    assert_eq!(ask().status, 200, "expired streams gave theirs back");
}

#[test]
fn a_file_survives_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options {
        file: Some(folder.path().join("new folder/dev.db")),
        ..Options::default()
    };
    let first = http_with(options());
    first.run("create table t(n)");
    first.run("insert into t values(9223372036854775807)");
    let baton = open_stream(&first, &["begin immediate", "insert into t values(2)"]);
    drop(first);
    let second = http_with(options());
    assert_eq!(second.row("select group_concat(n) from t"), ["9223372036854775807"]);
    let (status, body) = second.pipeline(Some(&baton), json!([]));
    assert_eq!(
        (status, body),
        (400, json!("Received an invalid baton")),
        "batons are of one process"
    );
}
