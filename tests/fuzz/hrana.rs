//! What the database server answers, or what stands between it and us.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use core::time::Duration;

use libsql::Value as Sql;
use proptest::prelude::*;
use sealpost::outbox::time::Millis;
use sealpost::ports::Clock;
use sealpost::store::database::{Database as _, DatabaseError, Statement, Transaction};
use sealpost::store::hrana::{Hrana, Reply, Transport, TransportError, WireError, read_answer};
use serde_json::{Value, json};

use crate::document::{changed, changes};
use crate::hostile::{self, MARK};

const NAMES: &[&str] = &[
    "baton",
    "base_url",
    "results",
    "type",
    "response",
    "result",
    "step_results",
    "step_errors",
    "cols",
    "rows",
    "affected_row_count",
    "last_insert_rowid",
    "name",
    "value",
    "base64",
    "code",
    "message",
    "error",
];

const CODES: &[&str] = &[
    "SQLITE_BUSY",
    "SQLITE_BUSY_SNAPSHOT",
    "SQLITE_LOCKED",
    "SQLITE_CONSTRAINT",
    "SQLITE_CONSTRAINT_UNIQUE",
    "TRANSACTION_TIMEOUT",
    "TRANSACTION_BUSY",
    "STREAM_EXPIRED",
    "SQL_PARSE_ERROR",
    "RESPONSE_TOO_LARGE",
    "BLOCKED",
    "",
];

fn cell() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({ "type": "null" })),
        any::<i64>().prop_map(|number| json!({ "type": "integer", "value": number.to_string() })),
        any::<i64>().prop_map(|number| json!({ "type": "integer", "value": number })),
        (-1e9..1e9_f64).prop_map(|number| json!({ "type": "float", "value": number })),
        Just(json!({ "type": "float", "value": null })),
        hostile::text().prop_map(|text| json!({ "type": "text", "value": text })),
        Just(json!({ "type": "blob", "base64": "AAH/" })),
        Just(json!({ "type": "blob", "base64": "AAE" })),
    ]
}

fn step_result() -> impl Strategy<Value = Value> {
    (0_usize..3)
        .prop_flat_map(|columns| {
            prop::collection::vec(prop::collection::vec(cell(), columns), 0..3).prop_map(move |rows| (columns, rows))
        })
        .prop_map(|(columns, rows)| {
            let cols: Vec<Value> = (0..columns)
                .map(|number| json!({ "name": format!("c{number}"), "decltype": null }))
                .collect();
            json!({ "cols": cols, "rows": rows, "affected_row_count": 1, "last_insert_rowid": "1" })
        })
}

fn error() -> impl Strategy<Value = Value> {
    prop::sample::select(CODES).prop_map(|code| json!({ "message": format!("SQLite error: {MARK}"), "code": code }))
}

/// The answer to a transaction of `count` statements: committed, or with a failed step, or as one error.
fn answer(count: usize) -> impl Strategy<Value = Value> {
    let steps = count + 3;
    let committed = prop::collection::vec(step_result(), steps - 1).prop_map(move |results| {
        let mut results: Vec<Value> = results;
        results.push(Value::Null);
        (results, vec![Value::Null; steps])
    });
    let failed =
        (prop::collection::vec(step_result(), steps), 0..steps, error()).prop_map(move |(mut results, at, error)| {
            let mut errors = vec![Value::Null; steps];
            errors[at] = error;
            for result in results.iter_mut().take(steps - 1).skip(at) {
                *result = Value::Null;
            }
            (results, errors)
        });
    let batch = prop_oneof![3 => committed, 1 => failed].prop_map(|(results, errors)| {
        json!({ "type": "ok", "response": { "type": "batch", "result": { "step_results": results, "step_errors": errors } } })
    });
    let first = prop_oneof![8 => batch, 1 => error().prop_map(|error| json!({ "type": "error", "error": error }))];
    let baton = prop::option::of(hostile::text());
    (first, baton).prop_map(|(first, baton)| {
        json!({ "baton": baton, "base_url": null, "results": [first, { "type": "ok", "response": { "type": "close" } }] })
    })
}

