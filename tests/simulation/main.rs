//! The simulation. See docs/testing.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test stops where something is not as expected, in its helpers too"
)]
#![cfg(not(target_arch = "wasm32"))]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "a test binary exports nothing; shared helpers are used in part"
)]

mod callers;
mod choices;
mod exhaustive;
mod faults;
mod interleave;
mod kernel;
mod oracle;
mod planted;
mod ports;
mod queue;
mod report;
mod run;
mod schedule;
mod script;
mod setting;
mod sim;
mod stage;
mod store;
mod trace;

#[path = "../paths/support/settings.rs"]
mod settings;

fn main() {
    use std::rc::Rc;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(code) = exhaustive_modes(&words) {
        std::process::exit(code);
    }
    let args: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let (from, seeds) = (args.first().copied().unwrap_or(0), args.get(1).copied().unwrap_or(100));
    let trace = args.get(2).is_some();
    let store = Rc::new(store::Store::open(&[], &[]));
    let mut total = report::Report::default();
    let began = std::time::Instant::now();
    for seed in from..from + seeds {
        let outcome = run::run(choices::Choices::from_seed(seed), &store, &planted::NOTHING, trace);
        total.add(&outcome.report);
        for violation in outcome.violations.iter().take(3) {
            println!("seed {seed}: {:?} {}", violation.invariant, violation.what);
        }
        for line in outcome.trace {
            println!("{line}");
        }
    }
    for line in total.lines() {
        println!("{line}");
    }
    println!("zeros: {:?}", total.zeros());
    println!(
        "{} seeds, {} steps, {} violations, {:?}",
        total.seeds,
        total.steps,
        total.violations,
        began.elapsed()
    );
}

/// The modes that leave nothing to chance.
fn exhaustive_modes(words: &[&str]) -> Option<i32> {
    match words {
        ["exhaustive"] => Some(exhaustive::main(None)),
        ["exhaustive", only] => Some(exhaustive::main(Some(only))),
        ["exhaustive", name, plan @ ..] => Some(exhaustive::repeat(name, plan)),
        ["interleavings"] => Some(interleave::main(None)),
        ["interleavings", only] => Some(interleave::main(Some(only))),
        ["interleavings", name, grain, answer, decisions] => Some(interleave::repeat(name, grain, answer, decisions)),
        _ => None,
    }
}
