//! The doors: HTTP without a platform. `edge` turns the Worker's request into a [`Request`] and an [`Answer`] back.

mod auth;
mod doors;
mod health;
mod http;
mod story;

pub use doors::{BODY_BYTES_MAX, answer, not_configured};
pub use http::{Answer, Request};
