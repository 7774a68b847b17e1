//! The rules of the house, read from the source: who may import what, and how the code is written. Each says what to
//! do instead.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test stops where something is not as expected, in its helpers too"
)]
#![cfg(not(target_arch = "wasm32"))]

use std::fs;
use std::path::{Path, PathBuf};

/// Longest file under `src`: beyond it a file has two subjects.
const FILE_LINES_MAX: usize = 400;

struct File {
    /// Relative to the package, with forward slashes.
    path: String,
    text: String,
    /// The text with comments and the contents of string literals blanked out, line by line.
    code: String,
    /// The string literals.
    strings: Vec<String>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the package") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<File> {
    let mut paths = Vec::new();
    walk(&root().join("src"), &mut paths);
    paths.sort();
    let files: Vec<File> = paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a source file");
            let (code, strings) = split(&text);
            let path = path
                .strip_prefix(root())
                .expect("inside")
                .to_string_lossy()
                .replace('\\', "/");
            File {
                path,
                text,
                code,
                strings,
            }
        })
        .collect();
    assert!(files.len() > 60, "the sources were found");
    files
}

/// Code and string literals; comments are dropped. Line breaks stay, so that lines keep their numbers.
fn split(text: &str) -> (String, Vec<String>) {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut strings) = (String::new(), Vec::new());
    let mut at = 0;
    let starts = |at: usize, what: &str| what.chars().enumerate().all(|(n, c)| chars.get(at + n) == Some(&c));
    while at < chars.len() {
        if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
            continue;
        }
        let raw = chars[at] == 'r'
            && !chars
                .get(at.wrapping_sub(1))
                .is_some_and(|c| c.is_alphanumeric() || *c == '_');
        let hashes = if raw {
            chars[at + 1..].iter().take_while(|c| **c == '#').count()
        } else {
            0
        };
        if raw && chars.get(at + 1 + hashes) == Some(&'"') {
            let end: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            let mut string = String::new();
            at += 2 + hashes;
            while at < chars.len() && !starts(at, &end) {
                string.push(chars[at]);
                at += 1;
            }
            at += end.len();
            keep(&mut code, &mut strings, string);
        } else if chars[at] == '"' {
            let mut string = String::new();
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                if chars[at] == '\\' {
                    at += 1;
                }
                string.extend(chars.get(at));
                at += 1;
            }
            at += 1;
            keep(&mut code, &mut strings, string);
        } else if chars[at] == '\'' && (chars.get(at + 2) == Some(&'\'') || chars.get(at + 1) == Some(&'\\')) {
            // A character literal, so that a quote in it opens no string.
            at += if chars.get(at + 1) == Some(&'\\') { 3 } else { 2 };
            while at < chars.len() && chars[at] != '\'' {
                at += 1;
            }
            at += 1;
            code.push_str("' '");
        } else {
            code.push(chars[at]);
            at += 1;
        }
    }
    (code, strings)
}

fn keep(code: &mut String, strings: &mut Vec<String>, string: String) {
    code.push('"');
    code.extend(string.chars().filter(|c| *c == '\n'));
    code.push('"');
    strings.push(string);
}

/// The part of a file before its test module.
fn outside_tests(file: &File) -> &str {
    if file.path.contains("/tests") || file.path.ends_with("_tests.rs") {
        return "";
    }
    file.code.split("#[cfg(test)]").next().unwrap_or_default()
}

fn lines_with<'a>(code: &'a str, part: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines()
        .enumerate()
        .filter(move |(_, line)| line.contains(part))
        .map(|(at, _)| at + 1)
}

/// Fails with every place that breaks a rule, and with what to do instead.
fn none(found: Vec<String>, instead: &str) {
    assert!(found.is_empty(), "\n  {}\n{instead}", found.join("\n  "));
}

