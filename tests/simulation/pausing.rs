//! Operators who pause everything or one family, and lift it again, through their door and at the worst moments.

use std::rc::Rc;

use sealpost::outbox::time::Millis;
use serde_json::json;

use super::choices::Subject;
use super::people::give;
use super::sim::Sim;

/// How many of a thousand runs have such operators.
const PAUSING_PERMILLE: u32 = 300;
/// What they pause.
const SCOPES: [&str; 6] = ["*", "notice", "campaign", "invitation", "report", "*"];
/// They look for their moment this often, and so many times.
const LOOK_MS: i64 = 37;
const LOOKS_MAX: u32 = 2_000;
/// When most happens, in ms since the start.
const BUSY_MS: u32 = 240_000;

/// The moment at which an order is given.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Any.
    Now,
    /// A row is claimed.
    Claimed,
    /// The provider is called.
    Calling,
    /// A pause is probed.
    Probing,
    /// Something waits for the end of a pause.
    Waiting,
}

const MOMENTS: [Moment; 5] = [
    Moment::Now,
    Moment::Claimed,
    Moment::Calling,
    Moment::Probing,
    Moment::Waiting,
];

/// Starts the operators.
pub fn start(sim: &Rc<Sim>) {
    let about = Subject::Pace;
    if !sim.choices.chance(about, PAUSING_PERMILLE) {
        return;
    }
    let operators = 1 + sim.choices.below(about, 3);
    for _ in 0..operators {
        let at = i64::from(sim.choices.below(about, BUSY_MS));
        let world = Rc::clone(sim);
        sim.kernel.spawn(0, async move {
            world.kernel.sleep(at).await;
            operator(&world).await;
        });
    }
}

/// Pauses once, and perhaps lifts, and perhaps pauses again.
async fn operator(sim: &Rc<Sim>) {
    let about = Subject::Pace;
    let scope = sim.choices.one(about, &SCOPES);
    for _ in 0..=sim.choices.below(about, 2) {
        moment(sim, &MOMENTS[..3]).await;
        if sim.quiet.get() {
            return;
        }
        let lasts = sim.choices.one(about, &[20_000, 90_000, 300_000, 1_200_000]);
        pause(sim, scope, lasts).await;
        if sim.choices.chance(about, 600) {
            moment(sim, &MOMENTS).await;
            lift(sim, scope).await;
        }
    }
}

/// Waits for a moment of one of these kinds.
async fn moment(sim: &Rc<Sim>, kinds: &[Moment]) {
    let about = Subject::Pace;
    let kind = sim.choices.one(about, kinds);
    let after = sim.choices.one(about, &[0, 0, 5, 20, 200]);
    for _ in 0..LOOKS_MAX {
        let has = |status: &str, cause: &str| {
            let rows = sim.oracle.rows();
            let mut alike = rows.values().filter(|row| row.status == status);
            alike.any(|row| cause.is_empty() || row.cause == cause)
        };
        let is_there = match kind {
            Moment::Now => true,
            Moment::Claimed => has("processing", ""),
            Moment::Calling => sim.oracle.is_calling(),
            Moment::Probing => sim.oracle.is_probing(),
            Moment::Waiting => has("retry", "paused"),
        };
        if is_there || sim.quiet.get() {
            break;
        }
        sim.kernel.sleep(LOOK_MS).await;
    }
    sim.kernel.sleep(after).await;
}

async fn pause(sim: &Rc<Sim>, scope: &'static str, lasts: i64) {
    let until = sim.now() + lasts;
    let order = json!({ "scope": scope, "until": Millis::new(until).to_string(), "reason": "maintenance" });
    // A version that was rolled back does not know every family, and an order that is repeated may come too late.
    let answer = give(sim, "operator: pauses", "/v1/pauses".to_owned(), &order, &[422]).await;
    if answer.is_some_and(|answer| answer["scope"] == scope) {
        sim.oracle.is_paused(scope, until);
    }
}

async fn lift(sim: &Rc<Sim>, scope: &'static str) {
    sim.oracle.is_to_be_lifted(scope);
    let path = format!("/v1/pauses/{scope}/lift");
    give(sim, "operator: lifts a pause", path, &json!({}), &[404]).await;
}
