//! Reading single settings.

use crate::outbox::address;

/// Where settings come from: the Worker's bindings, a process's environment, a test's table.
pub trait Lookup {
    /// The value of a variable or secret; `None` where it is not set.
    fn get(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> Lookup for F {
    fn get(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// What is wrong with the configuration. Names the setting and the rule, never the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A setting that must be there is not.
    #[error("{0} is not set")]
    Missing(&'static str),
    /// A setting breaks a rule of its own.
    #[error("{name} {rule}")]
    Invalid {
        /// The setting.
        name: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// A number lies outside its bounds.
    #[error("{name} must be a whole number from {least} to {most}")]
    OutOfBounds {
        /// The setting.
        name: &'static str,
        /// The smallest value.
        least: u64,
        /// The largest value.
        most: u64,
    },
    /// Two settings contradict each other.
    #[error(transparent)]
    Timing(#[from] super::timing::TimingError),
}

impl SettingError {
    /// A setting that breaks a rule of its own.
    pub(super) const fn invalid(name: &'static str, rule: &'static str) -> Self {
        Self::Invalid { name, rule }
    }

    /// A stable code for answers and logs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "setting_missing",
            Self::Invalid { .. } => "setting_invalid",
            Self::OutOfBounds { .. } => "setting_out_of_bounds",
            Self::Timing(_) => "settings_contradict",
        }
    }
}

/// An empty value counts as not set.
pub(super) fn optional(lookup: &dyn Lookup, name: &str) -> Option<String> {
    lookup
        .get(name)
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

pub(super) fn required(lookup: &dyn Lookup, name: &'static str) -> Result<String, SettingError> {
    optional(lookup, name).ok_or(SettingError::Missing(name))
}

/// An address to call; `libsql://` means `https://`.
pub(super) fn address(lookup: &dyn Lookup, name: &'static str) -> Result<String, SettingError> {
    let text = required(lookup, name)?;
    let text = text
        .strip_prefix("libsql://")
        .map_or_else(|| text.clone(), |rest| format!("https://{rest}"));
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        // Tokens and letters go there: without encryption no further than this machine.
        Some(host) if is_plain(host) && (text.starts_with("https://") || is_loopback(&text)) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        Some(_) | None => Err(SettingError::invalid(
            name,
            "must be an https:// (locally http://) address",
        )),
    }
}

/// Whether this, the part of an address after `//`, begins with a host and leads nowhere else: no sign-in, no query,
/// and no character that a reader of addresses drops (tab, line end) or takes for another (backslash).
fn is_plain(rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    let legal = |byte: u8| byte.is_ascii_graphic() && !b"?#@\\\"'<>^`{|}".contains(&byte);
    !authority.is_empty() && !authority.starts_with(':') && rest.bytes().all(legal)
}

/// Whether a plain address stays on this machine.
pub(super) fn is_loopback(address: &str) -> bool {
    ["http://127.0.0.1", "http://localhost", "http://[::1]"]
        .iter()
        .any(|prefix| {
            address
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        })
}

/// Whether an address as [`address`] gives it has a host under `.invalid`, which leads nowhere by its own rule (RFC 2606).
pub(super) fn is_reserved_to_fail(address: &str) -> bool {
    let rest = address.split_once("//").map_or(address, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.split(':').next().unwrap_or_default();
    let labels = host.strip_suffix('.').unwrap_or(host).rsplit('.').next();
    labels.is_some_and(|last| last.eq_ignore_ascii_case("invalid"))
}

/// A mailbox, in the form in which it is sent.
pub(super) fn mailbox(lookup: &dyn Lookup, name: &'static str) -> Result<Option<String>, SettingError> {
    optional(lookup, name)
        .map(|text| address::parse(&text).map(|parsed| parsed.mailbox()))
        .transpose()
        .map_err(|_| SettingError::invalid(name, "must be one mailbox, such as Name <mail@example.com>"))
}

/// `on` or `off`.
pub(super) fn switch(lookup: &dyn Lookup, name: &'static str, default: bool) -> Result<bool, SettingError> {
    match optional(lookup, name).as_deref() {
        None => Ok(default),
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(_) => Err(SettingError::invalid(name, "must be on or off")),
    }
}

pub(super) fn number(
    lookup: &dyn Lookup,
    name: &'static str,
    default: u64,
    (least, most): (u64, u64),
) -> Result<u64, SettingError> {
    match optional(lookup, name) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .ok()
            .filter(|value| (least..=most).contains(value))
            .ok_or(SettingError::OutOfBounds { name, least, most }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<String, SettingError> {
        address(&|_: &str| Some(value.to_owned()), "DATABASE_URL")
    }

    #[test]
    fn an_address_is_read_without_its_last_slash() {
        assert_eq!(read("https://db.example/").unwrap(), "https://db.example");
        assert_eq!(read(" libsql://db.example ").unwrap(), "https://db.example");
        for wrong in [
            "",
            "db.example",
            "https://",
            "https://a@db.example",
            "https://db.example/?x",
            "ftp://db.example",
            "https:///",
            "https:///db.example",
            "https://:443",
            "https://db\n.example",
            "https://db.example\\@other.example",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_plain_address_is_one_of_this_machine() {
        for local in ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:9/"] {
            assert!(read(local).is_ok(), "{local}");
        }
        for far in [
            "http://db.example",
            "http://127.0.0.1.db.example",
            "http://localhost.db.example:80",
        ] {
            assert!(read(far).is_err(), "{far}");
        }
    }
}
