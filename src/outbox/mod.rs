//! The domain: what a mail that is owed may become, and who decides. Pure functions over values.

pub mod family;
#[cfg(test)]
mod family_file;
pub mod seal;
pub mod tags;
pub mod time;
