//! Compiles the files of `templates/` into Rust tables. The build script includes this file, and the tests compile it
//! again: it is not part of the Worker, which so carries no parser and no engine for a language that it needs little of.
//!
//! Templates are written in Jinja and parsed by `minijinja`. What may stand in them is text, values with one of the
//! filters, conditions, loops over lists, and the blocks of a layout. Messages are for the person who edits the
//! templates, so they name the file, the line and the rule.

use std::{collections::BTreeMap, fmt::Write as _, mem::discriminant};

use minijinja::{
    machinery::{
        ast::{BinOpKind, CallArg, Expr, Stmt, UnaryOpKind},
        parse,
    },
    syntax::SyntaxConfig,
};

/// What a template may print a value through, with its name in the tables.
const FILTERS: [(&str, &str); 3] = [("link", "Link"), ("paragraph", "Paragraph"), ("refuse", "Refuse")];

/// Names that mean something else in Jinja than a value of the data.
const RESERVED_NAMES: [&str; 3] = ["self", "super", "loop"];

/// The default syntax, but a tag alone on its line leaves no empty line behind.
///
/// # Errors
/// A text for the person who builds.
pub(crate) fn syntax() -> Result<SyntaxConfig, String> {
    SyntaxConfig::builder()
        .lstrip_blocks(true)
        .trim_blocks(true)
        .build()
        .map_err(|error| error.to_string())
}

/// A layout: the frame of every part of one kind.
pub(crate) struct Layout {
    /// The name that `extends` uses.
    name: String,
    /// The constant of the generated source that holds the frame.
    constant: &'static str,
    /// The nodes of the frame, as Rust source.
    #[cfg_attr(test, allow(dead_code, reason = "the tests look at what a layout refuses"))]
    pub(crate) nodes: String,
    /// What a block holds where the template has none of that name, as Rust source.
    blocks: BTreeMap<String, String>,
}

/// Compiles a layout.
///
/// # Errors
/// A text that names file, line and rule.
pub(crate) fn layout(name: &str, constant: &'static str, source: &str) -> Result<Layout, String> {
    let mut compiler = Compiler::new(name, Place::Layout);
    let nodes = compiler.file(source)?;
    if let Some(called) = compiler
        .called
        .iter()
        .find(|called| !compiler.blocks.contains_key(*called))
    {
        return Err(format!("templates/{name}: self.{called}() has no block of that name"));
    }
    Ok(Layout {
        name: name.to_owned(),
        constant,
        nodes,
        blocks: compiler.blocks,
    })
}

/// Compiles one part of a template into a `Part` expression.
///
/// # Errors
/// A text that names file, line and rule.
pub(crate) fn part(name: &str, source: &str, layouts: &[Layout]) -> Result<String, String> {
    let mut compiler = Compiler::new(name, Place::Part);
    let nodes = compiler.file(source)?;
    let Some(extended) = compiler.extends else {
        return match compiler.blocks.keys().next() {
            Some(block) => Err(format!("templates/{name}: block {block:?} needs a layout to stand in")),
            None => Ok(format!("Part {{ frame: {nodes}, blocks: &[] }}")),
        };
    };
    let layout = layouts
        .iter()
        .find(|layout| layout.name == extended)
        .ok_or_else(|| format!("templates/{name}: there is no layout {extended:?}"))?;
    let mut blocks = layout.blocks.clone();
    for (block, nodes) in compiler.blocks {
        if blocks.insert(block.clone(), nodes).is_none() {
            return Err(format!("templates/{name}: {extended} has no block {block:?}"));
        }
    }
    let blocks: String = blocks
        .iter()
        .map(|(block, nodes)| format!("({block:?}, {nodes}), "))
        .collect();
    Ok(format!("Part {{ frame: {}, blocks: &[{blocks}] }}", layout.constant))
}

/// Where the compiler stands in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a layout, outside its blocks: the one place where a block may stand or be repeated.
    Layout,
    /// In a part, outside its blocks.
    Part,
    /// In a block of either.
    Block,
}

struct Compiler<'a> {
    file: &'a str,
    place: Place,
    extends: Option<String>,
    blocks: BTreeMap<String, String>,
    called: Vec<String>,
    /// Loops that are open.
    loops: u32,
}

impl<'a> Compiler<'a> {
    fn new(file: &'a str, place: Place) -> Self {
        Self {
            file,
            place,
            extends: None,
            blocks: BTreeMap::new(),
            called: Vec::new(),
            loops: 0,
        }
    }

    fn refuse<T>(&self, line: u16, what: &str) -> Result<T, String> {
        Err(format!("templates/{}: line {line}: {what}", self.file))
    }

