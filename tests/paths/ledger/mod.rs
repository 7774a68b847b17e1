//! One fact, one mail: names of sends, one-time secrets, replays, what another system sent, shadow mode, and the figures.

mod backfill;
mod metrics;
mod replays;
mod secrets;
mod send_ids;
mod shadow;

pub(crate) use metrics::{scrape, value};
use sealpost::config::Config;
use sealpost::operate::{Answer, Request, answer};
use sealpost::outbox::family::Mode;
use sealpost::policy::Policy;
use serde_json::{Value as Json, json};

use super::doors::PRODUCER;
use crate::support::{TestWorld, integer};

/// What a producer's door answers.
pub(super) async fn produce(world: &TestWorld, path: &str, body: &Json) -> Answer {
    let body = body.to_string();
    let request = Request {
        method: "POST",
        path,
        authorization: Some(PRODUCER),
        content_type: Some("application/json"),
        body: Some(body.as_bytes()),
        ..Request::default()
    };
    answer(world, &world.config, &request).await
}

/// What a request of a replay is answered with.
pub(super) async fn replay(world: &TestWorld, body: &Json) -> Answer {
    produce(world, "/v1/replays", body).await
}

/// A replay of these intents.
pub(super) fn batch(name: &str, intents: &[Json]) -> Json {
    json!({ "batch": name, "intents": intents })
}

/// The program with the family in another mode.
pub(super) fn in_mode(config: &Config, family: &str, mode: Mode) -> Config {
    let mut kinds = Policy::built_in_kinds();
    for kind in kinds.iter_mut().filter(|kind| kind.family.name == family) {
        kind.family.mode = mode;
    }
    Config {
        policy: Box::leak(Box::new(Policy::of(kinds))),
        ..config.clone()
    }
}

/// A renewal notice with a signed link.
pub(super) fn renewal(period: &str, revision: u32, link: Option<&str>) -> Json {
    let mut intent = json!({
        "family": "renewal_notice",
        "key": { "subscriptionId": "s1", "periodStart": period, "kind": "t72" },
        "revision": revision,
        // Its window is open when a world begins.
        "businessAt": "2026-01-03T12:00:00Z",
        "to": "ada@example.com",
        "data": {
            "company": "Northwind", "customerName": "Ada", "plan": "Tea", "renewsOn": "1 November",
            "amount": "EUR 19.00", "manageUrl": "https://shop.example.com/subscription"
        }
    });
    if let Some(link) = link {
        intent["secret"] = json!({ "cancelUrl": link });
    }
    intent
}

pub(super) async fn number(world: &TestWorld, sql: &'static str) -> i64 {
    integer(&world.sql(sql, Vec::new()).await[0][0])
}

/// What a family counted under a name.
pub(super) async fn tally(world: &TestWorld, name: &str, family: &str) -> i64 {
    let rows = world
        .sql(
            "SELECT coalesce(sum(value), 0) FROM tallies WHERE name = ?1 AND family = ?2",
            vec![name.into(), family.into()],
        )
        .await;
    integer(&rows[0][0])
}

/// The texts of the mails that the provider accepted, oldest first.
pub(super) fn mails(world: &TestWorld) -> Vec<String> {
    let model = world.mailer.model.borrow();
    let sent = model.ledger().sent();
    sent.iter()
        .map(|one| one.mail.text.clone().unwrap_or_default())
        .collect()
}
