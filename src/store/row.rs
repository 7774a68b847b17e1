//! Rows as values: each member from the column of its name.
//!
//! Written by hand, because a derived reader for every shape of row is a tenth of the Worker.

use libsql::Value;

use super::database::{DatabaseError, Rows};
use crate::outbox::attempt::Outcome;
use crate::outbox::status::Status;

/// One row, with the names of its columns.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

/// What one column holds.
pub trait Column: Sized {
    /// The value as the member's type; `None` where it does not fit.
    fn read(value: &Value) -> Option<Self>;
}

/// What a row becomes; the macro `row!` writes it.
pub trait FromRow: Sized {
    /// The row as a value.
    ///
    /// # Errors
    /// [`DatabaseError::Shape`] where a column is missing or holds another type.
    fn from_row(row: Row<'_>) -> Result<Self, DatabaseError>;
}

impl Row<'_> {
    /// The column of this name. One that is missing is null, and so is a blob: no query of ours returns one.
    ///
    /// # Errors
    /// [`DatabaseError::Shape`] where it holds another type.
    pub fn get<C: Column>(self, name: &str) -> Result<C, DatabaseError> {
        C::read(self.value(name)).ok_or(DatabaseError::Shape)
    }

    fn value(&self, name: &str) -> &Value {
        let named = self
            .columns
            .iter()
            .zip(self.values)
            .rfind(|(column, _)| *column == name);
        match named {
            Some((_, Value::Blob(_))) | None => &Value::Null,
            Some((_, value)) => value,
        }
    }
}

impl Rows {
    /// The rows as values of `T`, by column name.
    ///
    /// # Errors
    /// [`DatabaseError::Shape`] where a row does not fit.
    pub fn decode<T: FromRow>(&self) -> Result<Vec<T>, DatabaseError> {
        let mut decoded = Vec::with_capacity(self.rows.len());
        for values in &self.rows {
            decoded.push(T::from_row(Row {
                columns: &self.columns,
                values,
            })?);
        }
        Ok(decoded)
    }
}

/// The rows of the statement at `position`, as values of `T`.
///
/// # Errors
/// [`DatabaseError::Shape`] where there is no such statement or a row does not fit.
pub fn rows_at<T: FromRow>(results: &[Rows], position: usize) -> Result<Vec<T>, DatabaseError> {
    results.get(position).ok_or(DatabaseError::Shape)?.decode()
}

/// Says that a row becomes this struct: `row!(Name { member, other })`. Each member is read from the column of its
/// name; a member that is left out does not compile.
macro_rules! row {
    ($name:ident { $($member:ident),* $(,)? }) => {
        impl $crate::store::row::FromRow for $name {
            fn from_row(row: $crate::store::row::Row<'_>) -> Result<Self, $crate::store::database::DatabaseError> {
                let _ = row;
                Ok(Self { $($member: row.get(stringify!($member))?),* })
            }
        }
    };
}
pub(crate) use row;

/// Says that a column may hold the words of this enum: `words!(Name)`, of one whose `of` reads them.
macro_rules! words {
    ($name:ty) => {
        impl $crate::store::row::Column for $name {
            fn read(value: &libsql::Value) -> Option<Self> {
                Self::of($crate::store::row::text_of(value)?)
            }
        }
    };
}
pub(crate) use words;

words!(Status);
words!(Outcome);

/// A text, where the column holds one.
pub(crate) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::Null | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => None,
    }
}

impl Column for String {
    fn read(value: &Value) -> Option<Self> {
        text_of(value).map(str::to_owned)
    }
}

impl Column for i64 {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(*number),
            Value::Null | Value::Real(_) | Value::Text(_) | Value::Blob(_) => None,
        }
    }
}

/// Whole numbers of a narrower type; one that is too large does not fit.
macro_rules! narrower {
    ($($number:ty),*) => {
        $(impl Column for $number {
            fn read(value: &Value) -> Option<Self> {
                Self::try_from(i64::read(value)?).ok()
            }
        })*
    };
}
narrower!(u8, u16, u32, usize);

impl<C: Column> Column for Option<C> {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            Value::Integer(_) | Value::Real(_) | Value::Text(_) | Value::Blob(_) => C::read(value).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Example {
        id: String,
        times: u8,
        at: Option<i64>,
    }
    row!(Example { id, times, at });

    fn decode(columns: &[&str], values: Vec<Value>) -> Result<Vec<Example>, DatabaseError> {
        Rows {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: vec![values],
            affected: 0,
        }
        .decode()
    }

    #[test]
    fn members_are_read_by_name_whatever_the_order() {
        let row = decode(
            &["at", "other", "times", "id"],
            vec![
                Value::Integer(7),
                Value::Real(0.5),
                Value::Integer(255),
                Value::Text("a".into()),
            ],
        );
        let id = "a".to_owned();
        assert_eq!(
            row,
            Ok(vec![Example {
                id,
                times: 255,
                at: Some(7)
            }])
        );
    }

    #[test]
    fn a_column_that_is_missing_is_null() {
        let row = decode(&["times", "id"], vec![Value::Integer(0), Value::Text(String::new())]);
        let id = String::new();
        assert_eq!(row, Ok(vec![Example { id, times: 0, at: None }]));
        assert_eq!(
            decode(&["id"], vec![Value::Text("a".into())]),
            Err(DatabaseError::Shape)
        );
    }

    #[test]
    fn a_row_of_another_shape_is_refused() {
        let text = || Value::Text("a".into());
        for (id, times, at) in [
            (Value::Null, Value::Integer(1), Value::Null),
            (Value::Integer(1), Value::Integer(1), Value::Null),
            (Value::Blob(vec![97]), Value::Integer(1), Value::Null),
            (text(), Value::Integer(256), Value::Null),
            (text(), Value::Integer(-1), Value::Null),
            (text(), Value::Real(1.0), Value::Null),
            (text(), Value::Integer(1), text()),
            (text(), Value::Integer(1), Value::Real(1.0)),
        ] {
            assert_eq!(
                decode(&["id", "times", "at"], vec![id, times, at]),
                Err(DatabaseError::Shape)
            );
        }
    }

    #[test]
    fn words_are_read_and_others_refused() {
        assert_eq!(
            Status::read(&Value::Text("dead_letter".into())),
            Some(Status::DeadLetter)
        );
        assert_eq!(Status::read(&Value::Text("DeadLetter".into())), None);
        assert_eq!(Status::read(&Value::Integer(1)), None);
    }
}
