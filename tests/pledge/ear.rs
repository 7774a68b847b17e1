//! The broker as an auditor hears it: the test's queue, with a memory of everything that it ever took.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use sealpost::ports::{Broker, BrokerError, Clock as _, QueueMessage};

use crate::support::TestWorld;

/// What the broker took, and how long it takes.
#[derive(Default)]
pub struct Ear {
    heard: RefCell<Vec<String>>,
    /// How long the broker thinks before it takes a batch.
    pub slowness: Cell<Duration>,
}

impl Ear {
    /// The bodies of all messages so far, in the order in which the broker took them.
    pub fn heard(&self) -> Vec<String> {
        self.heard.borrow().clone()
    }

    pub fn count(&self) -> usize {
        self.heard.borrow().len()
    }
}

/// The way into the queue of this world, past the ear.
pub struct Listening<'a> {
    pub world: &'a TestWorld,
    pub ear: &'a Ear,
}

impl Broker for Listening<'_> {
    async fn send_batch(&self, messages: Vec<QueueMessage>) -> Result<(), BrokerError> {
        // On its way; who dies here has announced nothing.
        tokio::task::yield_now().await;
        if !self.ear.slowness.get().is_zero() {
            self.world.clock.sleep(self.ear.slowness.get()).await;
        }
        let bodies: Vec<String> = messages.iter().map(|message| message.body.clone()).collect();
        let answer = self.world.broker.send_batch(messages).await;
        if answer.is_ok() {
            self.ear.heard.borrow_mut().extend(bodies);
        }
        // The answer is on its way; who dies here has announced, and does not know it.
        tokio::task::yield_now().await;
        answer
    }
}
