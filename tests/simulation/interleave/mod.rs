//! Interleavings: two invocations that touch the same row, stepped one await at a time, in every order there is up to
//! a bound on how often the one gives way to the other. The search keeps no state: each order is a fresh run that
//! follows a list of decisions and then always goes on with whom it has.

mod decider;
mod pairs;
mod self_check;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use decider::Decider;

use super::kernel::TaskId;
use super::oracle::Violation;
use super::planted::{NOTHING, Planted};
use super::script::{Injection, Io, Step};
use super::setting::{Fact, Profile, Program};
use super::sim::Sim;
use super::stage::{LOST_ANSWER, REFUSED, Stage, UNAVAILABLE};
use super::store::Store;

/// How often one may give way to another, where only the order of effects is looked at: with two consumers of one row
/// that is nearly every order.
const SWITCHES_MAX: usize = 4;
/// The same where each answer's way back is a step of its own, and the machine may stand still at each switch.
const SWITCHES_FINE_MAX: usize = 2;
/// How often the machine stands still in one run.
const STANDSTILLS_MAX: usize = 1;
/// Past the end of every claim and reservation that was made before, in ms.
const STANDSTILL_MARGIN_MS: i64 = 2_000;
/// Steps of one run at the most; more means that somebody runs in circles.
const STEPS_MAX: usize = 300;
/// Violations that are printed for one pair.
const SHOWN_MAX: usize = 3;

/// Two invocations.
pub struct Pair {
    pub name: &'static str,
    pub profile: Profile,
    pub facts: fn() -> Vec<Fact>,
    pub prepare: fn(&Stage),
    /// Starts both.
    pub go: fn(&Stage),
    /// Whether what the provider answers makes a difference.
    pub calls: bool,
    /// As many orders of effects there are at the least, so that nobody runs alone unnoticed.
    pub at_least: usize,
}

/// How finely a run is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// One step for each effect.
    Effects,
    /// Two steps for each effect, and the machine may stand still when the one gives way to the other.
    Answers,
}

/// One order of a pair's steps.
fn run(
    pair: &Pair,
    store: &Rc<Store>,
    planted: &'static Planted,
    (grain, answer, prefix): (Grain, Option<Injection>, Vec<usize>),
    trace: bool,
) -> (Decider, Vec<Violation>, Vec<String>) {
    let stage = Stage::new(pair.profile, (pair.facts)(), store, planted, trace);
    (pair.prepare)(&stage);
    let sim = Rc::clone(&stage.sim);
    sim.script.coarse.set(grain == Grain::Effects);
    stage.begin(
        answer
            .map(|answer| (Step::NthOf(Io::Provider, 0), answer))
            .into_iter()
            .collect(),
    );
    (pair.go)(&stage);
    let decider = Rc::new(RefCell::new(Decider {
        prefix,
        switches_left: if grain == Grain::Effects {
            SWITCHES_MAX
        } else {
            SWITCHES_FINE_MAX
        },
        standstills_left: if grain == Grain::Effects { 0 } else { STANDSTILLS_MAX },
        ..Decider::default()
    }));
    let participants = participants(&sim);
    let (inside, world, all) = (Rc::clone(&decider), Rc::clone(&sim), participants.clone());
    let standstill = standstill_ms(&sim);
    sim.kernel.schedule_by(Some(Box::new(move |tasks| {
        let mut waiting: Vec<TaskId> = tasks.iter().copied().filter(|task| all.contains(task)).collect();
        waiting.sort_unstable();
        if waiting.is_empty() {
            return 0;
        }
        let (task, stands_still) = inside.borrow_mut().decide(&waiting);
        if stands_still {
            world.note(|| format!("everything stands still for {} s", standstill / 1_000));
            world.kernel.stand_still(standstill);
        }
        tasks.iter().position(|other| *other == task).unwrap_or(0)
    })));
    for _ in 0..STEPS_MAX {
        if sim.kernel.mortals().iter().all(|task| !participants.contains(task)) {
            break;
        }
        sim.kernel.step();
    }
    let (outcome, _, _) = stage.end();
    (decider.take(), outcome.violations, outcome.trace)
}

/// The pair's tasks, each at its first await.
fn participants(sim: &Rc<Sim>) -> Vec<TaskId> {
    // Two that are there already, or a caller or a queue that is about to start them.
    for _ in 0..STEPS_MAX {
        if sim.kernel.mortals().len() >= 2 {
            break;
        }
        sim.kernel.step();
    }
    let tasks = sim.kernel.mortals();
    assert_eq!(tasks.len(), 2, "a pair is two");
    tasks
}

fn standstill_ms(sim: &Sim) -> i64 {
    let timing = &sim.config(Program::First).timing;
    let ms = |duration: std::time::Duration| i64::try_from(duration.as_millis()).expect("short");
    ms(timing.lease) + ms(timing.skew) + STANDSTILL_MARGIN_MS
}

/// What the provider does to the pair's first call.
const ANSWERS: [(&str, Option<Injection>); 4] = [
    ("accepted", None),
    ("accepted, answer lost", Some(LOST_ANSWER)),
    ("503", Some(UNAVAILABLE)),
    ("422", Some(REFUSED)),
];

