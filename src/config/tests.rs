//! The rules between settings, and the table of the README against what the code reads.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::outbox::family::Mode;

/// The settings that have no default, with values that are right.
const REQUIRED: &[(&str, &str)] = &[
    ("ENVIRONMENT", "test"),
    ("DATABASE_URL", "libsql://db.example.com/"),
    ("DATABASE_TOKEN", "token"),
    ("PROVIDER_URL", "https://api.example.com"),
    ("PUBLIC_URL", "https://mail.example.com/"),
    ("MAIL_FROM", "Sealpost <mail@example.com>"),
    ("QUEUE_NAME", "outbox"),
    ("DEAD_LETTER_QUEUE_NAME", "outbox-dead"),
    ("KEY_SECRETS", "k1:MDEyMzQ1Njc4OWFiY2RlZg=="),
    ("RECIPIENT_SECRET", "ZmVkY2JhOTg3NjU0MzIxMA=="),
    ("RESEND_API_KEY", "re_test"),
];

/// Reads the required settings with some changed; an empty value takes one away.
fn read(changes: &[(&str, &str)]) -> Result<Config, SettingError> {
    Config::read(&|name: &str| {
        let mut settings = changes.iter().chain(REQUIRED);
        settings
            .find(|(other, _)| *other == name)
            .map(|(_, value)| (*value).to_owned())
    })
}

fn refused(changes: &[(&str, &str)]) -> String {
    read(changes).unwrap_err().to_string()
}

/// Every name that the code asks for when everything is right.
fn names_read() -> BTreeSet<String> {
    let seen = RefCell::new(BTreeSet::new());
    Config::read(&|name: &str| {
        seen.borrow_mut().insert(name.to_owned());
        let setting = REQUIRED.iter().find(|(other, _)| *other == name);
        setting.map(|(_, value)| (*value).to_owned())
    })
    .unwrap();
    seen.into_inner()
}

/// The README's table: name to default and bounds.
fn table() -> BTreeMap<String, (String, String)> {
    let readme = include_str!("../../README.md");
    let section = readme.split("\n## Configuration\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
            Some((name.to_owned(), (cells[2].to_owned(), cells[3].to_owned())))
        })
        .collect()
}

#[test]
fn the_readme_names_every_setting_and_no_other() {
    let described: BTreeSet<String> = table().into_keys().collect();
    assert_eq!(described, names_read());
}

#[test]
fn the_readme_gives_the_bounds_and_the_default_that_hold() {
    let usual = read(&[]).unwrap().timing;
    let mut numbers = 0;
    for (name, (default, bounds)) in table() {
        let Err(SettingError::OutOfBounds { least, most, .. }) = read(&[(&name, "-1")]) else {
            continue;
        };
        numbers += 1;
        assert_eq!(bounds, format!("{least} to {most}"), "{name}");
        // Said aloud, the default changes nothing; and it is one that the code would take.
        assert_eq!(read(&[(&name, &default)]).unwrap().timing, usual, "{name}");
    }
    assert!(numbers >= 16, "only {numbers} numbers are in the table");
}

#[test]
fn the_readme_says_required_where_there_is_no_default() {
    for (name, (default, _)) in table() {
        let missing = read(&[(&name, "")]).is_err();
        assert_eq!(default.starts_with("required"), missing, "{name}: {default}");
    }
}

#[test]
fn a_lease_that_ends_before_its_calls_could_is_refused() {
    assert_eq!(
        refused(&[("LEASE_MS", "142999")]),
        "LEASE_MS must be at least 143000: the calls of one batch, the pace's wait and two database requests must fit"
    );
    assert!(read(&[("LEASE_MS", "143000")]).is_ok());
    // More calls in one invocation need a longer lease.
    assert!(refused(&[("LEASE_MS", "143000"), ("SUBREQUEST_BUDGET", "1000")]).starts_with("LEASE_MS"));
}

#[test]
fn a_margin_in_which_a_call_does_not_fit_is_refused() {
    assert_eq!(
        refused(&[("PROVIDER_WINDOW_MARGIN_MS", "41999")]),
        "PROVIDER_WINDOW_MARGIN_MS must be at least PROVIDER_TIMEOUT_MS + PACE_WAIT_MS + CLOCK_SKEW_MS = 42000"
    );
    // A provider without keys has no window, and so needs no margin.
    let without_keys = [("PROVIDER_WINDOW_MS", "0"), ("PROVIDER_WINDOW_MARGIN_MS", "0")];
    assert!(read(&without_keys).is_ok());
}

#[test]
fn a_budget_that_the_database_uses_up_is_refused() {
    assert!(refused(&[("SUBREQUEST_BUDGET", "8")]).starts_with("SUBREQUEST_BUDGET must be at least 9"));
    assert_eq!(
        read(&[("SUBREQUEST_BUDGET", "9")])
            .unwrap()
            .timing
            .calls_per_invocation(),
        1
    );
}

#[test]
fn only_a_database_on_this_machine_goes_without_a_token() {
    let without_token = |url| read(&[("DATABASE_TOKEN", ""), ("DATABASE_URL", url)]).map(|_| ());
    assert_eq!(without_token("http://127.0.0.1:8080"), Ok(()));
    assert_eq!(
        without_token("libsql://db.example.com"),
        Err(SettingError::Missing("DATABASE_TOKEN"))
    );
    for url in ["http://127.0.0.1.example.com", "http://localhost.example.com"] {
        assert!(without_token(url).is_err(), "{url} only begins like this machine");
    }
}

