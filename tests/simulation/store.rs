//! The database of a run: the embedded engine in memory, with the real schema and the real statements.

use std::collections::BTreeMap;

use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, ErrorCode, params_from_iter};
use sealpost::devstack::database::clock::HandClock;
use sealpost::devstack::database::engine::Engine;
use sealpost::devstack::database::proto::Version;
use sealpost::outbox::time::Millis;
use sealpost::store::database::{DatabaseError, Mode, Rows, Transaction};
use sealpost::store::hrana::{WireError, read_answer, transaction_request};
use sealpost::store::migrations::MIGRATIONS;

use super::setting::START_MS;

/// Statements whose plans are kept: more than the program has.
const STATEMENTS_KEPT: usize = 256;

/// Replaces pieces of SQL: how a planted bug takes a guard out of a statement or of the schema.
pub type Rewrites = &'static [(&'static str, &'static str)];

/// What the oracle looks at in a row of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    pub id: String,
    pub key: String,
    pub family: String,
    pub status: String,
    pub cause: String,
    pub token: Option<String>,
    pub expires_at: Option<i64>,
    pub relay_at: Option<i64>,
    pub next_attempt_at: Option<i64>,
    pub not_before: Option<i64>,
    pub not_after: Option<i64>,
    pub sha256: Option<String>,
    /// The account that it is sealed for, however the row says it.
    pub scope: Option<String>,
    /// The batch that it is frozen in.
    pub batch: Option<String>,
    pub message_id: Option<String>,
    pub recipient_hash: String,
    pub updated_at: i64,
    pub delivery: Option<String>,
    pub resend_of: Option<String>,
    pub resolved_at: Option<i64>,
    pub seq: i64,
    pub publish_count: i64,
    pub doubts: i64,
}

/// A pause as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseRow {
    pub until: i64,
    pub probe: Option<String>,
}

/// What the oracle looks at in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    pub outbox_id: String,
    pub token: String,
    pub outcome: Option<String>,
}

/// One event, as the triggers wrote it.
pub struct EventRow {
    pub seq: i64,
    pub outbox_id: String,
    pub from: Option<String>,
    pub to: String,
    pub cause: String,
    pub at: i64,
}

pub struct Store {
    connection: Connection,
    /// The whole server, where transactions go through the protocol's bytes and not straight to the engine.
    server: Option<Engine>,
    rewrites: Rewrites,
    rewritten: std::cell::RefCell<BTreeMap<usize, String>>,
    /// Which rewrites found their text at least once.
    pub hits: std::cell::RefCell<Vec<bool>>,
}

impl Store {
    /// A fresh database with all migrations, some of their text replaced.
    pub fn open(schema: Rewrites, rewrites: Rewrites) -> Self {
        let connection = Connection::open_in_memory().expect("the embedded engine opens");
        Self::with(connection, None, schema, rewrites)
    }

    /// The same behind the development database's own server: every transaction is written and read as Hrana.
    pub fn open_behind_the_server() -> Self {
        let clock = Arc::new(HandClock::new(Millis::new(START_MS)));
        let engine = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime to open with")
            .block_on(Engine::open(None, clock))
            .expect("the server opens");
        let connection = Connection::open(engine.file()).expect("the server's file opens");
        Self::with(connection, Some(engine), &[], &[])
    }

    fn with(connection: Connection, server: Option<Engine>, schema: Rewrites, rewrites: Rewrites) -> Self {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        // Plans do not depend on the values that are bound, so that they are made once.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .expect("a setting of the engine");
        connection
            .execute_batch("PRAGMA foreign_keys = OFF")
            .expect("a setting of the engine");
        // The ledger of migrations is the migrator's own; the guard reads it.
        connection
            .execute_batch(
                "CREATE TABLE schema_migrations (version INTEGER NOT NULL PRIMARY KEY, serves_from INTEGER NOT NULL)",
            )
            .expect("the ledger of migrations");
        for (find, _) in schema {
            let known = MIGRATIONS.iter().any(|migration| migration.script.contains(find));
            assert!(known, "the schema has no {find}");
        }
        for migration in MIGRATIONS {
            let mut sql = migration.script.to_owned();
            for (find, replace) in schema {
                sql = sql.replace(find, replace);
            }
            connection.execute_batch(&sql).expect("the migrations apply");
            let applied = (migration.version, migration.serves_from);
            connection
                .execute("INSERT INTO schema_migrations VALUES (?1, ?2)", applied)
                .expect("the ledger of migrations");
        }
        Self {
            connection,
            server,
            rewrites,
            rewritten: Default::default(),
            hits: std::cell::RefCell::new(vec![false; rewrites.len()]),
        }
    }

