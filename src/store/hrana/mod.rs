//! The client for Hrana over HTTP (`POST /v3/pipeline`, JSON): one request per transaction.
//!
//! Written against the protocol (libSQL's HRANA_3_SPEC, Turso's "SQL over HTTP" document) and the behaviour of
//! real servers where those differ from it.

mod client;
mod wire;

pub use client::{Exchange, Hrana, Pipeline, Repeating, Reply, Transport, TransportError};
pub use wire::{Answer, LeakedStream, WireError, read_answer, sequence_request, transaction_request};