    fn file(&mut self, source: &str) -> Result<String, String> {
        let parsed = parse(source, self.file, syntax()?)
            .map_err(|error| format!("templates/{}: line {}: {error}", self.file, error.line().unwrap_or(0)))?;
        let Stmt::Template(template) = parsed else {
            return self.refuse(1, "this is no template");
        };
        let outside = template.children.iter().find(|statement| {
            let blank = matches!(statement, Stmt::EmitRaw(text) if text.raw.trim().is_empty());
            !blank && !matches!(statement, Stmt::Block(_) | Stmt::Extends(_))
        });
        let nodes = self.nodes(&template.children)?;
        match (&self.extends, outside) {
            (Some(_), Some(statement)) => {
                self.refuse(line_of(statement), "beside a layout, everything stands in a block")
            }
            (Some(_), None) | (None, _) => Ok(nodes),
        }
    }

    fn nodes(&mut self, statements: &[Stmt<'_>]) -> Result<String, String> {
        let mut source = "&[".to_owned();
        for statement in statements {
            let node = self.node(statement)?;
            if !node.is_empty() {
                let _ = write!(source, "{node}, ");
            }
        }
        source.push(']');
        Ok(source)
    }

    fn node(&mut self, statement: &Stmt<'_>) -> Result<String, String> {
        let line = line_of(statement);
        match statement {
            Stmt::EmitRaw(text) => Ok(format!("Node::Text({:?})", text.raw)),
            Stmt::EmitExpr(emit) => self.print(&emit.expr),
            Stmt::IfCond(condition) => Ok(format!(
                "Node::If {{ when: {}, then: {}, otherwise: {} }}",
                self.condition(&condition.expr)?,
                self.nodes(&condition.true_body)?,
                self.nodes(&condition.false_body)?
            )),
            Stmt::ForLoop(each) => {
                let Expr::Var(target) = &each.target else {
                    return self.refuse(line, "a loop has one name for its elements");
                };
                if each.filter_expr.is_some() || each.recursive {
                    return self.refuse(line, "a loop goes over a whole list, and not into itself");
                }
                let list = self.path(&each.iter)?;
                let none = self.nodes(&each.else_body)?;
                self.not_reserved(line, target.id)?;
                self.loops += 1;
                let body = self.nodes(&each.body)?;
                self.loops -= 1;
                Ok(format!(
                    "Node::For {{ name: {:?}, list: {list}, each: {body}, none: {none} }}",
                    target.id
                ))
            }
            Stmt::Block(block) => self.block(line, block.name, &block.body),
            Stmt::Extends(extends) => {
                let name = text_of(&extends.name).map(str::to_owned);
                if self.place != Place::Part || self.extends.is_some() || name.is_none() {
                    return self.refuse(line, "a part extends one layout, by its name, and a layout none");
                }
                self.extends = name;
                Ok(String::new())
            }
            Stmt::Template(_)
            | Stmt::WithBlock(_)
            | Stmt::Set(_)
            | Stmt::SetBlock(_)
            | Stmt::AutoEscape(_)
            | Stmt::FilterBlock(_)
            | Stmt::Import(_)
            | Stmt::FromImport(_)
            | Stmt::Include(_)
            | Stmt::Do(_) => self.refuse(line, "templates may use if, for, block and extends, and no other tags"),
        }
    }

    fn block(&mut self, line: u16, name: &str, body: &[Stmt<'_>]) -> Result<String, String> {
        if self.place == Place::Block || self.loops > 0 {
            return self.refuse(line, "a block stands in no other block and in no loop");
        }
        let outside = self.place;
        self.place = Place::Block;
        let nodes = self.nodes(body)?;
        self.place = outside;
        if self.blocks.insert(name.to_owned(), nodes).is_some() {
            return self.refuse(line, "there are two blocks of that name");
        }
        Ok(match outside {
            Place::Layout => format!("Node::Block({name:?})"),
            Place::Part | Place::Block => String::new(),
        })
    }

    /// `{{ path }}`, `{{ path|filter }}` or, in a layout, `{{ self.block() }}`.
    fn print(&mut self, expression: &Expr<'_>) -> Result<String, String> {
        let line = expression.span().start_line;
        if let Expr::Call(call) = expression {
            if let Expr::GetAttr(called) = &call.expr
                && matches!(&called.expr, Expr::Var(object) if object.id == "self")
                && call.args.is_empty()
                && self.place == Place::Layout
            {
                self.called.push(called.name.to_owned());
                return Ok(format!("Node::Block({:?})", called.name));
            }
            return self.refuse(line, "the one call is self.block(), outside the blocks of a layout");
        }
        let Expr::Filter(filtered) = expression else {
            return Ok(format!("Node::Print({}, Filter::Plain)", self.path(expression)?));
        };
        let known = FILTERS.iter().find(|(name, _)| *name == filtered.name);
        match (known, &filtered.expr, filtered.args.as_slice()) {
            (Some((_, filter)), Some(value), []) => Ok(format!("Node::Print({}, Filter::{filter})", self.path(value)?)),
            (
                Some(_),
                _,
                [
                    CallArg::Pos(_) | CallArg::Kwarg(..) | CallArg::PosSplat(_) | CallArg::KwargSplat(_),
                    ..,
                ],
            ) => self.refuse(line, "a filter takes nothing in brackets"),
            (Some(_), None, []) | (None, ..) => {
                self.refuse(line, "the filters are link, paragraph and refuse, one at a time")
            }
        }
    }

    /// Whatever else the parser knows, today or in its next version, is refused.
    fn condition(&self, expression: &Expr<'_>) -> Result<String, String> {
        if let Expr::UnaryOp(not) = expression
            && matches!(not.op, UnaryOpKind::Not)
        {
            return Ok(format!("Condition::Not(&{})", self.condition(&not.expr)?));
        }
        if let Expr::BinOp(both) = expression {
            let joined = [(BinOpKind::ScAnd, "And"), (BinOpKind::ScOr, "Or")]
                .into_iter()
                .find(|(kind, _)| discriminant(kind) == discriminant(&both.op));
            if let Some((_, joined)) = joined {
                let (left, right) = (self.condition(&both.left)?, self.condition(&both.right)?);
                return Ok(format!("Condition::{joined}(&{left}, &{right})"));
            }
            if matches!(both.op, BinOpKind::Eq) {
                return self.equals(&both.left, &both.right);
            }
            if matches!(both.op, BinOpKind::Ne) {
                return Ok(format!("Condition::Not(&{})", self.equals(&both.left, &both.right)?));
            }
        }
        if let Expr::Test(test) = expression
            && test.name == "defined"
            && test.args.is_empty()
        {
            return Ok(format!("Condition::Defined({})", self.path(&test.expr)?));
        }
        if matches!(expression, Expr::Var(_) | Expr::GetAttr(_)) {
            return Ok(format!("Condition::Filled({})", self.path(expression)?));
        }
        self.refuse(
            expression.span().start_line,
            "conditions are a value, `is defined`, `==` or `!=` with a text, and not, and, or",
        )
    }

    fn equals(&self, left: &Expr<'_>, right: &Expr<'_>) -> Result<String, String> {
        match text_of(right) {
            Some(text) => Ok(format!("Condition::Is({}, {text:?})", self.path(left)?)),
            None => self.refuse(
                right.span().start_line,
                "a value is compared with a text in quotation marks, on its right",
            ),
        }
    }

    /// `name` or `name.member`, as deep as it likes.
    fn path(&self, expression: &Expr<'_>) -> Result<String, String> {
        let line = expression.span().start_line;
        let mut names = Vec::new();
        let mut current = expression;
        while let Expr::GetAttr(member) = current {
            names.push(member.name);
            current = &member.expr;
        }
        let Expr::Var(name) = current else {
            return self.refuse(line, "a value is named by its path, such as name or secret.url");
        };
        self.not_reserved(line, name.id)?;
        names.push(name.id);
        names.reverse();
        Ok(format!("&{names:?}"))
    }

    fn not_reserved(&self, line: u16, name: &str) -> Result<(), String> {
        if RESERVED_NAMES.contains(&name) {
            return self.refuse(line, &format!("{name:?} is not a name of a value"));
        }
        Ok(())
    }
}

/// The text of a literal in quotation marks.
fn text_of<'a>(expression: &'a Expr<'_>) -> Option<&'a str> {
    if let Expr::Const(literal) = expression {
        literal.value.as_str()
    } else {
        None
    }
}

fn line_of(statement: &Stmt<'_>) -> u16 {
    match statement {
        Stmt::Template(at) => at.span(),
        Stmt::EmitExpr(at) => at.span(),
        Stmt::EmitRaw(at) => at.span(),
        Stmt::ForLoop(at) => at.span(),
        Stmt::IfCond(at) => at.span(),
        Stmt::WithBlock(at) => at.span(),
        Stmt::Set(at) => at.span(),
        Stmt::SetBlock(at) => at.span(),
        Stmt::AutoEscape(at) => at.span(),
        Stmt::FilterBlock(at) => at.span(),
        Stmt::Block(at) => at.span(),
        Stmt::Import(at) => at.span(),
        Stmt::FromImport(at) => at.span(),
        Stmt::Extends(at) => at.span(),
        Stmt::Include(at) => at.span(),
        Stmt::Do(at) => at.span(),
    }
    .start_line
}

#[cfg(test)]
#[path = "template_file_tests.rs"]
mod tests;
