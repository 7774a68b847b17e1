//! Streams: batons, transactions across requests, and several at once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::target::{Target, execute, integer, result};

/// Sends requests on a stream: the next baton and the results.
fn go_on(target: &Target, baton: Option<&str>, requests: &[Value]) -> (String, Vec<Value>) {
    let (status, body) = target.pipeline(baton, json!(requests));
    assert_eq!(status, 200, "{body}");
    (
        body["baton"].as_str().unwrap().to_owned(),
        body["results"].as_array().unwrap().clone(),
    )
}

fn sql(text: &str) -> Value {
    execute(text, json!([]))
}

fn count(target: &Target, table: &str) -> String {
    target.row(&format!("select count(*) from {table}"))[0].clone()
}

pub(crate) fn a_transaction_lives_across_requests(target: &Target) {
    let table = target.table("n");
    let (baton, _) = go_on(target, None, &[sql("begin immediate")]);
    let (baton, results) = go_on(
        target,
        Some(&baton),
        &[
            sql(&format!("insert into {table} values(1)")),
            json!({ "type": "get_autocommit" }),
        ],
    );
    assert_eq!(results[1]["response"]["is_autocommit"], false);
    assert_eq!(count(target, &table), "0", "others do not see it");
    let (status, body) = target.pipeline(Some(&baton), json!([sql("commit"), { "type": "close" }]));
    assert_eq!((status, &body["baton"]), (200, &Value::Null));
    assert_eq!(count(target, &table), "1");
}

pub(crate) fn every_baton_is_used_once(target: &Target) {
    let (first, _) = go_on(target, None, &[]);
    let (second, _) = go_on(target, Some(&first), &[sql("select 1")]);
    assert_ne!(first, second);
    assert_eq!(first.len(), 64, "48 bytes in base64");
    let refused = |baton: &str| {
        let (status, body) = target.pipeline(Some(baton), json!([]));
        assert_eq!(status, 400);
        body.as_str().unwrap().to_owned()
    };
    assert_eq!(refused(&first), "Received a baton that has already been used");
    let last = if second.ends_with("AA") { "BB" } else { "AA" };
    let forged = format!("{}{last}", &second[..62]);
    for invalid in [forged.as_str(), "", "abc", "!!", &second[..60]] {
        assert_eq!(refused(invalid), "Received an invalid baton");
    }
    let (third, _) = go_on(target, Some(&second), &[sql("select 1")]);
    let (status, body) = target.pipeline(Some(&third), json!([{ "type": "close" }]));
    assert_eq!((status, &body["baton"]), (200, &Value::Null));
    assert_eq!(refused(&third), "Received an invalid baton");
}

pub(crate) fn closing_rolls_back(target: &Target) {
    let table = target.table("n");
    target.once(&[sql("begin"), sql(&format!("insert into {table} values(1)"))]);
    assert_eq!(count(target, &table), "0");
    let (status, text) = target.pipeline(None, json!([{ "type": "close" }, sql("select 1")]));
    assert_eq!((status, text.as_str()), (400, Some("Stream for this baton was closed")));
}

pub(crate) fn what_ran_before_a_protocol_error_stays(target: &Target) {
    let table = target.table("n");
    let insert = sql(&format!("insert into {table} values(1)"));
    let (status, text) = target.pipeline(None, json!([insert, { "type": "execute", "stmt": {} }]));
    assert_eq!(
        (status, text.as_str()),
        (400, Some("Either `sql` or `sql_id` are required"))
    );
    assert_eq!(count(target, &table), "1");
    let (baton, _) = go_on(target, None, &[sql("begin immediate"), insert.clone()]);
    let (status, _) = target.pipeline(Some(&baton), json!([{ "type": "execute", "stmt": {} }]));
    assert_eq!(status, 400);
    let (status, text) = target.pipeline(Some(&baton), json!([]));
    assert_eq!(
        (status, text.as_str()),
        (400, Some("Received an invalid baton")),
        "the stream is gone"
    );
    assert_eq!(count(target, &table), "1", "and so is its transaction");
    target.run(&format!("insert into {table} values(2)"));
    assert_eq!(count(target, &table), "2", "and the lock");
}

pub(crate) fn stored_texts(target: &Target) {
    let store = |id: i32, sql: &str| json!({ "type": "store_sql", "sql_id": id, "sql": sql });
    let stored = json!({ "type": "execute", "stmt": { "sql_id": 1 } });
    let results = target.once(&[
        store(1, "select 7 as seven"),
        stored.clone(),
        json!({ "type": "close_sql", "sql_id": 1 }),
        json!({ "type": "close_sql", "sql_id": 1 }),
        store(1, "select 8"),
        stored.clone(),
    ]);
    assert_eq!(result(&results[1])["rows"], json!([[integer(7)]]));
    assert_eq!(results[3]["type"], "ok");
    assert_eq!(result(&results[5])["rows"], json!([[integer(8)]]));
    let refused = |requests: Value| {
        let (status, text) = target.pipeline(None, requests);
        assert_eq!(status, 400, "{text}");
        text.as_str().unwrap().to_owned()
    };
    assert_eq!(refused(json!([stored])), "SQL text 1 not found");
    assert_eq!(
        refused(json!([store(1, "select 1"), store(1, "select 1")])),
        "SQL text 1 already exists"
    );
    let both = json!({ "type": "execute", "stmt": { "sql": "select 1", "sql_id": 1 } });
    assert_eq!(
        refused(json!([both])),
        "Either `sql` or `sql_id` are required, but not both"
    );
    let many: Vec<_> = (0..51).map(|id| store(id, "select 1")).collect();
    let results = target.once(&many);
    assert_eq!(results[49]["type"], "ok");
    assert_eq!(
        results[50]["error"],
        json!({
            "message": "The server already stores 50 SQL texts, it cannot store more",
            "code": "SQL_STORE_TOO_MANY",
        })
    );
    let long = &target.once(&[store(1, &"x".repeat(5_001))])[0];
    assert_eq!(
        long["error"],
        json!({
            "message": "The statement is too large to be stored: 5.0 KB/5.0 KB",
            "code": "SQL_STORE_TOO_LARGE",
        })
    );
}

