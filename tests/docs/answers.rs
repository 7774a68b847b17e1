//! Every code that a producer can meet is explained: those of answers in the README, those of fields in `docs/api.md`.

use std::collections::BTreeSet;

use sealpost::outbox::intent::{FamilyShape, parse_intents};
use sealpost::outbox::letter::Body;

use crate::text::{between, files, is_code, read, source, table, ticked};

fn first_cells(document: &str, heading: &str) -> BTreeSet<String> {
    let document = read(document);
    let cells: Vec<String> = table(&document, heading).iter().map(|row| row[0].clone()).collect();
    cells.iter().flat_map(|cell| ticked(cell)).map(str::to_owned).collect()
}

/// The second argument of a call is a code.
fn second_arguments(text: &str, call: &str) -> BTreeSet<String> {
    text.split(call)
        .skip(1)
        .filter_map(|rest| {
            let word = rest.split([',', ')']).nth(1)?.trim();
            let code = word.strip_prefix('"')?.strip_suffix('"')?;
            is_code(code).then(|| code.to_owned())
        })
        .collect()
}

#[test]
fn every_error_code_of_an_answer_is_in_the_readme() {
    let mut codes = BTreeSet::new();
    for path in files("src/operate", "rs") {
        codes.extend(second_arguments(&source(&path), "Answer::problem("));
    }
    for path in files("src/outbox", "rs")
        .into_iter()
        .chain(["src/intake.rs".to_owned()])
    {
        let text = source(&path);
        codes.extend(second_arguments(&text, "Problem::new("));
        codes.extend(second_arguments(&text, "into_result("));
    }
    for path in ["src/store/database.rs", "src/config/read.rs", "src/outbox/signature.rs"] {
        codes.extend(between(&source(path), "=> \"", "\"").into_iter().map(str::to_owned));
    }
    assert!(codes.len() > 15, "{codes:?}");
    assert_eq!(first_cells("README.md", "### Errors"), codes);
}

#[test]
fn every_error_code_of_a_field_is_in_the_list() {
    let mut codes: BTreeSet<String> = BTreeSet::from(["key_known_with_other_meaning".to_owned()]);
    for path in files("src/outbox", "rs") {
        if path.contains("tests") {
            continue;
        }
        for rest in source(&path).split("Fault::new(").skip(1) {
            let code = rest
                .trim_start()
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'));
            codes.extend(code.map(|(code, _)| code.to_owned()));
        }
    }
    assert!(codes.len() > 50, "{codes:?}");
    assert_eq!(first_cells("docs/api.md", "## Field errors"), codes);
}

#[test]
fn every_family_and_its_fields_are_described() {
    let document = read("docs/api.md");
    let rows = table(&document, "## Families");
    for family in sealpost::outbox::family::families() {
        let name = format!("`{}`", family.name);
        let row = rows
            .iter()
            .find(|row| row[0] == name)
            .unwrap_or_else(|| panic!("{name} is not described"));
        let key: Vec<&str> = row[1].split('`').skip(1).step_by(2).collect();
        assert_eq!(key, family.key_fields, "{name}");
        let Some(template) = family.template else {
            continue;
        };
        let mut used = BTreeSet::new();
        for file in [
            "subject.txt",
            "body.html",
            "body.txt",
            "../layout.html",
            "../layout.txt",
        ] {
            used.extend(names(&read(&format!("templates/{template}/{file}"))));
        }
        let described: BTreeSet<String> = ticked(&row[2])
            .union(&ticked(&row[3]))
            .map(|name| (*name).to_owned())
            .collect();
        assert_eq!(described, used, "{name}");
    }
}

/// The names of data that a template prints or asks for.
fn names(template: &str) -> BTreeSet<String> {
    let printed = between(template, "{{ ", " }}");
    let asked = between(template, "if ", " ");
    printed
        .into_iter()
        .map(|expression| expression.split('|').next().unwrap())
        .chain(asked)
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic()))
        // A word of the comment in the layout, not a name.
        .filter(|name| !matches!(*name, "anything" | "not"))
        .map(str::to_owned)
        .collect()
}

/// The families as the parser asks for them.
fn shapes() -> Vec<FamilyShape> {
    let families = sealpost::outbox::family::families().iter();
    families
        .map(|family| FamilyShape {
            name: family.name.to_owned(),
            prefix: family.prefix.to_owned(),
            key_fields: family.key_fields.iter().map(|&field| field.to_owned()).collect(),
            has_template: family.template.is_some(),
            window_hours: family.window_hours,
            attachments: family.attachments,
        })
        .collect()
}

#[test]
fn every_request_that_the_readme_shows_is_taken_and_its_data_fill_the_template() {
    let readme = read("README.md");
    let blocks = between(&readme, "```json\n", "```");
    let requests = blocks.into_iter().filter(|block| block.contains("\"family\""));
    let requests: Vec<&str> = requests.chain(between(&readme, "  -d '", "'")).collect();
    assert_eq!(requests.len(), 3);
    for request in requests {
        let intents =
            parse_intents(request.as_bytes(), &shapes()).unwrap_or_else(|problem| panic!("{problem:?}: {request}"));
        for intent in intents {
            if let Body::Data(data) = &intent.letter.body {
                let template = sealpost::outbox::family::find(&intent.family)
                    .unwrap()
                    .template
                    .unwrap();
                let rendered = sealpost::provider::template::render(template, &serde_json::Value::Object(data.clone()));
                assert!(rendered.is_ok(), "{request}: {:?}", rendered.err());
            }
        }
    }
}
