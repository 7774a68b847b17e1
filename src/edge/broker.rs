//! The queue's producer. Only the publisher is given one.

use wasm_bindgen::JsValue;
use worker::{Env, Queue, QueueContentType, RawMessageBuilder, SendMessage};

use crate::ports::{Broker, BrokerError, QueueMessage};

/// The binding of the main queue's producer.
const BINDING: &str = "OUTBOX_QUEUE";

/// The way into the main queue.
pub(super) struct QueueBroker(Option<Queue>);

impl QueueBroker {
    /// The binding, or a broker that refuses everything: the rows stay, and `/health` says why.
    pub(super) fn of(env: &Env) -> Self {
        Self(env.queue(BINDING).ok())
    }
}

impl Broker for QueueBroker {
    async fn send_batch(&self, messages: Vec<QueueMessage>) -> Result<(), BrokerError> {
        let queue = self.0.as_ref().ok_or(BrokerError::NotConfigured)?;
        // As text: typed bodies are mangled on their way through the platform's serialisers.
        let batch: Vec<SendMessage<JsValue>> = messages
            .into_iter()
            .map(|message| {
                RawMessageBuilder::new(JsValue::from_str(&message.body))
                    .delay_seconds(message.delay_seconds)
                    .build_with_content_type(QueueContentType::Text)
            })
            .collect();
        if batch.is_empty() {
            return Ok(());
        }
        queue.send_raw_batch(batch).await.map_err(|_| BrokerError::Refused)
    }
}
