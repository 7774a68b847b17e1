//! Tag names and values in the provider's character set, reversibly.
//!
//! Resend takes ASCII letters, digits, `_` and `-` in tag names and values. Replacing other characters by `_` would
//! let two values collide, and a tag is how a receipt finds its row again. So each other byte of the UTF-8 text
//! becomes `--` and two lower-case hex digits. A hyphen stays as it is unless another hyphen would follow it in the
//! output; then it is escaped itself. Hence `--` in a cleaned text always opens an escape, ordinary names
//! (`user-id`, `inv_01h2x`) do not change, and no two texts have the same cleaned form.

use std::collections::BTreeMap;

/// Longest tag name or value, in characters (Resend's limit).
pub const TAG_CHARS_MAX: usize = 256;
/// Most tags on one mail, ours included (Resend's limit).
pub const TAGS_MAX: usize = 75;
/// The tag that says which environment sent the mail, so that staging's receipts are told from production's.
pub const ENVIRONMENT_TAG: &str = "sealpost_env";
/// The tag that carries the outbox id, so that a receipt finds its row without the provider's message id.
pub const OUTBOX_ID_TAG: &str = "sealpost_id";
/// Most tags that a caller may bring: the two above are always there.
pub const USER_TAGS_MAX: usize = TAGS_MAX - 2;

/// What opens an escape in a cleaned text.
const ESCAPE: &str = "--";

/// Why tags were refused. The text is a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// A name or value without a character; the provider refuses it.
    #[error("tag_empty")]
    Empty,
    /// Longer than [`TAG_CHARS_MAX`] once cleaned.
    #[error("tag_too_long")]
    TooLong,
    /// A caller's tag has the name of one of ours.
    #[error("tag_name_reserved")]
    Reserved,
    /// More than [`USER_TAGS_MAX`] tags from a caller.
    #[error("tags_too_many")]
    TooMany,
}

/// One tag as it goes out, name and value cleaned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// The cleaned name.
    pub name: String,
    /// The cleaned value.
    pub value: String,
}

/// The text in the provider's character set; [`restore`] is its inverse.
///
/// # Errors
/// [`TagError::Empty`] and [`TagError::TooLong`]: at the intake, so that no row ever fails later for its tags.
pub fn clean(text: &str) -> Result<String, TagError> {
    if text.is_empty() {
        return Err(TagError::Empty);
    }
    // Cleaning never shortens: a text that is too long already need not be walked.
    if text.len() > TAG_CHARS_MAX {
        return Err(TagError::TooLong);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let plain = match byte {
            b'-' => bytes.peek().is_none_or(|&next| is_word(next)),
            other => is_word(other),
        };
        if plain {
            cleaned.push(char::from(byte));
        } else {
            cleaned.push_str(ESCAPE);
            cleaned.extend(hex_digit(byte >> 4));
            cleaned.extend(hex_digit(byte & 15));
        }
    }
    if cleaned.len() > TAG_CHARS_MAX {
        return Err(TagError::TooLong);
    }
    Ok(cleaned)
}

