//! The domain: what a mail that is owed may become, and who decides. Pure functions over values.

pub mod attempt;
pub mod backoff;
pub mod envelope;
pub mod id;
pub mod status;
pub mod time;
pub mod window;
