//! Long texts as arguments: a list of letters or seals is cut into lists that the server takes.

use libsql::Value;
use serde::Serialize;

/// Bytes of one list at most, unless a single item is longer. The server refuses values over 5 MB, and a text within
/// JSON is longer there than by itself: a quotation mark in a letter takes four bytes.
const LIST_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The items as JSON arrays of bounded length, in order; none where there are no items. Each becomes the argument of
/// one statement, so that a long text travels once and in no other statement's list.
pub(super) fn lists<T: Serialize>(items: impl IntoIterator<Item = T>) -> Vec<Value> {
    let mut lists = Vec::new();
    let mut list = String::new();
    for item in items {
        // Written at once, and not by way of a value: an item may have megabytes. Structs of texts and numbers always
        // have a JSON form.
        let text = serde_json::to_string(&item).unwrap_or_default();
        if !list.is_empty() && list.len().saturating_add(text.len()) > LIST_BYTES_MAX {
            lists.push(closed(core::mem::take(&mut list)));
        }
        list.push(if list.is_empty() { '[' } else { ',' });
        list.push_str(&text);
    }
    if !list.is_empty() {
        lists.push(closed(list));
    }
    lists
}

fn closed(mut list: String) -> Value {
    list.push(']');
    Value::Text(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[Value]) -> Vec<Vec<String>> {
        values
            .iter()
            .map(|value| {
                let Value::Text(text) = value else {
                    panic!("no text: {value:?}")
                };
                serde_json::from_str(text).unwrap()
            })
            .collect()
    }

    #[test]
    fn nothing_is_lost_and_no_list_is_too_long() {
        assert!(lists(Vec::<String>::new()).is_empty());
        assert_eq!(texts(&lists(["a", "\""])), [["a", "\""]]);
        let long = vec!["\"".repeat(LIST_BYTES_MAX / 5); 7];
        let cut = lists(&long);
        assert!(cut.len() > 1);
        for list in &cut {
            assert!(matches!(list, Value::Text(text) if text.len() <= LIST_BYTES_MAX + 2));
        }
        assert_eq!(texts(&cut).concat(), long);
    }

    #[test]
    fn an_item_that_is_too_long_comes_alone() {
        let long = "x".repeat(LIST_BYTES_MAX + 1);
        assert_eq!(
            texts(&lists(["a", &long, "b"])),
            [vec!["a"], vec![long.as_str()], vec!["b"]]
        );
    }
}
