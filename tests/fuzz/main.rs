//! Every reader of outside input against documents that are nearly right.
//!
//! Random text stops at a parser's first check. So the documents here are valid ones with a few pieces changed:
//! another type, a huge number, a name twice, a cut. What must hold whatever comes in:
//!
//! - nothing panics, and what is kept or answered stays within the named limits;
//! - what is accepted is its own normal form: written and read again, it is the same;
//! - a refusal repeats nothing of the input but field names, in the path of the field;
//! - nothing is a success without its proof.
//!
//! The number of cases is proptest's own setting, `PROPTEST_CASES`.
#![cfg(not(target_arch = "wasm32"))]
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test stops where something is not as expected, in its helpers too"
)]

mod document;
mod hostile;

mod address;
mod answers;
mod doors;
mod envelope;
mod hrana;
mod intents;
mod letters;
mod operators;
mod parking;
mod reach;
mod replays;
mod settings;
mod templates;
mod times;
mod webhooks;
mod world;
