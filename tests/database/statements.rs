//! One statement at a time: values, arguments, counts and errors.

use serde_json::{Value, json};

use crate::target::{Target, execute, integer, result, text};

pub(crate) fn values_come_back_as_they_went_in(target: &Target) {
    let table = target.table("v");
    let values = [
        json!({ "type": "null" }),
        integer(i64::MAX),
        integer(i64::MIN),
        integer(9_007_199_254_740_993),
        json!({ "type": "float", "value": 0.1 }),
        json!({ "type": "float", "value": -1e300 }),
        text(""),
        text("Grüße, 日本, \u{1f4ee}, \"quoted\"\n"),
        text("a\u{0}b"),
        json!({ "type": "blob", "base64": "" }),
        json!({ "type": "blob", "base64": "AP8" }),
        json!({ "type": "blob", "base64": "++//AA" }),
    ];
    for value in &values {
        let [inserted, read] = target.once(&[
            execute(&format!("insert into {table} values(?)"), json!([value])),
            execute(&format!("select v from {table} order by rowid desc limit 1"), json!([])),
        ])[..2]
            .to_vec()
            .try_into()
            .unwrap();
        assert_eq!(inserted["type"], "ok", "{inserted}");
        assert_eq!(result(&read)["rows"], json!([[value]]));
    }
    let padded = target.run_with("select ?", json!([{ "type": "blob", "base64": "AP8=" }]));
    assert_eq!(padded["rows"][0][0]["base64"], "AP8", "padding is taken and not given");
    let infinite = target.run("select 9e999, -9e999, 9e999 - 9e999, 1.0");
    assert_eq!(
        infinite["rows"][0],
        json!([
            { "type": "float", "value": null },
            { "type": "float", "value": null },
            { "type": "null" },
            { "type": "float", "value": 1.0 },
        ])
    );
}

pub(crate) fn arguments_by_position_and_by_name(target: &Target) {
    let positional = target.run_with("select ?2, ?1, ?2", json!([integer(1), integer(2)]));
    assert_eq!(positional["rows"], json!([[integer(2), integer(1), integer(2)]]));
    let named = json!({ "type": "execute", "stmt": {
        "sql": "select :a, @b, $c, :a",
        "named_args": [
            { "name": "a", "value": integer(1) },
            { "name": "@b", "value": integer(2) },
            { "name": "$c", "value": text("x") },
        ],
    }});
    let named = result(&target.once(&[named])[0]);
    assert_eq!(named["rows"], json!([[integer(1), integer(2), text("x"), integer(1)]]));
    assert_eq!(named["cols"][0], json!({ "name": ":a", "decltype": null }));
}

pub(crate) fn arguments_that_do_not_fit(target: &Target) {
    let cases = [
        ("select ?, ?", json!([integer(1)]), "value for parameter 2 not found"),
        ("select ?3", json!([]), "value for parameter 1 not found"),
        ("select :a", json!([integer(1)]), "value for parameter :a not found"),
        (
            "select 1",
            json!([integer(1)]),
            "too many parameters, expected 0 found 1",
        ),
    ];
    for (sql, args, reason) in cases {
        let error = target.run_with(sql, args);
        assert_eq!(error["code"], "ARGS_INVALID", "{sql}: {error}");
        assert_eq!(
            error["message"],
            format!("Arguments do not match SQL parameters: {reason}")
        );
    }
    let both = json!({ "type": "execute", "stmt": {
        "sql": "select :a",
        "args": [integer(1)],
        "named_args": [{ "name": "a", "value": integer(1) }],
    }});
    assert_eq!(
        result(&target.once(&[both])[0])["code"],
        "ARGS_BOTH_POSITIONAL_AND_NAMED"
    );
    let long = target.run_with("select length(?)", json!([text(&"x".repeat(5_000_001))]));
    assert_eq!(
        long["message"],
        "Arguments do not match SQL parameters: string or blob too big"
    );
    assert_eq!(target.run("select length(zeroblob(6000000))")["code"], "SQLITE_TOOBIG");
}

pub(crate) fn counts_and_rowids(target: &Target) {
    let table = target.table("id integer primary key, name text unique");
    let counts = |sql: &str| {
        let result = target.run(&sql.replace('%', &table));
        (
            result["affected_row_count"].clone(),
            result["last_insert_rowid"].clone(),
        )
    };
    assert_eq!(
        counts("insert into % values(9007199254740993, 'a')"),
        (json!(1), json!("9007199254740993"))
    );
    assert_eq!(counts("insert into %(name) values('b'), ('c')").0, json!(2));
    assert_eq!(
        counts("update % set name = 'd' where name = 'c'"),
        (json!(1), Value::Null)
    );
    assert_eq!(
        counts("update % set name = 'd' where name = 'nobody'"),
        (json!(0), Value::Null)
    );
    assert_eq!(
        counts("insert into %(name) values('a') on conflict do nothing").0,
        json!(0)
    );
    assert_eq!(counts("select * from %"), (json!(0), Value::Null));
    assert_eq!(counts("delete from %"), (json!(3), Value::Null));
    let read =
        target.run("with recursive n(x) as (select 1 union all select x + 1 from n where x < 5) select x from n");
    assert_eq!(read["rows"].as_array().unwrap().len(), 5);
    assert!(read["rows_read"].is_u64() && read["rows_written"].is_u64(), "{read}");
}

