//! A valid JSON document, changed in a few places. Kept as text pieces, so that a name may stand twice and a number may
//! be one that no number type holds.

use proptest::prelude::*;
use serde_json::Value;

use crate::hostile::{self, quoted};

/// A document as it will be written.
#[derive(Clone, Debug)]
enum Node {
    /// Written as it is.
    Token(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// One change; `at` picks the node, counted through the document.
#[derive(Clone, Debug)]
pub enum Change {
    /// Another value in this place.
    Replace { at: usize, token: String },
    /// The same member once more, with another value.
    Twice { at: usize, token: String },
    /// A member that nobody knows, or one that belongs elsewhere.
    Insert { at: usize, name: String, token: String },
    /// One member or element less.
    Remove { at: usize },
    /// A member under another name.
    Rename { at: usize, name: String },
    /// The same value, deeper.
    Nest { at: usize, levels: usize },
    /// Cut after so many bytes (counted around).
    Cut { at: usize },
    /// These bytes put in between.
    Bytes { at: usize, bytes: Vec<u8> },
    /// A byte order mark before it.
    Mark,
}

/// No, one or a few changes; `names` are those that other members of the document have.
pub fn changes(names: &'static [&'static str]) -> impl Strategy<Value = Vec<Change>> {
    let name = || prop_oneof![3 => prop::sample::select(names).prop_map(str::to_owned), 1 => hostile::text()];
    let at = 0_usize..200;
    let change = prop_oneof![
        8 => (at.clone(), hostile::token()).prop_map(|(at, token)| Change::Replace { at, token }),
        2 => (at.clone(), hostile::token()).prop_map(|(at, token)| Change::Twice { at, token }),
        3 => (at.clone(), name(), hostile::token()).prop_map(|(at, name, token)| Change::Insert { at, name, token }),
        2 => at.clone().prop_map(|at| Change::Remove { at }),
        2 => (at.clone(), name()).prop_map(|(at, name)| Change::Rename { at, name }),
        1 => (at, 1_usize..140).prop_map(|(at, levels)| Change::Nest { at, levels }),
        1 => (0_usize..4000).prop_map(|at| Change::Cut { at }),
        1 => (0_usize..4000, prop::collection::vec(any::<u8>(), 1..4)).prop_map(|(at, bytes)| Change::Bytes { at, bytes }),
        1 => Just(Change::Mark),
    ];
    prop::collection::vec(change, 0..4)
}

/// The document's bytes with the changes made in their order.
pub fn changed(document: &Value, changes: &[Change]) -> Vec<u8> {
    let mut root = node(document);
    for change in changes {
        change_nodes(&mut root, change);
    }
    let mut text = String::new();
    write(&mut text, &root);
    let mut bytes = text.into_bytes();
    for change in changes {
        match change {
            Change::Cut { at } => bytes.truncate(at % (bytes.len() + 1)),
            Change::Bytes { at, bytes: more } => {
                let at = at % (bytes.len() + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Mark => {
                bytes.splice(0..0, *b"\xef\xbb\xbf");
            }
            Change::Replace { .. }
            | Change::Twice { .. }
            | Change::Insert { .. }
            | Change::Remove { .. }
            | Change::Rename { .. }
            | Change::Nest { .. } => {}
        }
    }
    bytes
}

fn change_nodes(root: &mut Node, change: &Change) {
    match change {
        Change::Replace { at, token } => {
            *nth(root, *at) = Node::Token(token.clone());
        }
        Change::Nest { at, levels } => {
            let place = nth(root, *at);
            for _ in 0..*levels {
                *place = Node::List(vec![place.clone()]);
            }
        }
        Change::Twice { at, token } => {
            if let Node::Object(members) = nth_of(root, *at, is_object)
                && let Some((name, _)) = members.get(*at % members.len().max(1)).cloned()
            {
                members.push((name, Node::Token(token.clone())));
            }
        }
        Change::Insert { at, name, token } => {
            if let Node::Object(members) = nth_of(root, *at, is_object) {
                members.push((name.clone(), Node::Token(token.clone())));
            }
        }
        Change::Remove { at } => match nth_of(root, *at, |node| !matches!(node, Node::Token(_))) {
            Node::Object(members) if !members.is_empty() => {
                members.remove(at % members.len());
            }
            Node::List(elements) if !elements.is_empty() => {
                elements.remove(at % elements.len());
            }
            Node::Object(_) | Node::List(_) | Node::Token(_) => {}
        },
        Change::Rename { at, name } => {
            if let Node::Object(members) = nth_of(root, *at, is_object)
                && !members.is_empty()
            {
                let at = at % members.len();
                members[at].0.clone_from(name);
            }
        }
        Change::Cut { .. } | Change::Bytes { .. } | Change::Mark => {}
    }
}

fn is_object(node: &Node) -> bool {
    matches!(node, Node::Object(_))
}

fn nth(root: &mut Node, at: usize) -> &mut Node {
    nth_of(root, at, |_| true)
}

/// The node number `at`, counted around, of those that fit; the root where none does.
fn nth_of(root: &mut Node, at: usize, fits: fn(&Node) -> bool) -> &mut Node {
    let fitting = count(root, fits);
    if fitting == 0 {
        return root;
    }
    let mut left = at % fitting;
    let mut place = root;
    // Down to the child that holds the node, until the node is the place itself.
    loop {
        if fits(place) {
            if left == 0 {
                return place;
            }
            left -= 1;
        }
        let children: Vec<&mut Node> = match place {
            Node::Token(_) => Vec::new(),
            Node::List(elements) => elements.iter_mut().collect(),
            Node::Object(members) => members.iter_mut().map(|(_, value)| value).collect(),
        };
        let mut next = None;
        for child in children {
            let below = count(child, fits);
            if left < below {
                next = Some(child);
                break;
            }
            left -= below;
        }
        place = next.expect("the count says that it is below");
    }
}

fn count(node: &Node, fits: fn(&Node) -> bool) -> usize {
    let below: usize = match node {
        Node::Token(_) => 0,
        Node::List(elements) => elements.iter().map(|element| count(element, fits)).sum(),
        Node::Object(members) => members.iter().map(|(_, value)| count(value, fits)).sum(),
    };
    below + usize::from(fits(node))
}

fn node(value: &Value) -> Node {
    match value {
        Value::Array(elements) => Node::List(elements.iter().map(node).collect()),
        Value::Object(members) => Node::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), node(value)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Node::Token(value.to_string()),
    }
}

fn write(text: &mut String, node: &Node) {
    match node {
        Node::Token(token) => text.push_str(token),
        Node::List(elements) => {
            text.push('[');
            for (position, element) in elements.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write(text, element);
            }
            text.push(']');
        }
        Node::Object(members) => {
            text.push('{');
            for (position, (name, value)) in members.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                text.push_str(&quoted(name));
                text.push(':');
                write(text, value);
            }
            text.push('}');
        }
    }
}
