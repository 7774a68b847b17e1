//! What people did: one line for each order, written in the transaction of the order itself.

use libsql::Value;

use super::database::Statement;
use crate::outbox::time::Millis;

/// Who gives an order, and why.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The beginning of the token's hash.
    pub operator: &'a str,
    /// What the operator wrote beside it; at most [`NOTE_CHARS_MAX`] characters.
    pub note: Option<&'a str>,
    /// Now.
    pub now: Millis,
}

/// The longest note; the column refuses a longer one.
pub const NOTE_CHARS_MAX: usize = 1_000;

/// The line of an order. `subject` is an id or a hash of ours, `result` a code.
pub(super) fn line(order: &Order<'_>, action: &'static str, subject: &str, result: &str) -> Statement {
    Statement::new(
        LINE,
        vec![
            Value::Integer(order.now.get()),
            Value::Text(order.operator.to_owned()),
            Value::Text(action.to_owned()),
            Value::Text(subject.to_owned()),
            Value::Text(result.to_owned()),
            order.note.map_or(Value::Null, |note| Value::Text(note.to_owned())),
        ],
    )
}

const LINE: &str =
    "INSERT INTO operator_log (at, operator, action, subject, result, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
