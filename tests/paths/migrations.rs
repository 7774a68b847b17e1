//! The schema's history: a failure anywhere leaves nothing, a second run converges, and a program refuses a schema
//! that does not fit.

use sealpost::consume::Decision;
use sealpost::outbox::envelope::Envelope;
use sealpost::ports::{Clock as _, World as _};
use sealpost::store::database::{Database as _, Statement, Transaction};
use sealpost::store::guard::SCHEMA_VERSION;
use sealpost::store::hrana::Hrana;
use sealpost::store::migrations::{MIGRATIONS, MigrateError, Migration, migrate};

use super::doors::{OPERATOR, get, one_intent, post};
use crate::support::{EngineTransport, HandClock, TestWorld, Wire, text};

type Database = Hrana<EngineTransport, HandClock>;

async fn empty() -> (Database, EngineTransport, HandClock) {
    let clock = HandClock::new();
    let transport = EngineTransport::new().await;
    (Hrana::new(transport.clone(), clock.clone()), transport, clock)
}

/// The names of everything in the schema, but the ledger.
async fn schema(database: &Database) -> Vec<String> {
    let sql = "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name <> 'schema_migrations' ORDER BY 1";
    let results = database
        .run(Transaction::read(vec![Statement::new(sql, Vec::new())]))
        .await
        .expect("read");
    results[0].rows.iter().map(|row| text(&row[0])).collect()
}

async fn recorded(database: &Database) -> usize {
    let sql = "SELECT version FROM schema_migrations";
    let results = database
        .run(Transaction::read(vec![Statement::new(sql, Vec::new())]))
        .await
        .expect("read");
    results[0].rows.len()
}

/// The statements of a script: a trigger ends with its END, everything else with a semicolon at a line's end.
fn statements(script: &str) -> Vec<String> {
    let mut list = Vec::new();
    let mut current = String::new();
    for line in script.lines() {
        current.push_str(line);
        current.push('\n');
        let code = current.lines().filter(|line| !line.trim_start().starts_with("--"));
        let code: String = code.collect::<Vec<_>>().join("\n");
        let end = if code.contains("CREATE TRIGGER") { "END;" } else { ";" };
        if code.trim_end().ends_with(end) {
            list.push(std::mem::take(&mut current));
        }
    }
    assert!(current.trim().is_empty(), "a rest without an end: {current}");
    list
}

#[tokio::test]
async fn a_migration_that_fails_after_any_statement_leaves_nothing_and_a_second_run_converges() {
    for (at, migration) in MIGRATIONS.iter().enumerate() {
        let list = statements(migration.script);
        assert!(list.len() > 10, "the script is split into its statements");
        for after in 0..=list.len() {
            let (database, _, clock) = empty().await;
            let broken = format!(
                "{}SELECT broken FROM nowhere;\n{}",
                list[..after].concat(),
                list[after..].concat()
            );
            let spoilt = Migration {
                script: broken.leak(),
                ..*migration
            };
            migrate(&database, &MIGRATIONS[..at], clock.now())
                .await
                .expect("what came before");
            let before = schema(&database).await;
            let result = migrate(&database, &[spoilt], clock.now()).await;
            assert!(
                matches!(result, Err(MigrateError::Failed { .. })),
                "after {after}: {result:?}"
            );
            assert_eq!(schema(&database).await, before, "after {after}");
            assert_eq!(recorded(&database).await, at, "after {after}");
            let result = migrate(&database, MIGRATIONS, clock.now())
                .await
                .expect("the second run");
            assert_eq!(result.applied[0], migration.name);
            assert_eq!(result.version as usize, MIGRATIONS.len());
        }
    }
}

