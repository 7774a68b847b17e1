//! Every SQL statement of the Worker, one named function per question.
//!
//! Each function is one transaction and one round trip. Where statements may run twice because an answer was lost, the
//! function's comment says why that is harmless.

mod admit;
pub mod batches;
pub mod cancel;
pub mod claim;
pub mod database;
pub mod dead_letters;
pub mod discard;
pub mod guard;
pub mod hrana;
pub mod inspect;
pub mod intake;
mod lists;
pub mod look_up;
pub mod metrics;
#[cfg(not(target_arch = "wasm32"))]
pub mod migrations;
pub mod open;
pub mod operator_log;
pub mod outside;
pub mod parking;
pub mod pauses;
mod prune;
pub mod publish;
pub mod queues;
mod ready;
pub mod receipts;
pub mod replays;
pub mod row;
mod send_secrets;
pub mod settle;
mod shared_sql;
mod slots;
pub mod suppressions;
mod tallies;
pub mod unknown;
pub mod unsubscribe;
