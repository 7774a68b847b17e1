//! Reads `families.toml`. The build script includes this file, and the tests compile it again: it is not part of the
//! Worker. Messages are for the person who edits the file, so they name the file, the family and the rule.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How the file is called in messages.
pub(crate) const FILE: &str = "families.toml";
/// Most families in one file: the table is searched from front to back.
const FAMILIES_MAX: usize = 64;
/// Longest family or template name, in characters: it stands in every row and every metric label.
const NAME_CHARS_MAX: usize = 40;
/// Fewest letters of an id prefix: shorter ones are taken for abbreviations of each other.
const PREFIX_CHARS_MIN: usize = 3;
/// Most letters of an id prefix: the rest of an id must fit into a provider tag.
const PREFIX_CHARS_MAX: usize = 8;
/// Most fields of one business key: a tuple nobody can name from memory is not a business fact.
const KEY_FIELDS_MAX: usize = 8;
/// Longest name of a key field, in characters.
const KEY_FIELD_CHARS_MAX: usize = 40;
/// Most tries of one mail: the queue itself gives up at a hundred.
const RETRY_LIMIT_MAX: u32 = 100;
/// The last priority; one digit is enough to order families.
const PRIORITY_MAX: u8 = 9;
/// The farthest edge of a window from its business instant, in hours: a year and a day.
const WINDOW_HOURS_MAX: i32 = 366 * 24;
/// The fastest pace of a family, in mails a minute: more is no limit.
const PACE_PER_MINUTE_MAX: u32 = 60_000;

/// What a family does with a mail that is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileMode {
    /// Sends.
    #[default]
    Live,
    /// Records, never sends.
    Shadow,
    /// Keeps until the family is live.
    Hold,
}

/// One table of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileFamily {
    /// First part of the ids of this family's mails.
    pub(crate) prefix: String,
    /// Folder under `templates/`; absent where callers bring ready content.
    pub(crate) template: Option<String>,
    /// Names of the business key's fields, in order.
    pub(crate) key: Vec<String>,
    /// Tries before a mail asks for a person.
    pub(crate) retry_limit: u32,
    /// 0 is first.
    pub(crate) priority: u8,
    /// Admitted only as fast as the pace drains it.
    #[serde(default)]
    pub(crate) bulk: bool,
    /// What happens to a mail that is due.
    #[serde(default)]
    pub(crate) mode: FileMode,
    /// Carries `List-Unsubscribe` headers.
    #[serde(default)]
    pub(crate) unsubscribe: bool,
    /// When nothing is sent, `"HH:MM-HH:MM"` in the recipient's time zone; may run over midnight.
    pub(crate) quiet_hours: Option<QuietHours>,
    /// The zone of recipients of whom none is known, an IANA name.
    pub(crate) time_zone: Option<String>,
    /// Hours from the business instant to the opening and to the closing of the family's window; negative is before.
    pub(crate) window_hours: Option<[i32; 2]>,
    /// Mails a minute at most; absent: the provider's pace alone.
    pub(crate) pace_per_minute: Option<u32>,
    /// Up to a hundred mails may go out in one call.
    #[serde(default)]
    pub(crate) batch: bool,
    /// Mails may carry attachments.
    #[serde(default)]
    pub(crate) attachments: bool,
}

/// Quiet hours as minutes since midnight: from (included) until (excluded).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct QuietHours {
    pub(crate) from: u16,
    pub(crate) until: u16,
}

impl TryFrom<String> for QuietHours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let minutes = |part: &str| {
            let (hour, minute) = part.split_once(':')?;
            let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            let two_digits = |part: &str| digits(part).then(|| part.parse::<u16>().ok())?;
            let (hour, minute) = (two_digits(hour)?, two_digits(minute)?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let ends = text
            .split_once('-')
            .and_then(|(from, until)| Some((minutes(from)?, minutes(until)?)));
        match ends {
            Some((from, until)) if from != until => Ok(Self { from, until }),
            Some(_) => Err(
                "quiet_hours must not begin and end at the same time: leave them out, or hold the family".to_owned(),
            ),
            None => Err("quiet_hours must be \"HH:MM-HH:MM\", from 00:00 to 23:59".to_owned()),
        }
    }
}

/// The file's outer shape; each family is read on its own so that a mistake can name it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    family: BTreeMap<String, toml::Value>,
}

/// Reads and checks the file's text. The families come back ordered by name.
///
/// # Errors
/// One sentence naming the file, the family where there is one, and the rule that is broken.
pub(crate) fn read(text: &str) -> Result<Vec<(String, FileFamily)>, String> {
    let file: File = toml::from_str(text).map_err(|error| format!("{FILE}: {error}"))?;
    if file.family.is_empty() || file.family.len() > FAMILIES_MAX {
        return Err(format!("{FILE}: there must be 1 to {FAMILIES_MAX} families"));
    }
    let mut families: Vec<(String, FileFamily)> = Vec::with_capacity(file.family.len());
    for (name, table) in file.family {
        let family: FileFamily = table
            .try_into()
            .map_err(|error| format!("{FILE}: family {name:?}: {error}"))?;
        check(&name, &family).map_err(|rule| format!("{FILE}: family {name:?}: {rule}"))?;
        if let Some((other, _)) = families.iter().find(|(_, known)| known.prefix == family.prefix) {
            let prefix = &family.prefix;
            return Err(format!(
                "{FILE}: family {name:?}: prefix {prefix:?} is already taken by family {other:?}"
            ));
        }
        families.push((name, family));
    }
    Ok(families)
}

