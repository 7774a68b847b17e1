//! Three ways to take a pledge, one crash, one audit.
//!
//! A donor pledges an amount, and a mail has to follow from it. Two of the designs write to the database and to the
//! queue one after the other; they are not part of the product and stand in `dual.rs`. The third is the product: its
//! intake, its relay, its publisher and its consumer, over the real engine behind the real wire format. All three share
//! one kind of broker, one provider and one audit, which asks two things: was every recorded pledge announced, and was
//! every announced pledge recorded?
//!
//! The situations are in `requests.rs`, `outage.rs`, `relay.rs` and `receivers.rs`, the summary and the proof that the
//! audit can fail in `table.rs`. A relay and a receiver that are wrong on purpose stand beside the tests that use them.
//!
//! The words of the example, and what stands for them here:
//!
//! - The pledge and its message: the intake writes no business rows yet, so the intent of the pledge's receipt is both
//!   in one row, and what would be two rows of one transaction is one.
//! - The broker's messages: every envelope that the queue took, in the order in which it took them.
//! - The matching fund: the amounts in the mails that the provider accepted. A pledge is matched when its receipt is out.
//! - A turn of the relay: one tick of the schedule, a minute after the one before.
#![cfg(not(target_arch = "wasm32"))]
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test stops where something is not as expected, in its helpers too"
)]

mod audit;
mod dual;
mod ear;
mod outage;
mod platform;
mod receivers;
mod relay;
mod requests;
#[path = "../paths/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the paths use more of their world than this test does"
)]
mod support;
mod table;
