//! What one version of the program can do: its families and their templates, as the paths and the database ask for it.

use std::sync::OnceLock;

use serde_json::json;

use crate::config::timing::interval_ms;
use crate::outbox::family::{Family, Mode, families};
use crate::provider::template;

/// One kind of mail with the version of the template that this program has for it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The family.
    pub family: Family,
    /// The version of its template; `None` where the family has no template, or this program does not have it.
    pub version: Option<&'static str>,
}

/// Everything that this version of the program can do. Constant for the life of an instance; two versions that run at
/// once differ in it.
#[derive(Clone, Debug)]
pub struct Policy {
    kinds: Vec<Kind>,
    known_templates: String,
    held_families: String,
    family_intervals: String,
    batch_families: String,
}

impl Policy {
    /// What was built in.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: OnceLock<Policy> = OnceLock::new();
        BUILT_IN.get_or_init(|| Self::of(Self::built_in_kinds()))
    }

    /// The kinds that were built in.
    pub fn built_in_kinds() -> Vec<Kind> {
        families()
            .iter()
            .map(|family| Kind {
                family: *family,
                version: family.template.and_then(template::version_of),
            })
            .collect()
    }

    /// A version of the program that has these kinds and no others.
    pub fn of(kinds: Vec<Kind>) -> Self {
        let known: Vec<_> = kinds
            .iter()
            .filter(|kind| kind.family.template.is_none() || kind.version.is_some())
            .map(|kind| {
                json!({
                    "family": kind.family.name,
                    "template": kind.family.template,
                    "version": kind.version,
                })
            })
            .collect();
        let held: Vec<&str> = kinds
            .iter()
            .filter(|kind| kind.family.mode == Mode::Hold)
            .map(|kind| kind.family.name)
            .collect();
        let batch: Vec<&str> = kinds
            .iter()
            .filter(|kind| kind.family.batch)
            .map(|kind| kind.family.name)
            .collect();
        Self {
            batch_families: json!(batch).to_string(),
            known_templates: json!(known).to_string(),
            held_families: json!(held).to_string(),
            family_intervals: family_intervals(&kinds),
            kinds,
        }
    }

    /// Every family of this version.
    pub fn families(&self) -> impl Iterator<Item = &Family> {
        self.kinds.iter().map(|kind| &kind.family)
    }

    /// The family of this name.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families().find(|family| family.name == name)
    }

    /// Whether mails of a family that is sent carry unsubscribe links. What is in shadow mode is never sent.
    pub fn has_unsubscribe_links(&self) -> bool {
        self.families()
            .any(|family| family.unsubscribe && family.mode != Mode::Shadow)
    }

    /// The version of this template.
    pub fn version_of(&self, template: &str) -> Option<&'static str> {
        self.kinds
            .iter()
            .find(|kind| kind.family.template == Some(template))
            .and_then(|kind| kind.version)
    }

    /// JSON array of `{family, template, version}`: the rows that this version can render.
    pub(crate) fn known_templates(&self) -> &str {
        &self.known_templates
    }

    /// JSON array of the families that are on hold.
    pub(crate) fn held_families(&self) -> &str {
        &self.held_families
    }

    /// JSON array of the families whose mails go out together.
    pub(crate) fn batch_families(&self) -> &str {
        &self.batch_families
    }

    /// JSON object: the time between two mails (ms) of each family that has a pace of its own.
    pub(crate) fn family_intervals(&self) -> &str {
        &self.family_intervals
    }
}

fn family_intervals(kinds: &[Kind]) -> String {
    let paced = kinds.iter().filter(|kind| kind.family.pace_per_minute > 0);
    let intervals: serde_json::Map<_, _> = paced
        .map(|kind| {
            let interval = interval_ms(60_000, kind.family.pace_per_minute);
            (kind.family.name.to_owned(), json!(interval))
        })
        .collect();
    serde_json::Value::Object(intervals).to_string()
}
