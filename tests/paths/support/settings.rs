//! Settings for tests.

use sealpost::config::Config;

/// The settings that a test does not care about.
const USUAL: &[(&str, &str)] = &[
    ("ENVIRONMENT", "test"),
    ("DATABASE_URL", "http://127.0.0.1:1"),
    ("PROVIDER_URL", "http://127.0.0.1:2"),
    ("PUBLIC_URL", "https://mail.example.com"),
    ("MAIL_FROM", "Sealpost <mail@example.com>"),
    ("QUEUE_NAME", "outbox"),
    ("DEAD_LETTER_QUEUE_NAME", "outbox-dead"),
    ("KEY_SECRETS", "k1:MDEyMzQ1Njc4OWFiY2RlZg=="),
    ("RECIPIENT_SECRET", "ZmVkY2JhOTg3NjU0MzIxMA=="),
    ("RESEND_API_KEY", "re_test"),
    // sha256("producer") and sha256("operator")
    (
        "PRODUCER_TOKENS",
        "d1990f97a1f4fe7b8e86da8c03c9dd3f7d536c14aa4a6f9eedab07f34cd961b0",
    ),
    (
        "OPERATOR_TOKENS",
        "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23",
    ),
    ("WEBHOOK_SECRETS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ("PACE_PER_SECOND", "0"),
    ("PACE_PER_DOMAIN_PER_MINUTE", "0"),
    ("SUBREQUEST_BUDGET", "1000"),
];

pub fn config() -> Config {
    config_with(&[])
}

/// The usual settings with some changed; an empty value takes one away.
pub fn config_with(changes: &[(&str, &str)]) -> Config {
    let lookup = |name: &str| {
        changes
            .iter()
            .chain(USUAL)
            .find(|(other, _)| *other == name)
            .map(|(_, value)| (*value).to_owned())
            .filter(|value| !value.is_empty())
    };
    Config::read(&lookup).expect("the settings of a test are right")
}
