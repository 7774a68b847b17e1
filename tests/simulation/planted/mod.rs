//! Bugs that are put in on purpose, so that the oracle is seen failing: each takes one guard out at one of the ports
//! that the program is given, or in the text of one of its statements. Where the program has a second guard behind the
//! first, both are taken out, and the bug's comment names them.

mod batches;
mod claims;
mod designs;
mod doubt;
mod hunt;
mod keys;
mod ledger;
mod news;
mod pace;
mod ports;
mod publish;
mod records;
mod times;

use sealpost::config::Config;
use sealpost::consume::Decision;
use sealpost::intake::{Accepted, IntakeError};
use sealpost::outbox::time::Millis;
use sealpost::ports::{Broker as _, BrokerError, MailAnswer, QueueMessage};
use sealpost::store::database::{DatabaseError, Rows, Transaction};

pub use hunt::run_all;

use super::oracle::Who;
use super::ports::{SimBroker, Worker};
use super::report::Invariant;
use super::sim::Sim;
use super::store::Rewrites;

/// Another way to take a request, for the designs that write twice.
pub type Intake = for<'a> fn(
    &'a Worker,
    &'a Config,
    &'a [u8],
) -> std::pin::Pin<Box<dyn Future<Output = Result<Accepted, IntakeError>> + 'a>>;

/// Positions of statements, in the transactions that they run in.
pub type Parts = Vec<Vec<usize>>;

/// What the database came back with.
pub type Found = Result<Vec<Rows>, DatabaseError>;

/// One bug, or none.
pub struct Planted {
    pub name: &'static str,
    /// The promise that it breaks.
    pub breaks: Invariant,
    /// Pieces of statements and what stands there instead. Each must be found.
    pub sql: Rewrites,
    /// Pieces of the schema and what stands there instead. Each must be found.
    pub schema: Rewrites,
    /// What the program is told by its configuration, but not what its world does.
    pub config: fn(&mut Config),
    /// Key and body of a call, and the invocation that makes it.
    pub request: fn(&str, &str, u64) -> (String, String),
    /// What the program reads of the provider's answer.
    pub answer: fn(MailAnswer) -> MailAnswer,
    /// The client makes a call again by itself where no answer came.
    pub calls_again: bool,
    /// What goes into the queue.
    pub publish: fn(&Sim, Vec<QueueMessage>) -> Vec<QueueMessage>,
    /// What the program reads of the queue's answer.
    pub broker: fn(Result<(), BrokerError>) -> Result<(), BrokerError>,
    /// What the queue is told about a batch.
    pub decisions: fn(Vec<Decision>) -> Vec<Decision>,
    /// The queue takes a batch for done when it is delivered.
    pub acknowledges_first: bool,
    /// What the program reads of the database's answer, and how many statements it asked for.
    pub database: fn(Found, usize) -> Found,
    /// Cuts a transaction into several.
    pub parts: fn(&Transaction) -> Option<Parts>,
    /// Rows go into the queue before they are written.
    pub publishes_first: bool,
    /// Every invocation has the same.
    pub randomness: Option<u64>,
    /// What the program reads of a zone's offset at an instant, in seconds.
    pub zones: fn(&Sim, Who, Millis, Option<i32>) -> Option<i32>,
    pub intake: Option<Intake>,
    /// What a replay makes of an intent, by the replay's name.
    pub replayed: fn(&str, &mut serde_json::Value),
}

const BASE: Planted = Planted {
    name: "nothing",
    breaks: Invariant::I1,
    sql: &[],
    schema: &[],
    config: |_| {},
    request: |key, body, _| (key.to_owned(), body.to_owned()),
    answer: |answer| answer,
    calls_again: false,
    publish: |_, messages| messages,
    broker: |answer| answer,
    decisions: |decisions| decisions,
    acknowledges_first: false,
    database: |result, _| result,
    parts: |_| None,
    publishes_first: false,
    randomness: None,
    zones: |_, _, _, offset| offset,
    intake: None,
    replayed: |_, _| {},
};

/// The program as it is.
pub static NOTHING: Planted = BASE;

/// Every bug.
pub fn all() -> Vec<&'static Planted> {
    let mut all: Vec<&'static Planted> = Vec::new();
    all.extend(designs::ALL);
    all.extend(publish::ALL);
    all.extend(keys::ALL);
    all.extend(batches::ALL);
    all.extend(claims::ALL);
    all.extend(doubt::ALL);
    all.extend(ports::ALL);
    all.extend(records::ALL);
    all.extend(news::ALL);
    all.extend(times::ALL);
    all.extend(ledger::ALL);
    all.extend(pace::ALL);
    all
}

impl std::fmt::Debug for Planted {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "Planted({})", self.name)
    }
}

impl Planted {
    /// Whether it is a bug at all.
    pub fn is_planted(&self) -> bool {
        !std::ptr::eq(self, &raw const NOTHING)
    }
}

/// The database as the program sees it, with what a planted bug does to its questions and answers.
pub struct Database<D> {
    inner: D,
    planted: &'static Planted,
    broker: SimBroker,
}

impl<D: sealpost::store::database::Database> Database<D> {
    pub fn new(inner: D, planted: &'static Planted, broker: SimBroker) -> Self {
        Self { inner, planted, broker }
    }

    async fn in_parts(&self, transaction: Transaction, parts: Parts) -> Result<Vec<Rows>, DatabaseError> {
        let mut results = vec![Rows::default(); transaction.statements.len()];
        for part in parts {
            let statements = part.iter().map(|at| transaction.statements[*at].clone()).collect();
            let found = self
                .inner
                .run(Transaction {
                    statements,
                    ..transaction.clone()
                })
                .await?;
            for (at, rows) in part.into_iter().zip(found) {
                results[at] = rows;
            }
        }
        Ok(results)
    }
}

impl<D: sealpost::store::database::Database> sealpost::store::database::Database for Database<D> {
    async fn run(&self, transaction: Transaction) -> Result<Vec<Rows>, DatabaseError> {
        if self.planted.publishes_first {
            let messages = designs::messages_of_new_rows(&transaction, self.broker.now());
            if !messages.is_empty() {
                // Whether the queue took them is not asked: the answer to the caller must not depend on it.
                let _ = self.broker.send_batch(messages).await;
            }
        }
        let statements = transaction.statements.len();
        let result = match (self.planted.parts)(&transaction) {
            Some(parts) => self.in_parts(transaction, parts).await,
            None => self.inner.run(transaction).await,
        };
        (self.planted.database)(result, statements)
    }
}
