//! Turns `families.toml` and `templates/` into Rust tables, so that a mistake in either stops the build and the Worker
//! carries no parser for them.

#[path = "src/outbox/family_file.rs"]
mod family_file;
#[path = "src/provider/template_file.rs"]
mod template_file;

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use family_file::{FileFamily, FileMode};
use sha2::{Digest, Sha256};

/// The files of one template; all three must be there: a mail without a text part reads badly and is often filtered.
const TEMPLATE_FILES: [&str; 3] = ["subject.txt", "body.html", "body.txt"];
/// The files that every template extends, by their constants; a change in them is a new version of all.
const LAYOUTS: [(&str, &str); 2] = [("LAYOUT_HTML", "layout.html"), ("LAYOUT_TEXT", "layout.txt")];
/// Characters of the hash that make a version: 64 bits tell the few versions of one template apart.
const VERSION_CHARS: usize = 16;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=families.toml");
    println!("cargo::rerun-if-changed=templates");
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={}", message.trim_end().replace('\n', " | "));
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<(), String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let families = family_file::read(&read_text(&root.join(family_file::FILE))?)?;
    let used: BTreeSet<&str> = families
        .iter()
        .filter_map(|(_, family)| family.template.as_deref())
        .collect();
    write_text(&out.join("families.rs"), &families_source(&families))?;
    write_text(
        &out.join("templates.rs"),
        &templates_source(&root.join("templates"), &used, &families)?,
    )
}

/// The family table; `{:?}` of a string is a Rust string literal.
fn families_source(families: &[(String, FileFamily)]) -> String {
    let rows: String = families
        .iter()
        .map(|(name, family)| {
            let FileFamily {
                prefix,
                template,
                key,
                retry_limit,
                priority,
                bulk,
                mode,
                unsubscribe,
                quiet_hours,
                time_zone,
                window_hours,
                pace_per_minute,
                batch,
                attachments,
            } = family;
            let quiet_hours = quiet_hours.map(|hours| (hours.from, hours.until));
            let time_zone = time_zone.as_deref().unwrap_or("UTC");
            let window_hours = window_hours.map(|[opens, closes]| (opens, closes));
            let pace_per_minute = pace_per_minute.unwrap_or(0);
            let mode = match mode {
                FileMode::Live => "Live",
                FileMode::Shadow => "Shadow",
                FileMode::Hold => "Hold",
            };
            format!(
                "    Family {{ name: {name:?}, prefix: {prefix:?}, template: {template:?}, key_fields: &{key:?}, \
                 retry_limit: {retry_limit}, priority: {priority}, bulk: {bulk}, mode: Mode::{mode}, \
                 unsubscribe: {unsubscribe}, quiet_hours: {quiet_hours:?}, time_zone: {time_zone:?}, \
                 window_hours: {window_hours:?}, pace_per_minute: {pace_per_minute}, batch: {batch}, \
                 attachments: {attachments} }},\n"
            )
        })
        .collect();
    format!("static FAMILIES: &[Family] = &[\n{rows}];\n")
}

/// The template table: each file compiled to nodes, and the version of each template.
fn templates_source(folder: &Path, used: &BTreeSet<&str>, families: &[(String, FileFamily)]) -> Result<String, String> {
    let mut source = String::new();
    let mut layouts = Vec::new();
    for (constant, file) in LAYOUTS {
        let layout = template_file::layout(file, constant, &read_text(&folder.join(file))?)?;
        source.push_str(&format!("const {constant}: &[Node] = {};\n", layout.nodes));
        layouts.push(layout);
    }
    source.push_str("static TEMPLATES: &[Source] = &[\n");
    for template in used {
        let mut hash = Sha256::new();
        let own = TEMPLATE_FILES.iter().map(|file| format!("{template}/{file}"));
        for path in own.chain(LAYOUTS.iter().map(|(_, file)| (*file).to_owned())) {
            let bytes = fs::read(folder.join(&path)).map_err(|error| {
                let wanting: Vec<&str> = families
                    .iter()
                    .filter(|(_, family)| family.template.as_deref() == Some(template))
                    .map(|(name, _)| name.as_str())
                    .collect();
                format!(
                    "{}: family {:?}: templates/{path} cannot be read: {error}",
                    family_file::FILE,
                    wanting.join(", ")
                )
            })?;
            // Name and length go in too, so that text moved from one file to another is another version.
            hash.update(format!("{path}\n{}\n", bytes.len()));
            hash.update(&bytes);
        }
        let version: String = hash
            .finalize()
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|digit| char::from_digit(u32::from(digit), 16))
            .take(VERSION_CHARS)
            .collect();
        let [subject, html, text] = TEMPLATE_FILES.map(|file| {
            let path = format!("{template}/{file}");
            template_file::part(&path, &read_text(&folder.join(&path))?, &layouts)
        });
        let (subject, html, text) = (subject?, html?, text?);
        source.push_str(&format!(
            "    Source {{ name: {template:?}, version: {version:?}, subject: {subject}, html: {html}, text: {text} }},\n"
        ));
    }
    source.push_str("];\n");
    Ok(source)
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("{name} is not set: run this through cargo"))
}

fn read_text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write_text(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
