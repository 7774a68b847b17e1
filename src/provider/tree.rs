//! A template as the build script compiled it, and how it is filled with data.

use serde_json::Value as Json;

use crate::provider::{
    filters::{self, Filter},
    template::{LETTER_BYTES_MAX, RenderError},
};

/// A value's place in the data: a name, and names of members below it.
pub(crate) type Path = &'static [&'static str];

/// One piece of a template.
#[allow(
    dead_code,
    reason = "the shipped templates do not use everything that a template may"
)]
pub(crate) enum Node {
    /// Text that stands in the letter as it is.
    Text(&'static str),
    /// A value.
    Print(Path, Filter),
    /// One of two ways to go on.
    If {
        /// Which.
        when: Condition,
        /// Where it holds.
        then: &'static [Node],
        /// Where it does not.
        otherwise: &'static [Node],
    },
    /// The same once for each element of a list.
    For {
        /// What the element is called.
        name: &'static str,
        /// The list.
        list: Path,
        /// What is repeated.
        each: &'static [Node],
        /// What stands in its place where the list is empty.
        none: &'static [Node],
    },
    /// What the template has for a place in the layout.
    Block(&'static str),
}

/// What an [`Node::If`] asks.
#[allow(
    dead_code,
    reason = "the shipped templates do not use everything that a template may"
)]
pub(crate) enum Condition {
    /// The data has the value, be it null.
    Defined(Path),
    /// The value is there and not null, false, zero or empty.
    Filled(Path),
    /// The value is this text.
    Is(Path, &'static str),
    /// The contrary.
    Not(&'static Condition),
    /// Both; the second is not asked where the first fails.
    And(&'static Condition, &'static Condition),
    /// One of them; the second is not asked where the first holds.
    Or(&'static Condition, &'static Condition),
}

/// One part of a letter: the layout's nodes, and the template's own for its blocks.
pub(crate) struct Part {
    /// What is written, from the first node to the last.
    pub(crate) frame: &'static [Node],
    /// Every block that the frame names.
    pub(crate) blocks: &'static [(&'static str, &'static [Node])],
}

/// Nodes that rendering one part may visit: over ten times what the largest letter needs, a fraction of a second. A list
/// within a list within a list is the one way to come here.
const NODES_MAX: u32 = 200_000;

/// Renders one part within a number of bytes. `html` says that values are escaped.
///
/// # Errors
/// [`RenderError::LetterTooLarge`] past `room` bytes or [`NODES_MAX`]; otherwise what the data lacks or has wrong.
pub(crate) fn render(part: &Part, data: &Json, html: bool, room: usize) -> Result<String, RenderError> {
    let mut writer = Writer {
        part,
        data,
        html,
        room: room.min(LETTER_BYTES_MAX),
        nodes_left: NODES_MAX,
        loops: Vec::new(),
        text: String::new(),
    };
    writer.nodes(part.frame)?;
    Ok(writer.text)
}

struct Writer<'a> {
    part: &'a Part,
    data: &'a Json,
    html: bool,
    room: usize,
    nodes_left: u32,
    /// The elements that the open loops stand at, the innermost last.
    loops: Vec<(&'static str, &'a Json)>,
    text: String,
}

impl<'a> Writer<'a> {
    /// The depth is that of the template's own tags: no data makes it deeper, and no block holds another.
    fn nodes(&mut self, nodes: &'static [Node]) -> Result<(), RenderError> {
        for node in nodes {
            self.nodes_left = self.nodes_left.checked_sub(1).ok_or(RenderError::LetterTooLarge)?;
            match node {
                Node::Text(text) => self.write(text)?,
                Node::Print(path, filter) => {
                    let value = self.find(path)?;
                    let text = filters::print(*filter, value, self.html)?;
                    self.write(&text)?;
                }
                Node::If { when, then, otherwise } => {
                    let way = if self.holds(when)? { then } else { otherwise };
                    self.nodes(way)?;
                }
                Node::For { name, list, each, none } => self.each(name, list, each, none)?,
                Node::Block(wanted) => {
                    let block = self.part.blocks.iter().find(|(name, _)| name == wanted);
                    let (_, nodes) = block.ok_or(RenderError::TemplateFailed)?;
                    self.nodes(nodes)?;
                }
            }
        }
        Ok(())
    }

    fn each(
        &mut self,
        name: &'static str,
        list: Path,
        each: &'static [Node],
        none: &'static [Node],
    ) -> Result<(), RenderError> {
        let elements = match self.find(list)? {
            Some(Json::Array(elements)) => elements,
            Some(Json::Null) | None => return Err(RenderError::DataIncomplete),
            Some(Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_)) => {
                return Err(RenderError::DataInvalid);
            }
        };
        if elements.is_empty() {
            return self.nodes(none);
        }
        for element in elements {
            // An empty loop is work, too.
            self.nodes_left = self.nodes_left.checked_sub(1).ok_or(RenderError::LetterTooLarge)?;
            self.loops.push((name, element));
            self.nodes(each)?;
            self.loops.pop();
        }
        Ok(())
    }

    /// Stops at the limit instead of growing past it.
    fn write(&mut self, text: &str) -> Result<(), RenderError> {
        self.room = self.room.checked_sub(text.len()).ok_or(RenderError::LetterTooLarge)?;
        self.text.push_str(text);
        Ok(())
    }

    /// The value at a path; `None` where only the last name is missing. A member of what is not there is an error.
    fn find(&self, path: Path) -> Result<Option<&'a Json>, RenderError> {
        let Some((first, members)) = path.split_first() else {
            return Err(RenderError::TemplateFailed);
        };
        let element = self.loops.iter().rev().find(|(name, _)| name == first);
        let mut value = element.map(|(_, value)| *value).or_else(|| self.data.get(first));
        for member in members {
            value = value.ok_or(RenderError::DataIncomplete)?.get(member);
        }
        Ok(value)
    }

    fn holds(&self, condition: &Condition) -> Result<bool, RenderError> {
        Ok(match condition {
            Condition::Defined(path) => self.find(path)?.is_some(),
            Condition::Filled(path) => is_filled(self.find(path)?.ok_or(RenderError::DataIncomplete)?),
            Condition::Is(path, text) => self.find(path)?.ok_or(RenderError::DataIncomplete)?.as_str() == Some(*text),
            Condition::Not(condition) => !self.holds(condition)?,
            Condition::And(first, second) => self.holds(first)? && self.holds(second)?,
            Condition::Or(first, second) => self.holds(first)? || self.holds(second)?,
        })
    }
}

fn is_filled(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(truth) => *truth,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(elements) => !elements.is_empty(),
        Json::Object(members) => !members.is_empty(),
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
