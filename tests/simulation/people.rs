//! People, while workers run: operators who judge, retry, suppress, lift and replay, and recipients who have had enough.

use std::rc::Rc;

use sealpost::outbox::unsubscribe::token;
use serde_json::{Value as Json, json};

use super::choices::{Choices, Subject};
use super::doors::{Ask, ask};
use super::oracle::Role;
use super::report::Invariant;
use super::setting::Program;
use super::sim::Sim;
use super::store::OutboxRow;

const OPERATOR: &str = "Bearer operator";
const PRODUCER: &str = "Bearer producer";
/// How often a person repeats what got no good answer, and how long they wait before, in ms.
const TRIES_MAX: u32 = 4;
const AGAIN_MS: i64 = 20_000;
/// A person knows that nothing went out when the provider has nothing this long after the last call, in ms: past every
/// time limit of a call that still runs.
const KNOWN_AFTER_MS: i64 = 300_000;

/// How busy people are in one run.
pub struct People {
    /// Orders while faults last.
    orders: u32,
    /// They tidy up when all is quiet.
    tidy: bool,
}

impl People {
    pub fn draw(choices: &Choices) -> Self {
        let active = choices.chance(Subject::News, 500);
        Self {
            orders: if active { 1 + choices.below(Subject::News, 8) } else { 0 },
            tidy: choices.chance(Subject::News, 500),
        }
    }
}

/// Starts what people do while faults last.
pub fn start(sim: &Rc<Sim>) {
    let active = u32::try_from(sim.setting.active_ms).expect("hours");
    for _ in 0..sim.people.orders {
        let at = i64::from(sim.choices.below(Subject::News, active));
        let world = Rc::clone(sim);
        sim.kernel.spawn(0, async move {
            world.kernel.sleep(at).await;
            act(&world).await;
        });
    }
}

/// When all is quiet, whatever asks for a person is decided. Whether anybody does so in this run.
pub fn tidy(sim: &Rc<Sim>) -> bool {
    if !sim.people.tidy {
        return false;
    }
    sim.note(|| "people tidy up".to_owned());
    let rows = sim.oracle.rows();
    for row in rows.values().filter(|row| asks(row)) {
        let (world, row) = (Rc::clone(sim), row.clone());
        sim.kernel.spawn(0, async move { judge(&world, &row).await });
    }
    let world = Rc::clone(sim);
    sim.kernel.spawn(0, async move {
        retry_dead(&world).await;
    });
    true
}

fn asks(row: &OutboxRow) -> bool {
    row.status == "unknown" && row.resolved_at.is_none()
}

/// One thing that somebody does now.
async fn act(sim: &Rc<Sim>) {
    let rows = sim.oracle.rows();
    let any = |sim: &Sim| {
        let at = sim
            .choices
            .below(Subject::News, u32::try_from(rows.len()).expect("few")) as usize;
        rows.values().nth(at).cloned()
    };
    match sim.choices.below(Subject::News, 8) {
        0 | 1 => {
            if let Some(row) = rows.values().find(|row| asks(row)) {
                judge(sim, row).await;
            }
        }
        2 => retry_dead(sim).await,
        3 => {
            // Rather somebody who is suppressed.
            let suppressed = sim.store.suppressed();
            let row = rows
                .values()
                .find(|row| suppressed.contains(&(row.recipient_hash.clone(), "*".to_owned())))
                .cloned();
            if let Some(row) = row.or_else(|| any(sim)) {
                let order = json!({ "recipientHash": row.recipient_hash, "note": "somebody called" });
                give(
                    sim,
                    "operator: lifts",
                    "/v1/suppressions/lift".to_owned(),
                    &order,
                    &[404],
                )
                .await;
            }
        }
        4 => {
            if let Some(row) = any(sim) {
                let order = json!({ "recipientHash": row.recipient_hash, "family": "*" });
                give(sim, "operator: suppresses", "/v1/suppressions".to_owned(), &order, &[]).await;
            }
        }
        5 => {
            if let Some(row) = any(sim) {
                click(sim, &row).await;
            }
        }
        6 => {
            if let Some(row) = any(sim) {
                let path = format!("/v1/intents/{}/cancel", row.id);
                let name = "producer: cancels";
                give_as(sim, PRODUCER, name, path, &json!({}), &[409]).await;
            }
        }
        _ => {
            let hash = sim.store.one_text(
                "SELECT hash FROM parking WHERE state = 'parked' AND ?1 = '' LIMIT 1",
                "",
            );
            if let Some(hash) = hash {
                let path = format!("/v1/parking/{hash}/replay");
                give(sim, "operator: replays", path, &json!({}), &[409]).await;
            }
        }
    }
}