#[test]
fn the_reader_tells_code_from_words() {
    let (code, strings) =
        split("let a = \"x \\\" y\"; // \"no\"\nlet b = r#\"SELECT \"1\"\"#; let c = '\"'; fn f<'a>() {}\n");
    assert_eq!(strings, ["x \" y", "SELECT \"1\""]);
    assert_eq!(code, "let a = \"\"; \nlet b = \"\"; let c = ' '; fn f<'a>() {}\n");
}

#[test]
fn only_the_edge_knows_the_platform() {
    let mut found = Vec::new();
    for file in sources().iter().filter(|file| !file.path.starts_with("src/edge/")) {
        for name in ["worker::", "use worker", "wasm_bindgen", "js_sys", "web_sys"] {
            found.extend(lines_with(&file.code, name).map(|line| format!("{}:{line} {name}", file.path)));
        }
    }
    none(
        found,
        "Ask for it through a trait in src/ports.rs and implement that in src/edge.",
    );
}

#[test]
fn only_the_store_speaks_sql() {
    const WORDS: [&str; 12] = [
        "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "BEGIN", "COMMIT", "ROLLBACK", "WITH",
        "PRAGMA",
    ];
    let mut found = Vec::new();
    let mut in_store = 0;
    for file in sources().iter().filter(|file| !file.path.starts_with("src/devstack/")) {
        for string in &file.strings {
            let first = string
                .split(|c: char| c.is_whitespace() || c == ';')
                .find(|word| !word.is_empty());
            if first.is_some_and(|word| WORDS.contains(&word)) {
                if file.path.starts_with("src/store/") {
                    in_store += 1;
                } else {
                    found.push(format!("{} {:.60}", file.path, string.trim()));
                }
            }
        }
    }
    assert!(in_store > 30, "the store's statements are recognised: {in_store}");
    none(
        found,
        "Write a named function for the question in src/store and call it.",
    );
}

#[test]
fn the_domain_depends_on_nothing_but_itself() {
    let mut found = Vec::new();
    for file in sources().iter().filter(|file| file.path.starts_with("src/outbox/")) {
        for (at, line) in file.code.lines().enumerate() {
            for rest in line.split("crate::").skip(1) {
                let names_random = file.path == "src/outbox/id.rs" && rest.starts_with("ports::Random");
                if !rest.starts_with("outbox") && !names_random {
                    found.push(format!("{}:{} crate::{rest}", file.path, at + 1));
                }
            }
            for name in [
                "SystemTime",
                "Instant::",
                "std::time::Instant",
                "async ",
                ".await",
                "std::env",
                "std::fs",
            ] {
                if line.contains(name) {
                    found.push(format!("{}:{} {name}", file.path, at + 1));
                }
            }
        }
    }
    none(
        found,
        "Take the value as an argument: the domain has no IO, no clock and no settings.",
    );
}

#[test]
fn only_the_publisher_reaches_the_queue() {
    let may = ["src/publish.rs", "src/ports.rs", "src/edge/broker.rs"];
    let mut found = Vec::new();
    for file in sources().iter().filter(|file| !may.contains(&file.path.as_str())) {
        for name in ["send_batch", "send_raw_batch", "QueueMessage", "RawMessageBuilder"] {
            found.extend(lines_with(&file.code, name).map(|line| format!("{}:{line} {name}", file.path)));
        }
    }
    none(
        found,
        "Reserve the rows and hand them to src/publish.rs: it sends and marks.",
    );
}

/// The bodies of `for` loops, by matching braces.
fn for_bodies(code: &str) -> Vec<&str> {
    let mut bodies = Vec::new();
    for (at, _) in code.match_indices("for ") {
        let before = code[..at].chars().next_back();
        let head = code[at..].split('{').next().unwrap_or_default();
        if before.is_some_and(|c| !c.is_whitespace()) || !head.contains(" in ") || head.contains(';') {
            continue;
        }
        let open = at + head.len();
        let mut depth = 0usize;
        for (offset, c) in code[open..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                bodies.push(&code[open..open + offset]);
                break;
            }
        }
    }
    bodies
}

