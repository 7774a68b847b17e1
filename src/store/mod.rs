//! Every SQL statement of the Worker, one named function per question.

pub mod database;
pub mod hrana;
