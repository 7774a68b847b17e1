//! Producers: they state facts, repeat themselves, race each other, give up waiting, and sometimes contradict
//! themselves.

use std::cell::RefCell;
use std::rc::Rc;

use sealpost::intake::{IntakeError, record_intents};
use sealpost::publish::publish_after_intake;
use serde_json::{Value as Json, json};

use super::choices::Subject;
use super::faults::OTHERS;
use super::ledger::{self, Replayed};
use super::oracle::Role;
use super::ports::Worker;
use super::report::Invariant;
use super::setting::{Fact, Program};
use super::sim::Sim;

/// How often a caller repeats a request that was not answered well.
const TRIES_MAX: u32 = 5;
/// The longest that a caller waits for an answer, in ms.
const WAIT_MAX_MS: i64 = 30_000;
/// How long before its mail is too late a caller may state a fact, in ms.
const LAST_MOMENT_MS: u32 = 15_000;
/// A busy caller looks for its answer this often, in ms.
const LOOK_MS: i64 = 200;

/// What a request was answered with.
#[derive(Clone, Debug)]
enum Answer {
    /// 202 with the ids in the order of the request.
    Accepted(Vec<String>),
    /// The answer of a replay, fact by fact.
    Replayed(Vec<Replayed>),
    /// 409: another meaning is known.
    OtherMeaning,
    /// Another error of the request.
    Refused(u16),
    /// 5xx.
    Failed,
    /// The instance died.
    Cut,
}

/// One request's facts and which of their meanings it states.
#[derive(Clone)]
struct Request {
    facts: Vec<(Fact, bool)>,
}

/// Starts all callers of a run.
pub fn start(sim: &Rc<Sim>) {
    crowd(sim);
    let setting = &sim.setting;
    let spread = u32::try_from(setting.active_ms.min(240_000)).expect("short");
    for fact in &setting.facts {
        let times = 1 + sim.choices.below(Subject::Callers, 3);
        for _ in 0..times {
            let contradicts = sim.choices.chance(Subject::Callers, 60);
            let mut facts = vec![(fact.clone(), contradicts)];
            if sim.choices.chance(Subject::Callers, 300) {
                let other = sim
                    .choices
                    .below(Subject::Callers, u32::try_from(setting.facts.len()).expect("few"));
                facts.push((setting.facts[other as usize].clone(), false));
            }
            let mut at = i64::from(sim.choices.below(Subject::Callers, spread));
            if let Some(end) = fact.not_after.filter(|_| sim.choices.chance(Subject::Callers, 300)) {
                // In the last moment.
                at = (end - sim.now() - i64::from(sim.choices.below(Subject::Callers, LAST_MOMENT_MS))).max(0);
            }
            let caller = Rc::clone(sim);
            sim.kernel.spawn(0, async move {
                caller.kernel.sleep(at).await;
                call(&caller, Request { facts }).await;
            });
        }
    }
}

/// A hundred facts and more at once, none of which can move.
fn crowd(sim: &Rc<Sim>) {
    for chunk in crate::setting::crowd(sim.setting.crowd).chunks(60) {
        let facts = chunk.iter().map(|fact| (fact.clone(), false)).collect();
        let caller = Rc::clone(sim);
        sim.kernel
            .spawn(0, async move { call(&caller, Request { facts }).await });
    }
}

/// States these facts in one request.
pub fn state(sim: &Rc<Sim>, facts: Vec<Fact>) {
    let request = Request {
        facts: facts.into_iter().map(|fact| (fact, false)).collect(),
    };
    let caller = Rc::clone(sim);
    sim.kernel.spawn(0, async move { call(&caller, request).await });
}

/// States every fact once more, long after.
pub fn repeat_everything(sim: &Rc<Sim>) {
    for fact in &sim.setting.facts {
        let request = Request {
            facts: vec![(fact.clone(), false)],
        };
        let caller = Rc::clone(sim);
        sim.kernel.spawn(0, async move { call(&caller, request).await });
    }
}

async fn call(sim: &Rc<Sim>, request: Request) {
    for attempt in 0..TRIES_MAX {
        let impatient = sim.mix().is_some() && sim.choices.chance(Subject::Callers, 100);
        let wait = if impatient { 40 } else { WAIT_MAX_MS };
        match ask(sim, &request, wait).await {
            Some(Answer::Accepted(ids)) => {
                for ((fact, _), id) in request.facts.iter().zip(&ids) {
                    sim.oracle.told(&fact.name, id);
                }
                return;
            }
            Some(Answer::Replayed(items)) => {
                for ((fact, other), item) in request.facts.iter().zip(&items) {
                    if item.changed {
                        let one = vec![(fact.clone(), *other)];
                        contradiction(sim, &Request { facts: one });
                    } else {
                        sim.oracle.told(&fact.name, &item.id);
                    }
                }
                return;
            }
            Some(Answer::OtherMeaning) => {
                contradiction(sim, &request);
                return;
            }
            // A version that was rolled back knows fewer families; its producer comes again.
            Some(Answer::Refused(422)) if sim.setting.programs.contains(&Program::RolledBack) => {
                sim.oracle
                    .report()
                    .event("caller: refused by a version without the family");
            }
            Some(Answer::Refused(status)) => {
                sim.oracle
                    .violation(Invariant::I1, format!("a right request was refused with {status}"));
                return;
            }
            Some(Answer::Failed | Answer::Cut) => {}
            None => sim.counted(OTHERS[6]),
        }
        sim.kernel.sleep(1_000 << attempt).await;
    }
}