/// The rules for one family; the error is the rule.
fn check(name: &str, family: &FileFamily) -> Result<(), String> {
    if !is_snake_case(name) {
        return Err(format!(
            "the name must be snake_case: a lower-case letter, then lower-case letters, digits and single \
             underscores, at most {NAME_CHARS_MAX} characters"
        ));
    }
    let prefix = &family.prefix;
    if !(PREFIX_CHARS_MIN..=PREFIX_CHARS_MAX).contains(&prefix.len()) || !prefix.bytes().all(|b| b.is_ascii_lowercase())
    {
        return Err(format!(
            "prefix must be {PREFIX_CHARS_MIN} to {PREFIX_CHARS_MAX} lower-case letters"
        ));
    }
    if family.template.as_deref().is_some_and(|folder| !is_snake_case(folder)) {
        return Err("template must be a snake_case folder name".to_owned());
    }
    if family.key.is_empty() || family.key.len() > KEY_FIELDS_MAX {
        return Err(format!("key must name 1 to {KEY_FIELDS_MAX} fields"));
    }
    for (position, field) in family.key.iter().enumerate() {
        if !is_camel_case(field) {
            return Err(format!(
                "key field {field:?} must be camelCase: a lower-case letter, then letters and digits, at most \
                 {KEY_FIELD_CHARS_MAX} characters"
            ));
        }
        if family.key.iter().take(position).any(|earlier| earlier == field) {
            return Err(format!("key names the field {field:?} twice"));
        }
    }
    if !(1..=RETRY_LIMIT_MAX).contains(&family.retry_limit) {
        return Err(format!("retry_limit must be 1 to {RETRY_LIMIT_MAX}"));
    }
    if family.priority > PRIORITY_MAX {
        return Err(format!("priority must be 0 to {PRIORITY_MAX}"));
    }
    if let Some([opens, closes]) = family.window_hours
        && (opens >= closes || opens < -WINDOW_HOURS_MAX || closes > WINDOW_HOURS_MAX)
    {
        return Err(format!(
            "window_hours must be [opens, closes], the first before the second, within {WINDOW_HOURS_MAX} hours"
        ));
    }
    if family
        .pace_per_minute
        .is_some_and(|pace| !(1..=PACE_PER_MINUTE_MAX).contains(&pace))
    {
        return Err(format!(
            "pace_per_minute must be 1 to {PACE_PER_MINUTE_MAX}; left out, the provider's pace counts alone"
        ));
    }
    if family.batch && !family.bulk {
        return Err("batch needs bulk: what is admitted as the pace drains is what can be collected".to_owned());
    }
    if family.batch && family.attachments {
        return Err(
            "batch and attachments exclude each other: the provider's batch endpoint takes no attachments".to_owned(),
        );
    }
    Ok(())
}

/// Family and template names: they become ids, folder names and metric labels.
fn is_snake_case(name: &str) -> bool {
    name.len() <= NAME_CHARS_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.ends_with('_')
        && !name.contains("__")
}

