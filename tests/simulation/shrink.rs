//! Makes a broken run small: looks for calmer tapes that still break the same promise, so that a person reads as few
//! lines as can be. Tries are made in a fixed order, so the same run always shrinks to the same one.

use std::collections::BTreeSet;

use sealpost::consume::Decision;
use sealpost::ports::MailAnswer;

use super::choices::{SUBJECTS, Tapes};
use super::lane::{Kind, Lane, Ran};
use super::planted::{NOTHING, Planted};
use super::progress::Progress;
use super::report::Invariant;

/// Runs that one shrinking may take; a run takes some ten milliseconds, and nobody waits longer than a minute or two.
pub const RUNS_MAX: u64 = 1_500;
/// Rounds over all passes; each starts from what the one before left, and most find nothing after three.
const ROUNDS_MAX: usize = 6;

/// An entry that says how many is followed by this many entries for each, at the most.
const COUNTED_MAX: usize = 6;

/// How hard a run is to read: lines until the break, decisions that are not harmless, how far they are from it.
type Size = (usize, usize, u64);

/// The smallest run that was found.
pub struct Shrunk {
    pub ran: Ran,
    pub kind: Kind,
    /// Runs that it took.
    pub runs: u64,
}

impl Shrunk {
    /// Lines until the break.
    pub fn line(&self) -> usize {
        self.ran.first(self.kind).map_or(self.ran.lines, |broken| broken.line)
    }

    pub fn what(&self) -> &str {
        self.ran.first(self.kind).map_or("", |broken| &broken.what)
    }

    /// The trace until the break.
    pub fn trace(&self) -> &[String] {
        &self.ran.trace[..self.line().min(self.ran.trace.len())]
    }
}

/// Decisions that are not harmless.
pub fn weight(tapes: &Tapes) -> usize {
    tapes.iter().flatten().filter(|value| **value != 0).count()
}

struct Shrinker<'a> {
    lane: &'a mut Lane,
    kind: Kind,
    best: Tapes,
    size: Size,
    tried: BTreeSet<Tapes>,
    runs: u64,
    runs_max: u64,
    progress: Progress,
}

/// Shrinks tapes that break a promise. `None` where they do not.
pub fn shrink(lane: &mut Lane, tapes: &Tapes, kind: Kind, runs_max: u64) -> Option<Shrunk> {
    let first = lane.tapes(tapes, false);
    let line = first.first(kind)?.line;
    let mut shrinker = Shrinker {
        lane,
        kind,
        size: size(line, &first.tapes),
        best: trimmed(first.tapes),
        tried: BTreeSet::new(),
        runs: 1,
        runs_max,
        progress: Progress::of(runs_max, "runs to shrink the trace"),
    };
    for _ in 0..ROUNDS_MAX {
        let before = shrinker.size;
        shrinker.empty();
        shrinker.truncate();
        shrinker.zero();
        shrinker.drop();
        shrinker.lower();
        shrinker.recount();
        if shrinker.size == before || shrinker.is_tired() {
            break;
        }
    }
    let mut ran = shrinker.lane.tapes(&shrinker.best, true);
    ran.tapes = trimmed(ran.tapes);
    let runs = shrinker.runs + 1;
    Some(Shrunk { ran, kind, runs })
}

fn size(line: usize, tapes: &Tapes) -> Size {
    let sum = tapes.iter().flatten().map(|value| u64::from(*value)).sum();
    (line, weight(tapes), sum)
}

/// Without the zeros at the ends: they are there by themselves.
fn trimmed(mut tapes: Tapes) -> Tapes {
    for tape in &mut tapes {
        let end = tape.iter().rposition(|value| *value != 0).map_or(0, |at| at + 1);
        tape.truncate(end);
    }
    tapes
}

