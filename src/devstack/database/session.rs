//! One connection to the engine, and how one statement runs on it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::{Connection, StatementStatus, TransactionState};

use super::clock::EngineClock;
use super::failure::{Refusal, StatementError, from_engine};
use super::proto::{Col, DescribeParam, DescribeResult, StmtResult, Value};
use super::statement::{Kind, Statement};
use super::values::{Args, bind, col_bytes, read, spend, value_bytes};
use super::writer::Writer;
use crate::outbox::time::Millis;

/// How long SQLite itself waits for a lock. It only matters for other processes on the same file.
const BUSY_TIMEOUT_MS: u64 = 5_000;

/// The longest row or value, the real server's default.
const ROW_BYTES_MAX: i32 = 5_000_000;

/// A statement with its arguments, ready to run.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) statement: Statement,
    pub(super) args: Args,
}

/// What ends a program before its last step.
#[derive(Debug)]
pub(super) enum Stop {
    /// The rows outgrew the limit of the response.
    TooLarge,
    /// Nothing that an answer has a word for.
    Refused(Refusal),
}

/// How far one statement came. The columns and rows before an error matter to cursors alone.
#[derive(Debug)]
pub(super) struct Run {
    /// Columns; `None` where the statement did not get as far.
    pub(super) cols: Option<Vec<Col>>,
    /// Rows that were read.
    pub(super) rows: Vec<Vec<Value>>,
    /// Counts at the end, or the error.
    pub(super) end: Result<End, StatementError>,
}

/// The counts of a statement that ran to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) affected_row_count: u64,
    pub(super) last_insert_rowid: Option<i64>,
    pub(super) rows_read: u64,
    pub(super) rows_written: u64,
    pub(super) duration: Duration,
}

impl Run {
    pub(super) fn failed(error: StatementError) -> Self {
        Self {
            cols: None,
            rows: Vec::new(),
            end: Err(error),
        }
    }

    /// The first value of the first row.
    pub(super) fn into_first_value(self) -> Option<Value> {
        self.rows.into_iter().next()?.into_iter().next()
    }

    /// As `execute` and `batch` show it: a result or an error.
    pub(super) fn into_result(self) -> Result<StmtResult, StatementError> {
        let end = self.end?;
        Ok(StmtResult {
            cols: self.cols.unwrap_or_default(),
            rows: self.rows,
            affected_row_count: end.affected_row_count,
            last_insert_rowid: end.last_insert_rowid,
            replication_index: None,
            rows_read: end.rows_read,
            rows_written: end.rows_written,
            query_duration_ms: end.duration.as_secs_f64() * 1_000.0,
        })
    }
}

/// A connection, with its place in the queue of writers.
pub(super) struct Session {
    id: u64,
    /// `None` only while it is being dropped.
    connection: Option<Connection>,
    writer: Arc<Writer>,
    clock: Arc<dyn EngineClock>,
    this: Weak<Mutex<Session>>,
    /// Another writer had this one's transaction rolled back, and the client does not know yet.
    timed_out: bool,
}

