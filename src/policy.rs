//! What this version of the program can do, as the database asks for it. Constant for the life of an instance.

use std::sync::OnceLock;

use serde_json::json;

use crate::outbox::family::{Mode, families};
use crate::provider::template;

/// JSON array of `{family, template, version}`: the rows that this version can render.
pub(crate) fn known_templates() -> &'static str {
    static KNOWN: OnceLock<String> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let known: Vec<_> = families()
            .iter()
            .filter(|family| family.template.is_none_or(|name| template::version_of(name).is_some()))
            .map(|family| {
                json!({
                    "family": family.name,
                    "template": family.template,
                    "version": family.template.and_then(template::version_of),
                })
            })
            .collect();
        json!(known).to_string()
    })
}

/// JSON array of the families that are on hold.
pub(crate) fn held_families() -> &'static str {
    static HELD: OnceLock<String> = OnceLock::new();
    HELD.get_or_init(|| {
        let held: Vec<&str> = families()
            .iter()
            .filter(|family| family.mode == Mode::Hold)
            .map(|family| family.name)
            .collect();
        json!(held).to_string()
    })
}
