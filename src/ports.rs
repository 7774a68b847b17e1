//! What the paths ask of the world. The Worker, the native tests and the simulation each bring their own.
//!
//! The futures are not `Send`: a Worker runs on one thread, and the native tests drive theirs on one.
#![allow(
    async_fn_in_trait,
    reason = "every implementation is single-threaded; no caller needs a Send bound"
)]

use core::time::Duration;

use crate::outbox::time::Millis;

/// The wall clock and the only way to wait.
pub trait Clock {
    /// The time now. Workers freeze it between IO, so two reads without an await in between are equal.
    fn now(&self) -> Millis;
    /// Waits at least this long.
    async fn sleep(&self, duration: Duration);
}

/// What the platform knows of time zones.
pub trait Zones {
    /// How many seconds the clocks of a zone are ahead of UTC at an instant; `None` where there is no such zone. Names
    /// are those of [`crate::outbox::quiet::is_zone_name`].
    fn offset(&self, zone: &str, at: Millis) -> Option<i32>;
}

/// The only source of randomness: ids, claim tokens, jitter.
pub trait Random {
    /// Fills the buffer with bytes nobody can predict.
    fn fill(&self, buffer: &mut [u8]);
}

/// One call to the provider: bytes that were sealed before, and the key they were sealed under.
#[derive(Clone, Copy, Debug)]
pub struct MailRequest<'a> {
    /// The request body, byte for byte as it was sealed.
    pub body: &'a str,
    /// Goes out as `Idempotency-Key`.
    pub idempotency_key: &'a str,
    /// Whether the body is a list of mails, for the provider's door for lists.
    pub batch: bool,
}

/// What one call to the provider came back with, before anybody judges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailAnswer {
    /// A status line arrived.
    Response {
        /// HTTP status.
        status: u16,
        /// The `Retry-After` header as received.
        retry_after: Option<String>,
        /// The body up to a limit; `None` where it never arrived whole (stalled, reset, too long).
        body: Option<Vec<u8>>,
    },
    /// No status line within the time limit. The provider may have taken the mail.
    TimedOut,
    /// The connection failed or was reset. The provider may have taken the mail.
    Disconnected,
}

/// What is read back at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp<'a> {
    /// One mail, by the provider's id: a text that [`crate::outbox::id::is_message_id`] lets pass.
    Mail(&'a str),
    /// A page of the mails that the account sent, newest first, as long as the provider gives.
    Page {
        /// Only mails older than the one with this id, such a text as well.
        after: Option<&'a str>,
    },
}

/// The mail provider.
pub trait Mailer {
    /// Makes exactly one call, bounded in time. It never repeats by itself.
    async fn send(&self, request: MailRequest<'_>) -> MailAnswer;

    /// Reads back, in exactly one call, bounded in time. It sends nothing.
    async fn look_up(&self, query: LookUp<'_>) -> MailAnswer;
}

/// One message for the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMessage {
    /// The body, sent as text.
    pub body: String,
    /// How long the queue holds it back, in seconds; at most the platform's limit of a day.
    pub delay_seconds: u32,
}

/// Why a batch was not taken, or may not have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    /// The queue refused, or did not answer. It may have taken the batch all the same.
    #[error("broker_refused")]
    Refused,
    /// There is no such queue binding.
    #[error("broker_not_configured")]
    NotConfigured,
}

impl BrokerError {
    /// The stable code, for logs and the health record.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Refused => "broker_refused",
            Self::NotConfigured => "broker_not_configured",
        }
    }
}

/// The way into the queue. Only the publisher has one.
pub trait Broker {
    /// Hands over up to 100 messages, all or none as far as the queue says.
    ///
    /// # Errors
    /// [`BrokerError`]; after an error the messages may still arrive.
    async fn send_batch(&self, messages: Vec<QueueMessage>) -> Result<(), BrokerError>;
}

/// How loud a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The ordinary course of things.
    Info,
    /// Something was lost, late or odd, and the pipeline mends it by itself.
    Warn,
    /// Somebody should look.
    Alarm,
}

/// A value in a note. There is no variant for free text: what goes into a log is a code, a number or an id of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// A stable code.
    Code(&'static str),
    /// A count or a duration.
    Number(i64),
    /// An outbox id, an attempt id; never anything about a person.
    Id(&'a str),
}

/// Where notes go. Structured, without personal data.
pub trait Log {
    /// Writes one note under a stable code.
    fn note(&self, level: Level, code: &'static str, fields: &[(&'static str, Field<'_>)]);
}

/// All that a path needs, except the way into the queue, which only the publisher gets.
pub trait World {
    /// The database.
    type Database: crate::store::database::Database;
    /// The provider.
    type Mailer: Mailer;
    /// Time.
    type Clock: Clock;
    /// Randomness.
    type Random: Random;
    /// Notes.
    type Log: Log;
    /// Time zones.
    type Zones: Zones;

    /// The database.
    fn database(&self) -> &Self::Database;
    /// The provider.
    fn mailer(&self) -> &Self::Mailer;
    /// Time.
    fn clock(&self) -> &Self::Clock;
    /// Randomness.
    fn random(&self) -> &Self::Random;
    /// Notes.
    fn log(&self) -> &Self::Log;
    /// Time zones.
    fn zones(&self) -> &Self::Zones;
}

/// A random number, for jitter.
pub fn random_number(random: &impl Random) -> u64 {
    let mut bytes = [0; 8];
    random.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
