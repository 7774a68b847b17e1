//! Every crash point: each path is run once to count its steps, and then once for each step and each thing that can
//! happen at it. After that the world is quiet, and the oracle must have nothing to say.

mod paths;
mod self_check;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use super::faults::DatabaseFault;
use super::oracle::{Role, Violation};
use super::planted::{NOTHING, Planted};
use super::script::{Injection, Io, Step, Taken};
use super::setting::{Fact, Profile};
use super::stage::{LOST_ANSWER, REFUSED, Stage, UNAVAILABLE, of_the_database, of_the_provider};
use super::store::Store;

/// How many steps after the first fault a second one may come, in the paths that have pairs: the rest of the
/// invocation and the recovery's first steps.
const PAIR_REACH: usize = 8;
/// Past the end of every claim and reservation, in ms.
const STANDSTILL_MS: i64 = 310_000;
/// Violations that are printed for one path; more of them rarely say more.
const SHOWN_MAX: usize = 3;

/// One way through the program.
pub struct Path {
    pub name: &'static str,
    pub profile: Profile,
    pub facts: fn() -> Vec<Fact>,
    /// Brings the rows into their state.
    pub prepare: fn(&Stage),
    /// Starts what is looked at.
    pub go: fn(&Stage),
    /// The steps of these invocations are the path.
    pub role: Role,
    pub invocations: usize,
    /// What the path's steps are at the least, so that nothing is injected into nothing.
    pub at_least: &'static [(Io, usize)],
    /// Whether a second fault follows each first one.
    pub pairs: bool,
}

/// What was done, and what came of it.
struct Run {
    violations: Vec<Violation>,
    taken: Vec<Taken>,
    done: usize,
    trace: Vec<String>,
}

fn run(path: &Path, store: &Rc<Store>, planted: &'static Planted, plan: &[(usize, Injection)], trace: bool) -> Run {
    let stage = Stage::new(path.profile, (path.facts)(), store, planted, trace);
    (path.prepare)(&stage);
    stage.begin(
        plan.iter()
            .map(|(step, injection)| (Step::Nth(*step), *injection))
            .collect(),
    );
    (path.go)(&stage);
    let (outcome, taken, done) = stage.end();
    Run {
        violations: outcome.violations,
        taken,
        done,
        trace: outcome.trace,
    }
}

/// The numbers of a path's own steps.
fn own_steps(path: &Path, taken: &[Taken]) -> Vec<usize> {
    let mut invocations: Vec<u64> = Vec::new();
    let own = |invocations: &mut Vec<u64>, step: &Taken| {
        if step.role != path.role {
            return false;
        }
        if !invocations.contains(&step.invocation) && invocations.len() < path.invocations {
            invocations.push(step.invocation);
        }
        invocations.contains(&step.invocation)
    };
    (0..taken.len())
        .filter(|at| own(&mut invocations, &taken[*at]))
        .collect()
}

/// Everything that can happen at a step.
fn everything(io: Io) -> Vec<Injection> {
    let deaths = [
        Injection::DieBefore,
        Injection::DieAfter,
        Injection::StandstillBefore(STANDSTILL_MS),
        Injection::StandstillAfter(STANDSTILL_MS),
    ];
    match io {
        Io::Database => deaths.into_iter().chain(of_the_database()).collect(),
        Io::Provider => deaths.into_iter().chain(of_the_provider()).collect(),
        Io::Queue => deaths
            .into_iter()
            .chain([Injection::QueueRefuses, Injection::QueueStoresAndRefuses])
            .collect(),
        Io::Sleep => deaths.to_vec(),
        // After it nothing is left to die.
        Io::Acknowledge => vec![Injection::DieBefore, Injection::StandstillBefore(STANDSTILL_MS)],
    }
}

/// The things whose consequences differ most, for pairs.
fn essentials(io: Io) -> Vec<Injection> {
    match io {
        Io::Database => vec![
            Injection::DieBefore,
            Injection::DieAfter,
            Injection::Database(DatabaseFault::AnswerLost),
            Injection::DatabaseLate(20_000),
            Injection::DatabaseOutage,
        ],
        Io::Provider => vec![
            Injection::DieBefore,
            Injection::DieAfter,
            LOST_ANSWER,
            UNAVAILABLE,
            REFUSED,
        ],
        Io::Queue => vec![
            Injection::DieBefore,
            Injection::DieAfter,
            Injection::QueueRefuses,
            Injection::QueueStoresAndRefuses,
        ],
        Io::Sleep | Io::Acknowledge => vec![Injection::DieBefore],
    }
}

/// What came of all runs of a path.
#[derive(Default)]
pub struct Tally {
    pub steps: usize,
    pub kinds: BTreeMap<Io, usize>,
    pub singles: usize,
    pub pairs: usize,
    /// Runs in which the oracle had something to say: the plan, and what it was.
    pub broken: Vec<(Vec<(usize, Injection)>, Violation)>,
    /// What is wrong with the harness itself.
    pub faults: Vec<String>,
}

