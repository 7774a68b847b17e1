//! Runs seeds and says what came of them: violations as they are found, the shortest trace of each kind, the totals,
//! and one last line.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use sha2::{Digest, Sha256};

use super::command::SeedWords;
use super::finds::{self, Find};
use super::lane::{Kind, Ran};
use super::progress::Progress;
use super::report::Report;
use super::resume::Ledger;
use super::runner::{self, Found, News};
use super::shrink::{self, Shrunk, shrink};
use super::stop;

/// Violations that are printed; all are counted.
const LISTED_MAX: usize = 20;
/// Kinds whose traces are shrunk at the end of a run: each takes up to a minute or two.
const SHRUNK_MAX: usize = 3;
/// A shorter run is no proof that something is never exercised: rare faults come once in some hundred seeds.
const ZEROS_COUNT_FROM: u64 = 2_000;
/// From so few seeds on every promise is tried: a run that held nothing against one of them is a world that stands still,
/// not a program that keeps its promises.
const UNCHECKED_COUNT_FROM: u64 = 100;
/// A ledger is written after so many seeds: a killed run loses less than a minute.
const SAVE_SEEDS: u64 = 1_000;

/// What ran, and how it is to be judged.
struct Total {
    report: Report,
    found: Vec<Found>,
    interrupted: bool,
}

