//! Batches, sequences and cursors.

use serde_json::{Value, json};

use crate::target::{Target, batch, execute, not, ok, result};

fn autocommit() -> Value {
    json!({ "type": "is_autocommit" })
}

fn and(conditions: &[Value]) -> Value {
    json!({ "type": "and", "conds": conditions })
}

/// The batch that Sealpost sends: one transaction whose every step depends on the one before.
fn transaction(statements: &[&str]) -> Value {
    let mut steps = vec![(Value::Null, "begin immediate")];
    for (index, sql) in statements.iter().chain(&["commit"]).enumerate() {
        steps.push((and(&[ok(index), not(autocommit())]), *sql));
    }
    let commit = steps.len() - 1;
    steps.push((and(&[ok(0), not(ok(commit)), not(autocommit())]), "rollback"));
    batch(&steps)
}

pub(crate) fn a_batch_alone_is_not_atomic(target: &Target) {
    let table = target.table("n int unique");
    let insert = format!("insert into {table} values(1)");
    let results = target.once(&[batch(&[(Value::Null, &insert), (Value::Null, &insert)])]);
    let result = result(&results[0]);
    assert_eq!(result["step_errors"][1]["code"], "SQLITE_CONSTRAINT");
    assert_eq!(result["step_results"][1], Value::Null);
    assert_eq!(target.row(&format!("select count(*) from {table}")), ["1"]);
}

