//! The way into the queue.

use std::rc::Rc;

use sealpost::ports::{Broker, BrokerError, QueueMessage};

use crate::choices::Subject;
use crate::faults::OTHERS;
use crate::oracle::Who;
use crate::script::Io;
use crate::sim::Sim;

/// The way into the queue.
pub struct SimBroker {
    pub(super) sim: Rc<Sim>,
    pub(super) who: Who,
}

impl SimBroker {
    /// The time of the one who sends, in ms.
    pub fn now(&self) -> i64 {
        self.sim.now() + self.who.skew
    }
}

impl Broker for SimBroker {
    async fn send_batch(&self, messages: Vec<QueueMessage>) -> Result<(), BrokerError> {
        (self.sim.planted.broker)(self.send(messages).await)
    }
}

impl SimBroker {
    async fn send(&self, messages: Vec<QueueMessage>) -> Result<(), BrokerError> {
        let sim = &self.sim;
        let messages = (sim.planted.publish)(sim, messages);
        let chance = |at: usize| {
            sim.mix()
                .is_some_and(|mix| sim.choices.chance(Subject::Queue, mix.queue_permille[at]))
        };
        let away = sim
            .mix()
            .and_then(|mix| mix.queue_outage)
            .is_some_and(|outage| outage.covers(sim.now() - sim.setting.start_ms));
        if away {
            sim.counted(OTHERS[10]);
        }
        let scripted = sim.script.next(self.who, Io::Queue);
        let drawn = || (away || chance(0), chance(1));
        let (refused, lied) = scripted.queue().unwrap_or_else(drawn);
        sim.kernel.sleep(sim.latency()).await;
        scripted.before(sim).await;
        if refused {
            sim.counted(crate::faults::QUEUE[0]);
            sim.note(|| format!("#{} the queue refuses {}", self.who.invocation, messages.len()));
            return Err(BrokerError::Refused);
        }
        for message in messages {
            sim.oracle.public_text("a message", &message.body);
            sim.oracle.handed_over(self.who, &message.body);
            sim.main
                .put(sim, message.body, i64::from(message.delay_seconds) * 1_000, 0);
        }
        scripted.after(sim).await;
        sim.way_back(sim.latency()).await;
        if lied {
            sim.counted(crate::faults::QUEUE[1]);
            sim.note(|| format!("#{} the queue stored, and answers with an error", self.who.invocation));
            return Err(BrokerError::Refused);
        }
        Ok(())
    }
}
