//! The domain: what a mail that is owed may become, and who decides. Pure functions over values.

pub mod address;
pub mod attachment;
pub mod attempt;
pub mod backoff;
mod calendar;
pub mod canonical;
pub mod content;
pub mod duration;
pub mod envelope;
pub mod family;
#[cfg(test)]
mod family_file;
mod fields;
pub mod headers;
pub mod id;
pub mod identity;
pub mod intent;
pub mod json;
pub mod keys;
pub mod letter;
pub mod problem;
pub mod quiet;
pub mod receipt;
pub mod seal;
pub mod signature;
pub mod status;
pub mod tags;
pub mod time;
pub mod unsubscribe;
pub mod window;
