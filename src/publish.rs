//! The publisher: the only way into the queue.
//!
//! Every row it publishes is reserved first (`publish_count` and a time until which the relay leaves it alone), by the
//! insert that records it or by a page of the relay. IO steps, and what a death right after each leaves behind:
//!
//! 1. *Send* a chunk to the queue. Dead after it: the messages arrive, the rows say `pending` or `retry`; the claim
//!    takes them from there.
//! 2. *Mark* the rows `enqueued`, unless anybody has moved them since the reservation. Dead before it: the reservation
//!    runs out and the relay publishes once more, which the claim absorbs.
//!
//! The queue may refuse for hours: the rows keep their states, burn no try, and the relay comes back less and less
//! often.

use core::time::Duration;

use crate::config::timing::BATCH_MAX;
use crate::config::{Config, Timing};
use crate::outbox::envelope::Envelope;
use crate::outbox::time::Millis;
use crate::ports::{Broker, BrokerError, Clock as _, Field, Level, Log as _, QueueMessage, World};
use crate::store::database::DatabaseError;
use crate::store::publish::{Reservation, mark_published};

/// Tries of one chunk after an intake; the relay makes one, since it comes again.
const INTAKE_TRIES: u32 = 3;
/// The pause before the second try; it doubles.
const INTAKE_PAUSE: Duration = Duration::from_millis(200);

/// What became of a publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Messages that the queue took.
    pub taken: usize,
    /// Messages that it refused last, and why.
    pub refused: Option<BrokerError>,
}

/// Publishes what an intake has just recorded; runs after its answer.
pub async fn publish_after_intake<W: World>(
    world: &W,
    broker: &impl Broker,
    config: &Config,
    reservations: &[Reservation],
) -> Published {
    publish(world, broker, &config.timing, reservations, INTAKE_TRIES).await
}

/// Publishes a page of the relay.
pub(crate) async fn publish_page<W: World>(
    world: &W,
    broker: &impl Broker,
    config: &Config,
    reservations: &[Reservation],
) -> Published {
    publish(world, broker, &config.timing, reservations, 1).await
}

async fn publish<W: World>(
    world: &W,
    broker: &impl Broker,
    timing: &Timing,
    reservations: &[Reservation],
    tries: u32,
) -> Published {
    let mut published = Published::default();
    for chunk in reservations.chunks(BATCH_MAX) {
        if let Err(error) = send(world, broker, chunk, tries).await {
            world
                .log()
                .note(Level::Warn, "publish_refused", &[("error", Field::Code(error.code()))]);
            published.refused = Some(error);
            // A queue that refuses one chunk refuses the next as well.
            break;
        }
        published.taken = published.taken.saturating_add(chunk.len());
        let now = world.clock().now();
        if let Err(error) = mark_published(world.database(), chunk, now, now.plus(timing.enqueued_patience)).await {
            let code: DatabaseError = error;
            world.log().note(
                Level::Warn,
                "mark_published_failed",
                &[("error", Field::Code(code.code()))],
            );
        }
    }
    published
}

async fn send<W: World>(world: &W, broker: &impl Broker, chunk: &[Reservation], tries: u32) -> Result<(), BrokerError> {
    let mut pause = INTAKE_PAUSE;
    let mut tried = 0u32;
    loop {
        tried = tried.saturating_add(1);
        match broker.send_batch(messages(chunk, world.clock().now())).await {
            Ok(()) => return Ok(()),
            Err(BrokerError::NotConfigured) => return Err(BrokerError::NotConfigured),
            Err(BrokerError::Refused) if tried >= tries => return Err(BrokerError::Refused),
            Err(BrokerError::Refused) => {
                world.clock().sleep(pause).await;
                pause = pause.saturating_mul(2);
            }
        }
    }
}

/// A hundred envelopes of about 90 bytes stay far below the queue's 256 kB.
fn messages(chunk: &[Reservation], now: Millis) -> Vec<QueueMessage> {
    chunk
        .iter()
        .map(|row| QueueMessage {
            body: Envelope::to_row(&row.id).to_body(),
            delay_seconds: delay(row.due_at, now),
        })
        .collect()
}

/// Rows are published when they are due or nearly so; the queue bridges the rest of a tick and never more.
fn delay(due_at: i64, now: Millis) -> u32 {
    const DELAY_SECONDS_MAX: u128 = 3_600;
    let wait = Millis::new(due_at)
        .since(now)
        .as_millis()
        .div_ceil(1_000)
        .min(DELAY_SECONDS_MAX);
    u32::try_from(wait).unwrap_or(0)
}
