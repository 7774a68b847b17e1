//! The provider model over a real socket: Resend's doors, the faults that only a wire can show, news, and the inbox page.
//!
//! The rules themselves are tested beside their code, with time moved by hand. Here a server runs in process on a free
//! port and a client that reads bytes looks at what arrives, and at what does not.
#![cfg(feature = "cli")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test may fail loudly, in its helpers too"
)]

mod client;
mod doors;
mod faults;
mod news;
