//! One batch of the main queue: messages in, one decision for each out.

use std::collections::BTreeMap;

use super::decision::{Decision, retry_delay};
use super::run::{Fate, Run};
use crate::config::Config;
use crate::outbox::envelope::Envelope;
use crate::parking::park_all;
use crate::ports::World;

/// One delivered message.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its body, where it is a text.
    pub body: Option<String>,
    /// How often it was delivered, this time included; from 1.
    pub attempts: u32,
}

/// Handles a batch; one decision for each delivery, in their order. Never fails: what cannot be done is a retry.
pub async fn consume<W: World>(world: &W, config: &Config, deliveries: &[Delivery]) -> Vec<Decision> {
    let mut decisions: Vec<Option<Decision>> = vec![None; deliveries.len()];
    let mut by_id: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for (index, delivery) in deliveries.iter().enumerate() {
        match Envelope::read(delivery.body.as_deref()) {
            Ok(envelope) => by_id.entry(envelope.outbox_id).or_default().push(index),
            Err(error) => unreadable.push((index, error)),
        }
    }
    for (index, decision) in park_all(world, "queue", deliveries, &unreadable).await {
        set(&mut decisions, &[index], decision);
    }

    let ids: Vec<&str> = by_id.keys().map(String::as_str).collect();
    let mut outcome = BTreeMap::new();
    if !ids.is_empty() {
        let run = Run { world, config };
        outcome = run.all(&ids).await;
    }
    for (id, indexes) in &by_id {
        for index in indexes {
            let attempts = deliveries.get(*index).map_or(1, |delivery| delivery.attempts);
            let decision = match outcome.get(id.as_str()) {
                Some(Fate::Decided(decision)) => *decision,
                Some(Fate::NotDone) => retry_delay(attempts),
                // The claim saw no such row: an envelope of a row that never was. It is kept for a person.
                Some(Fate::NoRow) | None => Decision::Acknowledge,
            };
            set(&mut decisions, &[*index], decision);
        }
    }
    let orphans: Vec<usize> = by_id
        .iter()
        .filter(|(id, _)| matches!(outcome.get(id.as_str()), Some(Fate::NoRow)))
        .flat_map(|(_, indexes)| indexes.iter().copied())
        .collect();
    for (index, decision) in crate::parking::park_orphans(world, "queue", deliveries, &orphans).await {
        set(&mut decisions, &[index], decision);
    }
    // A delivery without a decision cannot be; if it were, the queue would have to bring it again.
    decisions
        .into_iter()
        .map(|decision| decision.unwrap_or_else(|| retry_delay(1)))
        .collect()
}

fn set(decisions: &mut [Option<Decision>], indexes: &[usize], decision: Decision) {
    for index in indexes {
        if let Some(place) = decisions.get_mut(*index) {
            *place = Some(decision);
        }
    }
}
