//! The hunt: for each planted bug the first seed that shows it, by the promise that it breaks and no other.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{NOTHING, Planted, all};
use crate::choices::Choices;
use crate::oracle::Violation;
use crate::report::Invariant;
use crate::run;
use crate::store::Store;

/// Bugs that are hunted side by side.
const HUNTERS: usize = 2;

/// What became of one bug.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    /// The promise that it breaks.
    pub invariant: Invariant,
    /// How many seeds it took, from 0 on.
    pub seeds: u64,
    pub caught: bool,
    /// The first violation of that promise, or why the bug does not count.
    pub what: String,
}

impl std::fmt::Display for Line {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let invariant = format!("{:?}", self.invariant);
        let found = if self.caught {
            format!("after {} seeds", self.seeds)
        } else {
            "NOT CAUGHT".to_owned()
        };
        write!(out, "{invariant:<4} {:<56} {found:<16} {}", self.name, self.what)
    }
}

/// Hunts every bug whose name contains `named`, each from seed 0 on and at most `seeds_max` seeds long. The lines come
/// in the order of the list, and are the same for the same program.
pub fn run_all(seeds_max: u64, named: &str) -> Vec<Line> {
    let bugs: Vec<&'static Planted> = all().into_iter().filter(|bug| bug.name.contains(named)).collect();
    let mut lines = side_by_side(bugs.len(), |at| hunt(bugs[at], seeds_max));
    // A seed that the program itself fails proves nothing about a bug.
    let seeds = lines.iter().filter(|line| line.caught).map(|line| line.seeds).max();
    let seeds = usize::try_from(seeds.unwrap_or(0)).expect("few");
    let passed = side_by_side(HUNTERS, |part| failed_seeds((part..seeds).step_by(HUNTERS)));
    let failed: BTreeSet<u64> = passed.into_iter().flatten().collect();
    for line in &mut lines {
        if let Some(seed) = failed.iter().find(|seed| line.caught && **seed < line.seeds) {
            line.caught = false;
            line.what = format!("the program itself fails seed {seed}");
        }
    }
    lines
}

fn failed_seeds(seeds: impl Iterator<Item = usize>) -> Vec<u64> {
    let store = Rc::new(Store::open(&[], &[]));
    seeds
        .map(|seed| seed as u64)
        .filter(|seed| !violations(*seed, &store, &NOTHING).is_empty())
        .collect()
}

fn violations(seed: u64, store: &Rc<Store>, planted: &'static Planted) -> Vec<Violation> {
    run::run(Choices::from_seed(seed), store, planted, false).violations
}

fn hunt(bug: &'static Planted, seeds_max: u64) -> Line {
    let store = Rc::new(Store::open(bug.schema, bug.sql));
    let mut others = BTreeSet::new();
    let mut line = Line {
        name: bug.name,
        invariant: bug.breaks,
        seeds: seeds_max,
        caught: false,
        what: String::new(),
    };
    for seed in 0..seeds_max {
        let violations = violations(seed, &store, bug);
        // A run that never ends breaks a promise as well, and says nothing about this bug.
        let own = violations
            .iter()
            .find(|violation| violation.invariant == bug.breaks && violation.what != run::NEVER_ENDS);
        if let Some(own) = own {
            line.caught = true;
            line.seeds = seed + 1;
            line.what.clone_from(&own.what);
            break;
        }
        others.extend(violations.into_iter().map(|violation| violation.invariant));
    }
    let hits = store.hits.borrow();
    if let Some(missing) = bug.sql.iter().zip(hits.iter()).find(|(_, hit)| !**hit) {
        line.caught = false;
        line.what = format!("no statement has the text {:?}", missing.0.0);
    } else if !line.caught {
        line.what = format!("broken instead: {others:?}");
    }
    line
}

/// Does `count` pieces of work on a few threads; the results come in their order.
fn side_by_side<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..HUNTERS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let result = work(at);
                    done.lock().expect("no hunter panics").push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no hunter panics");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
