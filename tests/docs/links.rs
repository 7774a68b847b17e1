//! Links inside the repository lead somewhere.

use std::path::Path;

use crate::text::{files, read, root};

/// Every Markdown file of ours: of the root and of docs.
fn documents() -> Vec<String> {
    let mut list = files("docs", "md");
    for entry in std::fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            list.push(name);
        }
    }
    list
}

/// The targets of `[text](target)`, fenced code left out.
fn targets(document: &str) -> Vec<String> {
    let mut fenced = false;
    let prose = document.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    prose
        .flat_map(|line| {
            let ends = line.split("](").skip(1);
            ends.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.to_owned()))
        })
        .collect()
}

/// The names by which headings can be linked to.
fn anchors(document: &str) -> Vec<String> {
    let headings = document.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_link_inside_the_repository_leads_somewhere() {
    let mut links = 0;
    for name in documents() {
        let text = read(&name);
        for target in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            links += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let full = if path.is_empty() {
                root().join(&name)
            } else {
                root().join(&name).parent().unwrap_or(Path::new("")).join(path)
            };
            assert!(full.exists(), "{name}: nothing at {target}");
            if !anchor.is_empty() {
                let linked = std::fs::read_to_string(&full).unwrap();
                assert!(
                    anchors(&linked).iter().any(|other| other == anchor),
                    "{name}: no heading for {target}"
                );
            }
        }
    }
    assert!(links > 10, "only {links} links were found");
}

#[test]
fn every_document_can_be_reached_from_the_readme() {
    let readme = read("README.md");
    let linked = targets(&readme);
    for name in files("docs", "md") {
        assert!(linked.contains(&name), "README.md does not link to {name}");
    }
}

#[test]
fn every_room_and_file_that_a_document_names_exists() {
    for name in documents() {
        for word in crate::text::ticked(&read(&name)) {
            let is_path = ["src/", "tests/", "scripts/", "docs/", "migrations/", "templates/"]
                .iter()
                .any(|folder| word.starts_with(folder));
            let is_one = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
            if is_path && is_one {
                assert!(root().join(word).exists(), "{name}: there is no {word}");
            }
        }
    }
}