#[tokio::test]
async fn migrations_hold_no_transaction_of_their_own() {
    for migration in MIGRATIONS {
        for statement in statements(migration.script) {
            let code: Vec<&str> = statement
                .lines()
                .filter(|line| !line.trim_start().starts_with("--"))
                .collect();
            let first = code
                .join(" ")
                .trim()
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_ascii_uppercase();
            assert!(
                ["CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "DELETE"].contains(&first.as_str()),
                "{}: {first}",
                migration.name
            );
        }
    }
}

#[tokio::test]
async fn two_runners_at_once_apply_each_migration_once() {
    let clock = HandClock::new();
    let transport = EngineTransport::new().await;
    let one = Hrana::new(transport.clone(), clock.clone());
    let other = Hrana::new(transport.clone(), clock.clone());
    let (first, second) = tokio::join!(
        migrate(&one, MIGRATIONS, clock.now()),
        migrate(&other, MIGRATIONS, clock.now())
    );
    let (first, second) = (first.expect("one runner"), second.expect("the other runner"));
    assert_eq!(
        first.applied.len() + second.applied.len(),
        MIGRATIONS.len(),
        "{first:?} {second:?}"
    );
    assert_eq!(first.version, second.version);
    assert_eq!(recorded(&one).await, MIGRATIONS.len());
}

#[tokio::test]
async fn a_runner_waits_for_the_one_that_writes() {
    let (database, transport, clock) = empty().await;
    let busy =
        r#"{"baton":null,"results":[{"type":"error","error":{"message":"database is locked","code":"SQLITE_BUSY"}}]}"#;
    transport.next_with("\"sequence\"", Wire::Instead(200, busy.to_owned()));
    let result = migrate(&database, MIGRATIONS, clock.now()).await.expect("after a wait");
    assert_eq!(result.applied.len(), MIGRATIONS.len());
}

#[tokio::test]
async fn a_migration_whose_answer_is_lost_is_found_in_the_ledger() {
    for wire in [Wire::LoseAnswer, Wire::GatewayAfterCommit, Wire::Truncate] {
        let (database, transport, clock) = empty().await;
        transport.next_with("\"sequence\"", wire);
        migrate(&database, MIGRATIONS, clock.now())
            .await
            .expect("it was applied");
        assert_eq!(recorded(&database).await, MIGRATIONS.len());
        assert_eq!(
            migrate(&database, MIGRATIONS, clock.now())
                .await
                .expect("again")
                .applied,
            Vec::<&str>::new()
        );
    }
}

#[tokio::test]
async fn a_script_with_a_trigger_semicolons_in_strings_and_a_comment_at_its_end_runs_whole() {
    let (database, _, clock) = empty().await;
    let script = "-- first; a comment
        CREATE TABLE t (a TEXT DEFAULT 'x;y', b TEXT);
        CREATE TRIGGER tr AFTER INSERT ON t WHEN NEW.b IS NULL BEGIN
          UPDATE t SET b = 'one; two' WHERE a = NEW.a; DELETE FROM t WHERE a = ';';
        END;
        INSERT INTO t (a) VALUES ('it''s; here'); /* ; */
        INSERT INTO t (a) VALUES (';')
        -- and a comment; without an end";
    let migration = Migration {
        version: 1,
        name: "odd",
        script,
        serves_from: 1,
    };
    migrate(&database, &[migration], clock.now()).await.expect("it runs");
    let rows = database
        .run(Transaction::read(vec![Statement::new(
            "SELECT a, b FROM t",
            Vec::new(),
        )]))
        .await
        .expect("read");
    assert_eq!(rows[0].rows, vec![vec!["it's; here".into(), "one; two".into()]]);
    assert_eq!(recorded(&database).await, 1);
}

#[tokio::test]
async fn another_history_is_refused() {
    let (database, _, clock) = empty().await;
    migrate(&database, MIGRATIONS, clock.now()).await.expect("ours");
    let other = Migration {
        script: "CREATE TABLE other (a);",
        ..MIGRATIONS[0]
    };
    let result = migrate(&database, &[other], clock.now()).await;
    assert!(matches!(result, Err(MigrateError::OtherHistory { .. })), "{result:?}");
}

/// What the whole Worker does on a schema that it was not made for.
async fn refuses_work(world: &TestWorld, id: &str, why: &str) {
    let mut other = one_intent();
    other["intents"][0]["idempotencyKey"] = "other".into();
    let answer = post(world, &other).await;
    assert_eq!(
        (answer.status, answer.body["code"].as_str()),
        (503, Some("schema_mismatch")),
        "{why}: intake"
    );

    let health = get(world, "/health", Some(OPERATOR)).await;
    assert_eq!(health.status, 503, "{why}");
    assert!(
        health.body["troubles"].to_string().contains("schema_mismatch"),
        "{why}: {}",
        health.body
    );

    let batch = [
        Envelope::to_row(id).to_body(),
        Envelope::to_row("ntc_nobody123").to_body(),
        "what?".to_owned(),
    ];
    for decisions in [world.deliver_bodies(&batch).await, world.deliver_dead(&batch).await] {
        let acknowledged = decisions.iter().filter(|one| **one == Decision::Acknowledge).count();
        assert_eq!(acknowledged, 0, "{why}: {decisions:?}");
    }
    let tick = world.tick().await;
    assert_eq!((tick.published, tick.stopped_by), (0, Some("schema_mismatch")), "{why}");
    assert_eq!(world.mailer.calls(), 0, "{why}");
}

#[tokio::test]
async fn a_program_refuses_work_on_a_schema_that_does_not_fit_and_acknowledges_nothing() {
    for (sql, why) in [
        (
            "UPDATE schema_migrations SET version = -version",
            "older than the program",
        ),
        (
            "UPDATE schema_migrations SET version = version + 1000, serves_from = 1000",
            "too new for the program",
        ),
        ("DELETE FROM schema_migrations", "without a history"),
    ] {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.sql(sql, Vec::new()).await;
        refuses_work(&world, &id, why).await;
        assert_eq!(world.status(&id).await, "enqueued", "{why}");
        // The right schema, and everything goes on.
        world
            .sql(
                "INSERT INTO schema_migrations VALUES (?1, 'x', 'x', 1, 1)",
                vec![SCHEMA_VERSION.into()],
            )
            .await;
        world
            .sql(
                "DELETE FROM schema_migrations WHERE version <> ?1",
                vec![SCHEMA_VERSION.into()],
            )
            .await;
        world.deliver_ids(&[&id]).await;
        assert_eq!(world.status(&id).await, "sent", "{why}");
    }
}

#[tokio::test]
async fn a_program_refuses_work_on_a_database_that_nobody_migrated() {
    let world = TestWorld::new().await;
    world.transport.engine().clear().expect("everything is dropped");
    refuses_work(&world, "ntc_0123456789", "empty").await;
}

#[tokio::test]
async fn a_newer_schema_that_still_serves_the_program_is_fine() {
    let world = TestWorld::new().await;
    world
        .sql(
            "INSERT INTO schema_migrations VALUES (?1 + 1, 'next', 'x', 1, 1)",
            vec![SCHEMA_VERSION.into()],
        )
        .await;
    let id = world.notices(1).await.remove(0);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
    world.tick().await;
    assert_eq!(get(&world, "/health", None).await.status, 200);
    let _ = world.clock().now();
}
