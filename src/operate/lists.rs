//! Lists for operators, a page at a time, and what every order has in common.

use serde_json::{Value, json};

use super::http::{Answer, Request};
use crate::store::operator_log::NOTE_CHARS_MAX;

/// Entries of a page where the request names no number.
const LIMIT_DEFAULT: usize = 50;
/// Entries of a page at most: an answer stays small, and so does the work behind it.
const LIMIT_MAX: usize = 100;
/// Bytes of a cursor at most; ours have far fewer.
const CURSOR_BYTES_MAX: usize = 200;
/// Hexadecimal digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// Which part of a list is asked for.
pub(super) struct Page {
    /// The cursor of the page before; `None` for the first page.
    pub(super) after: Option<String>,
    /// Entries at most, 1 to [`LIMIT_MAX`].
    pub(super) limit: usize,
}

impl Page {
    /// Reads `after` and `limit`.
    ///
    /// # Errors
    /// The answer to give: 422 where one of them is not what a list takes.
    pub(super) fn of(request: &Request<'_>) -> Result<Self, Answer> {
        let limit = match request.parameter("limit") {
            None => LIMIT_DEFAULT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=LIMIT_MAX).contains(limit))
                .ok_or_else(query_invalid)?,
        };
        let after = request.parameter("after").filter(|cursor| !cursor.is_empty());
        if after.as_ref().is_some_and(|cursor| cursor.len() > CURSOR_BYTES_MAX) {
            return Err(query_invalid());
        }
        Ok(Self { after, limit })
    }

    /// The sequence number behind which this page begins, for a list in that order; `None` where the cursor is no number.
    pub(super) fn after_seq(&self) -> Option<i64> {
        self.after.as_deref().map_or(Some(0), |cursor| cursor.parse().ok())
    }

    /// One more than the page holds: it tells whether there is another page.
    pub(super) fn rows_max(&self) -> i64 {
        i64::try_from(self.limit.saturating_add(1)).unwrap_or(i64::MAX)
    }

    /// The answer: `{"items": [...], "next": "..." or null}`.
    pub(super) fn answer<T>(&self, rows: &[T], cursor: impl Fn(&T) -> String, show: impl Fn(&T) -> Value) -> Answer {
        let more = rows.len() > self.limit;
        let shown: Vec<&T> = rows.iter().take(self.limit).collect();
        let next = shown.last().filter(|_| more).map(|last| cursor(last));
        let items: Vec<Value> = shown.into_iter().map(show).collect();
        Answer::json(200, json!({ "items": items, "next": next }))
    }
}

/// The answer to a query that this list does not take.
pub(super) fn query_invalid() -> Answer {
    Answer::problem(
        422,
        "query_invalid",
        "Send limit as 1 to 100, after as the list gave it in next, and the other parameters as the API names them.",
    )
}

/// Whether a text is a hash as we write them, in whatever case: 64 hexadecimal digits.
pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == HASH_DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// An operator's note, or its absence; one of nothing but spaces is none. The log of orders is kept for good and is no
/// table for personal data: a note with an address in it is refused.
///
/// # Errors
/// The answer to give where it is too long, or names somebody.
pub(super) fn note(text: Option<String>) -> Result<Option<String>, Answer> {
    match text.filter(|note| !note.trim().is_empty()) {
        Some(note) if note.chars().count() > NOTE_CHARS_MAX => Err(Answer::problem(
            422,
            "note_too_long",
            "Send a note of at most 1000 characters.",
        )),
        Some(note) if note.contains('@') => Err(Answer::problem(
            422,
            "note_names_somebody",
            "Name nobody: a note is kept for good.",
        )),
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Option<(Option<String>, usize)> {
        let request = Request {
            query: Some(query),
            ..Request::default()
        };
        Page::of(&request).ok().map(|page| (page.after, page.limit))
    }

    #[test]
    fn reads_a_page_within_its_bounds() {
        assert_eq!(page(""), Some((None, 50)));
        assert_eq!(
            page("limit=100&after=ab.%2A&after=x"),
            Some((Some("ab.*".to_owned()), 100))
        );
        assert_eq!(page("after=&limit=1"), Some((None, 1)));
        for wrong in ["limit=0", "limit=101", "limit=", "limit=-1", "limit=1.0", "limit=x"] {
            assert_eq!(page(wrong), None, "{wrong}");
        }
        assert_eq!(page(&format!("after={}", "x".repeat(CURSOR_BYTES_MAX + 1))), None);
    }

    #[test]
    fn says_whether_there_is_more() {
        let page = Page { after: None, limit: 2 };
        let shown = |rows: &[u8]| page.answer(rows, u8::to_string, |row| json!(row)).body;
        assert_eq!(page.rows_max(), 3);
        assert_eq!(shown(&[]), json!({ "items": [], "next": null }));
        assert_eq!(shown(&[1, 2]), json!({ "items": [1, 2], "next": null }));
        assert_eq!(shown(&[1, 2, 3]), json!({ "items": [1, 2], "next": "2" }));
    }

    #[test]
    fn a_note_has_its_bound() {
        assert_eq!(note(None).ok(), Some(None));
        assert_eq!(note(Some(" \n".to_owned())).ok(), Some(None));
        let longest = "\u{e9}".repeat(NOTE_CHARS_MAX);
        assert_eq!(note(Some(longest.clone())).ok(), Some(Some(longest.clone())));
        assert!(note(Some(format!("{longest}x"))).is_err());
    }

    #[test]
    fn a_note_names_nobody() {
        for named in ["ada@example.com asked", "@", "called \u{3c}ada@example.com\u{3e}"] {
            let refusal = note(Some(named.to_owned())).expect_err(named);
            assert_eq!(
                (refusal.status, refusal.body["code"].as_str()),
                (422, Some("note_names_somebody"))
            );
            assert!(!refusal.body.to_string().contains("ada"));
        }
        assert!(note(Some("the recipient asked by phone".to_owned())).is_ok());
    }
}
