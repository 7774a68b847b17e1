//! Files of the repository, and the few ways in which the tests look into them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below a folder with this extension, as paths from the root; in order.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&root().join(folder), extension, &mut found);
    found.sort();
    assert!(!found.is_empty(), "{folder} has no .{extension}");
    found
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|other| other == extension) {
            let path = path.strip_prefix(root()).unwrap();
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}

/// Rust source without its unit tests, which say things that the program does not.
pub(crate) fn source(path: &str) -> String {
    let text = read(path);
    text.split("#[cfg(test)]").next().unwrap().to_owned()
}

/// The words between `before` and the next `after`, wherever that happens.
pub(crate) fn between<'a>(text: &'a str, before: &str, after: &str) -> BTreeSet<&'a str> {
    text.split(before)
        .skip(1)
        .filter_map(|rest| rest.split_once(after).map(|(word, _)| word))
        .collect()
}

/// Whether a text is a stable code: lower-case words joined by underscores.
pub(crate) fn is_code(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// The rows of the tables below a heading, up to the next heading of the same or a higher level: cells without the
/// outer bars. Rules and headings of tables are left out.
pub(crate) fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    let level = heading.split(' ').next().unwrap().len();
    let mut lines = document.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "there is no heading {heading:?}");
    let section = lines.take_while(|line| {
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        marks == 0 || marks > level
    });
    let rows: Vec<Vec<String>> = section
        .filter(|line| line.starts_with("| "))
        .map(|line| {
            let cells = line.trim().trim_matches('|').split(" | ");
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect();
    assert!(rows.len() > 1, "there is no table under {heading:?}");
    rows.into_iter()
        .skip(1)
        .filter(|row: &Vec<String>| !row[0].starts_with("---"))
        .collect()
}

/// What stands in backticks.
pub(crate) fn ticked(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}
