//! Whether the inputs get far enough: a property over inputs that are all refused, or all accepted, shows nothing.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use sealpost::outbox::address;
use sealpost::outbox::envelope::Envelope;
use sealpost::outbox::intent::parse_intents;
use sealpost::outbox::letter::Letter;
use sealpost::outbox::receipt::{Named, Reading, read};
use sealpost::outbox::time::Millis;
use sealpost::ports::MailAnswer;
use sealpost::provider::classify::{Answer, classify};
use sealpost::provider::retry_after;
use sealpost::provider::template::render;
use sealpost::store::hrana::read_answer;

use crate::document::{changed, changes};
use crate::{answers, envelope, hrana, intents, letters, settings, templates, times, webhooks};

/// Inputs that each reader is given.
const INPUTS: usize = 400;
/// Of them, how many it must accept and how many it must refuse at least.
const OF_EACH_MIN: usize = 30;

/// The same inputs in every run: what is asked is whether they are worth much, not whether the code is right.
fn reaches<T>(strategy: impl Strategy<Value = T>, mut accepts: impl FnMut(T) -> bool) {
    let mut runner = TestRunner::deterministic();
    let accepted = (0..INPUTS)
        .filter(|_| accepts(strategy.new_tree(&mut runner).expect("an input").current()))
        .count();
    println!("{accepted} of {INPUTS} accepted");
    assert!(
        (OF_EACH_MIN..=INPUTS - OF_EACH_MIN).contains(&accepted),
        "{accepted} of {INPUTS}"
    );
}

#[test]
fn envelopes() {
    reaches(envelope::body(), |body| Envelope::read(body.as_deref()).is_ok());
}

#[test]
fn requests() {
    reaches(changes(intents::NAMES), |changes| {
        parse_intents(&changed(&intents::request(), &changes), &intents::families()).is_ok()
    });
}

#[test]
fn addresses() {
    reaches(crate::address::text(), |text| address::parse(&text).is_ok());
    reaches((crate::address::email(), crate::address::name()), |(email, name)| {
        address::from_parts(&email, Some(&name)).is_ok()
    });
}

#[test]
fn headers_and_times() {
    reaches(times::retry_header(), |header| {
        retry_after::parse(&header, Millis::new(0)).is_some()
    });
    reaches(times::time_text(), |text| Millis::parse_rfc3339(&text).is_ok());
}

#[test]
fn answers_of_the_provider() {
    reaches(answers::response(), |(status, retry_after, body)| {
        let answer = classify(
            &MailAnswer::Response {
                status,
                retry_after,
                body,
            },
            Millis::new(0),
        );
        matches!(answer, Answer::Accepted { .. })
    });
    reaches(answers::response(), |(status, retry_after, body)| {
        let answer = classify(
            &MailAnswer::Response {
                status,
                retry_after,
                body,
            },
            Millis::new(0),
        );
        matches!(answer, Answer::Refused { .. })
    });
}

#[test]
fn answers_of_the_database() {
    reaches(hrana::counted(), |(count, body)| {
        read_answer(&body, count).outcome.is_ok()
    });
}

#[test]
fn stored_letters() {
    reaches((letters::letter(), changes(letters::NAMES)), |(letter, changes)| {
        Letter::from_json(&String::from_utf8_lossy(&changed(&letter, &changes))).is_ok()
    });
}

#[test]
fn template_data() {
    reaches(
        (templates::template(), changes(templates::NAMES)),
        |(template, changes)| {
            sealpost::outbox::json::read(&changed(&templates::full(), &changes))
                .is_ok_and(|data| render(template, &data).is_ok())
        },
    );
}

#[test]
fn configured_addresses_and_tokens() {
    reaches(settings::url(), |url| {
        settings::read(&[("DATABASE_URL", url)].into()).is_ok()
    });
    reaches(settings::tokens(), |list| {
        settings::read(&[("PRODUCER_TOKENS", list)].into()).is_ok()
    });
    reaches(settings::secrets(), |list| {
        settings::read(&[("KEY_SECRETS", list)].into()).is_ok()
    });
}

#[test]
fn events() {
    reaches(webhooks::body(), |body| {
        matches!(read(&body, "production"), Reading::About(_))
    });
    reaches(webhooks::body(), |body| match read(&body, "production") {
        Reading::About(receipt) => matches!(receipt.named, Named::Several),
        Reading::OtherEnvironment | Reading::NotAboutAMail | Reading::NotUnderstood(_) => false,
    });
}
