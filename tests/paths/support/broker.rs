//! A queue that keeps what it took, and can refuse.

use std::cell::{Cell, RefCell};

use sealpost::ports::{Broker, BrokerError, QueueMessage};

#[derive(Default)]
pub struct TestBroker {
    messages: RefCell<Vec<QueueMessage>>,
    refuses: Cell<bool>,
    /// Batches that were handed over, refused ones included.
    pub batches: Cell<usize>,
    /// Takes the batch and answers with an error all the same.
    pub lies: Cell<bool>,
}

impl TestBroker {
    pub fn refuse(&self, refuses: bool) {
        self.refuses.set(refuses);
    }

    /// All messages, which are gone then.
    pub fn take(&self) -> Vec<QueueMessage> {
        self.messages.take()
    }

    pub fn len(&self) -> usize {
        self.messages.borrow().len()
    }
}

impl Broker for TestBroker {
    async fn send_batch(&self, messages: Vec<QueueMessage>) -> Result<(), BrokerError> {
        self.batches.set(self.batches.get() + 1);
        assert!((1..=100).contains(&messages.len()), "a batch of {}", messages.len());
        let bytes: usize = messages.iter().map(|message| message.body.len() + 100).sum();
        assert!(bytes < 256_000, "a batch of {bytes} bytes");
        assert!(
            messages.iter().all(|message| message.delay_seconds <= 86_400),
            "a delay beyond the platform"
        );
        if self.refuses.get() {
            return Err(BrokerError::Refused);
        }
        self.messages.borrow_mut().extend(messages);
        if self.lies.get() {
            Err(BrokerError::Refused)
        } else {
            Ok(())
        }
    }
}