impl Shrinker<'_> {
    fn is_tired(&self) -> bool {
        self.runs + 2 >= self.runs_max
    }

    /// Runs a candidate; keeps it where it breaks the same promise and is easier to read.
    fn try_one(&mut self, candidate: Tapes) -> bool {
        let candidate = trimmed(candidate);
        if self.is_tired() || candidate == self.best || !self.tried.insert(candidate.clone()) {
            return false;
        }
        let ran = self.lane.tapes(&candidate, false);
        self.runs += 1;
        self.progress.add(1, 0);
        self.progress.tick();
        let Some(line) = ran.first(self.kind).map(|broken| broken.line) else {
            return false;
        };
        // What was read, not what was offered: a run that ended sooner read less.
        let read = trimmed(ran.tapes);
        let size = size(line, &read);
        let better = size < self.size;
        if better {
            (self.best, self.size) = (read, size);
        }
        better
    }

    fn with(&self, subject: usize, change: impl FnOnce(&mut Vec<u32>)) -> Tapes {
        let mut tapes = self.best.clone();
        change(&mut tapes[subject]);
        tapes
    }

    /// Whole tapes.
    fn empty(&mut self) {
        for subject in 0..SUBJECTS {
            self.try_one(self.with(subject, Vec::clear));
        }
    }

    /// Ends of tapes.
    fn truncate(&mut self) {
        for subject in 0..SUBJECTS {
            let mut cut = self.best[subject].len() / 2;
            while cut > 0 && !self.is_tired() {
                let keep = self.best[subject].len().saturating_sub(cut);
                if !self.try_one(self.with(subject, |tape| tape.truncate(keep))) {
                    cut /= 2;
                }
                cut = cut.min(self.best[subject].len());
            }
        }
    }

    /// Pieces of halving size become zeros, at last single entries.
    fn zero(&mut self) {
        self.pieces(|tape, from, to| tape[from..to].fill(0));
    }

    /// Pieces of halving size are taken out, and what follows moves up.
    fn drop(&mut self) {
        self.pieces(|tape, from, to| {
            tape.drain(from..to);
        });
    }

    fn pieces(&mut self, change: impl Fn(&mut Vec<u32>, usize, usize)) {
        for subject in 0..SUBJECTS {
            let mut piece = self.best[subject].len().div_ceil(2);
            while piece > 0 && !self.is_tired() {
                let mut from = 0;
                while from < self.best[subject].len() {
                    let to = (from + piece).min(self.best[subject].len());
                    let harmless = self.best[subject][from..to].iter().all(|value| *value == 0);
                    let kept = !harmless && self.try_one(self.with(subject, |tape| change(tape, from, to)));
                    // Where pieces are taken out, the next one now stands here.
                    from = if kept { from } else { to };
                }
                piece /= 2;
            }
        }
    }

    /// Single entries become smaller.
    fn lower(&mut self) {
        for subject in 0..SUBJECTS {
            let mut at = 0;
            while at < self.best[subject].len() && !self.is_tired() {
                let value = self.best[subject][at];
                let lower = [1, value / 2, value.saturating_sub(1)];
                let lowered = lower
                    .into_iter()
                    .filter(|lower| *lower > 0 && *lower < value)
                    .any(|lower| self.try_one(self.with(subject, |tape| tape[at] = lower)));
                if !lowered || value <= 2 {
                    at += 1;
                }
            }
        }
    }

    /// Entries that say how many become smaller, and one of what they count is taken out.
    fn recount(&mut self) {
        for subject in 0..SUBJECTS {
            let mut at = 0;
            while at < self.best[subject].len() && !self.is_tired() {
                let rest = self.best[subject].len() - at - 1;
                let fewer = self.best[subject][at] > 0
                    && (1..=rest.min(COUNTED_MAX)).any(|count| {
                        self.try_one(self.with(subject, |tape| {
                            tape[at] -= 1;
                            tape.drain(at + 1..=at + count);
                        }))
                    });
                if !fewer {
                    at += 1;
                }
            }
        }
    }
}

/// A program that forgets every message, whatever became of its row.
pub static FORGETS: Planted = Planted {
    name: "acknowledges everything",
    breaks: Invariant::I11,
    decisions: |decisions| decisions.into_iter().map(|_| Decision::Acknowledge).collect(),
    ..NOTHING
};

/// A program that panics when the provider answers.
pub static PANICS: Planted = Planted {
    name: "panics",
    answer: |answer| match answer {
        MailAnswer::TimedOut | MailAnswer::Disconnected => answer,
        MailAnswer::Response { .. } => panic!("planted panic"),
    },
    ..NOTHING
};

/// Runs that a check may take: it only has to see that much of a trace goes.
const CHECK_RUNS_MAX: u64 = 250;
/// Seeds in which a check looks for its bug.
const CHECK_SEEDS_MAX: u64 = 200;

/// The trace that the check of the shrinker begins with has at least so many lines up to the break.
const CHECK_LINES_MIN: usize = 60;

/// The first seed from a number on that breaks something of a kind.
pub fn first_broken(lane: &mut Lane, kind: Kind, from: u64) -> (u64, Ran) {
    (from..from + CHECK_SEEDS_MAX)
        .map(|seed| (seed, lane.seed(seed, false)))
        .find(|(_, ran)| ran.first(kind).is_some())
        .expect("the planted bug shows itself soon")
}

/// A planted bug's trace becomes much shorter, still breaks the same promise, and shrinks to the same one again.
pub fn check_shrinks() {
    let (kind, mut lane) = (Kind::Promise(FORGETS.breaks), Lane::new(&FORGETS));
    // Where the break comes late, there is something to leave out.
    let long = (0..CHECK_SEEDS_MAX)
        .map(|seed| lane.seed(seed, false))
        .find(|ran| ran.first(kind).is_some_and(|broken| broken.line >= CHECK_LINES_MIN))
        .expect("some seed breaks the promise late");
    let shrunk = shrink(&mut lane, &long.tapes, kind, CHECK_RUNS_MAX).expect("it breaks the promise");
    let again = shrink(&mut Lane::new(&FORGETS), &long.tapes, kind, CHECK_RUNS_MAX).expect("it breaks the promise");
    assert_eq!(shrunk.ran, again.ran, "shrinking is no game of chance");
    assert!(shrunk.runs <= CHECK_RUNS_MAX);
    assert!(shrunk.ran.first(kind).is_some());
    assert!(
        shrunk.line() * 2 <= long.first(kind).expect("broken").line,
        "{}",
        shrunk.line()
    );
    assert!(weight(&shrunk.ran.tapes) * 4 <= weight(&long.tapes));
    assert!(shrunk.trace().last().is_some_and(|line| line.contains("BROKEN I11")));
    assert!(Lane::new(&NOTHING).tapes(&shrunk.ran.tapes, false).broken.is_empty());
}

/// A panic is a find like any other: it is caught, the lane goes on, and the run shrinks.
pub fn check_panics() {
    let mut lane = Lane::new(&PANICS);
    let (_, long) = first_broken(&mut lane, Kind::Panic, 0);
    assert!(long.broken[0].what.contains("planted panic"), "{:?}", long.broken);
    let shrunk = shrink(&mut lane, &long.tapes, Kind::Panic, CHECK_RUNS_MAX).expect("it panics");
    assert!(shrunk.line() < long.lines && !shrunk.trace().is_empty());
    assert!(shrink(&mut Lane::new(&NOTHING), &long.tapes, Kind::Panic, 10).is_none());
}