/// Runs what the words say.
pub fn run(words: &SeedWords) -> ExitCode {
    let total = match words.seed {
        Some(seed) => one(seed, words),
        None if words.resume => resumed(words),
        None => Ok(range(words)),
    };
    match total {
        Ok(total) => closing(&total),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn closing(total: &Total) -> ExitCode {
    let Total {
        report, interrupted, ..
    } = total;
    println!(
        "{} seeds, {} steps, {} violations",
        report.seeds, report.steps, report.violations
    );
    let zeros = report.seeds >= ZEROS_COUNT_FROM && !report.zeros().is_empty();
    let still = report.seeds >= UNCHECKED_COUNT_FROM && report.unchecked().next().is_some();
    if still {
        println!("the world stood still: some promise was never put to the test");
    }
    if report.violations > 0 || ((zeros || still) && !interrupted) {
        ExitCode::FAILURE
    } else if *interrupted {
        ExitCode::from(stop::INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    }
}

/// A range, and nothing remembered.
fn range(words: &SeedWords) -> Total {
    let (mut report, mut found) = (Report::default(), Vec::new());
    let mut progress = Progress::with_violations(words.seeds, "seeds");
    go(
        words.from..words.from.saturating_add(words.seeds),
        words,
        &mut progress,
        |chunk| {
            report.add(&chunk.report);
            found.extend(chunk.found);
            Ok(())
        },
    )
    .expect("nothing is written");
    let total = Total {
        report,
        found,
        interrupted: stop::was_asked(),
    };
    conclude(&total, words, &progress);
    total
}

/// What is left of a range on this commit; the totals are those of all its runs.
fn resumed(words: &SeedWords) -> Result<Total, String> {
    let commit = commit()?;
    let mut ledger = Ledger::open(&home(), &commit)?;
    let wanted = words.from..words.from.saturating_add(words.seeds);
    let left = ledger.left(wanted.clone());
    let count: u64 = left.iter().map(|range| range.end - range.start).sum();
    println!(
        "{commit}: {} of {} seeds were run before",
        words.seeds - count,
        words.seeds
    );
    let mut progress = Progress::with_violations(count, "seeds");
    ledger.total().1.iter().take(LISTED_MAX).for_each(say);
    let mut unsaved = 0;
    for range in left {
        go(range, words, &mut progress, |chunk| {
            unsaved += chunk.report.seeds;
            ledger.add(&chunk);
            if unsaved >= SAVE_SEEDS {
                unsaved = 0;
                ledger.save()?;
            }
            Ok(())
        })?;
    }
    ledger.save()?;
    let (report, found) = ledger.total();
    let total = Total {
        report,
        found,
        interrupted: stop::was_asked(),
    };
    conclude(&total, words, &progress);
    for ran in ledger.ranges() {
        println!(
            "{commit}: seeds {} to {}, {} violations",
            ran.from,
            ran.from + ran.seeds - 1,
            ran.violations
        );
    }
    Ok(total)
}

/// Runs a range, says how far it is and what is found; `take` gets the chunks in order.
fn go(
    seeds: Range<u64>,
    words: &SeedWords,
    progress: &mut Progress,
    mut take: impl FnMut(runner::Chunk) -> Result<(), String>,
) -> Result<(), String> {
    let (mut listed, mut failed) = (0, Ok(()));
    let stop = stop::asked();
    runner::run(
        seeds,
        words.threads,
        || words.lane(),
        stop,
        |news| {
            if let News::Done(chunk) = news {
                progress.add(chunk.report.seeds, chunk.report.violations);
                for found in &chunk.found {
                    listed += 1;
                    if listed <= LISTED_MAX {
                        say(found);
                    }
                    if listed == LISTED_MAX {
                        println!("more violations are counted and not shown");
                    }
                }
                if failed.is_ok() {
                    failed = take(chunk);
                }
            }
            progress.tick();
        },
    );
    failed
}

fn say(found: &Found) {
    let kind = found.broken.kind;
    println!(
        "seed {} breaks {} ({}): {}",
        found.seed,
        kind.name(),
        kind.promise(),
        found.broken.what
    );
}

/// The totals, and of each kind of violation the first one's shortest trace.
fn conclude(total: &Total, words: &SeedWords, progress: &Progress) {
    eprintln!("  {:.1} seeds a second", progress.pace());
    for line in total.report.lines() {
        println!("{line}");
    }
    let zeros = total.report.zeros();
    let judged = total.report.seeds >= ZEROS_COUNT_FROM;
    for zero in &zeros {
        println!(
            "{} {zero}",
            if judged {
                "NEVER EXERCISED:"
            } else {
                "not in so few seeds:"
            }
        );
    }
    let mut shrunk: Vec<Kind> = Vec::new();
    for found in &total.found {
        if shrunk.len() < SHRUNK_MAX && !shrunk.contains(&found.broken.kind) && !total.interrupted {
            shrunk.push(found.broken.kind);
            let mut lane = words.lane();
            let ran = lane.seed(found.seed, false);
            show(
                found.seed,
                words,
                &ran,
                shrink(&mut lane, &ran.tapes, found.broken.kind, shrink::RUNS_MAX).as_ref(),
            );
        }
    }
}

/// One seed: its trace, its shortest trace, its place among the finds.
fn one(seed: u64, words: &SeedWords) -> Result<Total, String> {
    let mut lane = words.lane();
    let ran = lane.seed(seed, true);
    if words.trace {
        for line in &ran.trace {
            println!("{line}");
        }
    }
    let found: Vec<Found> = ran
        .broken
        .iter()
        .map(|broken| Found {
            seed,
            broken: broken.clone(),
        })
        .collect();
    found.iter().for_each(say);
    if words.shrink || words.keep.is_some() {
        let first = ran.broken.first().ok_or(format!("seed {seed} breaks nothing"))?;
        let shrunk = shrink(&mut lane, &ran.tapes, first.kind, shrink::RUNS_MAX);
        let shrunk = shrunk.ok_or(format!("seed {seed} breaks nothing when it runs from its tapes"))?;
        show(seed, words, &ran, Some(&shrunk));
        if let Some(name) = &words.keep {
            let find = Find {
                broke: first.kind,
                why: words.why.clone(),
                fixed_by: words.fixed_by.clone(),
                seed,
                tapes: shrunk.ran.tapes.clone(),
                trace: shrunk.trace().to_vec(),
            };
            println!("kept as {}", finds::keep(&finds::folder(), name, &find)?.display());
        }
    }
    Ok(Total {
        report: ran.report,
        found,
        interrupted: false,
    })
}

fn show(seed: u64, words: &SeedWords, ran: &Ran, shrunk: Option<&Shrunk>) {
    if let Some(shrunk) = shrunk {
        println!(
            "seed {seed}, shrunk in {} runs from {} lines and {} decisions to {} and {}; it breaks {}: {}",
            shrunk.runs,
            ran.first(shrunk.kind).map_or(ran.lines, |broken| broken.line),
            shrink::weight(&ran.tapes),
            shrunk.line(),
            shrink::weight(&shrunk.ran.tapes),
            shrunk.kind.name(),
            shrunk.what()
        );
        for line in shrunk.trace() {
            println!("  {line}");
        }
    }
    let bug = words.suffix();
    println!("all that happened: npm run simulate -- --seed {seed} --trace{bug}");
    println!("the short trace:   npm run simulate -- --seed {seed} --shrink{bug}");
}

/// Where the ledger is kept.
fn home() -> PathBuf {
    std::env::var_os("SEALPOST_HOME").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".sealpost"),
        PathBuf::from,
    )
}

/// What runs. With changes beside the commit, or without a commit, it is this very program.
fn commit() -> Result<String, String> {
    let commit = std::env::var("SEALPOST_COMMIT").unwrap_or_default();
    if !commit.is_empty() && !commit.ends_with("+changes") {
        return Ok(commit);
    }
    let program = std::env::current_exe().and_then(std::fs::read);
    let bytes: [u8; 32] = Sha256::digest(program.map_err(|error| error.to_string())?).into();
    let digest: String = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{commit} program {digest}").trim().to_owned())
}