    /// Empties every table, so that one schema serves many runs.
    pub fn clear(&self) {
        self.connection
            .execute_batch(
                "BEGIN; DELETE FROM outbox; DELETE FROM intent_keys; DELETE FROM letters; DELETE FROM seals; DELETE FROM attachments;
                 DELETE FROM attempts; DELETE FROM events; DELETE FROM suppressions; DELETE FROM pauses;
                 DELETE FROM pace; DELETE FROM parking; DELETE FROM receipts; DELETE FROM suppression_history;
                 DELETE FROM operator_log; DELETE FROM relay_health; DELETE FROM letter_secrets; DELETE FROM replays;
                 DELETE FROM tallies; DELETE FROM provider_batches; DELETE FROM batch_seals;
                 DELETE FROM sqlite_sequence; COMMIT;",
            )
            .expect("the tables are emptied");
    }

    fn text<'a>(&self, sql: &'static str, room: &'a mut String) -> &'a str {
        if self.rewrites.is_empty() {
            return sql;
        }
        let mut rewritten = self.rewritten.borrow_mut();
        let text = rewritten.entry(sql.as_ptr() as usize).or_insert_with(|| {
            let mut text = sql.to_owned();
            for (number, (find, replace)) in self.rewrites.iter().enumerate() {
                if text.contains(find) {
                    self.hits.borrow_mut()[number] = true;
                    text = text.replace(find, replace);
                }
            }
            text
        });
        room.clone_from(text);
        room
    }