/// How many of them are tried where the machine may stand still.
const ANSWERS_FINE: usize = 2;

/// A run that broke a promise.
struct Broken {
    grain: Grain,
    answer: usize,
    prefix: Vec<usize>,
    violation: Violation,
}

impl Broken {
    fn told(&self, pair: &str) -> String {
        let grain = match self.grain {
            Grain::Effects => "effects",
            Grain::Answers => "answers",
        };
        let last = self
            .prefix
            .iter()
            .rposition(|chosen| *chosen > 0)
            .map_or(0, |at| at + 1);
        let decisions: Vec<String> = self.prefix[..last].iter().map(usize::to_string).collect();
        format!(
            "{}; again: interleavings {pair:?} {grain} {} {},",
            ANSWERS[self.answer].0,
            self.answer,
            decisions.join(",")
        )
    }
}

/// What came of all orders of a pair.
#[derive(Default)]
struct Tally {
    effects: usize,
    answers: usize,
    broken: Vec<Broken>,
}

/// All orders of a pair; the first violation alone where that is enough.
fn interleave(pair: &Pair, store: &Rc<Store>, planted: &'static Planted, until_broken: bool) -> Tally {
    let mut tally = Tally::default();
    for grain in [Grain::Effects, Grain::Answers] {
        let variants = match grain {
            _ if !pair.calls => 1,
            Grain::Effects => ANSWERS.len(),
            Grain::Answers => ANSWERS_FINE,
        };
        for (number, (_, answer)) in ANSWERS.iter().enumerate().take(variants) {
            let mut prefix = Some(Vec::new());
            while let Some(decisions) = prefix {
                let (decider, violations, _) = run(pair, store, planted, (grain, *answer, decisions), false);
                match grain {
                    Grain::Effects => tally.effects += 1,
                    Grain::Answers => tally.answers += 1,
                }
                if let Some(violation) = violations.into_iter().next() {
                    let prefix = decider.taken.iter().map(|(chosen, _)| *chosen).collect();
                    tally.broken.push(Broken {
                        grain,
                        answer: number,
                        prefix,
                        violation,
                    });
                    if until_broken {
                        return tally;
                    }
                }
                prefix = decider.next();
            }
        }
    }
    tally
}

/// One order again, with its trace: `effects` or `answers`, the number of the provider's answer, and the decisions with
/// commas between them.
pub fn repeat(name: &str, grain: &str, answer: &str, decisions: &str) -> i32 {
    let store = Rc::new(Store::open(&[], &[]));
    let Some(pair) = pairs::ALL.iter().find(|pair| pair.name == name) else {
        return crate::exhaustive::unknown("pair", name, pairs::ALL.iter().map(|pair| pair.name));
    };
    let grain = if grain == "effects" {
        Grain::Effects
    } else {
        Grain::Answers
    };
    let Some((_, answer)) = answer
        .parse()
        .ok()
        .and_then(|number: usize| ANSWERS.get(number))
        .copied()
    else {
        return crate::exhaustive::unknown("answer", answer, 0..ANSWERS.len());
    };
    let decisions = decisions.split(',').filter_map(|one| one.parse().ok()).collect();
    let (_, violations, trace) = run(pair, &store, &NOTHING, (grain, answer, decisions), true);
    for line in trace {
        println!("{line}");
    }
    for violation in &violations {
        println!("{:?}: {}", violation.invariant, violation.what);
    }
    i32::from(!violations.is_empty())
}

/// All pairs, or those whose name contains a text; the exit code.
#[allow(
    clippy::disallowed_methods,
    reason = "how fast it was is said aside, and decides nothing"
)]
pub fn main(only: Option<&str>) -> i32 {
    let began = Instant::now();
    let store = Rc::new(Store::open(&[], &[]));
    let (mut runs, mut violations, mut faults) = (0, 0, 0);
    println!(
        "orders of effects with up to {SWITCHES_MAX} switches; of answers with up to {SWITCHES_FINE_MAX} switches and {STANDSTILLS_MAX} standstill"
    );
    for pair in pairs::ALL
        .iter()
        .filter(|pair| only.is_none_or(|text| pair.name.contains(text)))
    {
        let tally = interleave(pair, &store, &NOTHING, false);
        println!(
            "{:<56} {:>5} orders of effects, {:>5} of answers, {} violations",
            pair.name,
            tally.effects,
            tally.answers,
            tally.broken.len()
        );
        for broken in tally.broken.iter().take(SHOWN_MAX) {
            println!("  {:?}: {}", broken.violation.invariant, broken.violation.what);
            println!("  {}", broken.told(pair.name));
        }
        if tally.effects < pair.at_least {
            println!(
                "  the harness: at least {} orders of effects are documented",
                pair.at_least
            );
            faults += 1;
        }
        runs += tally.effects + tally.answers;
        violations += tally.broken.len();
    }
    eprintln!(
        "{:?}, {:.0} runs a second",
        began.elapsed(),
        runs as f64 / began.elapsed().as_secs_f64()
    );
    faults += if only.is_none() { self_check::main() } else { 0 };
    println!("interleavings: {runs} runs, {violations} violations, {faults} faults of the harness");
    i32::from(violations + faults > 0)
}
