//! One run: faults for a while, then quiet, then everything must have come to its end.

use std::collections::BTreeSet;
use std::rc::Rc;

use sealpost::outbox::envelope::Envelope;

use super::callers;
use super::choices::{Choices, Tapes};
use super::ledger;
use super::oracle::Violation;
use super::paced;
use super::pausing;
use super::people;
use super::planted::Planted;
use super::report::{Invariant, Report};
use super::schedule;
use super::setting::{HELD_FAMILY, Program, Setting};
use super::sim::Sim;
use super::store::OutboxRow;
use super::store::Store;
use super::together;

/// Says that a run did not end by itself.
pub const NEVER_ENDS: &str = "the run never ends";
/// Steps of one run; more means that something runs in circles.
const STEPS_MAX: u64 = 400_000;
/// Rounds of the quiet time; each moves to the next row that is due.
const ROUNDS_MAX: usize = 120;
/// In the quiet time the relay looks at a row that is due within so many ticks.
const LATE_TICKS_MAX: i64 = 4;
/// How long people take to tidy up, with all that they have to repeat, in ms.
const TIDY_MS: i64 = 180_000;
/// How long retention is over after, in ms.
const WEEK_AND_MORE_MS: i64 = 9 * 86_400_000;

/// What came of a run.
pub struct Outcome {
    pub violations: Vec<Violation>,
    pub report: Report,
    pub trace: Vec<String>,
    pub lines: usize,
    pub tapes: Tapes,
}

/// Runs what the choices say.
pub fn run(choices: Choices, store: &Rc<Store>, planted: &'static Planted, keep_trace: bool) -> Outcome {
    store.clear();
    let setting = Setting::draw(&choices);
    let sim = Sim::new(choices, setting, Rc::clone(store), planted, keep_trace);
    callers::start(&sim);
    ledger::start(&sim);
    together::start(&sim);
    paced::start(&sim);
    schedule::start(&sim);
    people::start(&sim);
    pausing::start(&sim);
    let end = sim.now() + sim.setting.active_ms;
    run_until(&sim, end);
    settle(&sim);
    if people::tidy(&sim) {
        run_until(&sim, sim.now() + TIDY_MS);
        settle(&sim);
    }
    if sim.setting.after_life {
        after_life(&sim);
    }
    let outcome = finish(&sim);
    sim.kernel.end();
    outcome
}

/// Runs everything that happens before a time.
pub fn run_until(sim: &Rc<Sim>, end: i64) {
    while sim.kernel.next_at().is_some_and(|at| at <= end) && !runs_in_circles(sim) && !is_caught(sim) {
        sim.kernel.step();
    }
    sim.kernel.skip_to(end);
}

/// A planted bug that showed itself: the rest of the run adds nothing.
fn is_caught(sim: &Sim) -> bool {
    sim.planted.is_planted() && sim.oracle.has_broken(sim.planted.breaks)
}

fn runs_in_circles(sim: &Rc<Sim>) -> bool {
    let circles = sim.kernel.steps() > STEPS_MAX;
    if circles {
        sim.oracle.violation(Invariant::I1, NEVER_ENDS.to_owned());
    }
    circles
}

/// Faults stop, the last version runs, time runs on: every row must come to an end, and none may wait for another.
pub fn settle(sim: &Rc<Sim>) {
    sim.quiet.set(true);
    sim.note(|| "all is quiet".to_owned());
    if sim.setting.quiet_before_the_last {
        // The same versions, without faults: what they hold back must hold back nothing else.
        for _ in 0..2 * LATE_TICKS_MAX {
            schedule::fire(sim);
            run_until(sim, sim.now() + schedule::TICK_MS);
        }
        nobody_is_late(sim);
    }
    deploy_last(sim);
    for _ in 0..ROUNDS_MAX {
        schedule::fire(sim);
        run_until(sim, sim.now() + schedule::TICK_MS);
        let rows = sim.oracle.rows();
        let open: Vec<_> = rows.values().filter(|row| row.relay_at.is_some()).collect();
        let idle = sim.main.is_idle() && sim.dead.is_idle();
        if open.is_empty() && idle {
            break;
        }
        nobody_is_late(sim);
        // Between now and the next row that is due nothing would happen but ticks that find nothing.
        let due = open.iter().filter_map(|row| waits_until(sim, row)).min();
        if let Some(due) = due.filter(|due| *due > sim.now() + 2 * schedule::TICK_MS && idle) {
            run_until(sim, due);
            // Who waited for the end of a pause until now is late from now on.
            let now = sim.now();
            sim.paused_at.borrow_mut().values_mut().for_each(|at| *at = now);
        }
        if sim.kernel.steps() > STEPS_MAX || is_caught(sim) {
            break;
        }
    }
    sim.oracle.end(&BTreeSet::new());
}

