//! The documents against the code: what the code can do or say and a document leaves out is a failure here, and so is
//! what a document promises and the code does not have.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test stops where something is not as expected, in its helpers too"
)]

mod answers;
mod links;
mod lists;
mod notes;
mod states;
mod text;
