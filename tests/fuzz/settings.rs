//! Variables, secrets and tokens.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sealpost::config::Config;
use sealpost::config::timing::BATCH_MAX;
use sealpost::outbox::keys::{KeyRing, SECRETS_MAX, Secret};

use crate::hostile::{self, MARK};

const TOKEN_HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

const USUAL: &[(&str, &str)] = &[
    ("ENVIRONMENT", "test"),
    ("DATABASE_URL", "https://db.example"),
    ("DATABASE_TOKEN", "t"),
    ("PROVIDER_URL", "https://api.example"),
    ("PUBLIC_URL", "https://mail.example"),
    ("MAIL_FROM", "Sealpost <mail@example.com>"),
    ("MESSAGE_ID_HEADER", "on"),
    ("MAIL_REPLY_TO", "r@example.com"),
    ("QUEUE_NAME", "outbox"),
    ("DEAD_LETTER_QUEUE_NAME", "outbox-dead"),
    ("KEY_SECRETS", "k1:MDEyMzQ1Njc4OWFiY2RlZg=="),
    ("RECIPIENT_SECRET", "ZmVkY2JhOTg3NjU0MzIxMA=="),
    ("RESEND_API_KEY", "re_test"),
    ("RESEND_READ_KEY", "re_full"),
    ("PRODUCER_TOKENS", TOKEN_HASH),
    ("OPERATOR_TOKENS", TOKEN_HASH),
    ("WEBHOOK_SECRETS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
];

const NUMBERS: &[&str] = &[
    "PROVIDER_TIMEOUT_MS",
    "DATABASE_TIMEOUT_MS",
    "CALLS_AT_ONCE",
    "PACE_PER_SECOND",
    "PACE_PER_DOMAIN_PER_MINUTE",
    "PACE_WAIT_MS",
    "LEASE_MS",
    "CLOCK_SKEW_MS",
    "BACKOFF_BASE_MS",
    "PROVIDER_WINDOW_MS",
    "PROVIDER_WINDOW_MARGIN_MS",
    "SUBREQUEST_BUDGET",
    "LONE_DEATHS_MAX",
    "PENDING_GRACE_MS",
    "ENQUEUED_PATIENCE_MS",
    "TICK_MS",
    "RETENTION_MS",
    "PAUSE_MS",
    "PARKED_ALARM_AT",
];

fn name() -> impl Strategy<Value = &'static str> {
    let names: Vec<&str> = USUAL
        .iter()
        .map(|(name, _)| *name)
        .chain(NUMBERS.iter().copied())
        .collect();
    prop::sample::select(names)
}

/// Values that are right for some setting, and near misses.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => url(),
        2 => "[+-]?[0-9]{1,21}",
        2 => secrets(),
        2 => tokens(),
        2 => hostile::text(),
        1 => Just(format!("https://user:{MARK}@db.example")),
        1 => Just(format!("{MARK} <{MARK}>")),
    ]
}

pub fn url() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(vec![
        "https://",
        "http://",
        "libsql://",
        "HTTPS://",
        "ftp://",
        "",
        "https:",
        "libsql://https://",
    ]);
    let host = prop_oneof![
        prop::sample::select(vec![
            "db.example",
            "127.0.0.1",
            "127.0.0.1:8080",
            "localhost",
            "localhost.evil.example",
            "[::1]:9",
            "127.0.0.1@evil.example",
            "",
            "/",
            "//",
            ":80",
            "?",
            "#",
            "db.example\\@evil",
            "db.example\t",
            "a b",
            "\u{ff20}",
            "db.example/path/",
            "db\n.example",
        ])
        .prop_map(str::to_owned),
        hostile::text(),
    ];
    let end = prop::sample::select(vec!["", "/", "//", "/v3?x", "#", " "]);
    (scheme, host, end).prop_map(|(scheme, host, end)| format!("{scheme}{host}{end}"))
}

pub fn secrets() -> impl Strategy<Value = String> {
    let entry = prop_oneof![
        12 => ("[a-z0-9_-]{1,3}", "[A-Za-z0-9+/]{24}").prop_map(|(id, bytes)| format!("{id}:{bytes}")),
        1 => ("[a-z0-9_-]{0,33}", "[A-Za-z0-9+/]{20,28}").prop_map(|(id, bytes)| format!("{id}:{bytes}")),
        1 => Just("a:YWFhYWFhYWFhYWFhYWFhYQ==".to_owned()),
        1 => Just(format!("{MARK}:{MARK}")),
        1 => hostile::text(),
    ];
    let separator = prop::sample::select(vec![",", ",", ", ", ",\n", ";"]);
    let count = prop_oneof![4 => 1_usize..4, 1 => 0_usize..11];
    count
        .prop_flat_map(move |count| (prop::collection::vec(entry.clone(), count), separator.clone()))
        .prop_map(|(entries, separator)| entries.join(separator))
}

