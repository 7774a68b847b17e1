//! Sealpost: the mail room of an app on Cloudflare.
//!
//! The rooms, from the inside out:
//!
//! - [`outbox`]: the domain. Pure: no IO, no clock, no randomness of its own.
//! - [`ports`]: what the paths ask of the world: database, broker, mailer, clock, randomness.
//! - [`store`]: every SQL statement of the Worker, one named function per question.
//! - [`provider`]: turns a letter into the provider's request, and an answer into a decision.
//! - `edge`: the only room that knows Cloudflare; it exists on the Wasm target alone.
//! - `devstack`: the local stack (database server, provider model); it exists with the feature `cli` alone.

pub mod config;
pub mod consume;
pub mod outbox;
pub mod ports;
pub mod provider;
pub mod store;

#[cfg(all(feature = "cli", not(target_arch = "wasm32")))]
pub mod devstack;
#[cfg(target_arch = "wasm32")]
mod edge;
