//! What can go wrong, in the words and codes of the real server.
//!
//! The texts are part of the protocol: clients show them and tests compare them, so they follow `sqld` letter by
//! letter, including the engine's own message.

use rusqlite::ErrorCode;

/// An error of one statement or one request. It travels inside an HTTP 200 answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StatementError {
    /// The parser refused the text, or the statement is of a kind that the server does not run.
    #[error("SQL string could not be parsed: {0}")]
    Parse(String),
    /// Only blanks, comments and semicolons.
    #[error("SQL string does not contain any statement")]
    NoStatement,
    /// `execute` and batch steps take exactly one statement.
    #[error("SQL string contains more than one statement")]
    ManyStatements,
    /// Too many arguments, a missing one, or one that is too long.
    #[error("Arguments do not match SQL parameters: {0}")]
    ArgsInvalid(String),
    /// `args` and `named_args` in one statement.
    #[error("Specifying both positional and named arguments is not supported")]
    ArgsBothPositionalAndNamed,
    /// Another writer waited longer than the limit, and the transaction was rolled back for it.
    #[error("Transaction timed out")]
    TransactionTimeout,
    /// The engine failed while it prepared or ran the statement.
    #[error("SQLite error: {message}")]
    Sqlite {
        /// Stable code, `SQLITE_...`.
        code: &'static str,
        /// The engine's message.
        message: String,
    },
    /// The engine refused the statement and knows where.
    #[error("SQL input error: {message} (at offset {offset})")]
    Input {
        /// The engine's message.
        message: String,
        /// Byte offset into the statement's text.
        offset: i32,
    },
    /// The rows of one request outgrew the limit.
    #[error("Response is too large")]
    ResponseTooLarge,
    /// `store_sql` with as many texts stored as the server keeps.
    #[error("The server already stores {count} SQL texts, it cannot store more")]
    StoreTooMany {
        /// How many are stored.
        count: usize,
    },
    /// `store_sql` with a text that is too long.
    #[error("The statement is too large to be stored: {}/{}", size(*bytes), size(*limit_bytes))]
    StoreTooLarge {
        /// Length of the text in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit_bytes: usize,
    },
}

impl StatementError {
    /// The code on the wire.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Parse(_) => "SQL_PARSE_ERROR",
            Self::NoStatement => "SQL_NO_STATEMENT",
            Self::ManyStatements => "SQL_MANY_STATEMENTS",
            Self::ArgsInvalid(_) => "ARGS_INVALID",
            Self::ArgsBothPositionalAndNamed => "ARGS_BOTH_POSITIONAL_AND_NAMED",
            Self::TransactionTimeout => "TRANSACTION_TIMEOUT",
            Self::Sqlite { code, .. } => code,
            Self::Input { .. } => "SQL_INPUT_ERROR",
            Self::ResponseTooLarge => "RESPONSE_TOO_LARGE",
            Self::StoreTooMany { .. } => "SQL_STORE_TOO_MANY",
            Self::StoreTooLarge { .. } => "SQL_STORE_TOO_LARGE",
        }
    }

    /// What a writer gets that could not have the lock.
    pub fn busy() -> Self {
        Self::Sqlite {
            code: "SQLITE_BUSY",
            message: "database is locked".to_owned(),
        }
    }
}

/// Why a whole HTTP request was refused. The stream it belonged to is closed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The client broke the protocol: HTTP 400 with this text.
    #[error("{0}")]
    Protocol(String),
    /// The baton names a stream that was idle for too long: HTTP 400 with a JSON body.
    #[error("The stream has expired due to inactivity")]
    StreamExpired,
    /// All connections are in use: HTTP 429.
    #[error("Timed out while opening database connection")]
    NoConnection,
    /// Nothing that the protocol has a word for: HTTP 500.
    #[error("{0}")]
    Internal(String),
}

/// Turns an engine's error into one of the statement, or into one that ends the whole request.
pub(super) fn from_engine(error: rusqlite::Error) -> Result<StatementError, Refusal> {
    if let rusqlite::Error::SqliteFailure(failure, message) = error {
        return Ok(StatementError::Sqlite {
            code: sqlite_code(failure.code),
            message: message.unwrap_or_else(|| failure.to_string()),
        });
    }
    if let rusqlite::Error::SqlInputError { msg, offset, .. } = error {
        return Ok(StatementError::Input { message: msg, offset });
    }
    Err(Refusal::Internal(error.to_string()))
}

/// A length in the unit that suits it, with one decimal.
#[allow(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        1_000_000.. => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// The name of a primary result code.
fn sqlite_code(code: ErrorCode) -> &'static str {
    const NAMES: [(ErrorCode, &str); 24] = [
        (ErrorCode::InternalMalfunction, "SQLITE_INTERNAL"),
        (ErrorCode::PermissionDenied, "SQLITE_PERM"),
        (ErrorCode::OperationAborted, "SQLITE_ABORT"),
        (ErrorCode::DatabaseBusy, "SQLITE_BUSY"),
        (ErrorCode::DatabaseLocked, "SQLITE_LOCKED"),
        (ErrorCode::OutOfMemory, "SQLITE_NOMEM"),
        (ErrorCode::ReadOnly, "SQLITE_READONLY"),
        (ErrorCode::OperationInterrupted, "SQLITE_INTERRUPT"),
        (ErrorCode::SystemIoFailure, "SQLITE_IOERR"),
        (ErrorCode::DatabaseCorrupt, "SQLITE_CORRUPT"),
        (ErrorCode::NotFound, "SQLITE_NOTFOUND"),
        (ErrorCode::DiskFull, "SQLITE_FULL"),
        (ErrorCode::CannotOpen, "SQLITE_CANTOPEN"),
        (ErrorCode::FileLockingProtocolFailed, "SQLITE_PROTOCOL"),
        (ErrorCode::SchemaChanged, "SQLITE_SCHEMA"),
        (ErrorCode::TooBig, "SQLITE_TOOBIG"),
        (ErrorCode::ConstraintViolation, "SQLITE_CONSTRAINT"),
        (ErrorCode::TypeMismatch, "SQLITE_MISMATCH"),
        (ErrorCode::ApiMisuse, "SQLITE_MISUSE"),
        (ErrorCode::NoLargeFileSupport, "SQLITE_NOLFS"),
        (ErrorCode::AuthorizationForStatementDenied, "SQLITE_AUTH"),
        (ErrorCode::ParameterOutOfRange, "SQLITE_RANGE"),
        (ErrorCode::NotADatabase, "SQLITE_NOTADB"),
        (ErrorCode::Unknown, "SQLITE_UNKNOWN"),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == code)
        .map_or("SQLITE_UNKNOWN", |(_, name)| name)
}
