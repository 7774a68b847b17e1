//! A queue with the platform's rules: at least once, in any order, in batches, one decision for each message, a delay
//! for a retry, a dead-letter queue for what was retried too often, and no promise that a message is there for ever.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sealpost::consume::{Decision, Delivery, consume};
use sealpost::dead_letter::consume_dead_letters;

use super::choices::Subject;
use super::faults::{OTHERS, QUEUE};
use super::kernel::TaskId;
use super::oracle::Role;
use super::ports::Worker;
use super::script::Io;
use super::sim::Sim;

/// Consumers of one queue at a time.
const CONSUMERS_MAX: u32 = 2;
/// Messages of one batch.
const BATCH_MAX: usize = 100;
/// Copies that a queue makes in one run: copies of copies of a message that is retried would double without end, which
/// no queue does.
const COPIES_MAX: u32 = 60;
/// How soon a batch of a dead consumer comes again, at the least.
const VISIBLE_AFTER_MS: i64 = 10_000;
/// Input of other producers and other times.
const STRANGE: [&str; 4] = [
    "hello",
    r#"{"kind":"sealpost-outbox","version":99,"outboxId":"ntc_00000000000000000000"}"#,
    r#"{"kind":"sealpost-outbox","version":1,"outboxId":"ntc_00000000000000000000000000"}"#,
    "null",
];

/// A message that waits.
#[derive(Clone, Debug)]
pub struct Message {
    pub body: String,
    pub visible_at: i64,
    pub deliveries: u32,
}

/// One queue.
pub struct Queue {
    name: &'static str,
    max_retries: u32,
    messages: RefCell<Vec<Message>>,
    consumers: Cell<u32>,
    /// Copies that it made by itself.
    copies: Cell<u32>,
    /// Delivers nothing by itself.
    held: Cell<bool>,
}

impl Queue {
    pub fn new(name: &'static str, max_retries: u32) -> Self {
        Self {
            name,
            max_retries,
            messages: RefCell::default(),
            consumers: Cell::new(0),
            copies: Cell::new(0),
            held: Cell::new(false),
        }
    }

    /// Messages that wait, for whom nobody works.
    pub fn len(&self) -> usize {
        self.messages.borrow().len()
    }

    /// Whether nothing waits and nobody works.
    pub fn is_idle(&self) -> bool {
        self.len() == 0 && self.consumers.get() == 0
    }

    /// The bodies that wait.
    pub fn bodies(&self) -> Vec<String> {
        self.messages
            .borrow()
            .iter()
            .map(|message| message.body.clone())
            .collect()
    }

    /// Stores a message, to be seen after a delay.
    pub fn put(&self, sim: &Rc<Sim>, body: String, delay_ms: i64, deliveries: u32) {
        let visible_at = sim.now() + delay_ms;
        self.messages.borrow_mut().push(Message {
            body,
            visible_at,
            deliveries,
        });
        let wait = if sim.quiet.get() {
            1
        } else {
            i64::from(sim.choices.below(Subject::Queue, 2_000)) + 1
        };
        self.look(sim, delay_ms + wait);
    }

    /// Looks for a batch after a while.
    fn look(&self, sim: &Rc<Sim>, wait_ms: i64) {
        let (later, dead) = (Rc::clone(sim), self.is_dead_letters());
        sim.kernel.spawn(0, async move {
            later.kernel.sleep(wait_ms).await;
            if dead {
                later.dead.deliver(&later)
            } else {
                later.main.deliver(&later)
            }
        });
    }

    fn is_dead_letters(&self) -> bool {
        self.name != "main"
    }