/// The answer to the first request. Members that nobody asks for may hold what no value can: too deep, half a character.
fn first_result(body: &[u8]) -> Option<Value> {
    #[derive(serde::Deserialize)]
    struct Plain {
        results: Vec<Value>,
    }
    serde_json::from_slice::<Plain>(body).ok()?.results.into_iter().next()
}

/// Whether an answer proves the commit, as a plain reader sees it.
fn proves_commit(body: &[u8], count: usize) -> bool {
    let Some(first) = first_result(body) else {
        return false;
    };
    let result = &first["response"]["result"];
    let list = |name: &str| result[name].as_array().cloned().unwrap_or_default();
    let (results, errors) = (list("step_results"), list("step_errors"));
    first["type"] == "ok"
        && results.len() == count + 3
        && errors.len() == count + 3
        && results[1..=count + 1].iter().all(|step| !step.is_null())
}

/// Answers once, with these bytes; what is asked after that finds nobody.
#[derive(Clone)]
struct Once {
    reply: Rc<RefCell<Option<Reply>>>,
    posts: Rc<Cell<usize>>,
}

impl Once {
    fn new(status: u16, body: Vec<u8>) -> Self {
        Self {
            reply: Rc::new(RefCell::new(Some(Reply { status, body }))),
            posts: Rc::default(),
        }
    }
}

impl Transport for Once {
    async fn post(&self, _: Option<&str>, _: &str, _: String) -> Result<Reply, TransportError> {
        self.posts.set(self.posts.get() + 1);
        self.reply.borrow_mut().take().ok_or(TransportError::Disconnected)
    }
}

struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Millis {
        Millis::new(0)
    }
    async fn sleep(&self, _: Duration) {}
}

pub fn counted() -> impl Strategy<Value = (usize, Vec<u8>)> {
    (0_usize..4).prop_flat_map(|count| {
        // Sometimes the answer to another transaction.
        let other = prop_oneof![6 => Just(count), 1 => 0_usize..5];
        (Just(count), other.prop_flat_map(answer), changes(NAMES))
            .prop_map(|(count, answer, changes)| (count, changed(&answer, &changes)))
    })
}

proptest! {
    #[test]
    fn success_needs_the_result_of_commit_and_of_every_statement((count, body) in counted()) {
        let answer = read_answer(&body, count);
        match &answer.outcome {
            Ok(results) => {
                prop_assert!(proves_commit(&body, count));
                prop_assert_eq!(results.len(), count);
                for rows in results {
                    prop_assert!(rows.rows.iter().all(|row| row.len() == rows.columns.len()));
                }
            }
            Err(error) => {
                prop_assert!(hostile::debug_is_quiet(&error));
                // Where COMMIT has its result, nothing is called undone.
                if proves_commit(&body, count) {
                    prop_assert_eq!(error, &WireError::Database(DatabaseError::Ambiguous));
                }
            }
        }
        if let Err(WireError::Database(DatabaseError::Constraint { statement } | DatabaseError::Failed { statement })) = answer.outcome {
            prop_assert!(statement <= count, "{statement} of {count}");
        }
    }

    #[test]
    fn a_script_ran_only_where_the_answer_is_the_scripts(changes in changes(NAMES), status in prop_oneof![6 => Just(200_u16), 1 => any::<u16>()]) {
        let good = json!({ "baton": null, "base_url": null, "results": [
            { "type": "ok", "response": { "type": "sequence" } }, { "type": "ok", "response": { "type": "close" } },
        ]});
        let body = changed(&good, &changes);
        let database = Hrana::new(Once::new(status, body.clone()), NoTime);
        let outcome = futures_util::FutureExt::now_or_never(database.run_script("BEGIN; COMMIT;")).expect("nothing waits");
        if outcome.is_ok() {
            let first = first_result(&body).unwrap();
            prop_assert_eq!(status, 200);
            prop_assert_eq!(&first["type"], "ok");
            prop_assert_eq!(&first["response"]["type"], "sequence");
        }
    }

    #[test]
    fn a_write_that_may_not_be_repeated_is_sent_once_whatever_comes_back((count, body) in counted(), status in prop_oneof![4 => Just(200_u16), 1 => any::<u16>()]) {
        let transport = Once::new(status, body.clone());
        let statements = (0..count).map(|_| Statement::new("SELECT 1", vec![Sql::Null])).collect();
        let database = Hrana::new(transport.clone(), NoTime);
        let outcome = futures_util::FutureExt::now_or_never(database.run(Transaction::write(statements))).expect("nothing waits");
        let leaked = read_answer(&body, count).leaked.is_some() && status == 200;
        let busy = status == 429 || (status == 200 && read_answer(&body, count).outcome == Err(WireError::BeginBusy));
        match outcome {
            Ok(results) => prop_assert!(status == 200 && results.len() == count),
            // 408 and 5xx may come from a gateway after the commit.
            Err(DatabaseError::Refused { status: refused }) => prop_assert!(refused == status && refused != 408 && refused / 100 != 5),
            Err(error) => prop_assert!(hostile::is_quiet(&error)),
        }
        if !busy {
            prop_assert_eq!(transport.posts.get(), 1 + usize::from(leaked));
        }
    }
}

