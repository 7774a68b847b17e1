//! Long runs in many sittings: `simulation.json` says which seeds were run on which commit and what came of them. It is
//! replaced as a whole, so that whoever is killed at any time loses some seeds of the end and nothing else.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::lane::{Broken, Kind};
use super::report::{INVARIANTS, Report};
use super::runner::{Chunk, Found};

/// Commits that are remembered; the oldest goes first.
const COMMITS_MAX: usize = 20;
/// Violations that are remembered of one commit; all are counted.
const FOUND_MAX: usize = 1_000;

#[derive(Default, Serialize, Deserialize)]
struct Record {
    /// What ran: a commit, or a commit with changes and the digest of the program.
    commit: String,
    ranges: Vec<Ran>,
    found: Vec<SavedFound>,
    faults: BTreeMap<String, u64>,
    arrows: BTreeMap<String, u64>,
    checks: BTreeMap<String, u64>,
    events: BTreeMap<String, u64>,
}

/// Seeds that were run one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    pub from: u64,
    pub seeds: u64,
    pub steps: u64,
    pub violations: u64,
}

#[derive(Serialize, Deserialize)]
struct SavedFound {
    seed: u64,
    broke: String,
    what: String,
}

/// The file, held by one run at a time.
pub struct Ledger {
    path: PathBuf,
    records: Vec<Record>,
    /// Held until the run ends, however it ends.
    _lock: File,
}

impl Ledger {
    /// Opens the ledger of a folder for what runs now.
    pub fn open(folder: &Path, commit: &str) -> Result<Self, String> {
        let path = folder.join("simulation.json");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join("simulation.lock")).map_err(failed)?;
        lock.try_lock()
            .map_err(|_| format!("another run writes {} already", path.display()))?;
        let mut records: Vec<Record> = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| format!("{} is no ledger ({error}): move it away", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        // The newest is the last.
        let at = records.iter().position(|record| record.commit == commit);
        let record = at.map_or_else(
            || Record {
                commit: commit.to_owned(),
                ..Record::default()
            },
            |at| records.remove(at),
        );
        records.push(record);
        records.drain(..records.len().saturating_sub(COMMITS_MAX));
        Ok(Self {
            path,
            records,
            _lock: lock,
        })
    }

    fn record(&self) -> &Record {
        self.records.last().expect("opened with one")
    }

    /// The ranges that were run, in order.
    pub fn ranges(&self) -> &[Ran] {
        &self.record().ranges
    }

    /// What is left of a range.
    pub fn left(&self, seeds: Range<u64>) -> Vec<Range<u64>> {
        let mut left = Vec::new();
        let mut from = seeds.start;
        for ran in &self.record().ranges {
            let (start, end) = (ran.from, ran.from + ran.seeds);
            if start >= seeds.end {
                break;
            }
            if start > from {
                left.push(from..start);
            }
            from = from.max(end);
        }
        if from < seeds.end {
            left.push(from..seeds.end);
        }
        left
    }

    /// Adds what came of seeds that were left.
    pub fn add(&mut self, chunk: &Chunk) {
        let record = self.records.last_mut().expect("opened with one");
        record.ranges.push(Ran {
            from: chunk.seeds.start,
            seeds: chunk.seeds.end - chunk.seeds.start,
            steps: chunk.report.steps,
            violations: chunk.report.violations,
        });
        record.ranges.sort_by_key(|ran| ran.from);
        record.ranges = joined(&record.ranges);
        let room = FOUND_MAX.saturating_sub(record.found.len());
        record
            .found
            .extend(chunk.found.iter().take(room).map(|found| SavedFound {
                seed: found.seed,
                broke: found.broken.kind.name(),
                what: found.broken.what.clone(),
            }));
        sum(&mut record.faults, &chunk.report.faults);
        sum(&mut record.arrows, &chunk.report.arrows);
        sum(&mut record.events, &chunk.report.events);
        let checks = chunk.report.checks.iter();
        let checks: Vec<_> = checks
            .map(|(invariant, count)| (format!("{invariant:?}"), *count))
            .collect();
        for (name, count) in checks {
            *record.checks.entry(name).or_default() += count;
        }
    }

