//! The two designs that write twice: to the database and to the broker, with nothing that joins the two. They are wrong
//! on purpose, and here so that the audit has something to find.

use libsql::Value;
use sealpost::ports::{Broker as _, MailAnswer, MailRequest, Mailer as _, QueueMessage, World as _};
use sealpost::store::database::{Database as _, Statement, Transaction};
use serde_json::{Value as Json, json};

use crate::platform::{Platform, Pledge, Reply};

/// The table in which these designs keep their pledges.
const TABLE: &str = "CREATE TABLE kept_pledges (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, cents INTEGER NOT NULL) STRICT";

pub async fn prepare(platform: &Platform) {
    platform.world.sql(TABLE, Vec::new()).await;
}

/// A death in between: a pledge that nobody hears of.
pub async fn save_then_publish(platform: &Platform, pledge: &Pledge) -> Reply {
    if !save(platform, pledge).await {
        return Reply::Failed;
    }
    if publish(platform, pledge).await {
        Reply::Recorded
    } else {
        Reply::Failed
    }
}

/// A death in between: an announcement of nothing.
pub async fn publish_then_save(platform: &Platform, pledge: &Pledge) -> Reply {
    if !publish(platform, pledge).await {
        return Reply::Failed;
    }
    if save(platform, pledge).await {
        Reply::Recorded
    } else {
        Reply::Failed
    }
}

async fn save(platform: &Platform, pledge: &Pledge) -> bool {
    let statement = Statement::new(
        "INSERT INTO kept_pledges (id, cents) VALUES (?1, ?2)",
        vec![pledge.id.clone().into(), Value::Integer(pledge.cents)],
    );
    let transaction = Transaction::write(vec![statement]);
    platform.world.database().run(transaction).await.is_ok()
}

async fn publish(platform: &Platform, pledge: &Pledge) -> bool {
    // The id is made where it is sent: a second attempt would be another message.
    let id = format!("msg-{}", platform.ear.count() + 1);
    let body = json!({ "id": id, "pledge": pledge.id, "cents": pledge.cents }).to_string();
    let message = QueueMessage { body, delay_seconds: 0 };
    platform.broker().send_batch(vec![message]).await.is_ok()
}

/// The pledges that these designs recorded, oldest first.
pub async fn recorded(platform: &Platform) -> Vec<String> {
    let rows = platform
        .world
        .sql("SELECT id FROM kept_pledges ORDER BY seq", Vec::new())
        .await;
    rows.iter().map(|row| crate::support::text(&row[0])).collect()
}

/// A message of these designs: its id, and the pledge that it announces.
pub fn read(body: &str) -> (String, String) {
    let message: Json = serde_json::from_str(body).expect("a message of these designs");
    (word(&message, "id"), word(&message, "pledge"))
}

/// A receiver that skips the ids it has handled: it knows what is in the message and nothing else, so it matches
/// whatever it is told.
pub async fn receive(platform: &Platform) {
    for message in platform.world.broker.take() {
        let content: Json = serde_json::from_str(&message.body).expect("a message of these designs");
        let id = word(&content, "id");
        if platform.handled.borrow_mut().insert(id.clone()) {
            let cents = content["cents"].as_i64().expect("an amount");
            send_receipt(platform, &word(&content, "pledge"), cents, &id).await;
        }
    }
}

/// The receipt of a pledge, sent past the pipeline under a key of the sender's own.
pub async fn send_receipt(platform: &Platform, pledge: &str, cents: i64, key: &str) {
    let body = json!({
        "from": "Sealpost <mail@example.com>",
        "to": ["ada@example.com"],
        "subject": format!("Thank you for your pledge of {cents} cents"),
        "text": format!("Reference: {pledge}\n"),
    })
    .to_string();
    let request = MailRequest {
        body: &body,
        idempotency_key: key,
        batch: false,
    };
    let answer = platform.world.mailer.send(request).await;
    assert!(
        matches!(answer, MailAnswer::Response { status: 200, .. }),
        "the provider refused a receipt: {answer:?}"
    );
}

fn word(json: &Json, name: &str) -> String {
    json[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} in {json}"))
        .to_owned()
}
