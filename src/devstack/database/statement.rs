//! Reads SQL before it runs: one text into statements, each of a kind that the server knows.
//!
//! The parser is the one that the real server uses, and so is the list of what is refused: whatever would change the
//! connection or the file behind the server's back (`VACUUM`, `ANALYZE`, temporary tables, `ATTACH`, most pragmas).

use fallible_iterator::FallibleIterator as _;
use libsql_sqlite3_parser::ast::{Cmd, PragmaBody, QualifiedName, Stmt};
use libsql_sqlite3_parser::lexer::sql::{Error as LexerError, Parser, ParserError};

/// What a statement does, as far as the server cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `BEGIN` of any sort.
    Begin,
    /// Anything else that runs.
    Other,
    /// `INSERT`: gives a last rowid and a count of rows.
    Insert,
    /// `UPDATE` or `DELETE`: gives a count of rows.
    Change,
}

/// One statement that may run.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Its text, without the statements around it.
    pub(super) text: String,
    /// What it does.
    pub(super) kind: Kind,
}

/// Splits a text into its statements. The reading ends at the first error, which stands last in the list.
///
/// The real server looks one statement ahead and forgets an error that it finds there: a broken statement behind a
/// good one is passed over where nothing readable follows. This reader does the same.
pub(super) fn parse(sql: &str) -> Vec<Result<Statement, String>> {
    // The parser is known to panic on some malformed texts; the real server catches that in the same way.
    std::panic::catch_unwind(|| parse_unguarded(sql))
        .unwrap_or_else(|_| vec![Err("unexpected parser error".to_owned())])
}

fn parse_unguarded(sql: &str) -> Vec<Result<Statement, String>> {
    // The parser is large: it belongs on the heap.
    let mut parser = Box::new(Parser::new(sql.as_bytes()));
    let mut statements: Vec<Result<Statement, String>> = Vec::new();
    let mut read = || {
        let start = parser.offset();
        parser
            .next()
            .map(|command| command.map(|command| (command, start, parser.offset())))
    };
    let mut ahead = read();
    loop {
        let (command, start, end) = match ahead {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(error) => {
                statements.push(Err(describe(&error)));
                break;
            }
        };
        let next = read();
        // A CREATE TABLE on its own keeps its whole text, comments included: the schema shows it.
        let alone = statements.is_empty() && matches!(next, Ok(None));
        let whole = alone && matches!(command, Cmd::Stmt(Stmt::CreateTable { .. }));
        let text = if whole { sql } else { sql.get(start..end).unwrap_or(sql) };
        let refused = || format!("unsupported statement: {sql}");
        statements.push(kind_of(&command).ok_or_else(refused).map(|kind| Statement {
            text: text.to_owned(),
            kind,
        }));
        ahead = if next.is_err() { read() } else { next };
    }
    statements
}

fn describe(error: &LexerError) -> String {
    if let LexerError::ParserError(ParserError::SyntaxError { found: Some(found), .. }, Some((line, column))) = error {
        return format!("syntax error around L{line}:{column}: `{found}`");
    }
    error.to_string()
}

/// The kind of a command; `None` where the server does not run it.
fn kind_of(command: &Cmd) -> Option<Kind> {
    match command {
        Cmd::Explain(Stmt::Pragma(name, body)) => allowed_pragma(name, body.as_ref()).then_some(Kind::Other),
        Cmd::Explain(_) | Cmd::ExplainQueryPlan(_) => Some(Kind::Other),
        Cmd::Stmt(statement) => kind_of_statement(statement),
    }
}

fn kind_of_statement(statement: &Stmt) -> Option<Kind> {
    match statement {
        Stmt::Begin(..) => Some(Kind::Begin),
        Stmt::Insert { tbl_name, .. } => (!reserved(tbl_name)).then_some(Kind::Insert),
        Stmt::Update { tbl_name, .. } | Stmt::Delete { tbl_name, .. } => (!reserved(tbl_name)).then_some(Kind::Change),
        Stmt::CreateTable {
            tbl_name, temporary, ..
        } => (!temporary && !is_temp(tbl_name)).then_some(Kind::Other),
        Stmt::CreateVirtualTable { tbl_name, .. } => (!is_temp(tbl_name)).then_some(Kind::Other),
        Stmt::CreateTrigger { temporary, .. } | Stmt::CreateView { temporary, .. } => {
            (!temporary).then_some(Kind::Other)
        }
        Stmt::DropTable { tbl_name, .. } | Stmt::AlterTable(tbl_name, _) => {
            (!reserved(tbl_name)).then_some(Kind::Other)
        }
        Stmt::Pragma(name, body) => allowed_pragma(name, body.as_ref()).then_some(Kind::Other),
        Stmt::Commit(_)
        | Stmt::Rollback { .. }
        | Stmt::Savepoint(_)
        | Stmt::Release(_)
        | Stmt::Select(_)
        | Stmt::CreateIndex { .. }
        | Stmt::DropIndex { .. }
        | Stmt::DropTrigger { .. }
        | Stmt::DropView { .. }
        | Stmt::Detach(_)
        | Stmt::Reindex { .. } => Some(Kind::Other),
        Stmt::Analyze(_) | Stmt::Attach { .. } | Stmt::Vacuum(..) => None,
    }
}

