//! The local stack: real parts where there are some, and honest models where there are none.

pub mod database;
pub mod provider;
pub mod zones;