pub(crate) fn returning_gives_rows_and_counts(target: &Target) {
    let table = target.table("id integer primary key, n int");
    let inserted = target.run(&format!(
        "insert into {table}(n) values(5) returning id, n * 2 as twice"
    ));
    assert_eq!(inserted["rows"], json!([[integer(1), integer(10)]]));
    assert_eq!(
        inserted["cols"],
        json!([{ "name": "id", "decltype": "INTEGER" }, { "name": "twice", "decltype": null }])
    );
    assert_eq!(inserted["affected_row_count"], 1);
    assert_eq!(inserted["last_insert_rowid"], "1");
    let missed = target.run(&format!("update {table} set n = 6 where n = 7 returning id"));
    assert_eq!(
        (&missed["rows"], &missed["affected_row_count"]),
        (&json!([]), &json!(0))
    );
}

pub(crate) fn errors_have_the_real_codes_and_texts(target: &Target) {
    let table = target.table("id integer primary key, n int unique check (n < 10)");
    target.run(&format!("insert into {table} values(1, 1)"));
    let cases = [
        (
            "insert into % values(2, 1)",
            "SQLITE_CONSTRAINT",
            "SQLite error: UNIQUE constraint failed: %.n",
        ),
        (
            "insert into % values(1, 2)",
            "SQLITE_CONSTRAINT",
            "SQLite error: UNIQUE constraint failed: %.id",
        ),
        (
            "insert into % values(2, 11)",
            "SQLITE_CONSTRAINT",
            "SQLite error: CHECK constraint failed: n < 10",
        ),
        (
            "select * from nowhere",
            "SQLITE_UNKNOWN",
            "SQLite error: no such table: nowhere",
        ),
        (
            "select missing from %",
            "SQL_INPUT_ERROR",
            "SQL input error: no such column: missing (at offset 7)",
        ),
        (
            "select 1 limit 'a'",
            "SQLITE_MISMATCH",
            "SQLite error: datatype mismatch",
        ),
        (
            "rollback",
            "SQLITE_UNKNOWN",
            "SQLite error: cannot rollback - no transaction is active",
        ),
        ("", "SQL_NO_STATEMENT", "SQL string does not contain any statement"),
        (
            " -- only a comment",
            "SQL_NO_STATEMENT",
            "SQL string does not contain any statement",
        ),
        (
            "select 1; select 2",
            "SQL_MANY_STATEMENTS",
            "SQL string contains more than one statement",
        ),
        (
            "selec 1",
            "SQL_PARSE_ERROR",
            "SQL string could not be parsed: syntax error around L1:6: `selec`",
        ),
    ];
    for (sql, code, message) in cases {
        let error = target.run(&sql.replace('%', &table));
        assert_eq!(error["code"], code, "{sql}: {error}");
        assert_eq!(error["message"], message.replace('%', &table), "{sql}");
    }
}

pub(crate) fn statements_that_are_not_run(target: &Target) {
    let refused = [
        "vacuum",
        "analyze",
        "create temp table x(a)",
        "attach 'x' as y",
        "pragma journal_mode=delete",
        "pragma optimize",
        "pragma busy_timeout=1",
    ];
    for sql in refused {
        let error = target.run(sql);
        assert_eq!(error["code"], "SQL_PARSE_ERROR", "{sql}: {error}");
        assert_eq!(
            error["message"],
            format!("SQL string could not be parsed: unsupported statement: {sql}")
        );
    }
    assert_eq!(target.row("pragma journal_mode"), ["wal"]);
    assert!(target.run("explain query plan select 1")["rows"].is_array());
}

pub(crate) fn messages_that_cannot_be_read(target: &Target) {
    let bodies = [
        r#"{"requests":"#,
        r#"{}"#,
        r#"{"requests":[{"type":"unheard of"}]}"#,
        r#"{"requests":[{"type":"execute","stmt":{"sql":"select ?","args":[{"type":"odd"}]}}]}"#,
        r#"{"requests":[{"type":"execute","stmt":{"sql":"select ?","args":[{"type":"integer","value":1}]}}]}"#,
        r#"{"requests":[{"type":"execute","stmt":{"sql":"select ?","args":[{"type":"integer","value":"9223372036854775808"}]}}]}"#,
        r#"{"requests":[{"type":"execute","stmt":{"sql":"select ?","args":[{"type":"float","value":null}]}}]}"#,
        r#"{"requests":[{"type":"execute","stmt":{"sql":"select ?","args":[{"type":"blob","base64":"_-8"}]}}]}"#,
    ];
    for body in bodies {
        let (status, text) = target.post("/v3/pipeline", body.as_bytes());
        assert_eq!(status, 400, "{body}: {text}");
        let text = text.as_str().unwrap();
        assert!(
            text.starts_with("Cannot deserialize client message from JSON: "),
            "{text}"
        );
    }
    let (status, body) = target.post(
        "/v3/pipeline",
        br#"{"requests":[{"type":"close","more":1}],"something":"new"}"#,
    );
    assert_eq!(status, 200, "unknown fields are ignored: {body}");
}

pub(crate) fn foreign_keys_are_on(target: &Target) {
    let parent = target.table("id integer primary key");
    let child = target.table(&format!("parent int references {parent}(id)"));
    let error = target.run(&format!("insert into {child} values(1)"));
    assert_eq!(error["message"], "SQLite error: FOREIGN KEY constraint failed");
    assert_eq!(error["code"], "SQLITE_CONSTRAINT");
}
