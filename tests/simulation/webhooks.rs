//! The provider's webhooks: what becomes of a mail after it was accepted, and how the events of it reach the program: in
//! any order, twice, at once, hours or days late, or never.

use std::cell::Cell;
use std::rc::Rc;

use sealpost::devstack::provider::webhook::sign;
use sealpost::outbox::time::Millis;
use serde_json::{Map, Value as Json, json};

use super::choices::{Choices, Subject};
use super::doors::{Ask, ask};
use super::faults::WEBHOOKS;
use super::oracle::{Role, Told};
use super::report::Invariant;
use super::setting::{Program, hash_of};
use super::sim::Sim;

/// The secret in the settings of the tests.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// When the provider sends an event again that was not taken, each time after the try before, in ms.
const REPEATS_MS: [i64; 8] = [
    0, 5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 36_000_000,
];
/// How old a signature may be, less what two clocks differ, in ms.
const TOLERANCE_MS: i64 = 295_000;
const HOUR_MS: i64 = 3_600_000;

/// How the provider's events behave in one run.
pub struct Webhooks {
    active: bool,
    faults: [bool; WEBHOOKS.len()],
    ids: Cell<u64>,
}

/// One kind of news, with what belongs to it.
#[derive(Clone)]
struct Item {
    news: &'static str,
    extra: Json,
    suppresses: bool,
}

impl Webhooks {
    pub fn draw(choices: &Choices) -> Self {
        let active = choices.chance(Subject::News, 600);
        Self {
            active,
            faults: std::array::from_fn(|_| active && choices.chance(Subject::News, 400)),
            ids: Cell::new(0),
        }
    }

    fn fresh_id(&self) -> String {
        self.ids.set(self.ids.get() + 1);
        format!("msg_{}", self.ids.get())
    }
}

/// Whether this event meets a fault of the run.
fn meets(sim: &Sim, fault: usize, permille: u32) -> bool {
    let met = !sim.quiet.get() && sim.webhooks.faults[fault] && sim.choices.chance(Subject::News, permille);
    if met {
        sim.counted(WEBHOOKS[fault]);
    }
    met
}

fn item(news: &'static str) -> Item {
    let suppresses = news == "complained";
    Item {
        news,
        extra: json!({}),
        suppresses,
    }
}

fn bounce(kind: &str) -> Item {
    Item {
        news: "bounced",
        extra: json!({ "bounce": { "type": kind, "subType": "General", "message": "no", "diagnosticCode": [] } }),
        suppresses: kind == "Permanent",
    }
}

/// What becomes of a mail.
fn story(sim: &Sim) -> Vec<Item> {
    match sim.choices.below(Subject::News, 11) {
        0 | 1 => vec![item("sent"), item("delivered")],
        2 => vec![item("sent"), item("delivered"), item("opened"), item("clicked")],
        3 => vec![item("sent"), item("delivery_delayed"), item("delivered")],
        4 => vec![item("sent"), bounce("Permanent")],
        5 => vec![item("sent"), bounce("Transient"), item("delivered")],
        6 => vec![item("sent"), bounce("Undetermined")],
        7 => vec![item("sent"), item("delivered"), item("complained")],
        8 => vec![item("sent"), item("suppressed")],
        9 => vec![item("scheduled"), item("sent"), item("failed")],
        _ => vec![item("delivered"), bounce("Permanent"), item("complained")],
    }
}

/// The provider has accepted a mail: from now on it talks about it.
pub fn follow(sim: &Rc<Sim>, scope: &str, message_id: &str, to: &[String]) {
    if !sim.webhooks.active {
        return;
    }
    let hash = to.first().map(|to| hash_of(sim.config(Program::First), to));
    let mut after = 0;
    for item in story(sim) {
        after += match sim.choices.below(Subject::News, 4) {
            // Two things happen in the same moment.
            0 => 0,
            1 => i64::from(sim.choices.below(Subject::News, 1_000)),
            _ => i64::from(sim.choices.below(Subject::News, 120_000)),
        };
        let (world, scope, id, hash) = (Rc::clone(sim), scope.to_owned(), message_id.to_owned(), hash.clone());
        sim.kernel.spawn(0, async move {
            world.kernel.sleep(after).await;
            happens(&world, &scope, &id, item, hash).await;
        });
    }
}

/// Something happens to a mail now, and the provider says so at once.
pub fn tell(sim: &Rc<Sim>, scope: &str, message_id: &str, to: &str, news: &'static str, tagged: bool) {
    let item = if news == "bounced" {
        bounce("Permanent")
    } else {
        item(news)
    };
    let hash = hash_of(sim.config(Program::First), to);
    let Some((body, told)) = event(sim, scope, message_id, &item, Some(hash), tagged) else {
        panic!("the provider knows {message_id}");
    };
    let (world, event_id) = (Rc::clone(sim), sim.webhooks.fresh_id());
    sim.kernel.spawn(0, async move {
        send(&world, &event_id, &body, Some(told)).await;
    });
}

