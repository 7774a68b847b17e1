//! The path of the dead-letter queue: messages whose deliveries are used up. The row decides, not the queue.
//!
//! IO steps, and what a death right after each leaves behind:
//!
//! 0. *Park* unreadable envelopes, and envelopes without a row.
//! 1. *Return* (one transaction): rows that wait go back to `retry`, with a time at which the relay publishes them.
//!    Dead after it: the messages come again, and the rows are only moved a little later.
//! 2. *Acknowledge or retry*, message by message, by the caller.
//!
//! Nothing is ever published from here: the relay does that.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::consume::{Decision, Delivery, retry_delay};
use crate::outbox::backoff::backoff;
use crate::outbox::envelope::Envelope;
use crate::parking::{park_all, park_orphans};
use crate::ports::{Clock as _, Field, Level, Log as _, World, random_number};
use crate::store::dead_letters::return_to_retry;

/// Handles a batch of the dead-letter queue; one decision for each delivery, in their order.
pub async fn consume_dead_letters<W: World>(world: &W, config: &Config, deliveries: &[Delivery]) -> Vec<Decision> {
    let mut by_id: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for (index, delivery) in deliveries.iter().enumerate() {
        match Envelope::read(delivery.body.as_deref()) {
            Ok(envelope) => by_id.entry(envelope.outbox_id).or_default().push(index),
            Err(error) => unreadable.push((index, error)),
        }
    }
    let mut decided: BTreeMap<usize, Decision> = BTreeMap::new();
    decided.extend(park_all(world, "dead_letter_queue", deliveries, &unreadable).await);

    if !by_id.is_empty() {
        let ids: Vec<&str> = by_id.keys().map(String::as_str).collect();
        let now = world.clock().now();
        let at = now.plus(backoff(config.timing.backoff_base, 1, random_number(world.random())));
        match return_to_retry(world.database(), &ids, now, at).await {
            Ok(known) => {
                let number = Field::Number(i64::try_from(known.len()).unwrap_or(i64::MAX));
                world.log().note(Level::Warn, "deliveries_used_up", &[("rows", number)]);
                let (rows, orphans): (Vec<_>, Vec<_>) =
                    by_id.into_iter().partition(|(id, _)| known.iter().any(|row| row == id));
                for index in rows.into_iter().flat_map(|(_, indexes)| indexes) {
                    decided.insert(index, Decision::Acknowledge);
                }
                let orphans: Vec<usize> = orphans.into_iter().flat_map(|(_, indexes)| indexes).collect();
                decided.extend(park_orphans(world, "dead_letter_queue", deliveries, &orphans).await);
            }
            Err(error) => {
                world.log().note(
                    Level::Warn,
                    "dead_letters_failed",
                    &[("error", Field::Code(error.code()))],
                );
            }
        }
    }
    deliveries
        .iter()
        .enumerate()
        .map(|(index, delivery)| decided.remove(&index).unwrap_or_else(|| retry_delay(delivery.attempts)))
        .collect()
}
