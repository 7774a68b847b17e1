//! `docs/operating.md` knows every note that the program writes and every trouble that `/health` reports.

use std::collections::BTreeSet;

use sealpost::config::SettingError;

use crate::text::{between, files, is_code, read, source, table, ticked};

/// The codes of all notes, read from the calls.
fn codes() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files("src", "rs")
        .iter()
        .filter(|path| !path.starts_with("src/devstack"))
    {
        let text = source(path);
        for (at, _) in text.match_indices(".note(") {
            let code = text[at..].split(',').nth(1).unwrap_or_default().trim();
            if let Some(code) = code.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
                found.insert(code.to_owned());
                continue;
            }
            // The codes that the function chose from, unless its caller gave it.
            let function = text[..at].rsplit("fn ").next().unwrap_or_default();
            let chosen = function
                .rsplit(&format!("let {code} ="))
                .next()
                .filter(|rest| rest.len() < function.len());
            let chosen: BTreeSet<&str> = chosen
                .into_iter()
                .flat_map(|rest| rest.split(';').next().unwrap_or_default().split('"').skip(1).step_by(2))
                .filter(|word| is_code(word))
                .collect();
            assert!(
                !chosen.is_empty() || function.starts_with("note_database(&self, code:"),
                "{path}: a note whose code cannot be read"
            );
            found.extend(chosen.into_iter().map(str::to_owned));
        }
        found.extend(between(&text, "note_database(\"", "\"").into_iter().map(str::to_owned));
    }
    found
}

fn first_cells(heading: &str) -> BTreeSet<String> {
    let document = read("docs/operating.md");
    let rows = table(&document, heading);
    let cells: Vec<String> = rows.iter().map(|row| row[0].clone()).collect();
    let codes: BTreeSet<String> = cells.iter().flat_map(|cell| ticked(cell)).map(str::to_owned).collect();
    assert!(codes.iter().all(|code| is_code(code)), "{codes:?}");
    codes
}

#[test]
fn every_note_is_explained_and_no_other() {
    let codes = codes();
    assert!(codes.len() > 20, "{codes:?}");
    assert_eq!(first_cells("## Log lines"), codes);
}

#[test]
fn every_trouble_of_health_is_explained_and_no_other() {
    let mut troubles: BTreeSet<String> = between(&source("src/operate/health.rs"), "troubles.push(\"", "\"")
        .into_iter()
        .map(str::to_owned)
        .collect();
    assert!(troubles.len() >= 6, "{troubles:?}");
    // A database that does not answer is named by its own code.
    troubles.extend(
        between(&source("src/store/database.rs"), "=> \"", "\"")
            .into_iter()
            .map(str::to_owned),
    );
    // Without a configuration, health names the setting.
    troubles.extend([SettingError::Missing("X").code().to_owned()]);
    troubles.extend(
        between(&source("src/config/read.rs"), "=> \"", "\"")
            .into_iter()
            .map(str::to_owned),
    );
    assert_eq!(first_cells("## Troubles of /health"), troubles);
}