#[test]
fn a_wrong_signing_secret_closes_its_door_and_stops_no_mail() {
    let webhooks = |value| read(&[("WEBHOOK_SECRETS", value)]).unwrap().webhooks;
    assert!(matches!(webhooks(" "), WebhookSecrets::Closed));
    assert!(matches!(webhooks("whsec_no secret"), WebhookSecrets::Malformed));
    let two = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw,whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    assert!(matches!(webhooks(two), WebhookSecrets::Open(_)));
}

#[test]
fn an_error_names_the_setting_and_never_its_value() {
    for (name, _) in table() {
        let Err(error) = read(&[(&name, "\u{1}private value\u{1}")]) else {
            continue;
        };
        let text = error.to_string();
        assert!(text.starts_with(&name), "{text}");
        assert!(!text.contains("private"), "{text}");
        assert!(error.code().starts_with("setting"), "{text}");
    }
}

#[test]
fn debug_of_the_whole_configuration_shows_no_secret() {
    let hash = "d1990f97a1f4fe7b8e86da8c03c9dd3f7d536c14aa4a6f9eedab07f34cd961b0";
    let shown = format!(
        "{:?}",
        read(&[
            ("PRODUCER_TOKENS", hash),
            ("DATABASE_TOKEN", "db_private"),
            ("WEBHOOK_SECRETS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ])
        .unwrap()
    );
    for secret in [
        "MDEyMzQ1",
        "ZmVkY2Jh",
        "re_test",
        "db_private",
        "MfKQ9r8G",
        "49, 242",
        hash,
    ] {
        assert!(!shown.contains(secret), "{secret} is in {shown}");
    }
}

#[test]
fn a_link_leads_to_an_address_that_is_set() {
    assert_eq!(refused(&[("PUBLIC_URL", "")]), "PUBLIC_URL is not set");
    assert_eq!(
        read(&[]).unwrap().public_url.as_deref(),
        Some("https://mail.example.com")
    );
    assert!(read(&[("PUBLIC_URL", "http://127.0.0.1:8787")]).is_ok());
    for wrong in [
        "http://mail.example.com",
        "mail.example.com",
        "https://a b",
        "https://a>b",
    ] {
        assert!(
            refused(&[("PUBLIC_URL", wrong)]).starts_with("PUBLIC_URL must"),
            "{wrong}"
        );
    }
    let long = format!("https://mail.example.com/{}", "x".repeat(488));
    assert!(read(&[("PUBLIC_URL", long.strip_suffix('x').unwrap())]).is_ok());
    assert_eq!(
        refused(&[("PUBLIC_URL", &long)]),
        "PUBLIC_URL must have at most 512 bytes"
    );
}

#[test]
fn without_a_family_that_has_links_no_address_is_needed() {
    let none = |_: &str| None;
    let policy = |mode| {
        let mut kinds = Policy::built_in_kinds();
        for kind in &mut kinds {
            if kind.family.unsubscribe {
                kind.family.mode = mode;
            }
        }
        Policy::of(kinds)
    };
    assert_eq!(public_url(&none, &policy(Mode::Shadow)), Ok(None));
    for mode in [Mode::Live, Mode::Hold] {
        assert_eq!(
            public_url(&none, &policy(mode)),
            Err(SettingError::Missing("PUBLIC_URL"))
        );
    }
}

#[test]
fn our_own_message_id_is_set_unless_it_is_switched_off() {
    assert!(read(&[]).unwrap().sender.message_id);
    assert!(read(&[("MESSAGE_ID_HEADER", "on")]).unwrap().sender.message_id);
    assert!(!read(&[("MESSAGE_ID_HEADER", "off")]).unwrap().sender.message_id);
    assert_eq!(
        refused(&[("MESSAGE_ID_HEADER", "no")]),
        "MESSAGE_ID_HEADER must be on or off"
    );
}

#[test]
fn the_placeholder_of_the_shipped_file_is_refused_before_it_is_frozen_into_a_mail() {
    let shipped = include_str!("../../wrangler.toml");
    let placeholders: Vec<&str> = shipped
        .lines()
        .filter_map(|line| line.strip_prefix("PUBLIC_URL = \"")?.strip_suffix('"'))
        .collect();
    assert_eq!(placeholders.len(), 2, "production and staging");
    let others = [
        "https://invalid",
        "https://INVALID/",
        "https://change-me.Invalid:8443/mail",
        "https://change-me.invalid.",
    ];
    for url in placeholders.into_iter().chain(others) {
        assert_eq!(
            refused(&[("PUBLIC_URL", url)]),
            "PUBLIC_URL must be the address of this Worker, not a placeholder under .invalid",
            "{url}"
        );
    }
    for url in [
        "https://invalid.example.com",
        "https://mail.notinvalid",
        "https://mail.example.com/invalid",
        "http://[::1]:8787",
    ] {
        assert!(read(&[("PUBLIC_URL", url)]).is_ok(), "{url}");
    }
}