pub fn tokens() -> impl Strategy<Value = String> {
    let hash = prop_oneof![3 => Just(TOKEN_HASH.to_owned()), 2 => "[0-9a-fA-F]{64}", 1 => Just("+f".repeat(32)), 1 => "[0-9a-f]{62}[+-][0-9]", 1 => "[0-9a-f\u{e9}]{60,66}", 1 => Just(MARK.to_owned())];
    prop::collection::vec(hash, 0..19).prop_map(|hashes| hashes.join(","))
}

pub fn read(changes: &BTreeMap<&'static str, String>) -> Result<Config, sealpost::config::SettingError> {
    Config::read(&|name: &str| {
        changes.get(name).cloned().or_else(|| {
            USUAL
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, value)| (*value).to_owned())
        })
    })
}

fn is_sound_url(url: &str) -> Result<(), TestCaseError> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    prop_assert!(scheme == "https" || scheme == "http", "{url:?}");
    let authority = rest.split('/').next().unwrap_or_default();
    prop_assert!(!authority.is_empty() && !authority.starts_with(':'), "{url:?}");
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic()) && !rest.contains(['\\', '?', '#', '@']);
    prop_assert!(is_plain && !url.ends_with('/'), "{url:?}");
    let is_local = ["127.0.0.1", "localhost", "[::1]"].iter().any(|host| {
        authority
            .strip_prefix(host)
            .is_some_and(|port| port.is_empty() || port.starts_with(':'))
    });
    prop_assert!(scheme == "https" || is_local, "{url:?}");
    Ok(())
}

proptest! {
    #[test]
    fn a_configured_address_leads_to_one_host(database in url(), provider in url()) {
        for (name, value) in [("DATABASE_URL", database), ("PROVIDER_URL", provider.clone()), ("PUBLIC_URL", provider)] {
            if let Ok(config) = read(&[(name, value)].into()) {
                is_sound_url(&config.database_url)?;
                is_sound_url(&config.provider_url)?;
                is_sound_url(config.public_url.as_deref().unwrap_or_default())?;
            }
        }
    }

    #[test]
    fn what_is_configured_is_sound_and_what_is_wrong_is_named_without_its_value(
        changes in prop::collection::btree_map(name(), value(), 0..4),
    ) {
        match read(&changes) {
            Ok(config) => {
                is_sound_url(&config.database_url)?;
                is_sound_url(&config.provider_url)?;
                is_sound_url(config.public_url.as_deref().unwrap_or_default())?;
                prop_assert!(config.timing.check().is_ok() && config.timing.rows_per_invocation() <= BATCH_MAX);
                prop_assert!((1..=SECRETS_MAX).contains(&config.keys.accepted().count()));
                prop_assert!(sealpost::outbox::tags::clean(&config.sender.environment).is_ok());
                let debug = format!("{config:?}");
                for secret in ["KEY_SECRETS", "RECIPIENT_SECRET", "PRODUCER_TOKENS", "OPERATOR_TOKENS", "RESEND_API_KEY", "RESEND_READ_KEY", "DATABASE_TOKEN", "WEBHOOK_SECRETS"] {
                    let value = changes.get(secret).map(|value| value.trim()).unwrap_or_default();
                    // A setting that is no secret may have the same value, and is shown.
                    let stands_elsewhere = changes.iter().any(|(name, other)| *name != secret && other.contains(value));
                    prop_assert!(value.len() < 20 || stands_elsewhere || !debug.contains(value));
                }
            }
            Err(error) => {
                let shown = format!("{error} {error:?} {}", error.code());
                prop_assert!(!shown.contains(MARK), "{shown}");
            }
        }
    }

    #[test]
    fn token_lists_hold_hashes_alone(list in tokens(), token in hostile::text()) {
        let outcome = read(&[("PRODUCER_TOKENS", list.clone())].into());
        let entries: Vec<&str> = list.split(',').map(str::trim).collect();
        let legal = list.trim().is_empty()
            || (entries.len() <= 16 && entries.iter().all(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())));
        prop_assert_eq!(outcome.is_ok(), legal, "{}", list);
        if let Ok(config) = outcome {
            prop_assert_eq!(config.producers.is_closed(), list.trim().is_empty());
            prop_assert!(!config.producers.admits(&token) || token == "test");
            prop_assert_eq!(config.producers.admits("test"), entries.iter().any(|hash| hash.eq_ignore_ascii_case(TOKEN_HASH)));
        }
    }

    #[test]
    fn key_rings_hold_secrets_that_differ(setting in secrets()) {
        match KeyRing::parse(&setting) {
            Ok(ring) => {
                let ids: Vec<&str> = ring.accepted().map(Secret::id).collect();
                let mut unique = ids.clone();
                unique.sort_unstable();
                unique.dedup();
                prop_assert!(unique.len() == ids.len() && ids.len() <= SECRETS_MAX);
                prop_assert_eq!(ring.mint().id(), ids[0]);
            }
            Err(error) => prop_assert!(hostile::is_quiet(&error)),
        }
    }
}
