//! The database client against a scripted wire and against the real engine: what is sent again, and what never is.

use std::cell::RefCell;
use std::collections::VecDeque;

use libsql::Value;
use sealpost::store::database::{Database as _, DatabaseError, Rows, Statement, Transaction};
use sealpost::store::hrana::{Hrana, Reply, Transport, TransportError};
use serde_json::{Value as Json, json};

use crate::support::{EngineTransport, HandClock, integer};

/// A wire that answers what it was told to, and keeps what it saw.
#[derive(Default)]
struct Script {
    replies: RefCell<VecDeque<Result<Reply, TransportError>>>,
    seen: RefCell<Vec<(Option<String>, Json)>>,
}

impl Script {
    fn of(replies: Vec<Result<Reply, TransportError>>) -> Self {
        Self {
            replies: RefCell::new(replies.into()),
            ..Self::default()
        }
    }

    fn requests(&self) -> usize {
        self.seen.borrow().len()
    }
}

impl Transport for &Script {
    async fn post(&self, base_url: Option<&str>, _path: &str, body: String) -> Result<Reply, TransportError> {
        let body = serde_json::from_str(&body).expect("a request is JSON");
        self.seen.borrow_mut().push((base_url.map(str::to_owned), body));
        tokio::task::yield_now().await;
        self.replies
            .borrow_mut()
            .pop_front()
            .expect("no more requests than answers")
    }
}

fn http(status: u16, body: impl ToString) -> Result<Reply, TransportError> {
    Ok(Reply {
        status,
        body: body.to_string().into_bytes(),
    })
}

fn done() -> Json {
    json!({ "cols": [], "rows": [], "affected_row_count": 0, "last_insert_rowid": null })
}

fn batch(results: Vec<Json>, errors: Vec<Json>) -> Json {
    json!({ "baton": null, "base_url": null, "results": [
        { "type": "ok", "response": { "type": "batch", "result": { "step_results": results, "step_errors": errors } } },
        { "type": "ok", "response": { "type": "close" } },
    ]})
}

/// The answer to a transaction of one statement that was committed.
fn committed() -> Json {
    batch(vec![done(), done(), done(), Json::Null], vec![Json::Null; 4])
}

/// The answer to a transaction of one statement in which `step` failed with `code`.
fn failed_at(step: usize, code: &str) -> Json {
    let results = (0..4).map(|at| if at < step { done() } else { Json::Null }).collect();
    let errors = (0..4)
        .map(|at| match at == step {
            true => json!({ "message": "no", "code": code }),
            false => Json::Null,
        })
        .collect();
    batch(results, errors)
}

fn refused_whole(code: &str) -> Json {
    json!({ "baton": null, "base_url": null, "results": [
        { "type": "error", "error": { "message": "no", "code": code } } ]})
}

fn one() -> Vec<Statement> {
    vec![Statement::new("UPDATE t SET a = ?1", vec![Value::Integer(1)])]
}

async fn run(script: &Script, transaction: Transaction) -> Result<Vec<Rows>, DatabaseError> {
    Hrana::new(script, HandClock::new()).run(transaction).await
}

/// Whatever leaves the outcome of a commit open.
fn lost_answers() -> Vec<Result<Reply, TransportError>> {
    vec![
        Err(TransportError::Disconnected),
        Err(TransportError::TimedOut),
        http(502, "<html>bad gateway</html>"),
        http(500, ""),
        http(408, ""),
        http(200, &committed().to_string()[..60]),
        http(200, "<html>hello</html>"),
        http(200, json!({ "baton": null, "results": [] })),
        http(200, refused_whole("STREAM_EXPIRED")),
    ]
}

#[tokio::test]
async fn a_write_that_must_not_run_twice_is_never_sent_twice_after_a_lost_answer() {
    for lost in lost_answers() {
        let shown = format!("{lost:?}");
        let script = Script::of(vec![lost]);
        let result = run(&script, Transaction::write(one())).await;
        assert_eq!(result, Err(DatabaseError::Ambiguous), "{shown}");
        assert_eq!(script.requests(), 1, "{shown}");
    }
}

#[tokio::test]
async fn a_read_and_a_repeatable_write_start_over_on_a_new_stream_after_a_lost_answer() {
    for transaction in [Transaction::read(one()), Transaction::repeatable_write(one())] {
        for lost in lost_answers() {
            let script = Script::of(vec![lost, http(200, committed())]);
            run(&script, transaction.clone())
                .await
                .expect("the second answer counts");
            let seen = script.seen.borrow();
            assert_eq!(seen.len(), 2);
            assert_eq!(seen[0], seen[1], "the very same request");
            assert_eq!(seen[1].1.get("baton"), None, "on a stream of its own");
        }
    }
}