    /// Runs one transaction as the server does: every statement or none.
    pub fn execute(&self, transaction: &Transaction) -> Result<Vec<Rows>, WireError> {
        if let Some(server) = &self.server {
            let request = transaction_request(transaction);
            let answer = server.pipeline(Version::Hrana3, request.as_bytes());
            assert_eq!(answer.status, 200, "the server answers");
            return read_answer(&answer.body, transaction.statements.len()).outcome;
        }
        let begin = match transaction.mode {
            Mode::Write => "BEGIN IMMEDIATE",
            Mode::Read => "BEGIN DEFERRED",
        };
        self.run(begin);
        let mut results = Vec::with_capacity(transaction.statements.len());
        let mut room = String::new();
        for (number, statement) in transaction.statements.iter().enumerate() {
            match self.statement(self.text(statement.sql, &mut room), &statement.args) {
                Ok(rows) => results.push(rows),
                Err(error) => {
                    self.run("ROLLBACK");
                    let constraint = error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation);
                    return Err(WireError::Database(if constraint {
                        DatabaseError::Constraint { statement: number }
                    } else {
                        println!("database: {error}");
                        DatabaseError::Failed { statement: number }
                    }));
                }
            }
        }
        self.run("COMMIT");
        Ok(results)
    }

    fn run(&self, sql: &str) {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .expect("a transaction begins and ends");
    }

    fn statement(&self, sql: &str, args: &[libsql::Value]) -> rusqlite::Result<Rows> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let columns: Vec<String> = statement.column_names().iter().map(|&name| name.to_owned()).collect();
        let width = columns.len();
        let args: Vec<Cell> = args.iter().map(cell).collect();
        let mut found = statement.query(params_from_iter(args))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let values: rusqlite::Result<Vec<_>> = (0..width).map(|at| row.get_ref(at).map(value)).collect();
            rows.push(values?);
        }
        drop(found);
        let affected = self.connection.changes();
        Ok(Rows {
            columns,
            rows,
            affected,
        })
    }

    /// The rows of the outbox, by id.
    pub fn outbox(&self) -> BTreeMap<String, OutboxRow> {
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, idempotency_key, family, status, cause, claim_token, claim_expires_at, relay_at,
                   next_attempt_at, not_before, not_after, seal_sha256,
                   coalesce((SELECT b.provider_scope FROM provider_batches b WHERE b.id = batch_id), provider_scope),
                   provider_message_id, recipient_hash, updated_at, delivery, resend_of, resolved_at, batch_id, seq, publish_count, doubts
                 FROM outbox",
            )
            .expect("the schema is as the oracle knows it");
        let rows = statement
            .query_map([], |row| {
                Ok(OutboxRow {
                    id: row.get(0)?,
                    key: row.get(1)?,
                    family: row.get(2)?,
                    status: row.get(3)?,
                    cause: row.get(4)?,
                    token: row.get(5)?,
                    expires_at: row.get(6)?,
                    relay_at: row.get(7)?,
                    next_attempt_at: row.get(8)?,
                    not_before: row.get(9)?,
                    not_after: row.get(10)?,
                    sha256: row.get(11)?,
                    scope: row.get(12)?,
                    message_id: row.get(13)?,
                    recipient_hash: row.get(14)?,
                    updated_at: row.get(15)?,
                    delivery: row.get(16)?,
                    resend_of: row.get(17)?,
                    resolved_at: row.get(18)?,
                    batch: row.get(19)?,
                    seq: row.get(20)?,
                    publish_count: row.get(21)?,
                    doubts: row.get(22)?,
                })
            })
            .expect("the rows of the outbox");
        rows.map(|row| row.expect("a row of the outbox"))
            .map(|row| (row.id.clone(), row))
            .collect()
    }

    /// Who must not be written to now, by hash and family.
    pub fn suppressed(&self) -> std::collections::BTreeSet<(String, String)> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT recipient_hash, family FROM suppressions WHERE lifted_at IS NULL AND until IS NULL")
            .expect("the schema is as the oracle knows it");
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("the suppressions");
        rows.map(|row| row.expect("a suppression")).collect()
    }

    /// The pauses, by their scope.
    pub fn pauses(&self) -> BTreeMap<String, PauseRow> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT scope, until, probe_token FROM pauses")
            .expect("the schema is as the oracle knows it");
        let rows = statement
            .query_map([], |row| {
                let pause = PauseRow {
                    until: row.get(1)?,
                    probe: row.get(2)?,
                };
                Ok((row.get(0)?, pause))
            })
            .expect("the pauses");
        rows.map(|row| row.expect("a pause")).collect()
    }

    /// The attempts, by id.
    pub fn attempts(&self) -> BTreeMap<String, AttemptRow> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT id, outbox_id, claim_token, outcome FROM attempts")
            .expect("the schema is as the oracle knows it");
        let rows = statement
            .query_map([], |row| {
                let attempt = AttemptRow {
                    outbox_id: row.get(1)?,
                    token: row.get(2)?,
                    outcome: row.get(3)?,
                };
                Ok((row.get(0)?, attempt))
            })
            .expect("the attempts");
        rows.map(|row| row.expect("an attempt")).collect()
    }

    /// The events after a sequence number.
    pub fn events(&self, after: i64) -> Vec<EventRow> {
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT seq, outbox_id, from_status, to_status, cause, at FROM events WHERE seq > ?1 ORDER BY seq",
            )
            .expect("the schema is as the oracle knows it");
        let rows = statement
            .query_map([after], |row| {
                Ok(EventRow {
                    seq: row.get(0)?,
                    outbox_id: row.get(1)?,
                    from: row.get(2)?,
                    to: row.get(3)?,
                    cause: row.get(4)?,
                    at: row.get(5)?,
                })
            })
            .expect("the events");
        rows.map(|row| row.expect("an event")).collect()
    }

    /// One text, or none.
    pub fn one_text(&self, sql: &str, arg: &str) -> Option<String> {
        let mut statement = self.connection.prepare_cached(sql).expect("the oracle's own question");
        statement.query_row([arg], |row| row.get(0)).ok()
    }

    /// One number.
    pub fn one_number(&self, sql: &str, arg: &str) -> i64 {
        let mut statement = self.connection.prepare_cached(sql).expect("the oracle's own question");
        statement.query_row([arg], |row| row.get(0)).expect("a number")
    }

    /// Every text of every table that must not hold personal data.
    pub fn public_texts(&self) -> Vec<(String, String)> {
        const PERSONAL: [&str; 6] = [
            "attachments",
            "letters",
            "seals",
            "batch_seals",
            "parking",
            "sqlite_sequence",
        ];
        let mut tables = self
            .connection
            .prepare_cached("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .expect("the schema");
        let tables: Vec<String> = tables
            .query_map([], |row| row.get(0))
            .expect("the tables")
            .map(|name| name.expect("a name"))
            .filter(|name: &String| !PERSONAL.contains(&name.as_str()))
            .collect();
        let mut texts = Vec::new();
        for table in tables {
            let mut rows = self
                .connection
                .prepare_cached(&format!("SELECT * FROM {table}"))
                .expect("a table of the schema");
            let width = rows.column_count();
            let mut rows = rows.query([]).expect("its rows");
            while let Some(row) = rows.next().expect("a row") {
                for at in 0..width {
                    if let Ok(ValueRef::Text(bytes)) = row.get_ref(at) {
                        texts.push((table.clone(), String::from_utf8_lossy(bytes).into_owned()));
                    }
                }
            }
        }
        texts
    }
}

fn cell(value: &libsql::Value) -> Cell {
    match value {
        libsql::Value::Null => Cell::Null,
        libsql::Value::Integer(number) => Cell::Integer(*number),
        libsql::Value::Real(number) => Cell::Real(*number),
        libsql::Value::Text(text) => Cell::Text(text.clone()),
        libsql::Value::Blob(bytes) => Cell::Blob(bytes.clone()),
    }
}

fn value(cell: ValueRef<'_>) -> libsql::Value {
    match cell {
        ValueRef::Null => libsql::Value::Null,
        ValueRef::Integer(number) => libsql::Value::Integer(number),
        ValueRef::Real(number) => libsql::Value::Real(number),
        ValueRef::Text(bytes) => libsql::Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => libsql::Value::Blob(bytes.to_vec()),
    }
}
