//! Notes, kept.

use std::cell::RefCell;

use sealpost::ports::{Field, Level, Log};

#[derive(Default)]
pub struct Notes(RefCell<Vec<(Level, &'static str, String)>>);

impl Notes {
    /// How many notes have this code.
    pub fn count(&self, code: &str) -> usize {
        self.0.borrow().iter().filter(|(_, other, _)| *other == code).count()
    }

    /// Alarms so far.
    pub fn alarms(&self) -> Vec<&'static str> {
        self.0
            .borrow()
            .iter()
            .filter(|(level, _, _)| *level == Level::Alarm)
            .map(|(_, code, _)| *code)
            .collect()
    }

    /// Everything that was written, as one text.
    pub fn text(&self) -> String {
        self.0
            .borrow()
            .iter()
            .map(|(_, code, fields)| format!("{code} {fields}\n"))
            .collect()
    }
}

impl Log for Notes {
    fn note(&self, level: Level, code: &'static str, fields: &[(&'static str, Field<'_>)]) {
        self.0.borrow_mut().push((level, code, format!("{fields:?}")));
    }
}
