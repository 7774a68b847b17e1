//! What a path may ask of the database: one transaction, one round trip.

use libsql::Value;

/// One SQL statement with its positional arguments.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The text; the same text for the same question, so that a server may cache its plan.
    pub sql: &'static str,
    /// Positional arguments (`?1`, `?2`, ...).
    pub args: Vec<Value>,
}

/// Whether a transaction whose answer was lost may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Running it twice leaves what running it once leaves; the caller's comment says why.
    Safe,
    /// A lost answer is reported as [`DatabaseError::Ambiguous`].
    Never,
}

/// The lock a transaction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `BEGIN IMMEDIATE`: the write lock first, so that a busy database is noticed before anything ran.
    Write,
    /// `BEGIN DEFERRED`: reads only. Always safe to repeat.
    Read,
}

/// Statements that take effect together or not at all.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Which lock it takes.
    pub mode: Mode,
    /// What a lost answer means.
    pub repeat: Repeat,
    /// In the order they run; each runs only if all before it did.
    pub statements: Vec<Statement>,
}

/// The rows that one statement returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Column names, in order.
    pub columns: Vec<String>,
    /// The rows, in order; each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
    /// Rows changed by INSERT, UPDATE or DELETE, triggers not counted. Never used to decide: `RETURNING` and reads are.
    pub affected: u64,
}

/// Why a transaction did not (or may not) have taken effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// Nothing ran: the write lock could not be had, or the server refused the connection for now.
    #[error("database_busy")]
    Busy,
    /// Nothing was committed: the server refuses us (token, address, protocol). Ours to mend.
    #[error("database_refused")]
    Refused {
        /// HTTP status; 0 where the request could not be made.
        status: u16,
    },
    /// Program and schema do not fit; nothing was written. Ours to mend: run the migrations, or deploy.
    #[error("schema_mismatch")]
    SchemaMismatch,
    /// A constraint refused a statement; everything was rolled back.
    #[error("database_constraint")]
    Constraint {
        /// Position of the statement in [`Transaction::statements`]; their number where it was COMMIT.
        statement: usize,
    },
    /// A statement failed for another reason; everything was rolled back.
    #[error("database_statement_failed")]
    Failed {
        /// Position of the statement in [`Transaction::statements`]; their number where it was none of them.
        statement: usize,
    },
    /// The answer was lost or unreadable: the transaction may have been committed.
    #[error("database_ambiguous")]
    Ambiguous,
    /// The answer was read, but a row did not have the shape that its statement promises. Ours to mend.
    #[error("database_row_shape")]
    Shape,
}

impl DatabaseError {
    /// The stable code, for logs and answers.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Busy => "database_busy",
            Self::Refused { .. } => "database_refused",
            Self::SchemaMismatch => "schema_mismatch",
            Self::Constraint { .. } => "database_constraint",
            Self::Failed { .. } => "database_statement_failed",
            Self::Ambiguous => "database_ambiguous",
            Self::Shape => "database_row_shape",
        }
    }
}

/// The database, as the paths see it.
#[allow(
    async_fn_in_trait,
    reason = "every implementation is single-threaded; no caller needs a Send bound"
)]
pub trait Database {
    /// Runs one transaction in one round trip (more only where nothing had run yet, or where it is safe to repeat).
    ///
    /// On success there is one [`Rows`] per statement.
    ///
    /// # Errors
    /// See [`DatabaseError`]; only `Ambiguous` leaves the effect unknown.
    async fn run(&self, transaction: Transaction) -> Result<Vec<Rows>, DatabaseError>;
}

impl Statement {
    /// A statement with its arguments.
    pub fn new(sql: &'static str, args: Vec<Value>) -> Self {
        Self { sql, args }
    }

    /// Whether the statement would open or end a transaction by itself, and so commit what must stand or fall with
    /// the statements after it. Such a one is never sent.
    pub(super) fn ends_a_transaction(&self) -> bool {
        const WORDS: [&str; 6] = ["begin", "commit", "end", "release", "rollback", "savepoint"];
        let text = after_comments(self.sql);
        let end = text
            .find(|character: char| !character.is_ascii_alphabetic())
            .unwrap_or(text.len());
        let first = text.get(..end).unwrap_or_default();
        WORDS.iter().any(|word| word.eq_ignore_ascii_case(first))
    }
}

impl Transaction {
    /// A write whose lost answer is reported, never repeated.
    pub fn write(statements: Vec<Statement>) -> Self {
        Self {
            mode: Mode::Write,
            repeat: Repeat::Never,
            statements,
        }
    }

    /// A write that may be repeated; the caller says why in a comment.
    pub fn repeatable_write(statements: Vec<Statement>) -> Self {
        Self {
            mode: Mode::Write,
            repeat: Repeat::Safe,
            statements,
        }
    }

    /// A read.
    pub fn read(statements: Vec<Statement>) -> Self {
        Self {
            mode: Mode::Read,
            repeat: Repeat::Safe,
            statements,
        }
    }
}

/// A statement's text from its first word on.
fn after_comments(sql: &str) -> &str {
    let mut text = sql;
    loop {
        text = text.trim_start_matches(|character: char| character.is_whitespace() || character == ';');
        let rest = match text.strip_prefix("--") {
            Some(comment) => comment.split_once('\n').map(|(_, rest)| rest),
            None => match text.strip_prefix("/*") {
                Some(comment) => comment.split_once("*/").map(|(_, rest)| rest),
                None => return text,
            },
        };
        text = rest.unwrap_or_default();
    }
}
