//! `docs/states.md` draws every arrow between states: each is one UPDATE, and none is left out.

use std::collections::BTreeSet;

use sealpost::outbox::status::Status;
use sealpost::provider::code::ProviderCode;

use crate::text::{between, files, is_code, read, source, table, ticked};

/// One statement of the store, with the comment before it.
struct Sql {
    constant: String,
    comment: String,
    text: String,
}

/// Every constant of the store whose text moves a row, or inserts one.
fn statements() -> Vec<Sql> {
    let mut found = Vec::new();
    for path in files("src/store", "rs") {
        let text = source(&path);
        for block in text.split("\n\n") {
            if let Some((before, sql)) = block.split_once(": &str =") {
                let lines = before.lines().filter_map(|line| line.trim().strip_prefix("///"));
                let comment = lines.collect::<Vec<_>>().join(" ");
                let constant = before.rsplit("const ").next().unwrap().trim().to_owned();
                let moves = ["UPDATE outbox SET", "UPDATE OR IGNORE outbox SET"]
                    .iter()
                    .any(|verb| sql.contains(verb))
                    && (sql.contains("stop_assignments!") || (sql.contains("status = ") && sql.contains("cause = ")));
                if moves || sql.contains("INSERT INTO outbox") {
                    found.push(Sql {
                        constant,
                        comment,
                        text: sql.to_owned(),
                    });
                }
            }
        }
    }
    found
}

fn words(text: &str) -> BTreeSet<&'static str> {
    let parts: BTreeSet<&str> = text.split(|c: char| !(c.is_ascii_alphabetic() || c == '_')).collect();
    let named = Status::ALL
        .iter()
        .map(|status| status.as_str())
        .filter(|word| parts.contains(word));
    let open = ["pending", "enqueued", "processing", "retry"];
    named
        .chain(open.into_iter().filter(|_| parts.contains("open")))
        .collect()
}

/// The arrows of the document: from, to, causes, statement.
fn arrows() -> Vec<Vec<String>> {
    table(&read("docs/states.md"), "## Arrows")
}

#[test]
fn every_state_is_drawn_and_explained() {
    let document = read("docs/states.md");
    let diagram = document
        .split("```mermaid")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let explained: BTreeSet<String> = table(&document, "## States")
        .iter()
        .map(|row| row[0].trim_matches('`').to_owned())
        .collect();
    let all: BTreeSet<String> = Status::ALL.iter().map(|status| status.as_str().to_owned()).collect();
    assert_eq!(explained, all);
    let drawn: BTreeSet<&str> = diagram
        .split(|c: char| !(c.is_ascii_alphabetic() || c == '_'))
        .collect();
    for status in &all {
        assert!(drawn.contains(status.as_str()), "{status} is not in the diagram");
    }
}

#[test]
fn every_statement_that_moves_a_row_is_an_arrow_and_no_other() {
    let moving: BTreeSet<String> = statements().into_iter().map(|sql| sql.constant).collect();
    assert!(moving.len() >= 12, "{moving:?}");
    let drawn: BTreeSet<String> = arrows().iter().map(|row| row[3].trim_matches('`').to_owned()).collect();
    assert_eq!(drawn, moving);
}

#[test]
fn an_arrow_goes_from_and_to_what_the_statement_says() {
    let arrows = arrows();
    for sql in statements() {
        let Some((from, rest)) = sql.comment.split_once("->") else {
            continue;
        };
        let to = rest.split(['.', ':']).next().unwrap();
        let rows: Vec<_> = arrows
            .iter()
            .filter(|row| row[3].trim_matches('`') == sql.constant)
            .collect();
        let cells = |at: usize| rows.iter().map(|row| row[at].as_str()).collect::<Vec<_>>().join(" ");
        assert!(
            words(&cells(0)).is_superset(&words(from)),
            "{}: from {from}",
            sql.constant
        );
        assert!(words(&cells(1)).is_superset(&words(to)), "{}: to {to}", sql.constant);
    }
}

#[test]
fn every_cause_is_on_an_arrow() {
    let document = read("docs/states.md");
    let known = ticked(&document);
    let mut causes: BTreeSet<String> = BTreeSet::new();
    let mut keep =
        |words: BTreeSet<&str>| causes.extend(words.into_iter().filter(|word| is_code(word)).map(str::to_owned));
    for sql in statements() {
        keep(between(&sql.text, "cause = '", "'"));
        keep(between(&sql.text, "THEN '", "'"));
    }
    keep(between(&source("src/store/shared_sql.rs"), "THEN '", "'"));
    // Where the program names the cause, and the statement only writes it.
    keep(between(&source("src/consume/verdict.rs"), "code: \"", "\""));
    keep(between(&source("src/consume/verdict.rs"), "=> \"", "\""));
    for path in ["src/consume/prepare.rs", "src/provider/template.rs", "src/intake.rs"] {
        let text = source(path);
        for (before, after) in [
            ("=> \"", "\""),
            ("| \"", "\""),
            ("Err(\"", "\""),
            ("ok_or(\"", "\""),
            (", \"", "\""),
        ] {
            keep(between(&text, before, after));
        }
    }
    keep(ProviderCode::ALL.iter().map(|code| code.as_str()).collect());
    causes.retain(|cause| !NOT_CAUSES.contains(&cause.as_str()));
    assert!(causes.len() > 60, "{causes:?}");
    let missing: Vec<&String> = causes.iter().filter(|cause| !known.contains(cause.as_str())).collect();
    assert!(missing.is_empty(), "docs/states.md does not name {missing:?}");
}

/// Words of the same sources that are no causes: codes of notes and of answers, file names of templates.
const NOT_CAUSES: &[&str] = &[
    "intents_recorded",
    "key_known_with_other_meaning",
    "link",
    "paragraph",
    "refuse",
];
