//! When to send again, and when never to.

use core::time::Duration;

use super::wire::{self, LeakedStream, WireError};
use crate::ports::Clock;
use crate::store::database::{Database, DatabaseError, Mode, Repeat, Rows, Statement, Transaction};

/// How often a transaction that did not get its lock is sent again. Nothing ran, so each is free of risk; the server
/// itself already waits seconds for the lock.
const BUSY_TRIES_MAX: u32 = 4;
/// The pause before the first of those; it doubles. Long enough for another batch write to finish.
const BUSY_PAUSE_MS: u64 = 50;
/// How often a repeatable transaction is sent again after a lost answer: gateways hiccup once, rarely twice.
const LOST_TRIES_MAX: u32 = 2;

/// Why no whole answer arrived. In both cases the server may have committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The time limit, which covers the body too, ran out.
    #[error("database_timed_out")]
    TimedOut,
    /// No connection, a reset, or a body that broke off.
    #[error("database_disconnected")]
    Disconnected,
}

/// A whole HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The body, whole.
    pub body: Vec<u8>,
}

/// Carries one request to the server: `fetch` in the Worker, HTTP or a function call natively.
#[allow(
    async_fn_in_trait,
    reason = "every implementation is single-threaded; no caller needs a Send bound"
)]
pub trait Transport {
    /// POSTs `body` to `path` at `base_url`, or at the configured address where it is `None`. Bounded in time, the
    /// body included.
    ///
    /// # Errors
    /// [`TransportError`] where no whole answer arrived.
    async fn post(&self, base_url: Option<&str>, path: &str, body: String) -> Result<Reply, TransportError>;
}

/// Makes one try of one transaction.
#[allow(
    async_fn_in_trait,
    reason = "every implementation is single-threaded; no caller needs a Send bound"
)]
pub trait Exchange {
    /// Sends the transaction once.
    ///
    /// # Errors
    /// [`WireError`] says whether anything may have run.
    async fn once(&self, transaction: &Transaction) -> Result<Vec<Rows>, WireError>;
}

/// A [`Database`] that sends again where that is safe, and nowhere else.
#[derive(Debug)]
pub struct Repeating<E, C> {
    exchange: E,
    clock: C,
}

/// One try over HTTP. It keeps no stream open, so it can be dropped at any moment.
#[derive(Debug)]
pub struct Pipeline<T>(T);

/// A [`Database`] that speaks Hrana.
pub type Hrana<T, C> = Repeating<Pipeline<T>, C>;

/// The endpoint of the protocol's version 3.
const PIPELINE: &str = "/v3/pipeline";

impl<E, C> Repeating<E, C> {
    /// Repeats what `exchange` tries; the clock is only used to pause before a repetition.
    pub fn over(exchange: E, clock: C) -> Self {
        Self { exchange, clock }
    }
}

impl<T: Transport, C: Clock> Hrana<T, C> {
    /// A client over `transport`; the clock is only used to pause before a repetition.
    pub fn new(transport: T, clock: C) -> Self {
        Self::over(Pipeline(transport), clock)
    }

    /// Runs a script, whose statements the server splits, as one request. For migrations.
    ///
    /// # Errors
    /// As [`Database::run`]; the script must open and commit its own transaction.
    pub async fn run_script(&self, script: &str) -> Result<(), DatabaseError> {
        let mut busy = 0u32;
        loop {
            let reply = self
                .exchange
                .post(wire::sequence_request(script))
                .await
                .map_err(|_| DatabaseError::Ambiguous)?;
            if reply.status != 200 {
                return Err(error_of_status(reply.status));
            }
            let (outcome, leaked) = wire::read_sequence(&reply.body);
            if let Some(stream) = leaked {
                self.exchange.close(stream).await;
            }
            match outcome {
                Ok(()) => return Ok(()),
                // Another runner writes. What had run, if anything, was rolled back with the stream.
                Err(WireError::BeginBusy | WireError::Aborted) if busy < BUSY_TRIES_MAX => {
                    self.clock
                        .sleep(Duration::from_millis(BUSY_PAUSE_MS << busy.min(6)))
                        .await;
                    busy = busy.saturating_add(1);
                }
                Err(error) => return Err(decided(error)),
            }
        }
    }
}

impl<T: Transport> Pipeline<T> {
    async fn post(&self, body: String) -> Result<Reply, TransportError> {
        self.0.post(None, PIPELINE, body).await
    }

    /// Gives a stream back that the server kept open (servers have few). Whatever comes of it, the answer we have
    /// stands.
    async fn close(&self, stream: LeakedStream) {
        let body = wire::close_request(&stream.baton);
        let _ = self.0.post(stream.base_url.as_deref(), PIPELINE, body).await;
    }
}

impl<T: Transport> Exchange for Pipeline<T> {
    async fn once(&self, transaction: &Transaction) -> Result<Vec<Rows>, WireError> {
        let reply = self
            .post(wire::transaction_request(transaction))
            .await
            .map_err(|_: TransportError| WireError::Database(DatabaseError::Ambiguous))?;
        match reply.status {
            200 => {}
            // Too many connections, or the lock queue is full: refused at the door, nothing ran.
            429 => return Err(WireError::BeginBusy),
            status => return Err(WireError::Database(error_of_status(status))),
        }
        let answer = wire::read_answer(&reply.body, transaction.statements.len());
        if let Some(stream) = answer.leaked {
            self.close(stream).await;
        }
        answer.outcome
    }
}

impl<E: Exchange, C: Clock> Database for Repeating<E, C> {
    async fn run(&self, transaction: Transaction) -> Result<Vec<Rows>, DatabaseError> {
        if let Some(statement) = transaction.statements.iter().position(Statement::ends_a_transaction) {
            return Err(DatabaseError::Failed { statement });
        }
        let repeatable = transaction.mode == Mode::Read || transaction.repeat == Repeat::Safe;
        let (mut busy, mut lost) = (0u32, 0u32);
        loop {
            let error = match self.exchange.once(&transaction).await {
                Ok(results) => return Ok(results),
                Err(error) => error,
            };
            let again = match error {
                WireError::BeginBusy => {
                    busy = busy.saturating_add(1);
                    busy <= BUSY_TRIES_MAX
                }
                // Statements had run and were rolled back. Only a repeatable one starts over by itself.
                WireError::Aborted => {
                    busy = busy.saturating_add(1);
                    repeatable && busy <= BUSY_TRIES_MAX
                }
                WireError::Database(DatabaseError::Ambiguous) => {
                    lost = lost.saturating_add(1);
                    repeatable && lost <= LOST_TRIES_MAX
                }
                WireError::Database(_) => false,
            };
            if !again {
                return Err(decided(error));
            }
            let doublings = busy.saturating_add(lost).saturating_sub(1);
            self.clock
                .sleep(Duration::from_millis(BUSY_PAUSE_MS << doublings.min(6)))
                .await;
        }
    }
}

fn decided(error: WireError) -> DatabaseError {
    match error {
        WireError::BeginBusy | WireError::Aborted => DatabaseError::Busy,
        WireError::Database(error) => error,
    }
}

/// A whole-request failure by its status. 408 and 5xx may come from a gateway after the commit.
fn error_of_status(status: u16) -> DatabaseError {
    match status {
        429 => DatabaseError::Busy,
        408 | 500..=599 => DatabaseError::Ambiguous,
        _ => DatabaseError::Refused { status },
    }
}
