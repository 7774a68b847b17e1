//! The development database: Hrana over HTTP in front of the embedded libSQL engine.
