//! The messages of Hrana 2 and 3 as JSON: what comes in, what goes out.
//!
//! As strict and as lenient as the real server: unknown fields are ignored, unknown types refuse the whole request.

use serde::{Deserialize, Serialize};

/// The version of the protocol that a request speaks, taken from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `/v2/...`
    Hrana2,
    /// `/v3/...`: adds cursors, `get_autocommit` and the condition `is_autocommit`.
    Hrana3,
}

/// The body of `POST /v2/pipeline` and `POST /v3/pipeline`.
#[derive(Clone, Debug, Deserialize)]
pub struct PipelineRequest {
    /// The stream to go on with; absent for a new one.
    pub baton: Option<String>,
    /// What to do, in order.
    pub requests: Vec<StreamRequest>,
}

/// The body of `POST /v3/cursor`.
#[derive(Clone, Debug, Deserialize)]
pub struct CursorRequest {
    /// The stream to go on with; absent for a new one.
    pub baton: Option<String>,
    /// The batch whose rows are wanted.
    pub batch: Batch,
}

/// One request on a stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamRequest {
    /// Ends the stream; an open transaction is rolled back.
    Close {},
    /// Runs one statement.
    Execute {
        /// The statement.
        stmt: Stmt,
    },
    /// Runs statements under conditions.
    Batch {
        /// The steps.
        batch: Batch,
    },
    /// Runs a script of statements without arguments and without rows.
    Sequence(SqlText),
    /// Tells the parameters and columns of a statement.
    Describe(SqlText),
    /// Keeps a text on the stream under a number.
    StoreSql {
        /// The number.
        sql_id: i32,
        /// The text.
        sql: String,
    },
    /// Forgets a kept text.
    CloseSql {
        /// Its number.
        sql_id: i32,
    },
    /// Asks whether no transaction is open.
    GetAutocommit {},
}

/// A text, or the number of one that was stored.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SqlText {
    /// The text itself.
    pub sql: Option<String>,
    /// The number under which `store_sql` kept it.
    pub sql_id: Option<i32>,
}

/// One statement with its arguments. `want_rows` is not read: the real server sends rows whatever it says.
#[derive(Clone, Debug, Deserialize)]
pub struct Stmt {
    /// The text or its number.
    #[serde(flatten)]
    pub text: SqlText,
    /// Arguments by position.
    #[serde(default)]
    pub args: Vec<Value>,
    /// Arguments by name, with or without the sign in front.
    #[serde(default)]
    pub named_args: Vec<NamedArg>,
}

/// An argument with its name.
#[derive(Clone, Debug, Deserialize)]
pub struct NamedArg {
    /// `a`, `:a`, `@a` or `$a`.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// Steps that run in order, each under its condition.
#[derive(Clone, Debug, Deserialize)]
pub struct Batch {
    /// The steps.
    pub steps: Vec<BatchStep>,
}

/// One step of a batch.
#[derive(Clone, Debug, Deserialize)]
pub struct BatchStep {
    /// Runs the step only where it holds; absent means always.
    pub condition: Option<Condition>,
    /// The statement.
    pub stmt: Stmt,
}

/// When a step runs. Steps that are named must stand before it.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Condition {
    /// That step ran without an error.
    Ok {
        /// Its index.
        step: u32,
    },
    /// That step failed or was skipped (so does the real server, whatever the specification says).
    Error {
        /// Its index.
        step: u32,
    },
    /// The inner condition does not hold.
    Not {
        /// The inner condition.
        cond: Box<Condition>,
    },
    /// All hold; true where there is none.
    And {
        /// The inner conditions.
        conds: Vec<Condition>,
    },
    /// One holds; false where there is none.
    Or {
        /// The inner conditions.
        conds: Vec<Condition>,
    },
    /// No transaction is open when the step's turn comes.
    IsAutocommit {},
}

/// A value of the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Value {
    /// NULL.
    Null,
    /// 64 bits, as a decimal string so that no reader rounds it.
    Integer {
        /// The number.
        #[serde(with = "decimal")]
        value: i64,
    },
    /// A float; infinity goes out as `null`, as JSON has no word for it.
    Float {
        /// The number.
        value: f64,
    },
    /// Text.
    Text {
        /// The text.
        value: String,
    },
    /// Bytes, in base64 without padding; padding is accepted.
    Blob {
        /// The bytes.
        #[serde(with = "unpadded")]
        base64: Vec<u8>,
    },
}

/// The answer to a pipeline.
#[derive(Debug, Serialize)]
pub(super) struct PipelineResponse {
    pub(super) baton: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) results: Vec<StreamResult>,
}

/// The first line of the answer to a cursor.
#[derive(Debug, Serialize)]
pub(super) struct CursorResponse {
    pub(super) baton: Option<String>,
    pub(super) base_url: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamResult {
    Ok { response: StreamResponse },
    Error { error: ErrorBody },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamResponse {
    Close,
    Execute { result: StmtResult },
    Batch { result: BatchResult },
    Sequence,
    Describe { result: DescribeResult },
    StoreSql,
    CloseSql,
    GetAutocommit { is_autocommit: bool },
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ErrorBody {
    pub(super) message: String,
    pub(super) code: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct StmtResult {
    pub(super) cols: Vec<Col>,
    pub(super) rows: Vec<Vec<Value>>,
    pub(super) affected_row_count: u64,
    #[serde(with = "optional_decimal")]
    pub(super) last_insert_rowid: Option<i64>,
    /// Only replicas need it; this server has none.
    pub(super) replication_index: Option<String>,
    pub(super) rows_read: u64,
    pub(super) rows_written: u64,
    pub(super) query_duration_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Col {
    pub(super) name: String,
    pub(super) decltype: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct BatchResult {
    pub(super) step_results: Vec<Option<StmtResult>>,
    pub(super) step_errors: Vec<Option<ErrorBody>>,
    pub(super) replication_index: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct DescribeResult {
    pub(super) params: Vec<DescribeParam>,
    pub(super) cols: Vec<Col>,
    pub(super) is_explain: bool,
    pub(super) is_readonly: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct DescribeParam {
    pub(super) name: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum CursorEntry {
    StepBegin {
        step: usize,
        cols: Vec<Col>,
    },
    StepEnd {
        affected_row_count: u64,
        #[serde(with = "optional_decimal")]
        last_insert_rowid: Option<i64>,
    },
    StepError {
        step: usize,
        error: ErrorBody,
    },
    Row {
        row: Vec<Value>,
    },
    Error {
        error: ErrorBody,
    },
    ReplicationIndex {
        replication_index: Option<String>,
    },
}

/// 64-bit integers as decimal strings.
mod decimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(value: &i64, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<i64, D::Error> {
        let text = String::deserialize(input)?;
        text.parse()
            .map_err(|_| de::Error::invalid_value(de::Unexpected::Str(&text), &"decimal integer as a string"))
    }
}

/// An optional 64-bit integer as a decimal string or null.
mod optional_decimal {
    use serde::Serializer;

    pub(super) fn serialize<S: Serializer>(value: &Option<i64>, out: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => out.collect_str(value),
            None => out.serialize_none(),
        }
    }
}

/// Bytes as base64 with the standard alphabet.
mod unpadded {
    use base64::Engine as _;
    use base64::alphabet::STANDARD;
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    const CODE: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_encode_padding(false)
            .with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&CODE.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(input)?;
        CODE.decode(&text)
            .map_err(|_| de::Error::invalid_value(de::Unexpected::Str(&text), &"binary data encoded as base64"))
    }
}