    /// Replaces the file.
    pub fn save(&self) -> Result<(), String> {
        let new = self.path.with_extension("json.new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec_pretty(&self.records)?)?;
            // Renamed before its bytes are on the disk, a power cut could leave an empty ledger.
            file.sync_all()?;
            std::fs::rename(&new, &self.path)
        };
        write().map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// What came of all runs of this commit.
    pub fn total(&self) -> (Report, Vec<Found>) {
        let record = self.record();
        let all = |field: fn(&Ran) -> u64| record.ranges.iter().map(field).sum();
        let known = |(name, count): (&String, &u64)| (known(name), *count);
        let report = Report {
            seeds: all(|ran| ran.seeds),
            steps: all(|ran| ran.steps),
            violations: all(|ran| ran.violations),
            faults: record.faults.iter().map(known).collect(),
            arrows: record.arrows.clone(),
            checks: INVARIANTS
                .into_iter()
                .filter_map(|invariant| Some((invariant, *record.checks.get(&format!("{invariant:?}"))?)))
                .collect(),
            events: record.events.iter().map(known).collect(),
        };
        let found = record.found.iter().filter_map(|found| {
            let broken = Broken {
                kind: Kind::named(&found.broke)?,
                what: found.what.clone(),
                line: 0,
            };
            let seed = found.seed;
            Some(Found { seed, broken })
        });
        let mut found: Vec<Found> = found.collect();
        found.sort_by_key(|found| found.seed);
        (report, found)
    }
}

fn joined(ranges: &[Ran]) -> Vec<Ran> {
    let mut joined: Vec<Ran> = Vec::new();
    for ran in ranges {
        match joined.last_mut() {
            Some(last) if last.from + last.seeds == ran.from => {
                last.seeds += ran.seeds;
                last.steps += ran.steps;
                last.violations += ran.violations;
            }
            _ => joined.push(ran.clone()),
        }
    }
    joined
}

fn sum<Name: ToString>(into: &mut BTreeMap<String, u64>, counts: &BTreeMap<Name, u64>) {
    for (name, count) in counts {
        *into.entry(name.to_string()).or_default() += count;
    }
}

/// A name that lives as long as the program: there are few, and they are read once.
fn known(name: &str) -> &'static str {
    let faults = super::faults::ALL.iter().find(|fault| **fault == name);
    faults.copied().unwrap_or_else(|| name.to_owned().leak())
}

/// A run that is stopped anywhere goes on there, counts what a single run counts, and never mixes commits.
#[allow(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]
pub fn check_resume() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lane = super::lane::Lane::new(&super::shrink::FORGETS);
    let mut chunk = |seeds: Range<u64>| {
        let (mut report, mut found) = (Report::default(), Vec::new());
        for seed in seeds.clone() {
            let ran = lane.seed(seed, false);
            report.add(&ran.report);
            found.extend(ran.broken.into_iter().map(|broken| Found { seed, broken }));
        }
        Chunk { seeds, report, found }
    };
    let whole = chunk(2..12);
    let mut first = Ledger::open(folder.path(), "one").expect("a new ledger");
    assert!(Ledger::open(folder.path(), "one").is_err(), "one at a time");
    assert_eq!(first.left(2..12), [2..12]);
    first.add(&chunk(2..5));
    first.add(&chunk(8..9));
    first.save().expect("written");
    first.add(&chunk(5..8));
    // Killed here: what was not saved is not known, and is run again.
    drop(first);
    let mut second = Ledger::open(folder.path(), "one").expect("the same ledger");
    assert_eq!(second.left(2..12), [5..8, 9..12]);
    assert_eq!(second.left(0..4), [0..2]);
    assert_eq!(second.left(3..5), []);
    for left in second.left(2..12) {
        second.add(&chunk(left));
    }
    second.save().expect("written");
    assert_eq!(second.ranges().len(), 1, "neighbours are one range");
    let (report, found) = second.total();
    assert_eq!(report, whole.report);
    let seeds = |found: &[Found]| {
        found
            .iter()
            .map(|found| (found.seed, found.broken.kind))
            .collect::<Vec<_>>()
    };
    assert!(!found.is_empty());
    assert_eq!(seeds(&found), seeds(&whole.found));
    drop(second);
    assert_eq!(
        Ledger::open(folder.path(), "two").expect("a ledger").left(2..12),
        [2..12]
    );
    std::fs::write(folder.path().join("simulation.json"), "{").expect("written");
    assert!(Ledger::open(folder.path(), "one").is_err_and(|error| error.contains("is no ledger")));
}
