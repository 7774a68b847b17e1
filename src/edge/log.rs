//! Notes as JSON lines.

use serde_json::{Map, Value};

use crate::ports::{Field, Level, Log};

/// Writes to the Worker's console; the platform indexes the fields of a JSON line.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeLog;

impl Log for EdgeLog {
    fn note(&self, level: Level, code: &'static str, fields: &[(&'static str, Field<'_>)]) {
        let mut line = Map::new();
        line.insert("code".to_owned(), Value::from(code));
        for (name, field) in fields {
            let value = match field {
                Field::Code(code) => Value::from(*code),
                Field::Number(number) => Value::from(*number),
                Field::Id(id) => Value::from(*id),
            };
            line.insert((*name).to_owned(), value);
        }
        match level {
            Level::Info => {
                line.insert("level".to_owned(), Value::from("info"));
                worker::console_log!("{}", Value::Object(line));
            }
            Level::Warn => {
                line.insert("level".to_owned(), Value::from("warn"));
                worker::console_warn!("{}", Value::Object(line));
            }
            Level::Alarm => {
                line.insert("level".to_owned(), Value::from("alarm"));
                worker::console_error!("{}", Value::Object(line));
            }
        }
    }
}