async fn retry_dead(sim: &Rc<Sim>) {
    let path = "/v1/queues/outbox/retry-dead".to_owned();
    give(sim, "operator: retries", path, &json!({ "limit": 100 }), &[]).await;
}

/// A verdict about a row that asks: what the provider has, where it has something; nothing, where that is certain; and
/// otherwise once more, with the risk that it may be twice.
pub async fn judge(sim: &Rc<Sim>, row: &OutboxRow) {
    let path = format!("/v1/unknown/{}/resolve", row.id);
    let mails = sim.oracle.mails_of(&row.id);
    let certain = sim.quiet.get() && sim.oracle.last_call(row) + KNOWN_AFTER_MS < sim.now();
    let order = match mails.first() {
        Some(id) if sim.choices.chance(Subject::News, 500) => {
            json!({ "verdict": "sent", "messageId": id, "note": "seen there" })
        }
        Some(_) if sim.choices.chance(Subject::News, 500) => {
            let path = format!("/v1/unknown/{}/look-up", row.id);
            give(sim, "operator: looks up", path, &json!({}), &[409]).await;
            return;
        }
        None if certain && sim.choices.chance(Subject::News, 500) => {
            sim.oracle.ruled_out(row);
            json!({ "verdict": "not_sent", "note": "it is not there" })
        }
        Some(_) | None => json!({ "verdict": "send_again", "note": "it matters" }),
    };
    let verdict = order["verdict"].as_str().unwrap_or_default().to_owned();
    let Some(answer) = give(sim, "operator: judges", path, &order, &[409]).await else {
        return;
    };
    if verdict == "send_again" && answer["id"].is_string() {
        let id = answer["id"].as_str().unwrap_or_default();
        sim.oracle.sent_again(&row.id, id);
    }
}

/// Gives this order now, and again until it is answered well. What has been decided before is a good answer.
pub fn order(sim: &Rc<Sim>, path: String, order: &'static str) {
    let order: Json = serde_json::from_str(order).expect("an order is JSON");
    let world = Rc::clone(sim);
    sim.kernel.spawn(0, async move {
        let row = path.split('/').nth(3).unwrap_or_default().to_owned();
        let answer = give(&world, "operator: judges", path, &order, &[409]).await;
        if let Some(again) = answer
            .as_ref()
            .and_then(|answer| answer["resendOf"].as_str().and(answer["id"].as_str()))
        {
            world.oracle.sent_again(&row, again);
        }
    });
}

/// Gives an order until it is answered well. A status among `also` is a good answer too.
pub async fn give(sim: &Rc<Sim>, name: &'static str, path: String, order: &Json, also: &[u16]) -> Option<Json> {
    give_as(sim, OPERATOR, name, path, order, also).await
}

async fn give_as(
    sim: &Rc<Sim>,
    token: &'static str,
    name: &'static str,
    path: String,
    order: &Json,
    also: &[u16],
) -> Option<Json> {
    sim.oracle.report().event(name);
    let what = Ask {
        method: "POST",
        path,
        body: order.to_string(),
        authorization: Some(token),
        ..Ask::default()
    };
    for _ in 0..TRIES_MAX {
        match ask(sim, Role::People, &what).await {
            Some((status, body)) if (200..300).contains(&status) || also.contains(&status) => return Some(body),
            Some((status @ 400..=499, body)) => {
                let what = format!("{name}: a right order was refused with {status} {}", body["code"]);
                sim.oracle.violation(Invariant::I1, what);
                return None;
            }
            Some(_) | None => {}
        }
        sim.kernel.sleep(AGAIN_MS).await;
    }
    None
}

/// The recipient of a row follows the link in its mail, whether or not they can have one yet.
pub async fn click(sim: &Rc<Sim>, row: &OutboxRow) {
    sim.oracle.report().event("recipient: unsubscribes");
    let secret = &sim.config(Program::First).recipient_secret;
    let what = Ask {
        method: "POST",
        path: format!("/v1/unsubscribe/{}", token(secret, &row.id)),
        body: "List-Unsubscribe=One-Click".to_owned(),
        ..Ask::default()
    };
    for _ in 0..TRIES_MAX {
        if let Some((200, _)) = ask(sim, Role::People, &what).await {
            return;
        }
        sim.kernel.sleep(AGAIN_MS).await;
    }
}
