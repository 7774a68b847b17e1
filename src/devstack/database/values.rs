//! Arguments into the engine, values out of it, and what they weigh.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::failure::Refusal;
use super::proto::{Col, Value};
use super::session::Stop;

/// Arguments by position or by name.
#[derive(Clone, Debug)]
pub(super) enum Args {
    Positional(Vec<Value>),
    Named(Vec<(String, Value)>),
}

impl Args {
    fn len(&self) -> usize {
        match self {
            Self::Positional(values) => values.len(),
            Self::Named(values) => values.len(),
        }
    }

    fn at(&self, position: usize) -> Option<&Value> {
        match self {
            Self::Positional(values) => position.checked_sub(1).and_then(|index| values.get(index)),
            Self::Named(_) => None,
        }
    }

    fn named(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Positional(_) => None,
            // The last one wins where a name is given twice.
            Self::Named(values) => values
                .iter()
                .rev()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value),
        }
    }
}

/// Binds every parameter, or says which one has no value.
pub(super) fn bind(statement: &mut rusqlite::Statement<'_>, args: &Args) -> Result<(), String> {
    let count = statement.parameter_count();
    if count < args.len() {
        return Err(format!("too many parameters, expected {count} found {}", args.len()));
    }
    for index in 1..=count {
        let name = statement.parameter_name(index).map(str::to_owned);
        let value = match name.as_deref() {
            Some(name) => match name.strip_prefix('?') {
                Some(position) => position
                    .parse()
                    .map_err(|_| format!("invalid parameter {name}: expected a numerical position after `?`"))
                    .map(|position| args.at(position))?,
                None => {
                    let bare = name.get(1..).unwrap_or_default();
                    args.named(name).or_else(|| args.named(bare))
                }
            },
            None => args.at(index),
        };
        match value {
            Some(value) => statement
                .raw_bind_parameter(index, value)
                .map_err(|error| error.to_string())?,
            // A plan can be explained without values.
            None if statement.is_explain() > 0 => return Ok(()),
            None => {
                let name = name.unwrap_or_else(|| index.to_string());
                return Err(format!("value for parameter {name} not found"));
            }
        }
    }
    Ok(())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer { value } => ValueRef::Integer(*value),
            Self::Float { value } => ValueRef::Real(*value),
            Self::Text { value } => ValueRef::Text(value.as_bytes()),
            Self::Blob { base64 } => ValueRef::Blob(base64),
        }))
    }
}

/// A value as it goes out. Text that is not UTF-8 has no way out: the whole request fails.
pub(super) fn read(value: ValueRef<'_>) -> Result<Value, Stop> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer { value },
        ValueRef::Real(value) => Value::Float { value },
        ValueRef::Text(bytes) => Value::Text {
            value: String::from_utf8(bytes.to_vec())
                .map_err(|error| Stop::Refused(Refusal::Internal(error.to_string())))?,
        },
        ValueRef::Blob(bytes) => Value::Blob { base64: bytes.to_vec() },
    })
}

/// Takes from what the response may still grow by.
pub(super) fn spend(budget: &mut u64, bytes: u64) -> Result<(), Stop> {
    *budget = budget.checked_sub(bytes).ok_or(Stop::TooLarge)?;
    Ok(())
}

/// About how many bytes of JSON a value becomes, by the real server's estimate (which counts a blob as it is).
pub(super) fn value_bytes(value: ValueRef<'_>) -> u64 {
    let bytes = match value {
        ValueRef::Null => r#"{"type":"null"}"#.len(),
        ValueRef::Integer(value) => r#"{"type":"integer","value":""}"#.len() + value.to_string().len(),
        ValueRef::Real(value) => r#"{"type":"float","value":}"#.len() + value.to_string().len(),
        ValueRef::Text(text) => r#"{"type":"text","value":""}"#.len() + text.len(),
        ValueRef::Blob(blob) => blob.len(),
    };
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The same estimate for the description of a column.
pub(super) fn col_bytes(col: &Col) -> u64 {
    let decltype = col.decltype.as_deref().unwrap_or("null");
    u64::try_from(r#"{"name":"","decltype":""}"#.len() + col.name.len() + decltype.len()).unwrap_or(u64::MAX)
}