pub(crate) fn a_conditional_batch_leaves_nothing_behind(target: &Target) {
    let table = target.table("n int unique");
    let (one, two) = (
        format!("insert into {table} values(1)"),
        format!("insert into {table} values(2)"),
    );
    let failed = result(&target.once(&[transaction(&[&one, &one, &two])])[0]);
    let errors = failed["step_errors"].as_array().unwrap();
    assert_eq!(errors.len(), 6);
    assert_eq!(errors[2]["code"], "SQLITE_CONSTRAINT");
    let ran: Vec<_> = failed["step_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| !step.is_null())
        .collect();
    assert_eq!(
        ran,
        [true, true, false, false, false, true],
        "begin, one, and the rollback"
    );
    assert_eq!(target.row(&format!("select count(*) from {table}")), ["0"]);
    let done = result(&target.once(&[transaction(&[&one, &two])])[0]);
    assert!(done["step_results"][3].is_object(), "the commit ran: {done}");
    assert_eq!(done["step_results"][4], Value::Null);
    assert_eq!(target.row(&format!("select count(*) from {table}")), ["2"]);
}

pub(crate) fn a_syntax_error_anywhere_runs_nothing(target: &Target) {
    let table = target.table("n");
    let insert = format!("insert into {table} values(1)");
    for (broken, code) in [
        ("selec 1", "SQL_PARSE_ERROR"),
        ("vacuum", "SQL_PARSE_ERROR"),
        ("select 1; select 2", "SQL_MANY_STATEMENTS"),
        ("", "SQL_NO_STATEMENT"),
    ] {
        let answer = &target.once(&[batch(&[(Value::Null, &insert), (Value::Null, broken)])])[0];
        assert_eq!(answer["type"], "error", "{answer}");
        assert_eq!(answer["error"]["code"], code);
    }
    assert_eq!(target.row(&format!("select count(*) from {table}")), ["0"]);
}

pub(crate) fn conditions_over_failed_and_skipped_steps(target: &Target) {
    let error = |step: usize| json!({ "type": "error", "step": step });
    let or = json!({ "type": "or", "conds": [ok(0), ok(2)] });
    let answer = target.once(&[batch(&[
        (Value::Null, "select * from nowhere"),
        (ok(0), "select 'skipped'"),
        (error(0), "select 'after the error'"),
        (error(1), "select 'a skipped step counts as an error'"),
        (not(ok(1)), "select 'so this runs too'"),
        (or, "select 'one of two'"),
        (json!({ "type": "and", "conds": [] }), "select 'none to fail'"),
        (json!({ "type": "or", "conds": [] }), "select 'none to hold'"),
    ])]);
    let result = result(&answer[0]);
    let ran: Vec<_> = result["step_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::is_object)
        .collect();
    assert_eq!(ran, [false, false, true, true, true, true, true, false]);
    let failed: Vec<_> = result["step_errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::is_object)
        .collect();
    assert_eq!(failed, [true, false, false, false, false, false, false, false]);
    for condition in [ok(0), ok(1), not(ok(5))] {
        let body = json!({ "requests": [batch(&[(condition, "select 1")])] });
        let (status, text) = target.post("/v3/pipeline", body.to_string().as_bytes());
        assert_eq!(
            (status, text.as_str()),
            (400, Some("Invalid reference to step in a batch condition"))
        );
    }
}

pub(crate) fn a_rollback_on_conflict_is_seen_by_is_autocommit(target: &Target) {
    let table = target.table("n int unique");
    let insert = |verb: &str, n: u8| format!("{verb} into {table} values({n})");
    let answer = target.once(&[batch(&[
        (Value::Null, "begin immediate"),
        (ok(0), &insert("insert", 1)),
        (ok(1), &insert("insert or rollback", 1)),
        (not(autocommit()), &insert("insert", 2)),
        (and(&[ok(0), not(autocommit())]), "commit"),
        (autocommit(), "select 'no transaction is open'"),
    ])]);
    let result = result(&answer[0]);
    assert_eq!(result["step_errors"][2]["code"], "SQLITE_CONSTRAINT");
    let ran: Vec<_> = result["step_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::is_object)
        .collect();
    assert_eq!(ran, [true, true, false, false, false, true]);
    assert_eq!(target.row(&format!("select count(*) from {table}")), ["0"]);
}

pub(crate) fn a_commit_can_fail(target: &Target) {
    let parent = target.table("id integer primary key");
    let child = target.table(&format!("p int references {parent}(id) deferrable initially deferred"));
    let orphan = format!("insert into {child} values(1)");
    let failed = result(&target.once(&[transaction(&[&orphan])])[0]);
    assert_eq!(
        failed["step_errors"][2]["message"],
        "SQLite error: FOREIGN KEY constraint failed"
    );
    assert!(failed["step_results"][3].is_object(), "the rollback ran: {failed}");
    assert_eq!(target.row(&format!("select count(*) from {child}")), ["0"]);
}

pub(crate) fn a_response_that_is_too_large_leaves_the_transaction_open(target: &Target) {
    let rows = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 11) \
        select printf('%1000000s', '') from n";
    let table = target.table("n");
    let insert = format!("insert into {table} values(1)");
    let results = target.once(&[
        batch(&[
            (Value::Null, "begin immediate"),
            (Value::Null, &insert),
            (Value::Null, rows),
            (Value::Null, "commit"),
        ]),
        json!({ "type": "get_autocommit" }),
    ]);
    assert_eq!(
        results[0]["error"],
        json!({ "message": "Response is too large", "code": "RESPONSE_TOO_LARGE" })
    );
    assert_eq!(results[1]["response"]["is_autocommit"], false);
    assert_eq!(
        target.row(&format!("select count(*) from {table}")),
        ["0"],
        "close rolled it back"
    );
    assert_eq!(target.run(rows)["code"], "RESPONSE_TOO_LARGE");
    let each = rows.replace("< 11", "< 8");
    let both = target.once(&[execute(&each, json!([])), execute(&each, json!([]))]);
    assert!(
        both.iter().all(|answer| answer["type"] == "ok"),
        "the limit is for each execute"
    );
}

pub(crate) fn a_sequence_stops_at_the_first_error(target: &Target) {
    let table = target.table("n");
    let sequence = |sql: &str| json!({ "type": "sequence", "sql": sql.replace('%', &table) });
    let results = target.once(&[
        sequence("insert into % values(1); select 1; insert into % values(2); -- done"),
        sequence(""),
        sequence("begin; insert into % values(3); insert into nowhere values(1); commit"),
        json!({ "type": "get_autocommit" }),
        sequence("insert into % values(4); selec 1"),
    ]);
    assert_eq!(results[0], json!({ "type": "ok", "response": { "type": "sequence" } }));
    assert_eq!(results[1]["type"], "ok");
    assert_eq!(results[2]["error"]["message"], "SQLite error: no such table: nowhere");
    assert_eq!(
        results[3]["response"]["is_autocommit"], false,
        "the transaction stays open"
    );
    assert_eq!(results[4]["error"]["code"], "SQL_PARSE_ERROR");
    assert_eq!(target.row(&format!("select group_concat(n) from {table}")), ["1,2"]);
}

pub(crate) fn a_cursor_gives_entries(target: &Target) {
    let body = json!({ "batch": { "steps": [
        { "stmt": { "sql": "select 1 as a union select 2" } },
        { "stmt": { "sql": "select * from nowhere" } },
        { "condition": ok(1), "stmt": { "sql": "select 'skipped'" } },
        { "stmt": { "sql": "select ?" } },
    ]}});
    let (status, text) = target.post("/v3/cursor", body.to_string().as_bytes());
    assert_eq!(status, 200);
    let entries: Vec<Value> = text
        .as_str()
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let baton = entries[0]["baton"].as_str().unwrap().to_owned();
    let kinds: Vec<_> = entries[1..]
        .iter()
        .map(|entry| entry["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "step_begin",
            "row",
            "row",
            "step_end",
            "step_error",
            "step_begin",
            "step_error",
            "replication_index"
        ]
    );
    assert_eq!(
        entries[1],
        json!({ "type": "step_begin", "step": 0, "cols": [{ "name": "a", "decltype": null }] })
    );
    assert_eq!(entries[2]["row"][0]["value"], "1");
    assert_eq!(entries[4]["affected_row_count"], 0);
    assert_eq!((&entries[5]["step"], &entries[7]["step"]), (&json!(1), &json!(3)));
    let (status, _) = target.pipeline(Some(&baton), json!([{ "type": "close" }]));
    assert_eq!(status, 200, "the stream goes on");
    let broken = json!({ "batch": { "steps": [{ "stmt": { "sql": "selec 1" } }] } });
    let (status, body) = target.post("/v3/cursor", broken.to_string().as_bytes());
    assert_eq!(status, 500);
    assert!(
        body["error"]
            .as_str()
            .unwrap()
            .starts_with("Internal Error: `SQL string could not be parsed")
    );
}

pub(crate) fn version_two_lacks_what_version_three_added(target: &Target) {
    let send = |request: Value| {
        let body = json!({ "requests": [request] });
        target.post("/v2/pipeline", body.to_string().as_bytes())
    };
    let (status, text) = send(json!({ "type": "get_autocommit" }));
    assert_eq!(status, 400);
    assert_eq!(
        text,
        "The `get_autocommit` request is only supported in protocol version hrana3 and higher"
    );
    let (status, text) = send(batch(&[(autocommit(), "select 1")]));
    assert_eq!(status, 400);
    assert_eq!(
        text,
        "BatchCond of type `is_autocommit` is only supported in protocol version hrana3 and higher"
    );
    let (status, body) = send(execute("select 1", json!([])));
    assert_eq!((status, &body["results"][0]["type"]), (200, &json!("ok")));
}
