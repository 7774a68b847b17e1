//! Sealpost: the mail room of an app on Cloudflare.
//!
//! The rooms, from the inside out:
//!
//! - [`outbox`]: the domain. Pure: no IO, no clock, no randomness of its own.
//! - [`ports`]: what the paths ask of the world: database, broker, mailer, clock, time zones, randomness.
//! - [`provider`]: turns a letter into the provider's request, and an answer into a decision.
//! - [`store`]: every SQL statement of the Worker, one named function per question.
//! - [`config`]: what the program is told from outside, checked as a whole.
//! - The paths, one room each: [`intake`], [`publish`], [`consume`], [`relay`], [`dead_letter`], [`receipts`],
//!   [`reconcile`], [`replay`].
//! - `hours`: when a family's mails may be called, for intake and consumer.
//! - [`operate`]: the doors, HTTP without a platform.
//! - `edge`: the only room that knows Cloudflare; it exists on the Wasm target alone.
//! - `devstack`: the local stack (database server, provider model); it exists with the feature `cli` alone.

pub mod config;
pub mod consume;
pub mod dead_letter;
mod hours;
pub mod intake;
pub mod operate;
pub mod outbox;
mod parking;
pub mod policy;
pub mod ports;
pub mod provider;
pub mod publish;
pub mod receipts;
pub mod reconcile;
pub mod relay;
pub mod replay;
pub mod store;

#[cfg(all(feature = "cli", not(target_arch = "wasm32")))]
pub mod devstack;
#[cfg(target_arch = "wasm32")]
mod edge;
