//! The paths against real parts: the Worker's own code, the real engine behind the real wire format, and the provider
//! model in process. Time stands still unless a test moves it.
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

mod admission;
mod admitted;
mod answers;
mod attachments;
mod backoff;
mod batches;
mod cancel;
mod claim;
mod dead_letters;
mod discard;
mod doors;
mod doubt;
mod drain;
mod freeze;
mod happy;
mod health;
mod hrana;
mod idempotency;
mod intake;
mod lease;
mod ledger;
mod lift;
mod look_up;
mod migrations;
mod pace;
mod parked_bodies;
mod parking;
mod pauses;
mod plans;
mod poison;
mod privacy;
mod prune;
mod publish;
mod queues;
mod receipts;
mod relay;
mod reports;
mod retry_dead;
mod review;
mod settle;
mod support;
mod suppressions;
mod suspects;
mod thundering;
mod time;
mod unknown;
mod unsubscribe;
mod waves;