impl Session {
    /// Opens the database file for one stream.
    pub(super) fn open(
        id: u64,
        file: &Path,
        writer: Arc<Writer>,
        clock: Arc<dyn EngineClock>,
    ) -> Result<Arc<Mutex<Self>>, rusqlite::Error> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // As the real server does: with a write-ahead log a commit survives the process, if not the machine.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX);
        Ok(Arc::new_cyclic(|this| {
            Mutex::new(Self {
                id,
                connection: Some(connection),
                writer,
                clock,
                this: Weak::clone(this),
                timed_out: false,
            })
        }))
    }

    /// Locks a session; a panic of an earlier holder does not matter to SQLite.
    pub(super) fn lock(shared: &Mutex<Self>) -> MutexGuard<'_, Self> {
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> Result<&Connection, Stop> {
        self.connection
            .as_ref()
            .ok_or_else(|| Stop::Refused(Refusal::Internal("connection is closed".to_owned())))
    }

    /// Whether no transaction is open.
    pub(super) fn is_autocommit(&self) -> bool {
        self.connection.as_ref().is_none_or(Connection::is_autocommit)
    }

    /// Whether the transaction was taken away; asking forgets it.
    pub(super) fn take_timed_out(&mut self) -> bool {
        std::mem::take(&mut self.timed_out)
    }

    /// Ends the transaction for the sake of a writer that waited for too long.
    pub(super) fn force_rollback(&mut self) {
        if !self.writer.holds(self.id) {
            return;
        }
        if let Some(connection) = &self.connection
            && connection.execute_batch("ROLLBACK").is_ok()
        {
            self.timed_out = true;
        }
        self.writer.release(self.id);
    }

    /// Runs one statement. `budget` is what the response may still grow by, in bytes.
    pub(super) fn run(&self, query: &Query, budget: &mut u64) -> Result<Run, Stop> {
        let started = self.clock.now();
        let run = self.run_to_end(query, budget, started);
        // The lock is kept exactly as long as the engine has a write transaction open.
        let writing = self
            .connection()?
            .transaction_state(None)
            .is_ok_and(|state| state == TransactionState::Write);
        if !writing {
            self.writer.release(self.id);
        }
        run
    }

    fn run_to_end(&self, query: &Query, budget: &mut u64, started: Millis) -> Result<Run, Stop> {
        let connection = self.connection()?;
        let mut statement = match connection.prepare(&query.statement.text) {
            Ok(statement) => statement,
            Err(error) => return Ok(Run::failed(from_engine(error).map_err(Stop::Refused)?)),
        };
        if !statement.readonly() {
            self.writer.acquire(self.id, &self.this, self.clock.as_ref());
        }
        let cols = columns(&statement);
        spend(budget, cols.iter().map(col_bytes).sum())?;
        let mut run = Run {
            cols: Some(cols),
            rows: Vec::new(),
            end: Err(StatementError::ResponseTooLarge),
        };
        if let Err(error) = bind(&mut statement, &query.args) {
            run.end = Err(StatementError::ArgsInvalid(error));
            return Ok(run);
        }
        let width = statement.column_count();
        let mut found = statement.raw_query();
        loop {
            let row = match found.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => {
                    run.end = Err(from_engine(error).map_err(Stop::Refused)?);
                    return Ok(run);
                }
            };
            let mut values = Vec::with_capacity(width);
            for index in 0..width {
                let value = row
                    .get_ref(index)
                    .map_err(|error| Stop::Refused(Refusal::Internal(error.to_string())))?;
                spend(budget, value_bytes(value))?;
                values.push(read(value)?);
            }
            run.rows.push(values);
        }
        drop(found);
        run.end = Ok(End {
            affected_row_count: match query.statement.kind {
                Kind::Insert | Kind::Change => connection.changes(),
                Kind::Begin | Kind::Other => 0,
            },
            last_insert_rowid: match query.statement.kind {
                Kind::Insert => Some(connection.last_insert_rowid()),
                Kind::Change | Kind::Begin | Kind::Other => None,
            },
            rows_read: status(&statement, StatementStatus::RowsRead),
            rows_written: status(&statement, StatementStatus::RowsWritten),
            duration: self.clock.now().since(started),
        });
        Ok(run)
    }

    /// Parameters and columns of a text. Only its first statement is looked at, and it is not parsed before.
    pub(super) fn describe(&self, sql: &str) -> Result<Result<DescribeResult, StatementError>, Stop> {
        let statement = match self.connection()?.prepare(sql) {
            Ok(statement) => statement,
            Err(error) => return from_engine(error).map(Err).map_err(Stop::Refused),
        };
        Ok(Ok(DescribeResult {
            params: (1..=statement.parameter_count())
                .map(|index| DescribeParam {
                    name: statement.parameter_name(index).map(str::to_owned),
                })
                .collect(),
            cols: columns(&statement),
            is_explain: statement.is_explain() != 0,
            is_readonly: statement.readonly(),
        }))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The connection first: closing it rolls back what was open, and only then may the next writer come.
        drop(self.connection.take());
        self.writer.release(self.id);
    }
}

fn columns(statement: &rusqlite::Statement<'_>) -> Vec<Col> {
    statement
        .columns()
        .iter()
        .map(|column| Col {
            name: column.name().to_owned(),
            decltype: column.decl_type().map(str::to_owned),
        })
        .collect()
}

fn status(statement: &rusqlite::Statement<'_>, which: StatementStatus) -> u64 {
    // The engine counts in 32 bits without a sign.
    u64::from(statement.get_status(which).cast_unsigned())
}
