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
    if std::env::args().nth(1).as_deref() == Some("exhaustive") {
        std::process::exit(exhaustive::main(std::env::args().nth(2).as_deref()));
    }
    if std::env::args().nth(1).as_deref() == Some("interleavings") {
        let args: Vec<String> = std::env::args().skip(2).collect();
        std::process::exit(match args.as_slice() {
            [name, grain, answer, decisions] => interleave::repeat(name, grain, answer, decisions),
            _ => interleave::main(args.first().map(String::as_str)),
        });
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