#[test]
fn the_store_never_asks_once_for_each_row() {
    assert_eq!(for_bodies("for a in b { c.await; { d } }").len(), 1);
    let mut found = Vec::new();
    // A migration is a script of its own, and there are few.
    let migrations = "src/store/migrations.rs";
    for file in sources()
        .iter()
        .filter(|file| file.path.starts_with("src/store/") && file.path != migrations)
    {
        let asks = for_bodies(&file.code)
            .into_iter()
            .filter(|body| body.contains(".await"));
        found.extend(asks.map(|body| format!("{} {:.80}", file.path, body.trim())));
    }
    none(
        found,
        "Send the list as one JSON argument and join json_each(?1): one statement, one round trip.",
    );
}

#[test]
fn files_have_one_subject() {
    let long = sources()
        .into_iter()
        .map(|file| (file.text.lines().count(), file.path))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, path)| format!("{path} has {lines} lines"))
        .collect();
    none(long, "Move one subject of the file into a file of its own.");
}

#[test]
fn nothing_is_unsafe_and_no_lint_against_panics_is_lifted() {
    let mut found = Vec::new();
    for file in &sources() {
        let code = outside_tests(file);
        found.extend(lines_with(code, "unsafe ").map(|line| format!("{}:{line} unsafe", file.path)));
        for lint in [
            "unwrap_used",
            "expect_used",
            "clippy::panic",
            "indexing_slicing",
            "string_slice",
            "unsafe_code",
            "todo",
            "wildcard_enum_match_arm",
        ] {
            found.extend(lines_with(code, lint).map(|line| format!("{}:{line} {lint}", file.path)));
        }
    }
    none(
        found,
        "Return an error, or use get, first, strip_prefix and the like: a panic takes the whole instance with it.",
    );
}

#[test]
fn no_state_is_shared_between_requests_but_constants() {
    let mut found = Vec::new();
    let mut constants = 0;
    for file in sources()
        .iter()
        .filter(|file| !file.path.starts_with("src/devstack/") && !file.path.starts_with("src/bin/"))
    {
        let code = outside_tests(file);
        found.extend(lines_with(code, "thread_local!").map(|line| format!("{}:{line} thread_local!", file.path)));
        for (at, line) in code.lines().enumerate() {
            let line = line
                .trim_start()
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub(super) ");
            let Some(declared) = line.trim_start_matches("pub ").strip_prefix("static ") else {
                continue;
            };
            constants += 1;
            let changes = ["mut ", "Mutex", "RwLock", "Cell<", "Atomic", "UnsafeCell"];
            if let Some(kind) = changes.iter().find(|kind| declared.contains(**kind)) {
                found.push(format!("{}:{} {kind}", file.path, at + 1));
            }
        }
    }
    assert!(constants >= 2, "statics are recognised");
    none(
        found,
        "Make it in EdgeWorld::new for each event; a OnceLock may hold what is the same for every event.",
    );
}

#[test]
fn every_mutation_finds_its_text_once() {
    let Ok(folder) = fs::read_dir(root().join("tests/mutations")) else {
        panic!("tests/mutations is missing");
    };
    let mut found = Vec::new();
    for entry in folder {
        let path = entry.expect("an entry").path();
        let list: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("a list of mutations")).expect("JSON");
        for mutation in list.as_array().expect("a list") {
            let field = |name: &str| mutation[name].as_str().unwrap_or_else(|| panic!("{name} in {path:?}"));
            for name in ["name", "subject", "test", "runner"] {
                assert!(!field(name).is_empty());
            }
            let text = fs::read_to_string(root().join(field("file"))).unwrap_or_default();
            let times = text.matches(field("find")).count();
            if times != 1 || field("find") == field("replace") {
                found.push(format!(
                    "{}: {} is there {times} times in {}",
                    field("name"),
                    field("find"),
                    field("file")
                ));
            }
        }
    }
    none(
        found,
        "Quote a longer or a newer piece of the source, so that exactly one place changes.",
    );
}