#[tokio::test]
async fn a_repeatable_write_gives_up_and_says_that_nobody_knows() {
    let lost = || Err(TransportError::Disconnected);
    let script = Script::of(vec![lost(), lost(), lost()]);
    let result = run(&script, Transaction::repeatable_write(one())).await;
    assert_eq!(result, Err(DatabaseError::Ambiguous));
    assert_eq!(script.requests(), 3);
}

#[tokio::test]
async fn busy_at_begin_is_repeated_because_nothing_ran() {
    for busy in [http(200, failed_at(0, "SQLITE_BUSY")), http(429, "too many")] {
        let script = Script::of(vec![busy.clone(), http(200, committed())]);
        run(&script, Transaction::write(one())).await.expect("the second try");
        assert_eq!(script.requests(), 2);
        let script = Script::of(vec![busy; 5]);
        assert_eq!(run(&script, Transaction::write(one())).await, Err(DatabaseError::Busy));
        assert_eq!(script.requests(), 5, "a bounded number of tries");
    }
}

#[tokio::test]
async fn busy_after_begin_is_repeated_only_where_that_is_safe() {
    for code in ["SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED", "TRANSACTION_TIMEOUT"] {
        let script = Script::of(vec![http(200, failed_at(1, code))]);
        assert_eq!(run(&script, Transaction::write(one())).await, Err(DatabaseError::Busy));
        assert_eq!(script.requests(), 1, "{code}");
        let script = Script::of(vec![http(200, failed_at(1, code)), http(200, committed())]);
        run(&script, Transaction::repeatable_write(one()))
            .await
            .expect("the second try");
    }
}

