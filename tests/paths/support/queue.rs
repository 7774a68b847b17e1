//! The queue with its memory: what was retried comes again after its delay, with one more delivery counted.

use std::cell::RefCell;
use std::time::Duration;

use sealpost::consume::{Decision, Delivery, consume};
use sealpost::outbox::envelope::Envelope;
use sealpost::outbox::time::Millis;
use sealpost::ports::Clock as _;

use super::world::TestWorld;

struct Waiting {
    body: String,
    due: Millis,
    attempts: u32,
}

#[derive(Default)]
pub struct TestQueue(RefCell<Vec<Waiting>>);

impl TestQueue {
    /// Messages that wait in the queue.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Puts one envelope of each row in.
    pub fn push(&self, world: &TestWorld, ids: &[&str]) {
        for id in ids {
            self.put(Envelope::to_row(id).to_body(), world.clock.now(), 1);
        }
    }

    fn put(&self, body: String, due: Millis, attempts: u32) {
        self.0.borrow_mut().push(Waiting { body, due, attempts });
    }

    /// Takes what the publisher handed over, and returns the messages that are due, at most a batch.
    fn batch(&self, world: &TestWorld) -> Vec<Delivery> {
        let now = world.clock.now();
        for message in world.broker.take() {
            let due = now.plus(Duration::from_secs(message.delay_seconds.into()));
            self.put(message.body, due, 1);
        }
        let mut waiting = self.0.borrow_mut();
        let mut batch = Vec::new();
        let mut kept = Vec::new();
        for message in waiting.drain(..) {
            if message.due <= now && batch.len() < 100 {
                batch.push(Delivery {
                    body: Some(message.body),
                    attempts: message.attempts,
                });
            } else {
                kept.push(message);
            }
        }
        *waiting = kept;
        batch
    }

    fn put_back(&self, world: &TestWorld, delivery: &Delivery, delay: Duration) {
        self.put(
            delivery.body.clone().unwrap_or_default(),
            world.clock.now().plus(delay),
            delivery.attempts + 1,
        );
    }

    /// Delivers one batch of what is due; returns how many messages it had.
    pub async fn deliver(&self, world: &TestWorld) -> usize {
        let batch = self.batch(world);
        if batch.is_empty() {
            return 0;
        }
        let decisions = consume(world, &world.config, &batch).await;
        assert_eq!(decisions.len(), batch.len(), "one decision for each message");
        for (delivery, decision) in batch.iter().zip(decisions) {
            match decision {
                Decision::Acknowledge => {}
                Decision::Retry { delay_seconds } => {
                    assert!((1..=86_400).contains(&delay_seconds), "{delay_seconds}");
                    self.put_back(world, delivery, Duration::from_secs(delay_seconds.into()));
                }
            }
        }
        batch.len()
    }

    /// Lets a worker run one batch for so many awaits and die; its messages come again after `visible_after`. Whether
    /// it died.
    pub async fn die_in_batch(&self, world: &TestWorld, polls: usize, visible_after: Duration) -> bool {
        let mut polled = 0;
        let marker = || {
            polled += 1;
            polled >= polls
        };
        self.die_in_batch_when(world, marker, visible_after).await
    }

    /// The same, at the first await at which `marker` is true.
    pub async fn die_in_batch_when(
        &self,
        world: &TestWorld,
        marker: impl FnMut() -> bool,
        visible_after: Duration,
    ) -> bool {
        let batch = self.batch(world);
        let decisions = super::die_when(marker, consume(world, &world.config, &batch)).await;
        let died = decisions.is_none();
        for (position, delivery) in batch.iter().enumerate() {
            match decisions.as_ref().map(|all| all[position]) {
                // Its acknowledgement is as good as lost with a worker that died.
                None => self.put_back(world, delivery, visible_after),
                Some(Decision::Acknowledge) => {}
                Some(Decision::Retry { delay_seconds }) => {
                    self.put_back(world, delivery, Duration::from_secs(delay_seconds.into()));
                }
            }
        }
        died
    }

    /// Delivers all that is due now.
    pub async fn deliver_all(&self, world: &TestWorld) {
        while self.deliver(world).await > 0 {}
    }

    /// Lets time run: after each step a tick of the relay, and all deliveries that are due.
    pub async fn run_for(&self, world: &TestWorld, time: Duration, step: Duration) {
        let end = world.clock.now().plus(time);
        while world.clock.now() < end {
            world.clock.advance(step);
            world.tick().await;
            self.deliver_all(world).await;
        }
    }
}
