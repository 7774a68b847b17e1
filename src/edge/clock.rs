//! Time and randomness.

use core::time::Duration;

use crate::outbox::time::Millis;
use crate::ports::{Clock, Random};

/// The Worker's clock. It stands still between IO, which suits a program that reads it once a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeClock;

impl Clock for EdgeClock {
    fn now(&self) -> Millis {
        Millis::new(i64::try_from(worker::Date::now().as_millis()).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, duration: Duration) {
        worker::Delay::from(duration).await;
    }
}

/// The platform's cryptographic randomness.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeRandom;

impl Random for EdgeRandom {
    fn fill(&self, buffer: &mut [u8]) {
        if getrandom::fill(buffer).is_err() {
            // It cannot fail in workerd. Should it ever, ids must still differ: a collision is refused by the database.
            for byte in buffer {
                *byte = (js_sys::Math::random() * 256.0) as u8;
            }
        }
    }
}
