//! The development database: Hrana 2 and 3 over HTTP in front of the embedded libSQL engine.
//!
//! It stands in for Turso on a developer's machine and in tests, and answers as the real server (`sqld` 0.24) does:
//! the same words, the same codes, the same surprises. From the inside out:
//!
//! - [`engine::Engine`]: bytes in, status and bytes out. Streams live by batons ([`streams`]), writers queue for one
//!   lock ([`writer`]), statements are parsed before anything runs ([`program`]).
//! - [`Server`]: the engine with counts, latency and faults; tests in one process call it without HTTP.
//! - [`serve`]: the HTTP face on a listener, with the switches under `/_/`.
//!
//! The file is opened through `libsql`. Its statements run on `rusqlite` in libSQL's own edition, over the same engine
//! in the same process, as they do in the real server: `libsql`'s rows cut a text at a NUL, panic on text that is not
//! UTF-8, and hide the counts of rows read and the place of an error.
//!
//! Known differences: no `replication_index` (there are no replicas), no protobuf, no WebSockets, a cursor is sent at
//! once, and the engine is built without the mathematical SQL functions.

pub mod answer;
pub mod clock;
mod controls;
pub mod counters;
pub mod engine;
pub mod failure;
pub mod faults;
mod http;
pub mod program;
pub mod proto;
mod server;
mod session;
mod statement;
pub mod streams;
mod values;
pub mod writer;

pub use http::serve;
pub use server::{BodyWait, Options, Outcome, Server};
