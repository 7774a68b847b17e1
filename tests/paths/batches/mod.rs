//! Mails that go out together: one call, one key, one decision for each.

mod beside;
mod deaths;
mod doubts;
mod ends;
mod happy;

use std::sync::OnceLock;

use sealpost::config::Config;
use sealpost::policy::Policy;
use serde_json::{Value as Json, json};

use crate::support::{TestWorld, config_with, integer, text};

/// A world in which campaigns go out at any hour.
pub async fn world() -> TestWorld {
    world_with(&[]).await
}

pub async fn world_with(changes: &[(&str, &str)]) -> TestWorld {
    TestWorld::with(at_any_hour(config_with(changes))).await
}

fn at_any_hour(mut config: Config) -> Config {
    static POLICY: OnceLock<Policy> = OnceLock::new();
    config.policy = POLICY.get_or_init(|| {
        let mut kinds = Policy::built_in_kinds();
        for kind in &mut kinds {
            kind.family.quiet_hours = None;
        }
        Policy::of(kinds)
    });
    config
}

/// A mail of a campaign to one person.
pub fn mail(contact: &str) -> Json {
    json!({
        "family": "campaign",
        "key": { "campaignId": "spring", "contactId": contact },
        "to": { "email": format!("{contact}@example.com"), "name": "Ada" },
        "content": { "subject": format!("Spring for {contact}"), "text": "It is here." },
    })
}

/// Records so many of them, has them handed to the queue, and returns their ids.
pub async fn campaign(world: &TestWorld, count: usize) -> Vec<String> {
    let mails: Vec<Json> = (0..count).map(|number| mail(&format!("c{number}"))).collect();
    let accepted = world.intake(&mails).await.expect("the campaign is recorded");
    // The relay admits what the intake does not publish.
    world.tick().await;
    accepted.receipts.into_iter().map(|receipt| receipt.id).collect()
}

/// Delivers the messages of these rows.
pub async fn deliver(world: &TestWorld, ids: &[String]) {
    let list: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.deliver_ids(&list).await;
}

/// Somebody must not be written to from now on.
pub async fn suppress(world: &TestWorld, id: &str) {
    world
        .sql(
            "INSERT INTO suppressions (recipient_hash, family, reason, created_at)
             SELECT recipient_hash, '*', 'by_hand', 1 FROM outbox WHERE id = ?1",
            vec![id.into()],
        )
        .await;
}

/// The requests that the provider saw: path, key, hash of the body.
pub fn requests(world: &TestWorld) -> Vec<(String, String, String)> {
    let model = world.mailer.model.borrow();
    let seen = model.ledger().requests().iter();
    seen.filter(|seen| seen.method == "POST")
        .map(|seen| {
            (
                seen.path.clone(),
                seen.idempotency_key.clone().unwrap_or_default(),
                seen.body_sha256.clone().unwrap_or_default(),
            )
        })
        .collect()
}

/// How many mails went to each address; nobody may get two.
pub fn mails_to(world: &TestWorld, contact: &str) -> usize {
    let model = world.mailer.model.borrow();
    let address = format!("{contact}@example.com");
    let sent = model.ledger().sent().iter();
    sent.filter(|sent| sent.mail.to.iter().any(|to| to.contains(&address)))
        .count()
}

/// One number of the database.
pub async fn number(world: &TestWorld, sql: &'static str) -> i64 {
    integer(&world.sql(sql, vec![]).await[0][0])
}

/// The states of these rows, each once, in order.
pub async fn states(world: &TestWorld, ids: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    for id in ids {
        states.push(world.status(id).await);
    }
    states
}

/// Each row has the message id of the mail that carries its own tag.
pub async fn ids_are_right(world: &TestWorld) {
    let rows = world
        .sql(
            "SELECT id, provider_message_id FROM outbox WHERE status = 'sent'",
            vec![],
        )
        .await;
    let model = world.mailer.model.borrow();
    for row in rows {
        let (id, message) = (text(&row[0]), text(&row[1]));
        let mail = model.ledger().find(&message).expect("the provider knows it");
        assert!(mail.mail.tags.iter().any(|tag| tag.value == id), "{id}: {message}");
    }
}