/// The answer to one statement that ran, where COMMIT ended so; `rolled_back` is ROLLBACK's result.
fn commit_ended(error: Value, rolled_back: Value) -> Vec<u8> {
    let done = json!({ "cols": [], "rows": [], "affected_row_count": 0 });
    let answer = json!({ "results": [{ "type": "ok", "response": { "type": "batch", "result": {
        "step_results": [done, done, null, rolled_back], "step_errors": [null, null, error, null],
    }}}]});
    answer.to_string().into_bytes()
}

#[test]
fn a_failed_commit_is_undone_for_certain_only_by_a_constraint_or_a_rollback() {
    let done = json!({ "cols": [], "rows": [], "affected_row_count": 0 });
    let code = |code: &str| json!({ "message": "no", "code": code });
    let decided = |error| Err(WireError::Database(error));
    for (error, rolled_back, outcome) in [
        (
            code("SQLITE_CONSTRAINT_FOREIGNKEY"),
            json!(null),
            decided(DatabaseError::Constraint { statement: 1 }),
        ),
        (
            code("SQLITE_CONSTRAINT"),
            done.clone(),
            decided(DatabaseError::Constraint { statement: 1 }),
        ),
        (
            code("SQLITE_IOERR"),
            done.clone(),
            decided(DatabaseError::Failed { statement: 1 }),
        ),
        (code("SQLITE_IOERR"), json!(null), decided(DatabaseError::Ambiguous)),
        (code("PROXY_ERROR"), json!(null), decided(DatabaseError::Ambiguous)),
        (
            json!({ "message": "no" }),
            json!(null),
            decided(DatabaseError::Ambiguous),
        ),
        (json!(null), done, decided(DatabaseError::Ambiguous)),
    ] {
        assert_eq!(read_answer(&commit_ended(error, rolled_back), 1).outcome, outcome);
    }
}

#[test]
fn a_failed_rollback_does_not_speak_for_commit() {
    let done = json!({ "cols": [], "rows": [], "affected_row_count": 0 });
    let answer = json!({ "results": [{ "type": "ok", "response": { "type": "batch", "result": {
        "step_results": [done, done, null, null], "step_errors": [null, null, null, { "message": "no", "code": "SQLITE_CONSTRAINT" }],
    }}}]});
    let outcome = read_answer(answer.to_string().as_bytes(), 1).outcome;
    assert_eq!(outcome, Err(WireError::Database(DatabaseError::Ambiguous)));
}

#[test]
fn a_script_is_not_done_by_the_answer_to_something_else() {
    for response in [
        json!({ "type": "close" }),
        json!({ "type": "batch" }),
        json!({}),
        json!(null),
        json!([]),
    ] {
        let body = json!({ "results": [{ "type": "ok", "response": response }] })
            .to_string()
            .into_bytes();
        let database = Hrana::new(Once::new(200, body), NoTime);
        let outcome =
            futures_util::FutureExt::now_or_never(database.run_script("BEGIN; COMMIT;")).expect("nothing waits");
        assert_eq!(outcome, Err(DatabaseError::Ambiguous), "{response}");
    }
}
