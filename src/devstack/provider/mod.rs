//! The provider model: answers like Resend, keeps its key rule, and can be told to fail.
//!
//! Two halves. The rules are pure: no IO, no clock, no randomness of their own, so a simulation runs the very code
//! that the server runs.
//!
//! - [`model`]: a send in two steps, arrival and acceptance; [`call`] is what goes in and comes out; [`access`],
//!   [`rate`], [`keys`], [`mail`] and [`list`] are its rules, [`ledger`] its memory, [`read`] the reading back.
//! - [`fault`]: the rules by which a test makes it fail; [`kind`]: the ways to fail; [`effect`]: what each does to an
//!   answer.
//! - [`webhook`]: delivery news and their signature; [`courier`]: which follow a mail by themselves, and their tries.
//! - [`answer`]: answers and error bodies.
//!
//! The other half is the server, [`serve`]: Resend's doors, the doors under `/_/` that only a model has, an inbox page
//! for a person, and connections that can be closed without an answer.

pub mod access;
pub mod answer;
pub mod call;
mod control;
pub mod courier;
mod deliver;
pub mod effect;
pub mod fault;
mod http;
pub mod keys;
pub mod kind;
pub mod ledger;
pub mod list;
pub mod mail;
pub mod model;
mod page;
mod postman;
pub mod rate;
pub mod read;
mod shared;
pub mod webhook;
mod wire;

pub use http::serve;
pub use shared::{Options, Webhook};
