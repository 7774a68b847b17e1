//! The kinds of mail and the policy of each. The table comes from `families.toml`, checked when the crate is built.

/// What a family does with a mail that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Sends it.
    Live,
    /// Records it and never sends it, not even later.
    Shadow,
    /// Keeps it until the family is live again.
    Hold,
}

/// One kind of mail with its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name callers use, in snake_case.
    pub name: &'static str,
    /// 3 to 8 lower-case letters; an outbox id is this prefix, `_` and random characters.
    pub prefix: &'static str,
    /// The folder of the template; `None` where callers bring ready content.
    pub template: Option<&'static str>,
    /// The fields of the business key, in the order in which they are encoded.
    pub key_fields: &'static [&'static str],
    /// How many tries a mail may use before it asks for a person, 1 to 100.
    pub retry_limit: u32,
    /// 0 (first) to 9 (last).
    pub priority: u8,
    /// Admitted only as fast as the pace drains it.
    pub bulk: bool,
    /// What happens to a mail that is due.
    pub mode: Mode,
    /// Whether the mail carries `List-Unsubscribe` headers.
    pub unsubscribe: bool,
    /// When nothing is sent: minutes since midnight in the recipient's time zone, from (included) until (excluded).
    /// Where `from` is the later one, they run over midnight. Never equal.
    pub quiet_hours: Option<(u16, u16)>,
    /// The zone of recipients of whom none is known, an IANA name.
    pub time_zone: &'static str,
    /// Hours from an intent's business instant to the opening and to the closing of its window; negative is before.
    pub window_hours: Option<(i32, i32)>,
    /// Mails a minute at most; 0 for no limit of the family's own.
    pub pace_per_minute: u32,
    /// Whether up to a hundred mails may go out in one call.
    pub batch: bool,
    /// Whether mails may carry attachments.
    pub attachments: bool,
}

// `static FAMILIES: &[Family]`, written by the build script.
include!(concat!(env!("OUT_DIR"), "/families.rs"));

/// Every family, ordered by name; at most 64.
pub fn families() -> &'static [Family] {
    FAMILIES
}

/// The family of this name.
pub fn find(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}

/// The family of this id prefix (without the underscore).
pub fn by_prefix(prefix: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.prefix == prefix)
}

/// The family that an outbox id belongs to. It looks at the prefix alone: a row may outlive the id's exact shape, and
/// an id that finds no family here is unclaimed, never dropped.
pub fn of_outbox_id(outbox_id: &str) -> Option<&'static Family> {
    let (prefix, _random) = outbox_id.split_once('_')?;
    by_prefix(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{
        family_file::{self, FileMode},
        tags,
    };

    #[test]
    fn the_table_says_what_the_file_says() {
        let file = family_file::read(include_str!("../../families.toml")).unwrap();
        assert_eq!(families().len(), file.len());
        for (name, wanted) in file {
            let family = find(&name).unwrap();
            let mode = match wanted.mode {
                FileMode::Live => Mode::Live,
                FileMode::Shadow => Mode::Shadow,
                FileMode::Hold => Mode::Hold,
            };
            assert_eq!(family.name, name);
            assert_eq!(family.prefix, wanted.prefix);
            assert_eq!(family.template, wanted.template.as_deref());
            assert_eq!(family.key_fields, wanted.key);
            assert_eq!(family.retry_limit, wanted.retry_limit);
            assert_eq!(family.priority, wanted.priority);
            assert_eq!(family.bulk, wanted.bulk);
            assert_eq!(family.mode, mode);
            assert_eq!(family.unsubscribe, wanted.unsubscribe);
            assert_eq!(
                family.quiet_hours,
                wanted.quiet_hours.map(|hours| (hours.from, hours.until))
            );
            assert_eq!(family.time_zone, wanted.time_zone.as_deref().unwrap_or("UTC"));
            assert_eq!(
                family.window_hours,
                wanted.window_hours.map(|[opens, closes]| (opens, closes))
            );
            assert_eq!(family.pace_per_minute, wanted.pace_per_minute.unwrap_or(0));
            assert_eq!(family.batch, wanted.batch);
            assert_eq!(family.attachments, wanted.attachments);
        }
    }

    #[test]
    fn every_id_finds_its_family_and_is_a_legal_tag() {
        for family in families() {
            let id = format!("{}_01hzy3v8q4", family.prefix);
            assert_eq!(of_outbox_id(&id), Some(family));
            assert_eq!(tags::clean(&id).unwrap(), id);
        }
    }

    #[test]
    fn an_unknown_id_or_name_finds_nothing() {
        for id in ["", "_", "inv", "INV_1", "in_v_1", "invitation_1", "xyz_1", "inv-1"] {
            assert_eq!(of_outbox_id(id), None, "{id}");
        }
        assert_eq!(find("Invitation"), None);
        assert_eq!(by_prefix("inv_"), None);
    }
}
