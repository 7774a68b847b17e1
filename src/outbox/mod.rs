//! The domain: what a mail that is owed may become, and who decides. Pure functions over values.

pub mod time;