    /// Takes everything that waits, so that nobody is given it.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut *self.messages.borrow_mut())
    }

    /// Delivers nothing by itself, or begins to again.
    pub fn hold(&self, sim: &Rc<Sim>, held: bool) {
        self.held.set(held);
        if !held && self.len() > 0 {
            self.look(sim, 1);
        }
    }

    fn deliver(&self, sim: &Rc<Sim>) {
        if self.held.get() {
            return;
        }
        if self.consumers.get() >= CONSUMERS_MAX {
            self.look(sim, 500);
            return;
        }
        let batch = self.batch(sim);
        if batch.is_empty() {
            return;
        }
        self.hand_over(sim, batch);
    }

    /// Gives a batch to a consumer.
    pub fn hand_over(&self, sim: &Rc<Sim>, batch: Vec<Message>) -> TaskId {
        self.consumers.set(self.consumers.get() + 1);
        let (_, instance) = sim.any_instance();
        let role = if self.is_dead_letters() {
            Role::DeadLetters
        } else {
            Role::Consumer
        };
        let worker = Worker::new(sim, role, instance);
        let invocation = worker.who.invocation;
        sim.note(|| {
            format!(
                "{} delivers {} to #{invocation} ({})",
                self.name,
                batch.len(),
                instance.program.name()
            )
        });
        let dies_in = sim.mix().and_then(|mix| {
            sim.choices
                .chance(Subject::Deaths, mix.death_permille)
                .then(|| sim.choices.below(Subject::Deaths, 16) + 1)
        });
        let (world, messages) = (Rc::clone(sim), batch.clone());
        let on_death: Box<dyn FnOnce()> = Box::new(move || {
            world.counted(OTHERS[0]);
            world.note(|| format!("#{invocation} dies with {} messages", messages.len()));
            let queue = if role == Role::DeadLetters {
                &world.dead
            } else {
                &world.main
            };
            queue.consumers.set(queue.consumers.get() - 1);
            if world.planted.acknowledges_first {
                return;
            }
            for message in messages {
                let wait = VISIBLE_AFTER_MS + i64::from(world.choices.below(Subject::Queue, 60_000));
                queue.again(&world, message, wait);
            }
        });
        sim.kernel
            .spawn_mortal(instance.group, dies_in, Some(on_death), handle(worker, role, batch))
    }

    /// Takes what is visible, in some order, and does to it what queues do.
    fn batch(&self, sim: &Rc<Sim>) -> Vec<Message> {
        let now = sim.now();
        let chance = |at: usize| {
            sim.mix()
                .is_some_and(|mix| sim.choices.chance(Subject::Queue, mix.queue_permille[at]))
        };
        let mut batch = Vec::new();
        let mut twice = Vec::new();
        self.messages.borrow_mut().retain(|message| {
            let taken = message.visible_at <= now && batch.len() < BATCH_MAX;
            if taken {
                batch.push(message.clone());
            }
            !taken
        });
        batch.retain(|message| {
            let vanishes = chance(3);
            if vanishes {
                sim.counted(QUEUE[3]);
                sim.note(|| format!("{}: a message vanishes", self.name));
            } else if chance(2) && self.copies.get() < COPIES_MAX {
                self.copies.set(self.copies.get() + 1);
                sim.counted(QUEUE[2]);
                twice.push(message.clone());
            }
            !vanishes
        });
        for message in twice {
            let delay = i64::from(sim.choices.below(Subject::Queue, 30_000));
            self.put(sim, message.body, delay, message.deliveries);
        }
        if batch.len() > 1 && chance(4) {
            sim.counted(QUEUE[4]);
            let at = sim
                .choices
                .below(Subject::Queue, u32::try_from(batch.len()).expect("few")) as usize;
            batch.rotate_left(at);
        }
        if !batch.is_empty() && chance(5) {
            sim.counted(QUEUE[5]);
            batch.push(Message {
                body: sim.choices.one(Subject::Queue, &STRANGE).to_owned(),
                visible_at: now,
                deliveries: 0,
            });
        }
        batch
    }

    /// A message that was not acknowledged.
    fn again(&self, sim: &Rc<Sim>, message: Message, wait_ms: i64) {
        let deliveries = message.deliveries + 1;
        if deliveries > self.max_retries {
            if self.is_dead_letters() {
                sim.oracle.report().event("dead-letter queue: message dropped");
            } else {
                sim.oracle.report().event("queue: message to the dead-letter queue");
                sim.note(|| format!("{}: a message goes to the dead-letter queue", self.name));
                sim.dead.put(sim, message.body, 0, 0);
            }
            return;
        }
        self.put(sim, message.body, wait_ms, deliveries);
    }
}

/// One batch, as the platform's handler runs it.
async fn handle(worker: Worker, role: Role, batch: Vec<Message>) {
    let sim = Rc::clone(&worker.sim);
    let config = worker.config();
    let deliveries: Vec<Delivery> = batch
        .iter()
        .map(|message| Delivery {
            body: Some(message.body.clone()),
            attempts: message.deliveries + 1,
        })
        .collect();
    let queue = if role == Role::DeadLetters {
        &sim.dead
    } else {
        &sim.main
    };
    if sim.planted.acknowledges_first {
        for message in &batch {
            sim.oracle.acknowledged(worker.who, &message.body, &sim.store);
        }
    }
    let decisions = if role == Role::DeadLetters {
        consume_dead_letters(&worker, &config, &deliveries).await
    } else {
        consume(&worker, &config, &deliveries).await
    };
    let decisions = (sim.planted.decisions)(decisions);
    sim.oracle.decisions(batch.len(), &decisions);
    for (message, decision) in batch.iter().zip(&decisions) {
        if *decision == Decision::Acknowledge {
            sim.oracle.acknowledged(worker.who, &message.body, &sim.store);
        }
    }
    // Written, and not yet acknowledged.
    let scripted = sim.script.next(worker.who, Io::Acknowledge);
    sim.kernel.sleep(sim.latency()).await;
    scripted.before(&sim).await;
    queue.consumers.set(queue.consumers.get() - 1);
    let mut acknowledged = 0;
    for (number, message) in batch.into_iter().enumerate() {
        match decisions.get(number) {
            // The platform takes a message without a decision for acknowledged.
            Some(Decision::Acknowledge) | None => acknowledged += 1,
            Some(Decision::Retry { delay_seconds }) => queue.again(&sim, message, i64::from(*delay_seconds) * 1_000),
        }
    }
    sim.note(|| format!("#{} acknowledges {acknowledged}", worker.who.invocation));
}
