//! When a mail may go out: windows, delays, time zones and quiet hours, on every path.

mod doubt;
mod far;
mod intake;
mod night;
mod redrive;
mod zones;

use std::time::Duration;

use sealpost::config::Config;
use sealpost::outbox::family::Family;
use sealpost::outbox::time::Millis;
use sealpost::policy::Policy;
use sealpost::ports::Clock as _;
use serde_json::{Value as Json, json};

use super::doors::{PRODUCER, get};
use crate::support::{TestWorld, config_with, notice_with_key};

/// From nine in the evening to seven in the morning.
const NIGHT: (u16, u16) = (21 * 60, 7 * 60);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// A version of the program whose families are changed.
fn with_families(config: &Config, change: impl Fn(&mut Family)) -> Config {
    let mut kinds = Policy::built_in_kinds();
    for kind in &mut kinds {
        change(&mut kind.family);
    }
    Config {
        policy: Box::leak(Box::new(Policy::of(kinds))),
        ..config.clone()
    }
}

fn with_quiet_notices(config: &Config) -> Config {
    with_families(config, |family| {
        if family.name == "notice" {
            family.quiet_hours = Some(NIGHT);
        }
    })
}

/// A world at a time, in which notices keep quiet at night.
async fn quiet_world(at: &str) -> TestWorld {
    quiet_world_with(at, &[]).await
}

async fn quiet_world_with(at: &str, changes: &[(&str, &str)]) -> TestWorld {
    let world = TestWorld::with(with_quiet_notices(&config_with(changes))).await;
    go_to(&world, at);
    world
}

fn at(text: &str) -> Millis {
    Millis::parse_rfc3339(text).expect("a time")
}

/// Moves the clock to a time that is to come.
fn go_to(world: &TestWorld, text: &str) {
    let now = world.clock.now();
    assert!(at(text) >= now, "{text} is over");
    world.clock.advance(at(text).since(now));
}

/// A notice with these members.
fn notice(key: &str, members: &Json) -> Json {
    let mut intent = notice_with_key(key);
    for (name, value) in members.as_object().expect("members") {
        intent[name] = value.clone();
    }
    intent
}

async fn record(world: &TestWorld, key: &str, members: Json) -> String {
    let accepted = world.intake(&[notice(key, &members)]).await;
    accepted.expect("it is recorded").receipts.remove(0).id
}

/// What `GET /v1/intents/{id}` says of this row's window.
async fn window(world: &TestWorld, id: &str) -> (Json, Json) {
    let answer = get(world, &format!("/v1/intents/{id}"), Some(PRODUCER)).await;
    (answer.body["notBefore"].clone(), answer.body["notAfter"].clone())
}

fn renewal(members: &Json) -> Json {
    let mut intent = json!({
        "family": "renewal_notice",
        "key": { "subscriptionId": "s1", "periodStart": "2026-03-01", "kind": "first" },
        "to": "ada@example.com",
        "data": { "company": "Example", "customerName": "Ada", "plan": "Pro", "renewsOn": "1 March", "amount": "9 EUR",
            "manageUrl": "https://example.com/manage" },
    });
    for (name, value) in members.as_object().expect("members") {
        intent[name] = value.clone();
    }
    intent
}

fn owned(state: &str, cause: &str) -> (String, String) {
    (state.to_owned(), cause.to_owned())
}