/// Every crash point of a path.
pub fn exhaust(path: &Path, store: &Rc<Store>, planted: &'static Planted, with_pairs: bool) -> Tally {
    let mut tally = Tally::default();
    let calm = run(path, store, planted, &[], false);
    tally.note(&[], &calm);
    let steps = own_steps(path, &calm.taken);
    tally.steps = steps.len();
    for step in &steps {
        *tally.kinds.entry(calm.taken[*step].io).or_default() += 1;
    }
    for (io, least) in path.at_least {
        let found = tally.kinds.get(io).copied().unwrap_or(0);
        if found < *least {
            let what = format!(
                "{} has {found} steps of kind {}, and {least} are documented",
                path.name,
                io.name()
            );
            tally.faults.push(what);
        }
    }
    for step in &steps {
        for injection in everything(calm.taken[*step].io) {
            let plan = [(*step, injection)];
            let single = run(path, store, planted, &plan, false);
            tally.singles += 1;
            tally.note(&plan, &single);
        }
        if !(path.pairs && with_pairs) {
            continue;
        }
        for first in essentials(calm.taken[*step].io) {
            let single = run(path, store, planted, &[(*step, first)], false);
            for (second_step, taken) in single.taken.iter().enumerate().skip(*step + 1).take(PAIR_REACH) {
                for second in essentials(taken.io) {
                    let plan = [(*step, first), (second_step, second)];
                    let pair = run(path, store, planted, &plan, false);
                    tally.pairs += 1;
                    tally.note(&plan, &pair);
                }
            }
        }
    }
    tally
}

impl Tally {
    fn note(&mut self, plan: &[(usize, Injection)], run: &Run) {
        if run.done < plan.len() {
            self.faults.push(format!(
                "{} of {} faults found their step: {plan:?}",
                run.done,
                plan.len()
            ));
        }
        self.broken.extend(
            run.violations
                .first()
                .map(|violation| (plan.to_vec(), violation.clone())),
        );
    }

    fn line(&self, name: &str) -> String {
        let kinds: Vec<String> = self
            .kinds
            .iter()
            .map(|(io, count)| format!("{} {count}", io.name()))
            .collect();
        format!(
            "{name:<52} {:>2} steps ({}), {} single faults, {} pairs, {} violations",
            self.steps,
            kinds.join(", "),
            self.singles,
            self.pairs,
            self.broken.len()
        )
    }
}

/// All paths, or those whose name contains a text; the exit code.
#[allow(
    clippy::disallowed_methods,
    reason = "how fast it was is said aside, and decides nothing"
)]
pub fn main(only: Option<&str>) -> i32 {
    let began = Instant::now();
    let store = Rc::new(Store::open(&[], &[]));
    let (mut runs, mut violations, mut faults) = (0, 0, 0);
    for path in paths::ALL
        .iter()
        .filter(|path| only.is_none_or(|text| path.name.contains(text)))
    {
        let tally = exhaust(path, &store, &NOTHING, true);
        println!("{}", tally.line(path.name));
        for (plan, violation) in tally.broken.iter().take(SHOWN_MAX) {
            println!("  {:?}: {}", violation.invariant, violation.what);
            println!("  after {}; again: {}", told(plan), again(path, plan));
        }
        for fault in tally.faults.iter().take(SHOWN_MAX) {
            println!("  the harness: {fault}");
        }
        runs += 1 + tally.singles + tally.pairs;
        violations += tally.broken.len();
        faults += tally.faults.len();
    }
    eprintln!(
        "{:?}, {:.0} runs a second",
        began.elapsed(),
        runs as f64 / began.elapsed().as_secs_f64()
    );
    faults += if only.is_none() { self_check::main() } else { 0 };
    println!("crash points: {runs} runs, {violations} violations, {faults} faults of the harness");
    i32::from(violations + faults > 0)
}

/// One run again, with its trace: after the path's name, each step with what happens at it.
pub fn repeat(name: &str, plan: &[&str]) -> i32 {
    let Some(path) = paths::ALL.iter().find(|path| path.name == name) else {
        return unknown("path", name, paths::ALL.iter().map(|path| path.name));
    };
    let kinds = [Io::Database, Io::Provider, Io::Queue, Io::Sleep, Io::Acknowledge];
    let all: Vec<Injection> = kinds.into_iter().flat_map(everything).collect();
    let mut steps: Vec<(usize, Injection)> = Vec::new();
    for pair in plan.chunks(2) {
        let step = pair[0].parse();
        let injection = all
            .iter()
            .find(|one| pair.get(1).is_some_and(|name| one.name() == *name));
        match (step, injection) {
            (Ok(step), Some(injection)) => steps.push((step, *injection)),
            (Ok(_) | Err(_), _) => {
                return unknown("step with a fault", &pair.join(" "), all.iter().map(|one| one.name()));
            }
        }
    }
    let store = Rc::new(Store::open(&[], &[]));
    let run = run(path, &store, &NOTHING, &steps, true);
    for line in run.trace {
        println!("{line}");
    }
    for violation in &run.violations {
        println!("{:?}: {}", violation.invariant, violation.what);
    }
    i32::from(!run.violations.is_empty())
}

/// Says that there is no such thing, and what there is; the exit code.
pub fn unknown(what: &str, name: &str, there: impl Iterator<Item = impl std::fmt::Display>) -> i32 {
    println!("there is no {what} {name:?}; there are:");
    for one in there {
        println!("  {one}");
    }
    2
}

/// The arguments that repeat a run.
fn again(path: &Path, plan: &[(usize, Injection)]) -> String {
    let mut arguments = format!("exhaustive {:?}", path.name);
    for (step, injection) in plan {
        arguments.push_str(&format!(" {step} {:?}", injection.name()));
    }
    arguments
}

fn told(plan: &[(usize, Injection)]) -> String {
    let parts: Vec<String> = plan
        .iter()
        .map(|(step, injection)| format!("step {step}: {}", injection.name()))
        .collect();
    if parts.is_empty() {
        "nothing at all".to_owned()
    } else {
        parts.join(", then ")
    }
}
