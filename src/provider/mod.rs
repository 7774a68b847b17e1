//! The provider's side of the house: a letter becomes a request, an answer becomes a decision.

pub mod batch;
pub mod classify;
pub mod code;
pub mod filters;
pub mod look_up;
pub mod render;
pub mod retry_after;
mod rules;
pub mod template;
#[cfg(test)]
mod template_file;
mod tree;
