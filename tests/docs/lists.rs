//! Lists that a document must keep complete: dependencies, faults of the local servers, stages of the gate.

use std::collections::BTreeSet;

use crate::text::{between, read, table, ticked};

/// The keys of a table in a TOML document.
fn keys(table: Option<&toml::Value>) -> BTreeSet<String> {
    let table = table.and_then(toml::Value::as_table).expect("the table is there");
    table.keys().cloned().collect()
}

#[test]
fn every_direct_dependency_says_why_it_is_there() {
    let manifest: toml::Value = toml::from_str(&read("Cargo.toml")).unwrap();
    let mut wanted = BTreeSet::new();
    for name in ["dependencies", "build-dependencies", "dev-dependencies"] {
        wanted.extend(keys(manifest.get(name)));
    }
    for target in manifest.get("target").and_then(toml::Value::as_table).unwrap().values() {
        wanted.extend(keys(target.get("dependencies")));
    }
    let package: serde_json::Value = serde_json::from_str(&read("package.json")).unwrap();
    wanted.extend(package["devDependencies"].as_object().unwrap().keys().cloned());

    let document = read("docs/dependencies.md");
    let headings = document.lines().filter(|line| line.starts_with("## "));
    let rows = headings.flat_map(|heading| table(&document, heading));
    let explained: BTreeSet<String> = rows
        .flat_map(|row| ticked(&row[0]).into_iter().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(explained, wanted);
}

/// The variants of an enum in snake_case.
fn variants(path: &str, name: &str) -> BTreeSet<String> {
    let text = read(path);
    let body = text.split(&format!("pub enum {name} {{")).nth(1).unwrap();
    let body = body.split("\n}").next().unwrap();
    let lines = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//") && line.ends_with(','));
    lines
        .map(|line| {
            let mut word = String::new();
            for letter in line.trim_end_matches(',').chars() {
                if letter.is_ascii_uppercase() && !word.is_empty() {
                    word.push('_');
                }
                word.push(letter.to_ascii_lowercase());
            }
            word
        })
        .collect()
}

#[test]
fn every_kind_of_fault_is_described_and_no_other() {
    let document = read("docs/local-stack.md");
    for (path, heading) in [
        ("src/devstack/provider/kind.rs", "## Faults of the provider model"),
        ("src/devstack/database/faults.rs", "## Faults of the database"),
    ] {
        let wanted = variants(path, "FaultKind");
        assert!(wanted.len() > 5, "{path}: {wanted:?}");
        let described: BTreeSet<String> = table(&document, heading)
            .iter()
            .flat_map(|row| ticked(&row[0]).into_iter().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        assert_eq!(described, wanted, "{path}");
    }
}

#[test]
fn every_setting_of_the_local_stack_is_described() {
    let document = read("docs/local-stack.md");
    let scripts = read("scripts/lib/settings.mjs") + &read("scripts/lib/paths.mjs");
    let mut wanted: BTreeSet<&str> = between(&scripts, "number(env, '", "'");
    wanted.extend(
        between(&scripts, "process.env.SEALPOST", " ")
            .iter()
            .map(|_| "SEALPOST_HOME"),
    );
    assert!(wanted.len() >= 6, "{wanted:?}");
    for name in wanted {
        assert!(document.contains(&format!("| `{name}` |")), "{name} is not described");
    }
}

#[test]
fn every_stage_of_the_gate_is_described() {
    let stages = read("scripts/lib/stages.mjs");
    let document = read("docs/testing.md");
    let rows = table(&document, "# Testing");
    let described: BTreeSet<&str> = rows.iter().flat_map(|row| row[0].split(", ")).collect();
    let wanted = between(&stages, "{ name: '", "'");
    assert!(wanted.len() > 8, "{wanted:?}");
    assert_eq!(described, wanted);
}