/// The text that was cleaned; `None` where [`clean`] makes no such text.
pub fn restore(cleaned: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(cleaned.len());
    let mut rest = cleaned.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte == b'-' && rest.next_if_eq(&b'-').is_some() {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    // The same text has other spellings (an escaped letter, upper-case hex); only the one we write counts.
    (clean(&text).ok()? == cleaned).then_some(text)
}

/// Checks and cleans a caller's tags, ordered by cleaned name.
///
/// # Errors
/// Any [`TagError`].
pub fn clean_user(tags: &BTreeMap<String, String>) -> Result<Vec<Tag>, TagError> {
    if tags.len() > USER_TAGS_MAX {
        return Err(TagError::TooMany);
    }
    let mut cleaned = Vec::with_capacity(tags.len());
    for (name, value) in tags {
        // In any case of letters: nobody says whether the provider tells them apart.
        if [ENVIRONMENT_TAG, OUTBOX_ID_TAG]
            .iter()
            .any(|own| own.eq_ignore_ascii_case(name))
        {
            return Err(TagError::Reserved);
        }
        cleaned.push(Tag {
            name: clean(name)?,
            value: clean(value)?,
        });
    }
    cleaned.sort();
    Ok(cleaned)
}

/// All tags of one mail: ours first, then the caller's by name.
///
/// # Errors
/// Any [`TagError`]; for an environment or an id, that is a configuration nobody should run.
pub fn assemble(environment: &str, outbox_id: &str, user: &BTreeMap<String, String>) -> Result<Vec<Tag>, TagError> {
    let mut tags = vec![
        Tag {
            name: ENVIRONMENT_TAG.to_owned(),
            value: clean(environment)?,
        },
        Tag {
            name: OUTBOX_ID_TAG.to_owned(),
            value: clean(outbox_id)?,
        },
    ];
    tags.append(&mut clean_user(user)?);
    Ok(tags)
}

/// A byte that is never escaped.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn hex_digit(nibble: u8) -> Option<char> {
    char::from_digit(u32::from(nibble), 16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn is_legal(text: &str) -> bool {
        (1..=256).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    }

    #[test]
    fn ordinary_names_and_our_ids_do_not_change() {
        for text in [
            "user-id",
            "invitation",
            "inv_01hzy3v8q4",
            "a-",
            "-a",
            "A_B-c9",
            "sealpost_env",
        ] {
            assert_eq!(clean(text).unwrap(), text);
        }
    }

    #[test]
    fn other_characters_are_spelled_out() {
        let cases = [
            ("user@example.com", "user--40example--2ecom"),
            ("v1.2", "v1--2e2"),
            ("a b", "a--20b"),
            ("ä", "--c3--a4"),
            ("a--b", "a--2d-b"),
            ("a-.b", "a--2d--2eb"),
            (".-a", "--2e-a"),
            ("---", "--2d--2d-"),
        ];
        for (text, cleaned) in cases {
            assert_eq!(clean(text).unwrap(), cleaned);
            assert_eq!(restore(cleaned).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_a_tag_is_refused() {
        assert_eq!(clean(""), Err(TagError::Empty));
        assert_eq!(clean(&"a".repeat(256)).unwrap().len(), 256);
        assert_eq!(clean(&"a".repeat(257)), Err(TagError::TooLong));
        assert_eq!(clean(&"a".repeat(252)).unwrap().len(), 252);
        assert_eq!(clean(&format!("{}.", "a".repeat(252))).unwrap().len(), 256);
        assert_eq!(clean(&format!("{}.", "a".repeat(253))), Err(TagError::TooLong));
    }

    #[test]
    fn only_our_own_spelling_is_restored() {
        for text in ["", "--61", "--2E", "--2", "--", "--zz", "--ff", "a.b", "a--2db", "ä"] {
            assert_eq!(restore(text), None, "{text}");
        }
    }

    #[test]
    fn a_caller_cannot_take_our_tags_or_all_the_room() {
        for name in ["sealpost_env", "sealpost_id", "Sealpost_ID"] {
            assert_eq!(clean_user(&map(&[(name, "x")])), Err(TagError::Reserved));
        }
        let tags = |count: usize| -> BTreeMap<String, String> {
            (0..count).map(|n| (format!("t{n}"), "v".to_owned())).collect()
        };
        assert_eq!(assemble("staging", "inv_1", &tags(73)).unwrap().len(), TAGS_MAX);
        assert_eq!(clean_user(&tags(74)), Err(TagError::TooMany));
        assert_eq!(clean_user(&map(&[("a", "")])), Err(TagError::Empty));
        assert_eq!(clean_user(&map(&[("", "a")])), Err(TagError::Empty));
    }

    #[test]
    fn ours_come_first_and_the_rest_is_ordered() {
        let tags = assemble("production", "inv_1", &map(&[("b", "2"), ("a.c", "1"), ("Z", "3")])).unwrap();
        let names: Vec<&str> = tags.iter().map(|tag| tag.name.as_str()).collect();
        assert_eq!(names, ["sealpost_env", "sealpost_id", "Z", "a--2ec", "b"]);
        assert_eq!(tags[1].value, "inv_1");
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in "\\PC{1,64}") {
            let cleaned = clean(&text);
            prop_assume!(cleaned.is_ok());
            let cleaned = cleaned.unwrap();
            prop_assert!(is_legal(&cleaned));
            prop_assert_eq!(restore(&cleaned), Some(text));
        }

        // Few characters, many hyphens and hex digits: where an escape could be mistaken for text.
        #[test]
        fn no_two_texts_collide(one in "[-.2de_é]{1,12}", other in "[-.2de_é]{1,12}") {
            prop_assert_eq!(one == other, clean(&one).unwrap() == clean(&other).unwrap());
            prop_assert_eq!(restore(&clean(&one).unwrap()), Some(one));
        }

        #[test]
        fn what_is_restored_is_the_only_origin(cleaned in "[-2de4aA_]{1,12}") {
            if let Some(text) = restore(&cleaned) {
                prop_assert_eq!(clean(&text).unwrap(), cleaned);
            }
        }

        #[test]
        fn restoring_never_panics(text in ".*") {
            let _ = restore(&text);
        }
    }
}
