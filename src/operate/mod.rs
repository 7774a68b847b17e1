//! The doors: HTTP without a platform. `edge` turns the Worker's request into a [`Request`] and an [`Answer`] back.

mod auth;
mod cancel;
mod doors;
mod failure;
mod health;
mod http;
mod lists;
mod metrics;
mod parking;
mod pauses;
mod queues;
mod receipts;
mod replays;
mod story;
mod suppressions;
mod unknown;
mod unsubscribe;

pub use doors::{BODY_BYTES_MAX, answer, not_configured};
pub use http::{Answer, Request};
