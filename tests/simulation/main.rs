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
#![allow(unreachable_pub, reason = "a test binary exports nothing")]

mod callers;
mod checks;
mod choices;
mod command;
mod doors;
mod exhaustive;
mod faults;
mod finds;
mod interleave;
mod kernel;
mod lane;
mod ledger;
mod oracle;
mod paced;
mod pausing;
mod people;
mod planted;
mod ports;
mod progress;
mod queue;
mod report;
mod resume;
mod run;
mod runner;
mod same;
mod schedule;
mod script;
mod seeds;
mod setting;
mod shrink;
mod sim;
mod stage;
mod stop;
mod store;
mod times;
mod together;
mod trace;
mod webhooks;

#[path = "../paths/support/settings.rs"]
#[allow(dead_code, reason = "the tests of the paths use all of it")]
mod settings;

fn main() -> std::process::ExitCode {
    command::main()
}
