//! Runs a range of seeds on all cores, and hands over what came of them in the order of the seeds, so that nobody can
//! tell from the result how many threads there were.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::lane::{Broken, Lane};
use super::report::Report;

/// Seeds that a thread takes at a time: enough to be worth a message, few enough to stop soon.
const CHUNK: u64 = 8;
/// Chunks that wait for being added up.
const WAITING_MAX: usize = 64;
/// How often the one who waits looks up.
const LOOK: Duration = Duration::from_millis(500);

/// A seed and what it broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub seed: u64,
    pub broken: Broken,
}

/// What came of some seeds that follow each other.
pub struct Chunk {
    pub seeds: Range<u64>,
    pub report: Report,
    pub found: Vec<Found>,
}

/// What the caller hears while seeds run.
pub enum News {
    /// More seeds are done; chunks come in order and without a gap.
    Done(Chunk),
    /// Nothing is new.
    Waiting,
}

/// As many threads as the machine runs at once.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs seeds until they are done, or until `stop` says so. Chunks that were begun are ended and handed over.
pub fn run(
    seeds: Range<u64>,
    threads: usize,
    lane: impl Fn() -> Lane + Sync,
    stop: &AtomicBool,
    mut hear: impl FnMut(News),
) {
    let next = AtomicU64::new(seeds.start);
    let (send, receive) = sync_channel::<Chunk>(WAITING_MAX);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (send, lane, next, end) = (send.clone(), &lane, &next, seeds.end);
            scope.spawn(move || {
                let mut lane = lane();
                while !stop.load(Ordering::Relaxed) {
                    let from = next.fetch_add(CHUNK, Ordering::Relaxed);
                    if from >= end || send.send(chunk(&mut lane, from..end.min(from + CHUNK))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let (mut early, mut due) = (BTreeMap::new(), seeds.start);
        loop {
            match receive.recv_timeout(LOOK) {
                Ok(chunk) => {
                    early.insert(chunk.seeds.start, chunk);
                    while let Some(chunk) = early.remove(&due) {
                        due = chunk.seeds.end;
                        hear(News::Done(chunk));
                    }
                }
                Err(RecvTimeoutError::Timeout) => hear(News::Waiting),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
}

fn chunk(lane: &mut Lane, seeds: Range<u64>) -> Chunk {
    let (mut report, mut found) = (Report::default(), Vec::new());
    for seed in seeds.clone() {
        let ran = lane.seed(seed, false);
        report.add(&ran.report);
        found.extend(ran.broken.into_iter().map(|broken| Found { seed, broken }));
    }
    Chunk { seeds, report, found }
}

/// The same range on one thread and on three gives the same totals and the same finds in the same order, also where
/// the program panics.
pub fn check_threads() {
    let never = AtomicBool::new(false);
    let all = |threads| {
        let (mut report, mut found, mut due) = (Report::default(), Vec::new(), 5);
        run(
            5..40,
            threads,
            || Lane::new(&super::shrink::PANICS),
            &never,
            |news| {
                if let News::Done(chunk) = news {
                    assert_eq!(chunk.seeds.start, due, "in order and without a gap");
                    due = chunk.seeds.end;
                    report.add(&chunk.report);
                    found.extend(chunk.found);
                }
            },
        );
        assert_eq!(due, 40);
        (report, found)
    };
    let (one, three) = (all(1), all(3));
    assert_eq!(one, three);
    assert_eq!(one.0.seeds, 35);
    assert!(one.1.iter().any(|found| found.broken.what.contains("planted panic")));
}

/// A run that is asked to stop hands over a beginning of its range.
pub fn check_stop() {
    let stop = AtomicBool::new(false);
    let mut due = 0;
    run(
        0..1_000_000,
        2,
        || Lane::new(&super::planted::NOTHING),
        &stop,
        |news| {
            if let News::Done(chunk) = news {
                assert_eq!(chunk.seeds.start, due);
                due = chunk.seeds.end;
                stop.store(true, Ordering::Relaxed);
            }
        },
    );
    assert!((CHUNK..1_000).contains(&due));
}