/// The event of something that happens now; nothing where the provider has forgotten the mail.
fn event(
    sim: &Sim,
    scope: &str,
    message_id: &str,
    item: &Item,
    hash: Option<String>,
    tagged: bool,
) -> Option<(String, Told)> {
    let mut extra: Map<String, Json> = item.extra.as_object().cloned().unwrap_or_default();
    if !tagged {
        extra.insert("tags".to_owned(), Json::Null);
        extra.insert("headers".to_owned(), Json::Null);
    }
    let at = sim.now();
    let kind = format!("email.{}", item.news);
    let body = sim
        .with_provider(scope, |model| model.event(Millis::new(at), message_id, &kind, extra))
        .ok()?;
    let told = Told {
        message_id: message_id.to_owned(),
        news: item.news,
        at,
        tagged,
        suppresses: hash.filter(|_| item.suppresses),
        heard_at: 0,
        may_be_lost: sim.setting.programs.contains(&Program::OtherAccount),
    };
    sim.oracle.said(&told);
    Some((body, told))
}

/// Something happens to a mail, and the provider says so.
async fn happens(sim: &Rc<Sim>, scope: &str, message_id: &str, item: Item, hash: Option<String>) {
    let tagged = !meets(sim, 5, 200);
    let Some((body, told)) = event(sim, scope, message_id, &item, hash, tagged) else {
        return;
    };
    sim.oracle.report().event(match item.news {
        "complained" => "news: complained",
        "bounced" => "news: bounced",
        "delivered" => "news: delivered",
        _ => "news: other",
    });
    strangers(sim);
    if meets(sim, 1, 150) {
        return;
    }
    let event_id = sim.webhooks.fresh_id();
    let wait = wait_ms(sim);
    if meets(sim, 0, 250) {
        // Where two endpoints lead here, the same news comes under two ids.
        let second = if sim.choices.chance(Subject::News, 300) {
            sim.webhooks.fresh_id()
        } else {
            event_id.clone()
        };
        let (world, event_id, body, told) = (Rc::clone(sim), second, body.clone(), told.clone());
        let again = wait + wait_ms(sim);
        sim.kernel.spawn(0, async move {
            world.kernel.sleep(again).await;
            send(&world, &event_id, &body, Some(told)).await;
        });
    }
    sim.kernel.sleep(wait).await;
    send(sim, &event_id, &body, Some(told)).await;
}

/// How long an event is on its way.
fn wait_ms(sim: &Sim) -> i64 {
    if meets(sim, 4, 400) {
        0
    } else if meets(sim, 2, 100) {
        HOUR_MS + i64::from(sim.choices.below(Subject::News, 20_000_000))
    } else if meets(sim, 3, 60) {
        24 * HOUR_MS + i64::from(sim.choices.below(Subject::News, 400_000_000))
    } else {
        i64::from(sim.choices.below(Subject::News, 3_000))
    }
}

/// Events that are none of ours, or that nobody understands: each must be taken, and change no row.
fn strangers(sim: &Rc<Sim>) {
    let time = Millis::new(sim.now()).to_string();
    let mut bodies = Vec::new();
    if meets(sim, 6, 100) {
        let rows = sim.oracle.rows();
        let id = rows.keys().next().cloned().unwrap_or_default();
        bodies.push(json!({ "type": "email.complained", "created_at": time, "data": {
            "email_id": "of-staging", "to": ["a@example.org"],
            "tags": { "sealpost_env": "staging", "sealpost_id": id } } }));
    }
    if meets(sim, 7, 100) {
        bodies.push(json!({ "type": "email.bounced", "created_at": time, "data": {
            "email_id": format!("unknown-{}", sim.now()), "to": ["b@example.org"], "bounce": { "type": "Permanent" } } }));
    }
    if meets(sim, 8, 100) {
        bodies.push(json!({ "type": "email.teleported", "created_at": time, "data": null }));
        bodies.push(json!(["what?"]));
    }
    for body in bodies {
        let (world, event_id) = (Rc::clone(sim), sim.webhooks.fresh_id());
        sim.kernel.spawn(0, async move {
            send(&world, &event_id, &body.to_string(), None).await;
        });
    }
}

/// Sends an event until it is taken, or until the provider gives up.
async fn send(sim: &Rc<Sim>, event_id: &str, body: &str, told: Option<Told>) {
    for wait in REPEATS_MS {
        sim.kernel.sleep(wait).await;
        let (quiet, signed_at) = (sim.quiet.get(), sim.now());
        match post(sim, event_id, body).await {
            Some(200..=299) => {
                if let Some(told) = told {
                    let heard_at = sim.now();
                    sim.oracle.heard(Told { heard_at, ..told }, &sim.store);
                }
                return;
            }
            // It was on its way for so long that its signature is too old; the next one is fresh.
            Some(401) if sim.now() - signed_at > TOLERANCE_MS => {}
            Some(status @ 400..=499) => {
                let what = format!("a right event was refused with {status}");
                sim.oracle.violation(Invariant::I1, what);
                return;
            }
            // Written before the quiet, and answered in it: what went wrong then may be told now.
            Some(_) if !quiet => {}
            Some(status) => {
                let what = format!("an event was answered {status} although nothing is wrong");
                sim.oracle.violation(Invariant::I1, what);
            }
            None => {}
        }
    }
    sim.oracle.report().event("news: the provider gave up");
}

/// One request to the door; `None` where no answer came.
async fn post(sim: &Rc<Sim>, event_id: &str, body: &str) -> Option<u16> {
    let now_s = sim.now().div_euclid(1_000);
    let signature = sign(SECRET, event_id, now_s, body).expect("the secret signs");
    let what = Ask {
        method: "POST",
        path: "/v1/receipts/resend".to_owned(),
        body: body.to_owned(),
        signature: Some([event_id.to_owned(), now_s.to_string(), signature]),
        ..Ask::default()
    };
    ask(sim, Role::Receipts, &what).await.map(|(status, _)| status)
}
