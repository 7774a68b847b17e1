//! The domain: what a mail that is owed may become, and who decides. Pure functions over values.

pub mod address;
pub mod canonical;
pub mod content;
pub mod headers;
pub mod identity;
pub mod intent;
pub mod json;
pub mod keys;
pub mod letter;
pub mod problem;
pub mod time;

mod fields;