pub(crate) fn describe_tells_parameters_and_columns(target: &Target) {
    let table = target.table("id integer primary key, name text");
    let describe = |sql: &str| {
        let request = json!({ "type": "describe", "sql": sql.replace('%', &table) });
        result(&target.once(&[request])[0])
    };
    assert_eq!(
        describe("select id, name as x, :p, ?4 from %"),
        json!({
            "params": [{ "name": ":p" }, { "name": null }, { "name": null }, { "name": "?4" }],
            "cols": [
                { "name": "id", "decltype": "INTEGER" },
                { "name": "x", "decltype": "TEXT" },
                { "name": ":p", "decltype": null },
                { "name": "?4", "decltype": null },
            ],
            "is_explain": false,
            "is_readonly": true,
        })
    );
    let kind = |sql: &str| {
        let description = describe(sql);
        (description["is_explain"].clone(), description["is_readonly"].clone())
    };
    assert_eq!(kind("insert into % values(?, ?)"), (json!(false), json!(false)));
    assert_eq!(kind("explain query plan select * from %"), (json!(true), json!(true)));
    assert_eq!(kind("begin immediate"), (json!(false), json!(false)));
    assert_eq!(describe("select missing from %")["code"], "SQL_INPUT_ERROR");
}

pub(crate) fn a_stale_reader_cannot_write(target: &Target) {
    let table = target.table("n");
    let read = sql(&format!("select count(*) from {table}"));
    let write = sql(&format!("insert into {table} values(1)"));
    let (first, _) = go_on(target, None, &[sql("begin"), read.clone()]);
    let (second, _) = go_on(target, None, &[sql("begin"), read]);
    let (_, results) = go_on(target, Some(&first), &[write.clone(), sql("commit")]);
    assert!(results.iter().all(|answer| answer["type"] == "ok"));
    let (_, results) = go_on(target, Some(&second), &[write, sql("rollback")]);
    assert_eq!(
        results[0]["error"],
        json!({ "message": "SQLite error: database is locked", "code": "SQLITE_BUSY" })
    );
    assert_eq!(count(target, &table), "1");
}

pub(crate) fn twenty_writers_at_once(target: &Target) {
    const WRITERS: usize = 20;
    const ROUNDS: usize = 10;
    let table = target.table("writer int, round int");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let table = &table;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let step = |index: usize, sql: &str| {
                        json!({ "condition": crate::target::ok(index), "stmt": { "sql": sql } })
                    };
                    let insert = format!("insert into {table} values({writer}, {round})");
                    let batch = json!({ "type": "batch", "batch": { "steps": [
                        { "stmt": { "sql": "begin immediate" } },
                        step(0, &insert),
                        step(1, "commit"),
                    ]}});
                    let done = result(&target.once(&[batch])[0]);
                    assert!(done["step_results"][2].is_object(), "writer {writer}, round {round}: {done}");
                }
            });
        }
    });
    assert_eq!(count(target, &table), (WRITERS * ROUNDS).to_string());
}

pub(crate) fn an_overdue_transaction_ends_for_a_waiting_writer(target: &Target) {
    let table = target.table("who");
    let insert = |who: &str| sql(&format!("insert into {table} values('{who}')"));
    let (owner, _) = go_on(target, None, &[sql("begin immediate"), insert("owner")]);
    if let Some(clock) = &target.clock {
        clock.advance(Duration::from_secs(5));
    }
    // A server with a clock of its own makes this one wait for five seconds.
    let waited = target.once(&[sql("begin immediate"), insert("waiter"), sql("commit")]);
    assert!(waited.iter().all(|answer| answer["type"] == "ok"), "{waited:?}");
    let (owner, results) = go_on(target, Some(&owner), &[insert("late"), sql("commit")]);
    assert_eq!(
        results[0]["error"],
        json!({ "message": "Transaction timed out", "code": "TRANSACTION_TIMEOUT" })
    );
    assert_eq!(
        results[1]["error"]["code"], "SQLITE_UNKNOWN",
        "no transaction is left to commit"
    );
    go_on(target, Some(&owner), &[insert("outside any transaction")]);
    assert_eq!(
        target.row(&format!("select group_concat(who) from {table}")),
        ["waiter,outside any transaction"]
    );
}
