//! The two designs without an outbox: what is owed and the message are written one after the other, and nobody looks
//! again at what was recorded and not published. Everything behind the first publication is the program as it is.

use std::pin::Pin;

use libsql::Value;
use sealpost::config::Config;
use sealpost::intake::{Accepted, IntakeError, record_intents};
use sealpost::outbox::envelope::Envelope;
use sealpost::outbox::status::Status;
use sealpost::ports::QueueMessage;
use sealpost::store::database::Transaction;
use sealpost::store::publish::Reservation;

use super::{BASE, Planted};
use crate::ports::Worker;
use crate::report::Invariant;
use crate::store::Rewrites;

pub const ALL: [&Planted; 2] = [&SAVE_THEN_PUBLISH, &PUBLISH_THEN_SAVE];

/// The relay knows nothing of rows that were never published.
const NO_RELAY_OF_NEW_ROWS: Rewrites = &[(
    " AND relay_at <= ?2 ORDER BY relay_at, seq LIMIT ?1)",
    " AND status <> 'pending' AND relay_at <= ?2 ORDER BY relay_at, seq LIMIT ?1)",
)];

/// The row is written, the caller is answered, the message is sent. Who dies in between has promised a mail that
/// nobody will send.
static SAVE_THEN_PUBLISH: Planted = Planted {
    name: "dual write: save, then publish",
    breaks: Invariant::I1,
    sql: NO_RELAY_OF_NEW_ROWS,
    intake: Some(save_then_publish),
    ..BASE
};

/// The message is sent, and then the row is written. A message that is faster than its row finds nothing; the row that
/// comes after it has nobody left.
static PUBLISH_THEN_SAVE: Planted = Planted {
    name: "dual write: publish, then save",
    breaks: Invariant::I1,
    sql: NO_RELAY_OF_NEW_ROWS,
    publishes_first: true,
    intake: Some(publish_then_save),
    ..BASE
};

type Taking<'a> = Pin<Box<dyn Future<Output = Result<Accepted, IntakeError>> + 'a>>;

fn save_then_publish<'a>(worker: &'a Worker, config: &'a Config, body: &'a [u8]) -> Taking<'a> {
    Box::pin(async move {
        let mut accepted = record_intents(worker, config, body).await?;
        // All that was new and that the program would have left to the relay.
        for receipt in &accepted.receipts {
            let known = accepted.to_publish.iter().any(|row| row.id == receipt.id);
            if !receipt.duplicate && receipt.status == Status::Pending && !known {
                accepted.to_publish.push(Reservation {
                    id: receipt.id.clone(),
                    publish_count: 0,
                    claim_count: 0,
                    due_at: 0,
                });
            }
        }
        Ok(accepted)
    })
}

fn publish_then_save<'a>(worker: &'a Worker, config: &'a Config, body: &'a [u8]) -> Taking<'a> {
    Box::pin(async move {
        let mut accepted = record_intents(worker, config, body).await?;
        accepted.to_publish.clear();
        Ok(accepted)
    })
}

/// The messages of the rows that a transaction is about to write.
pub fn messages_of_new_rows(transaction: &Transaction, now: i64) -> Vec<QueueMessage> {
    let insert = transaction
        .statements
        .iter()
        .find(|statement| statement.sql.starts_with("INSERT INTO outbox"));
    let Some(Value::Text(list)) = insert.and_then(|insert| insert.args.first()) else {
        return Vec::new();
    };
    let rows: Vec<serde_json::Value> = serde_json::from_str(list).expect("a list of rows");
    rows.iter()
        .filter(|row| row["status"] != "shadowed")
        .map(|row| {
            let wait = row["not_before"].as_i64().map_or(0, |at| (at - now).max(0));
            QueueMessage {
                body: Envelope::to_row(row["id"].as_str().expect("an id")).to_body(),
                delay_seconds: u32::try_from((wait + 999) / 1_000).expect("minutes"),
            }
        })
        .collect()
}
