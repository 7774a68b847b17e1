//! What was wrong with a request, told field by field, without a word of what the request said.

use serde::Serialize;

/// Field errors that one answer names; more than a screenful helps nobody and lets a caller buy work.
pub const FIELD_ERRORS_MAX: usize = 20;

/// Characters of a caller's own field name that a path repeats; enough to find the field again.
const PATH_NAME_CHARS_MAX: usize = 64;

/// A refused request, ready to be rendered as RFC 9457 problem details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{code}")]
pub struct Problem {
    /// HTTP status.
    pub status: u16,
    /// What a program branches on; stable.
    pub code: &'static str,
    /// At most [`FIELD_ERRORS_MAX`] errors, in the order in which they were found.
    pub errors: Vec<FieldError>,
}

impl Problem {
    /// A problem with the request as a whole, with no field to point at.
    pub const fn new(status: u16, code: &'static str) -> Self {
        Self {
            status,
            code,
            errors: Vec::new(),
        }
    }
}

/// One field that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// JSON pointer (RFC 6901) to the field; the names in it are cut to 64 printable ASCII characters.
    pub path: String,
    /// What a program branches on; stable.
    pub code: &'static str,
    /// A sentence for a person: what to do next.
    pub detail: &'static str,
}

/// Why one value was refused, before anybody says where it stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What a program branches on; stable.
    pub(crate) code: &'static str,
    /// A sentence for a person: what to do next.
    pub(crate) detail: &'static str,
}

impl Fault {
    pub(crate) const fn new(code: &'static str, detail: &'static str) -> Self {
        Self { code, detail }
    }

    /// The same fault with its place.
    pub(crate) fn at(self, place: &Pointer) -> FieldError {
        FieldError {
            path: place.0.clone(),
            code: self.code,
            detail: self.detail,
        }
    }
}

/// A place in a JSON document; the empty pointer is the whole document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pointer(String);

impl Pointer {
    /// The member `name` of the object at this place.
    pub(crate) fn field(&self, name: &str) -> Self {
        let mut path = self.0.clone();
        path.push('/');
        for character in name.chars().take(PATH_NAME_CHARS_MAX) {
            match character {
                '~' => path.push_str("~0"),
                '/' => path.push_str("~1"),
                ' '..='~' => path.push(character),
                _ => path.push('?'),
            }
        }
        Self(path)
    }

    /// The element `index` of the array at this place.
    pub(crate) fn index(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0))
    }
}

/// Collects what is wrong, so that a caller can mend everything at once.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    errors: Vec<FieldError>,
    found: usize,
}

impl Problems {
    /// Notes one refused field; only the first [`FIELD_ERRORS_MAX`] are kept, all are counted.
    pub(crate) fn refuse(&mut self, place: &Pointer, fault: Fault) {
        self.found = self.found.saturating_add(1);
        if self.errors.len() < FIELD_ERRORS_MAX {
            self.errors.push(fault.at(place));
        }
    }

    /// The value, or a note that it was refused.
    pub(crate) fn keep<T>(&mut self, place: &Pointer, result: Result<T, Fault>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(fault) => {
                self.refuse(place, fault);
                None
            }
        }
    }

    /// How many fields were refused so far, with those that are not kept.
    pub(crate) const fn found(&self) -> usize {
        self.found
    }

    /// Whether another error would not be kept, so that looking for more is wasted work.
    pub(crate) const fn is_full(&self) -> bool {
        self.found >= FIELD_ERRORS_MAX
    }

    /// The problem that these errors make, if there are any.
    pub(crate) fn into_result(self, status: u16, code: &'static str) -> Result<(), Problem> {
        if self.found == 0 {
            return Ok(());
        }
        Err(Problem {
            status,
            code,
            errors: self.errors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAULT: Fault = Fault::new("wrong", "Mend it.");

    #[test]
    fn a_path_escapes_and_cuts_names_from_outside() {
        let place = Pointer::default().field("intents").index(3);
        assert_eq!(FAULT.at(&place.field("a/b~c")).path, "/intents/3/a~1b~0c");
        assert_eq!(FAULT.at(&place.field("b\u{e4}r\r\n")).path, "/intents/3/b?r??");
        assert_eq!(FAULT.at(&Pointer::default().field(&"x".repeat(70))).path.len(), 65);
    }

    #[test]
    fn keeps_twenty_errors_and_counts_all() {
        let mut problems = Problems::default();
        for index in 0..25 {
            assert_eq!(problems.is_full(), index >= 20);
            problems.refuse(&Pointer::default().index(index), FAULT);
        }
        assert_eq!(problems.found(), 25);
        let problem = problems.into_result(422, "wrong").unwrap_err();
        assert_eq!(problem.errors.len(), FIELD_ERRORS_MAX);
        assert_eq!(problem.errors[19].path, "/19");
    }

    #[test]
    fn nothing_refused_is_no_problem() {
        assert_eq!(Problems::default().into_result(422, "wrong"), Ok(()));
    }
}