fn is_temp(name: &QualifiedName) -> bool {
    name.db_name
        .as_ref()
        .is_some_and(|schema| schema.0.eq_ignore_ascii_case("temp"))
}

/// Tables that the real server keeps for itself.
fn reserved(name: &QualifiedName) -> bool {
    let name = name.name.0.to_ascii_lowercase();
    ["_litestream_seq", "_litestream_lock", "libsql_wasm_func_table"].contains(&name.as_str())
}

/// Pragmas that only read, or that change nothing beyond the transaction.
const PRAGMAS: [&str; 24] = [
    "table_list",
    "index_list",
    "table_info",
    "table_xinfo",
    "index_info",
    "index_xinfo",
    "pragma_list",
    "compile_options",
    "database_list",
    "function_list",
    "module_list",
    "encoding",
    "defer_foreign_keys",
    "foreign_keys",
    "foreign_key_list",
    "foreign_key_check",
    "collation_list",
    "data_version",
    "freelist_count",
    "integrity_check",
    "legacy_file_format",
    "page_count",
    "quick_check",
    "user_version",
];

/// Pragmas that may be asked but not set.
const PRAGMAS_WITHOUT_VALUE: [&str; 30] = [
    "schema_version",
    "analysis_limit",
    "application_id",
    "auto_vacuum",
    "automatic_index",
    "busy_timeout",
    "cache_size",
    "cache_spill",
    "cell_size_check",
    "checkpoint_fullfsync",
    "fullfsync",
    "hard_heap_limit",
    "journal_mode",
    "journal_size_limit",
    "legacy_alter_table",
    "locking_mode",
    "max_page_count",
    "mmap_size",
    "page_size",
    "query_only",
    "read_uncommitted",
    "recursive_triggers",
    "reverse_unordered_selects",
    "secure_delete",
    "soft_heap_limit",
    "synchronous",
    "temp_store",
    "threads",
    "trusted_schema",
    "wal_autocheckpoint",
];

fn allowed_pragma(name: &QualifiedName, body: Option<&PragmaBody>) -> bool {
    let name = name.name.0.to_ascii_lowercase();
    PRAGMAS.contains(&name.as_str()) || (body.is_none() && PRAGMAS_WITHOUT_VALUE.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<String> {
        parse(sql)
            .into_iter()
            .map(|each| each.unwrap().text.trim().to_owned())
            .collect()
    }

    #[test]
    fn splits_at_the_semicolons_that_end_statements() {
        assert_eq!(
            texts("create trigger t after insert on a begin select ';'; end; select 1; -- tail;\n"),
            ["create trigger t after insert on a begin select ';'; end;", "select 1;"]
        );
        assert!(parse(" ;; -- nothing").is_empty());
    }

    #[test]
    fn names_the_place_of_a_syntax_error() {
        let all = parse("selec 1; select 2");
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].as_ref().unwrap_err(), "syntax error around L1:6: `selec`");
    }

    #[test]
    fn passes_over_a_broken_tail_as_the_real_server_does() {
        assert_eq!(parse("select 1; selec").len(), 1);
        assert_eq!(texts("select 1; selec; select 2").len(), 2);
        let all = parse("select 1; selec 2");
        assert_eq!(all[1].as_ref().unwrap_err(), "syntax error around L1:18: `2`");
    }

    #[test]
    fn refuses_what_changes_the_connection_or_the_file() {
        for sql in [
            "vacuum",
            "analyze",
            "attach 'x' as y",
            "create temp table t(a)",
            "create table temp.t(a)",
            "pragma journal_mode=delete",
            "pragma optimize",
            "insert into _litestream_seq values(1)",
        ] {
            assert_eq!(
                parse(sql)[0].as_ref().unwrap_err(),
                &format!("unsupported statement: {sql}")
            );
        }
        for sql in [
            "pragma journal_mode",
            "pragma user_version=3",
            "explain select 1",
            "reindex",
            "savepoint a",
        ] {
            assert!(parse(sql)[0].is_ok(), "{sql}");
        }
    }

    #[test]
    fn tells_inserts_from_other_changes() {
        let kind = |sql: &str| parse(sql)[0].as_ref().unwrap().kind;
        assert_eq!(kind("replace into t values(1)"), Kind::Insert);
        assert_eq!(kind("with x as (select 1) update t set a=1"), Kind::Change);
        assert_eq!(kind("begin immediate"), Kind::Begin);
        assert_eq!(kind("explain insert into t values(1)"), Kind::Other);
    }
}