/// In the quiet time, a row whose time has come is looked at by one of the next ticks, whatever the other rows do.
fn nobody_is_late(sim: &Rc<Sim>) {
    let allowed = LATE_TICKS_MAX * schedule::TICK_MS;
    for row in sim.oracle.rows().values() {
        sim.oracle.report().checked(Invariant::I12);
        // A row that cannot move harms nobody by waiting.
        if ["held", "paused"].contains(&row.cause.as_str()) || waited_for_a_pause(sim, row) {
            continue;
        }
        if sim.oracle.due_since(row).is_some_and(|at| at + allowed < sim.now()) {
            let what = format!("{} is {} ({}), and nobody looks at it", row.id, row.status, row.cause);
            sim.oracle.violation(Invariant::I12, what);
        }
    }
}

/// A bulk row is not admitted while its family or everything is paused, and nothing is written about it meanwhile.
fn waits_for_a_pause(sim: &Rc<Sim>, row: &OutboxRow) -> bool {
    ["pending", "retry"].contains(&row.status.as_str())
        && sealpost::outbox::family::find(&row.family).is_some_and(|family| family.bulk)
        && paused_until(sim, row) > 0
}

/// The same, or its pause was lifted a moment ago.
fn waited_for_a_pause(sim: &Rc<Sim>, row: &OutboxRow) -> bool {
    if waits_for_a_pause(sim, row) || paced::waits_for_others(sim, row) {
        sim.paused_at.borrow_mut().insert(row.id.clone(), sim.now());
    }
    let allowed = LATE_TICKS_MAX * schedule::TICK_MS;
    let paused_at = sim.paused_at.borrow();
    paused_at.get(&row.id).is_some_and(|at| at + allowed >= sim.now())
}

/// When something may happen to an open row.
fn waits_until(sim: &Rc<Sim>, row: &OutboxRow) -> Option<i64> {
    let relay_at = row.relay_at?;
    Some(if waits_for_a_pause(sim, row) {
        relay_at.max(paused_until(sim, row))
    } else {
        relay_at
    })
}

/// When the last pause of a row ends; 0 where there is none.
fn paused_until(sim: &Rc<Sim>, row: &OutboxRow) -> i64 {
    const PAUSED_UNTIL: &str = "SELECT coalesce(max(until), 0) FROM pauses WHERE scope IN ('*', ?1)";
    sim.store.one_number(PAUSED_UNTIL, &row.family)
}

/// Where mails were sealed for both accounts, a version for each runs on.
fn deploy_last(sim: &Rc<Sim>) {
    let both = sim.setting.programs.contains(&Program::OtherAccount);
    let mut instances = sim.instances.borrow_mut();
    if both && instances.len() == 1 {
        let one = instances[0];
        instances.push(one);
    }
    for (number, instance) in instances.iter_mut().enumerate() {
        instance.group += 500;
        instance.program = if both && number % 2 == 1 {
            Program::LastOtherAccount
        } else {
            Program::Last
        };
    }
}

/// More than a week later: the letters are gone, and whatever comes again finds the mail's tombstone.
fn after_life(sim: &Rc<Sim>) {
    run_until(sim, sim.now() + WEEK_AND_MORE_MS);
    sim.oracle.report().event("a week later");
    sim.note(|| "a week later".to_owned());
    schedule::fire(sim);
    run_until(sim, sim.now() + schedule::TICK_MS);
    for id in sim.oracle.rows().keys() {
        sim.main.put(sim, Envelope::to_row(id).to_body(), 0, 0);
    }
    callers::repeat_everything(sim);
    run_until(sim, sim.now() + 10 * schedule::TICK_MS);
    settle(sim);
}

/// Closes a run: what must not be public is looked for, and everything is counted.
pub fn finish(sim: &Rc<Sim>) -> Outcome {
    for (table, text) in sim.store.public_texts() {
        sim.oracle.public_text(&table, &text);
    }
    for body in sim.main.bodies().into_iter().chain(sim.dead.bodies()) {
        sim.oracle.public_text("a message", &body);
    }
    sim.oracle.last_events(&sim.store);
    let violations = sim.oracle.violations();
    let mut report = sim.oracle.report().clone();
    report.seeds = 1;
    report.steps = sim.kernel.steps();
    report.violations = violations.len() as u64;
    let held = report.arrows.keys().any(|arrow| arrow == "pending -> retry");
    if held && sim.setting.facts.iter().any(|fact| fact.family == HELD_FAMILY) {
        report.event("a held family was put aside");
    }
    Outcome {
        violations,
        report,
        trace: sim.trace.lines(),
        lines: sim.trace.count(),
        tapes: sim.choices.tapes(),
    }
}