/// A refusal for another meaning is right only where somebody has stated another meaning.
fn contradiction(sim: &Rc<Sim>, request: &Request) {
    sim.counted(OTHERS[7]);
    sim.oracle.report().checked(Invariant::I2);
    let stated = sim
        .oracle
        .stated_both(request.facts.iter().map(|(fact, _)| fact.name.as_str()));
    if !stated {
        let what = "a request was refused as a contradiction, and nobody contradicted it".to_owned();
        sim.oracle.violation(Invariant::I2, what);
    }
}

async fn ask(sim: &Rc<Sim>, request: &Request, wait_ms: i64) -> Option<Answer> {
    let replayed = ledger::is_replayed(sim);
    for (fact, other) in &request.facts {
        sim.oracle.stated(&fact.name, *other);
    }
    let (_, instance) = sim.any_instance();
    let worker = Worker::new(sim, Role::Intake, instance);
    let invocation = worker.who.invocation;
    let intents: Vec<_> = request
        .facts
        .iter()
        .map(|(fact, other)| ledger::minted(if *other { &fact.other } else { &fact.intent }, invocation))
        .collect();
    let names: Vec<_> = request
        .facts
        .iter()
        .take(3)
        .map(|(fact, _)| fact.name.clone())
        .collect();
    sim.note(|| {
        format!(
            "a caller states {} to #{invocation} ({})",
            names.join(" and "),
            instance.program.name()
        )
    });
    let answer = Rc::new(RefCell::new(None));
    let dies_in = sim.mix().and_then(|mix| {
        sim.choices
            .chance(Subject::Deaths, mix.death_permille)
            .then(|| sim.choices.below(Subject::Deaths, 9) + 1)
    });
    let (cut, world) = (Rc::clone(&answer), Rc::clone(sim));
    let on_death: Box<dyn FnOnce()> = Box::new(move || {
        world.counted(OTHERS[0]);
        world.note(|| format!("#{invocation} dies"));
        cut.borrow_mut().get_or_insert(Answer::Cut);
    });
    let told = Rc::clone(&answer);
    let handler = async move {
        // On the way in; who dies here has done nothing.
        worker.sim.kernel.sleep(1).await;
        handle(&worker, &intents, replayed, &told).await;
    };
    sim.kernel
        .spawn_mortal(instance.group, dies_in, Some(on_death), handler);
    let until = sim.now() + wait_ms;
    loop {
        sim.kernel.sleep(LOOK_MS.min(wait_ms)).await;
        if let Some(answer) = answer.borrow().clone() {
            sim.note(|| format!("#{invocation} answered {}", shown(&answer)));
            return Some(answer);
        }
        if sim.now() >= until {
            sim.note(|| format!("the caller of #{invocation} gives up"));
            return None;
        }
    }
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Accepted(ids) => format!("202 {}", ids.join(" ")),
        Answer::Replayed(items) => {
            let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
            format!("202 (a replay) {}", ids.join(" "))
        }
        Answer::OtherMeaning => "409".to_owned(),
        Answer::Refused(status) => status.to_string(),
        Answer::Failed => "503".to_owned(),
        Answer::Cut => "nothing: its instance died".to_owned(),
    }
}

/// The handler: records, answers, and publishes after the answer.
async fn handle(worker: &Worker, intents: &[Json], replayed: bool, told: &RefCell<Option<Answer>>) {
    let config = worker.config();
    let body = json!({ "intents": intents }).to_string();
    let mut items = Vec::new();
    let recorded = match worker.sim.planted.intake {
        None if replayed => {
            let batch = format!("b{}", worker.who.invocation);
            ledger::take(worker, &config, intents, &batch)
                .await
                .map(|(all, accepted)| {
                    items = all;
                    accepted
                })
        }
        None => record_intents(worker, &config, body.as_bytes()).await,
        Some(design) => design(worker, &config, body.as_bytes()).await,
    };
    let accepted = match recorded {
        Ok(accepted) => accepted,
        Err(error) => {
            told.replace(Some(match error {
                IntakeError::Request(problem) if problem.status == 409 => Answer::OtherMeaning,
                IntakeError::Request(problem) => Answer::Refused(problem.status),
                IntakeError::Database(_) => Answer::Failed,
            }));
            return;
        }
    };
    let ids = accepted.receipts.iter().map(|receipt| receipt.id.clone()).collect();
    told.replace(Some(if replayed && worker.sim.planted.intake.is_none() {
        Answer::Replayed(items)
    } else {
        Answer::Accepted(ids)
    }));
    publish_after_intake(worker, &worker.broker(), &config, &accepted.to_publish).await;
}