/// Key fields: they are JSON field names of the intake, which writes camelCase.
fn is_camel_case(field: &str) -> bool {
    field.len() <= KEY_FIELD_CHARS_MAX
        && field.starts_with(|first: char| first.is_ascii_lowercase())
        && field.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "prefix = 'inv'\nkey = ['invitationId']\nretry_limit = 5\npriority = 1\n";

    fn one(name: &str, body: &str) -> Result<Vec<(String, FileFamily)>, String> {
        read(&format!("[family.{name}]\n{body}"))
    }

    #[test]
    fn fills_in_the_defaults() {
        let families = one("invitation", GOOD).unwrap();
        let (name, family) = families.first().unwrap();
        assert_eq!(name, "invitation");
        assert_eq!(family.template, None);
        assert_eq!(family.mode, FileMode::Live);
        assert!(!family.bulk && !family.unsubscribe && !family.batch && !family.attachments);
        assert_eq!(
            (family.quiet_hours, family.window_hours, family.pace_per_minute),
            (None, None, None)
        );
    }

    #[test]
    fn each_broken_rule_is_named_with_file_and_family() {
        // (line of the good family, what stands there instead, what the message must say)
        let cases = [
            ("prefix = 'inv'", "prefix = 'in'", "3 to 8 lower-case letters"),
            ("prefix = 'inv'", "prefix = 'invitation'", "3 to 8 lower-case letters"),
            ("prefix = 'inv'", "prefix = 'in1'", "3 to 8 lower-case letters"),
            ("prefix = 'inv'", "prefix = 'Inv'", "3 to 8 lower-case letters"),
            ("prefix = 'inv'", "prefix = 'ïnv'", "3 to 8 lower-case letters"),
            ("key = ['invitationId']", "key = []", "1 to 8 fields"),
            (
                "key = ['invitationId']",
                "key = ['a','b','c','d','e','f','g','h','i']",
                "1 to 8 fields",
            ),
            ("key = ['invitationId']", "key = ['invitation_id']", "camelCase"),
            ("key = ['invitationId']", "key = ['Invitation']", "camelCase"),
            ("key = ['invitationId']", "key = ['']", "camelCase"),
            ("key = ['invitationId']", "key = ['größe']", "camelCase"),
            ("key = ['invitationId']", "key = ['a', 'b', 'a']", "\"a\" twice"),
            ("key = ['invitationId']", "", "missing field `key`"),
            ("retry_limit = 5", "retry_limit = 0", "retry_limit must be 1 to 100"),
            ("retry_limit = 5", "retry_limit = 101", "retry_limit must be 1 to 100"),
            ("retry_limit = 5", "retry_limit = -1", "invalid value"),
            ("priority = 1", "priority = 10", "priority must be 0 to 9"),
            ("priority = 1", "priority = 1\nmode = 'off'", "unknown variant `off`"),
            (
                "priority = 1",
                "priority = 1\ntemplate = '../secret'",
                "snake_case folder",
            ),
            ("priority = 1", "priority = 1\nretries = 3", "unknown field `retries`"),
            ("priority = 1", "priority = 1\nquiet_hours = '21-7'", "HH:MM-HH:MM"),
            (
                "priority = 1",
                "priority = 1\nquiet_hours = '21:00-24:00'",
                "HH:MM-HH:MM",
            ),
            (
                "priority = 1",
                "priority = 1\nquiet_hours = '+1:00-02:00'",
                "HH:MM-HH:MM",
            ),
            (
                "priority = 1",
                "priority = 1\nquiet_hours = '00:00-00:00'",
                "at the same time",
            ),
            (
                "priority = 1",
                "priority = 1\nwindow_hours = [-24, -72]",
                "the first before the second",
            ),
            (
                "priority = 1",
                "priority = 1\nwindow_hours = [-9000, 0]",
                "within 8784 hours",
            ),
            ("priority = 1", "priority = 1\npace_per_minute = 0", "1 to 60000"),
            ("priority = 1", "priority = 1\nbatch = true", "batch needs bulk"),
            (
                "priority = 1",
                "priority = 1\nbulk = true\nbatch = true\nattachments = true",
                "exclude each other",
            ),
        ];
        for (line, instead, rule) in cases {
            let message = one("invitation", &GOOD.replace(line, instead)).unwrap_err();
            assert!(
                message.starts_with("families.toml: family \"invitation\": "),
                "{instead}: {message}"
            );
            assert!(message.contains(rule), "{instead}: {message}");
        }
    }

    #[test]
    fn family_names_are_snake_case() {
        for name in ["Invitation", "in-vite", "1st", "a__b", "a_", "_a", "\"a.b\""] {
            let message = one(name, GOOD).unwrap_err();
            assert!(message.contains("must be snake_case"), "{name}: {message}");
        }
        assert!(one(&"a".repeat(NAME_CHARS_MAX + 1), GOOD).is_err());
        assert!(one("q3_report", GOOD).is_ok());
    }

    #[test]
    fn two_families_may_not_share_a_prefix() {
        let message = read(&format!("[family.a]\n{GOOD}[family.b]\n{GOOD}")).unwrap_err();
        assert_eq!(
            message,
            "families.toml: family \"b\": prefix \"inv\" is already taken by family \"a\""
        );
    }

    #[test]
    fn an_empty_or_crowded_file_is_refused() {
        assert!(read("[family]\n").unwrap_err().contains("1 to 64 families"));
        assert!(read("").unwrap_err().contains("families.toml"));
        assert!(read("[families.a]\n").unwrap_err().contains("unknown field `families`"));
        let letters = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap());
        let many: String = (0..=FAMILIES_MAX)
            .map(|n| {
                format!(
                    "[family.f{n}]\n{}",
                    GOOD.replace("'inv'", &format!("'p{}{}'", letters(n / 26), letters(n)))
                )
            })
            .collect();
        assert!(read(&many).unwrap_err().contains("1 to 64 families"));
    }

    #[test]
    fn the_shipped_file_is_good() {
        let names: Vec<String> = read(include_str!("../../families.toml"))
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "announcement",
                "application_decision",
                "campaign",
                "demo_request_team",
                "demo_request_visitor",
                "invitation",
                "notice",
                "pledge_receipt",
                "renewal_notice",
                "report",
                "report_test"
            ]
        );
    }
}
