//! Bugs that are put in on purpose, so that the oracle is seen failing: each takes one guard out at one of the ports
//! that the program is given, or in the text of one of its statements.

use sealpost::config::Config;
use sealpost::consume::Decision;
use sealpost::intake::{Accepted, IntakeError};
use sealpost::ports::{MailAnswer, QueueMessage};
use sealpost::store::database::{DatabaseError, Rows, Transaction};

use super::ports::Worker;
use super::report::Invariant;
use super::store::Rewrites;

/// Another way to take a request, for the designs that write twice.
pub type Intake = for<'a> fn(
    &'a Worker,
    &'a Config,
    &'a [u8],
) -> std::pin::Pin<Box<dyn Future<Output = Result<Accepted, IntakeError>> + 'a>>;

/// One bug, or none.
pub struct Planted {
    pub name: &'static str,
    /// The promise that it breaks.
    pub breaks: Invariant,
    pub sql: Rewrites,
    pub schema: Rewrites,
    pub config: fn(&mut Config),
    pub request: fn(&str, &str, u64) -> (String, String),
    pub answer: fn(MailAnswer) -> MailAnswer,
    pub publish: fn(Vec<QueueMessage>) -> Vec<QueueMessage>,
    pub decisions: fn(Vec<Decision>) -> Vec<Decision>,
    pub database: fn(Result<Vec<Rows>, DatabaseError>, usize) -> Result<Vec<Rows>, DatabaseError>,
    /// Sends a transaction again whose answer was lost, whatever it is.
    pub repeats_blindly: bool,
    pub acknowledges_first: bool,
    pub randomness: Option<u64>,
    pub intake: Option<Intake>,
}

impl std::fmt::Debug for Planted {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "Planted({})", self.name)
    }
}

/// The program as it is.
pub static NOTHING: Planted = Planted {
    name: "nothing",
    breaks: Invariant::I1,
    sql: &[],
    schema: &[],
    config: |_| {},
    request: |key, body, _| (key.to_owned(), body.to_owned()),
    answer: |answer| answer,
    publish: |messages| messages,
    decisions: |decisions| decisions,
    database: |result, _| result,
    repeats_blindly: false,
    acknowledges_first: false,
    randomness: None,
    intake: None,
};

/// The database as the program sees it, with what a planted bug does to its answers.
pub struct Database<D> {
    inner: D,
    planted: &'static Planted,
}

impl<D> Database<D> {
    pub fn new(inner: D, planted: &'static Planted) -> Self {
        Self { inner, planted }
    }
}

impl<D: sealpost::store::database::Database> sealpost::store::database::Database for Database<D> {
    async fn run(&self, transaction: Transaction) -> Result<Vec<Rows>, DatabaseError> {
        let statements = transaction.statements.len();
        let again = self.planted.repeats_blindly.then(|| transaction.clone());
        let mut result = self.inner.run(transaction).await;
        if let (Err(DatabaseError::Ambiguous), Some(transaction)) = (&result, again) {
            result = self.inner.run(transaction).await;
        }
        (self.planted.database)(result, statements)
    }
}
