//! What the provider says: signed events become proof, delivery news and suppressions, in any order, once.

mod delivery;
mod late;
mod proof;
mod strangers;
mod suppress;

use sealpost::devstack::provider::webhook::sign;
use sealpost::operate::{Answer, Request, answer};
use sealpost::ports::Clock as _;
use sealpost::receipts::SignatureHeaders;
use serde_json::{Map, Value as Json, json};

use crate::support::{TestWorld, integer, text};

/// The secret in the settings of the tests.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Posts a signed event.
pub(crate) async fn post_event(world: &TestWorld, event_id: &str, body: &str) -> Answer {
    let now_s = world.clock.now().get().div_euclid(1_000);
    let signature = sign(SECRET, event_id, now_s, body).expect("it signs");
    let timestamp = now_s.to_string();
    let request = Request {
        method: "POST",
        path: "/v1/receipts/resend",
        content_type: Some("application/json"),
        signature: SignatureHeaders {
            id: Some(event_id),
            timestamp: Some(&timestamp),
            signature: Some(&signature),
        },
        body: Some(body.as_bytes()),
        ..Request::default()
    };
    answer(world, &world.config, &request).await
}

/// What the provider model says about a mail it accepted.
pub(crate) fn event(world: &TestWorld, message_id: &str, kind: &str, extra: &Json) -> String {
    let extra: Map<String, Json> = extra.as_object().cloned().unwrap_or_default();
    let mut model = world.mailer.model.borrow_mut();
    model
        .event(world.clock.now(), message_id, kind, extra)
        .expect("the model knows the mail")
}

/// Posts what the provider model says, and expects that it is taken.
pub(crate) async fn hear(world: &TestWorld, event_id: &str, message_id: &str, kind: &str, extra: Json) -> String {
    let body = event(world, message_id, kind, &extra);
    let answer = post_event(world, event_id, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["result"].as_str().expect("a result").to_owned()
}

/// The ids of the mails that the provider accepted, oldest first.
pub(crate) fn message_ids(world: &TestWorld) -> Vec<String> {
    let model = world.mailer.model.borrow();
    model.ledger().sent().iter().map(|sent| sent.id.clone()).collect()
}

pub(crate) async fn column(world: &TestWorld, sql: &'static str, id: &str) -> String {
    let rows = world.sql(sql, vec![id.into()]).await;
    rows.first().map_or_else(|| "no row".to_owned(), |row| text(&row[0]))
}

pub(crate) async fn delivery(world: &TestWorld, id: &str) -> String {
    column(world, "SELECT delivery FROM outbox WHERE id = ?1", id).await
}

pub(crate) async fn count(world: &TestWorld, sql: &'static str) -> i64 {
    integer(&world.sql(sql, Vec::new()).await[0][0])
}

/// A world with one mail that the provider accepted and that we know of.
pub(crate) async fn one_sent() -> (TestWorld, String, String) {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
    let message_id = message_ids(&world).remove(0);
    (world, id, message_id)
}

/// Parks an event of a kind that nobody knows, and lets a later version know it: returns the entry's hash.
pub(crate) async fn parked_and_understood(world: &TestWorld, mail: &str) -> String {
    let body = event(world, mail, "email.delivered", &json!({})).replace("email.delivered", "email.teleported");
    assert_eq!(post_event(world, "msg_new", &body).await.body["result"], "parked");
    world
        .sql(
            "UPDATE parking SET body = replace(body, 'email.teleported', 'email.delivered'),
               body_bytes = length(replace(body, 'email.teleported', 'email.delivered')) WHERE source = 'receipts'",
            Vec::new(),
        )
        .await;
    let rows = world
        .sql("SELECT hash FROM parking WHERE source = 'receipts'", Vec::new())
        .await;
    text(&rows[0][0])
}