#[tokio::test]
async fn two_hundred_is_not_success() {
    let null = || Json::Null;
    let unique = json!({ "message": "no", "code": "SQLITE_CONSTRAINT_UNIQUE" });
    let cases = [
        (
            "a step error",
            batch(
                vec![done(), null(), null(), null()],
                vec![null(), unique.clone(), null(), null()],
            ),
        ),
        ("a failed COMMIT", failed_at(2, "SQLITE_CONSTRAINT")),
        ("fewer results than steps", batch(vec![done(), done()], vec![null(); 4])),
        (
            "fewer errors than steps",
            batch(vec![done(), done(), done(), null()], vec![null(); 2]),
        ),
        (
            "no result of COMMIT",
            batch(vec![done(), done(), null(), null()], vec![null(); 4]),
        ),
        (
            "a statement without its result",
            batch(vec![done(), null(), done(), null()], vec![null(); 4]),
        ),
        ("an error of the whole batch", refused_whole("SQL_PARSE_ERROR")),
        (
            "an error without a code",
            json!({ "results": [{ "type": "error", "error": { "message": "no" } }] }),
        ),
        (
            "no batch in the answer",
            json!({ "results": [{ "type": "ok", "response": { "type": "close" } }] }),
        ),
        ("no results", json!({ "results": [] })),
        ("another kind of JSON", json!("ok")),
    ];
    for (name, answer) in cases {
        let script = Script::of(vec![http(200, answer)]);
        let result = run(&script, Transaction::write(one())).await;
        assert!(result.is_err(), "{name}: {result:?}");
        assert_eq!(script.requests(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_stream_that_the_server_kept_is_closed_at_the_address_it_named() {
    for (kept_by, base_url) in [
        (committed(), json!("http://127.0.0.1:9")),
        (failed_at(1, "SQLITE_CONSTRAINT"), Json::Null),
    ] {
        let mut answer = kept_by;
        answer["baton"] = json!("b1");
        answer["base_url"] = base_url.clone();
        // What the closing comes to does not change the answer we have.
        let script = Script::of(vec![http(200, answer), http(400, "Received an invalid baton")]);
        let _ = run(&script, Transaction::write(one())).await;
        let seen = script.seen.borrow();
        assert_eq!(seen[0].0, None, "the first request goes to the configured address");
        assert_eq!(seen[1].0.as_deref(), base_url.as_str());
        assert_eq!(seen[1].1, json!({ "baton": "b1", "requests": [{ "type": "close" }] }));
    }
}

#[tokio::test]
async fn a_script_closes_the_stream_that_the_server_kept() {
    let answer = json!({ "baton": "b2", "base_url": "http://127.0.0.1:9",
        "results": [{ "type": "error", "error": { "message": "no", "code": "SQLITE_ERROR" } }] });
    let script = Script::of(vec![http(200, answer), http(200, json!({ "results": [] }))]);
    let result = Hrana::new(&script, HandClock::new()).run_script("SELECT").await;
    assert_eq!(result, Err(DatabaseError::Failed { statement: 0 }));
    assert_eq!(script.seen.borrow()[1].1["baton"], "b2");
}

#[tokio::test]
async fn another_address_without_a_stream_changes_nothing() {
    let mut answer = committed();
    answer["base_url"] = json!("http://127.0.0.1:9");
    let script = Script::of(vec![http(200, answer), http(200, committed())]);
    let database = Hrana::new(&script, HandClock::new());
    for _ in 0..2 {
        database.run(Transaction::write(one())).await.expect("committed");
    }
    assert!(script.seen.borrow().iter().all(|(base_url, _)| base_url.is_none()));
}

#[tokio::test]
async fn calls_side_by_side_share_no_stream_and_each_closes_its_own() {
    let script = Script::of(vec![http(200, committed()), http(200, committed())]);
    let database = Hrana::new(&script, HandClock::new());
    let (one_call, other) = tokio::join!(
        database.run(Transaction::write(one())),
        database.run(Transaction::read(one()))
    );
    assert!(one_call.is_ok() && other.is_ok());
    for (_, body) in script.seen.borrow().iter() {
        assert_eq!(body.get("baton"), None);
        let kinds: Vec<_> = body["requests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["type"])
            .collect();
        assert_eq!(kinds, ["batch", "close"]);
    }
}

#[tokio::test]
async fn a_statement_that_ends_the_transaction_is_refused_before_it_is_sent() {
    for sql in [
        "COMMIT",
        " rollback",
        "END TRANSACTION",
        "BEGIN",
        "SAVEPOINT a",
        "RELEASE a",
        "-- harmless\nCOMMIT",
        "/* one */ /* two */ ;Rollback",
    ] {
        let script = Script::default();
        let mut statements = one();
        statements.push(Statement::new(sql, Vec::new()));
        let result = run(&script, Transaction::write(statements)).await;
        assert_eq!(result, Err(DatabaseError::Failed { statement: 1 }), "{sql}");
        assert_eq!(script.requests(), 0, "{sql}");
    }
}

/// A table with a row in it.
async fn engine() -> Hrana<EngineTransport, HandClock> {
    let database = Hrana::new(EngineTransport::new().await, HandClock::new());
    let tables = vec![
        Statement::new(
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER CHECK (b < 10))",
            Vec::new(),
        ),
        Statement::new("INSERT INTO t VALUES (1, 1)", Vec::new()),
    ];
    database
        .run(Transaction::write(tables))
        .await
        .expect("the table is made");
    database
}

async fn rows(database: &Hrana<EngineTransport, HandClock>) -> i64 {
    let question = Statement::new("SELECT count(*) FROM t", Vec::new());
    let results = database.run(Transaction::read(vec![question])).await.expect("read");
    integer(&results[0].rows[0][0])
}

#[tokio::test]
async fn nothing_of_a_batch_is_visible_when_one_statement_fails() {
    let cases: [(&str, &[&'static str]); 5] = [
        (
            "a duplicate in the second",
            &[
                "INSERT INTO t VALUES (2, 1)",
                "INSERT INTO t VALUES (1, 1)",
                "INSERT INTO t VALUES (3, 1)",
            ],
        ),
        (
            "a check in the last",
            &["INSERT INTO t VALUES (2, 1)", "INSERT INTO t VALUES (3, 10)"],
        ),
        (
            "OR ROLLBACK in the middle",
            &[
                "INSERT INTO t VALUES (2, 1)",
                "INSERT OR ROLLBACK INTO t VALUES (1, 1)",
                "INSERT INTO t VALUES (3, 1)",
            ],
        ),
        (
            "OR FAIL after some of its rows",
            &[
                "INSERT OR FAIL INTO t VALUES (2, 1), (3, 1), (1, 1)",
                "INSERT INTO t VALUES (4, 1)",
            ],
        ),
        (
            "no such table",
            &["INSERT INTO t VALUES (2, 1)", "INSERT INTO nowhere VALUES (1)"],
        ),
    ];
    for (name, texts) in cases {
        let database = engine().await;
        let statements = texts.iter().map(|sql| Statement::new(sql, Vec::new())).collect();
        let result = database.run(Transaction::write(statements)).await;
        assert!(
            matches!(
                result,
                Err(DatabaseError::Constraint { .. } | DatabaseError::Failed { .. })
            ),
            "{name}: {result:?}"
        );
        assert_eq!(rows(&database).await, 1, "{name}");
        let again = Statement::new("INSERT INTO t VALUES (9, 1)", Vec::new());
        database
            .run(Transaction::write(vec![again]))
            .await
            .expect("the lock is free again");
    }
}
