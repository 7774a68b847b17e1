//! The ledger under load: sends with names, facts in several revisions with one-time codes, replays of everything that
//! was stated, and backfills that race the intents that they speak of.

use std::rc::Rc;

use sealpost::config::Config;
use sealpost::intake::{Accepted, IntakeError};
use sealpost::outbox::status::Status;
use sealpost::outbox::time::Millis;
use sealpost::replay::{Answered, Outcome, replay};
use serde_json::{Value as Json, json};

use super::choices::{Choices, Subject};
use super::oracle::Role;
use super::ports::Worker;
use super::setting::{Fact, MARKER};
use super::sim::Sim;
use super::times::Times;

const DAY: i64 = 86_400_000;

/// The family whose mails carry a link that is made anew by every caller.
pub const SECRET_FAMILY: &str = "renewal_notice";

/// What a run's callers do beside stating facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ledger {
    /// So many names are shared by all sends; 0 for none.
    names: u32,
    /// So many of a thousand requests come as a replay.
    replays: u32,
    /// So many facts are said to have been sent by another system, at some time of the run.
    backfills: u32,
    /// Revisions of one fact whose mails carry a link.
    pub revisions: u32,
}

/// What became of one fact of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The row.
    pub id: String,
    /// Its key is known with another meaning.
    pub changed: bool,
}

impl Ledger {
    pub fn draw(choices: &Choices) -> Self {
        let about = Subject::Ledger;
        Self {
            names: choices.one(about, &[0, 0, 0, 1, 2]),
            replays: choices.one(about, &[0, 300, 900]),
            backfills: choices.one(about, &[0, 0, 1, 2]),
            revisions: choices.one(about, &[0, 0, 2, 3]),
        }
    }

    /// The facts that it adds to those of a run that begins at `start`; and every send gets its name.
    pub fn add(&self, facts: &mut Vec<Fact>, start: i64) {
        let number = facts.len();
        facts.extend((0..self.revisions).map(|revision| revised(number, revision, start)));
        for (number, fact) in facts.iter_mut().enumerate().filter(|_| self.names > 0) {
            let name = format!("send {}", number % self.names as usize);
            for intent in [&mut fact.intent, &mut fact.other] {
                intent["id"] = json!(name);
            }
        }
    }
}

/// One revision of the fact that has a link.
fn revised(number: usize, revision: u32, start: i64) -> Fact {
    let name = format!("fact {} revision {revision}", number);
    let to = format!("{MARKER}.r{revision}@example.org");
    // Its window is open from a day before the run on until a day after its begin.
    let charge = start + 2 * DAY;
    let intent = json!({
        "family": SECRET_FAMILY, "to": to, "revision": revision,
        "businessAt": Millis::new(charge).to_string(),
        "key": { "subscriptionId": "s1", "periodStart": "p1", "kind": "t72" },
        "data": { "company": "Example", "customerName": "Ada", "plan": "Tea", "renewsOn": "soon", "amount": "EUR 1",
            "manageUrl": "https://example.org/manage" }
    });
    let mut other = intent.clone();
    other["data"]["plan"] = json!("Coffee");
    Fact {
        name,
        to,
        family: SECRET_FAMILY,
        intent,
        other,
        times: Times {
            opens: Some(start - DAY),
            closes: Some(start + DAY),
            quiet: None,
        },
        last_moment: None,
    }
}

/// The intent as one caller states it: every caller mints a link of its own.
pub fn minted(intent: &Json, caller: u64) -> Json {
    let mut intent = intent.clone();
    if intent["family"] == SECRET_FAMILY && !intent["revision"].is_null() {
        intent["secret"] = json!({ "cancelUrl": format!("https://example.org/cancel?t={MARKER}.{caller}.") });
    }
    intent
}

/// Whether the next request comes as a replay.
pub fn is_replayed(sim: &Sim) -> bool {
    let permille = sim.setting.ledger.replays;
    permille > 0 && sim.choices.chance(Subject::Ledger, permille)
}

/// Takes a request as a replay; what its items came to is told in the order of the request.
pub async fn take(
    worker: &Worker,
    config: &Config,
    intents: &[Json],
    batch: &str,
) -> Result<(Vec<Replayed>, Accepted), IntakeError> {
    let mut intents = intents.to_vec();
    for intent in &mut intents {
        (worker.sim.planted.replayed)(batch, intent);
    }
    let body = json!({ "batch": batch, "intents": intents }).to_string();
    let (_, _, answered) = replay(worker, config, body.as_bytes()).await?;
    let Answered::Done(done) = answered else {
        unreachable!("nobody asked for a dry run");
    };
    let items = done.items.into_iter().map(|item| Replayed {
        id: item.id,
        changed: item.outcome == Outcome::Changed,
    });
    let accepted = Accepted {
        receipts: Vec::new(),
        to_publish: done.to_publish,
    };
    Ok((items.collect(), accepted))
}

/// Starts whoever says that another system sent some of the facts.
pub fn start(sim: &Rc<Sim>) {
    let facts = u32::try_from(sim.setting.facts.len()).expect("few");
    let spread = u32::try_from(sim.setting.active_ms.min(120_000)).expect("short");
    for _ in 0..sim.setting.ledger.backfills {
        let number = sim.choices.below(Subject::Ledger, facts);
        let at = i64::from(sim.choices.below(Subject::Ledger, spread));
        let (fact, world) = (sim.setting.facts[number as usize].clone(), Rc::clone(sim));
        sim.kernel.spawn(0, async move {
            world.kernel.sleep(at).await;
            backfill(&world, &fact).await;
        });
    }
}

async fn backfill(sim: &Rc<Sim>, fact: &Fact) {
    let (_, instance) = sim.any_instance();
    let worker = Worker::new(sim, Role::Intake, instance);
    let config = worker.config();
    let body = json!({ "batch": "legacy", "mode": "backfill", "intents": [fact.intent] }).to_string();
    sim.note(|| format!("{} is said to have been sent by another system", fact.name));
    // Whatever it is answered, even nothing: the oracle looks at the rows.
    if let Ok((_, _, Answered::Done(done))) = replay(&worker, &config, body.as_bytes()).await {
        for item in done.items {
            let made = item.outcome == Outcome::New;
            sim.oracle
                .backfilled(&fact.name, &item.id, made && item.status == Status::External);
        }
    }
}
