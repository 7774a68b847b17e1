//! A donations platform in one of the three designs, with hands on its crashes, its broker and its relay.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use sealpost::intake::{Accepted, IntakeError, record_intents};
use sealpost::relay::{Tick, tick};
use serde_json::{Value as Json, json};

use crate::dual;
use crate::ear::{Ear, Listening};
use crate::support::{TestQueue, TestWorld, die_when, integer};

/// From one turn of the relay to the next; long enough for the relay to take over from a request that died.
pub const TURN: Duration = Duration::from_secs(61);
/// Turns after which a pledge that has not settled counts as stuck: three quarters of an hour.
const TURNS_MAX: usize = 45;
/// More awaits than any request, turn or publication here has; who dies at each in turn stops there at the latest.
pub const AWAITS_MAX: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    SaveThenPublish,
    PublishThenSave,
    Outbox,
}

pub const DESIGNS: [Design; 3] = [Design::SaveThenPublish, Design::PublishThenSave, Design::Outbox];

impl Design {
    pub const fn name(self) -> &'static str {
        match self {
            Self::SaveThenPublish => "save-then-publish",
            Self::PublishThenSave => "publish-then-save",
            Self::Outbox => "outbox",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Pledge {
    pub id: String,
    pub cents: i64,
}

/// The pledge `p-NUMBER` of 5000 cents.
pub fn pledge(number: usize) -> Pledge {
    Pledge {
        id: format!("p-{number}"),
        cents: 5_000,
    }
}

/// What the donor was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Recorded,
    Failed,
}

pub struct Platform {
    pub design: Design,
    pub world: TestWorld,
    pub ear: Ear,
    pub queue: TestQueue,
    /// The message ids that the receiver of the dual writes has handled; they outlive the platform's process.
    pub handled: RefCell<BTreeSet<String>>,
}

impl Platform {
    pub async fn new(design: Design) -> Self {
        let platform = Self {
            design,
            world: TestWorld::new().await,
            ear: Ear::default(),
            queue: TestQueue::default(),
            handled: RefCell::default(),
        };
        dual::prepare(&platform).await;
        platform
    }

    pub fn broker(&self) -> Listening<'_> {
        Listening {
            world: &self.world,
            ear: &self.ear,
        }
    }

    /// The request of a donor, up to its answer.
    pub async fn pledge(&self, pledge: &Pledge) -> Reply {
        match self.design {
            Design::SaveThenPublish => dual::save_then_publish(self, pledge).await,
            Design::PublishThenSave => dual::publish_then_save(self, pledge).await,
            Design::Outbox => match self.record(std::slice::from_ref(pledge)).await {
                Ok(_) => Reply::Recorded,
                Err(_) => Reply::Failed,
            },
        }
    }

    /// The product's own intake of these pledges' receipts.
    pub async fn record(&self, pledges: &[Pledge]) -> Result<Accepted, IntakeError> {
        let intents: Vec<Json> = pledges.iter().map(receipt).collect();
        let body = json!({ "intents": intents }).to_string();
        record_intents(&self.world, &self.world.config, body.as_bytes()).await
    }

    /// The same request, whose process dies straight after its first write, whatever that is in this design.
    pub async fn pledge_and_die(&self, pledge: &Pledge) {
        let before = self.writes();
        let reply = die_when(|| self.writes() > before, self.pledge(pledge)).await;
        assert_eq!(reply, None, "the process died before it could answer");
    }

    /// The same request, whose process dies at its await number `at`; `None` where it died.
    pub async fn pledge_and_die_at(&self, pledge: &Pledge, at: usize) -> Option<Reply> {
        die_when(awaits(at), self.pledge(pledge)).await
    }

    /// Transactions that the database has run and messages that the broker has taken.
    fn writes(&self) -> usize {
        self.world.transport.executed() + self.ear.count()
    }

    /// A minute passes, and the relay takes its turn where the design has one.
    pub async fn relay_turn(&self) -> Option<Tick> {
        self.world.clock.advance(TURN);
        match self.design {
            Design::SaveThenPublish | Design::PublishThenSave => None,
            Design::Outbox => Some(tick(&self.world, &self.broker(), &self.world.config).await),
        }
    }

    /// The product's relay, which dies at the first await at which `marker` is true. Whether it died.
    pub async fn relay_dies(&self, marker: impl FnMut() -> bool) -> bool {
        self.world.clock.advance(TURN);
        let broker = self.broker();
        let turn = tick(&self.world, &broker, &self.world.config);
        die_when(marker, turn).await.is_none()
    }

    /// The receivers handle everything that waits in the queue.
    pub async fn deliver(&self) {
        match self.design {
            Design::SaveThenPublish | Design::PublishThenSave => dual::receive(self).await,
            Design::Outbox => self.queue.deliver_all(&self.world).await,
        }
    }

    /// Nothing goes wrong any more: turns and deliveries until nothing is left to do.
    pub async fn settle(&self) {
        for _ in 0..TURNS_MAX {
            self.relay_turn().await;
            self.deliver().await;
            if self.open().await == 0 {
                return;
            }
        }
        panic!("{} pledges are stuck: {}", self.open().await, self.world.notes.text());
    }

    /// Rows of the outbox that are still on their way; the other designs remember nothing that is.
    async fn open(&self) -> i64 {
        let rows = self
            .world
            .sql("SELECT count(*) FROM outbox WHERE relay_at IS NOT NULL", Vec::new())
            .await;
        integer(&rows[0][0])
    }
}

/// True from the await number `at` on, counted from 1.
pub fn awaits(at: usize) -> impl FnMut() -> bool {
    let mut passed = 0;
    move || {
        passed += 1;
        passed >= at
    }
}

/// The intent of a pledge's receipt.
fn receipt(pledge: &Pledge) -> Json {
    json!({
        "family": "pledge_receipt",
        "key": { "pledgeId": pledge.id },
        "to": { "email": "ada@example.com", "name": "Ada" },
        "data": {
            "company": "Northwind",
            "donorName": "Ada",
            "amount": format!("{} cents", pledge.cents),
            "beneficiary": "the Library Fund",
            "reference": pledge.id,
            "pledgedOn": "1 January 2026",
        },
    })
}
