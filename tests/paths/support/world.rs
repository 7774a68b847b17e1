//! The whole world of one test.

use std::time::Duration;

use libsql::Value;
use sealpost::config::Config;
use sealpost::consume::{Decision, Delivery, consume};
use sealpost::dead_letter::consume_dead_letters;
use sealpost::devstack::zones::BundledZones;
use sealpost::intake::{Accepted, IntakeError, record_intents};
use sealpost::ports::{Clock as _, World};
use sealpost::publish::publish_after_intake;
use sealpost::relay::{Tick, tick};
use sealpost::store::database::{Database as _, Statement, Transaction};
use sealpost::store::hrana::Hrana;
use sealpost::store::migrations::{MIGRATIONS, migrate};
use serde_json::json;

use super::broker::TestBroker;
use super::clock::HandClock;
use super::log::Notes;
use super::mailer::ModelMailer;
use super::random::Seeded;
use super::settings::config;
use super::transport::EngineTransport;

pub struct TestWorld {
    database: Hrana<EngineTransport, HandClock>,
    pub transport: EngineTransport,
    pub mailer: ModelMailer,
    pub clock: HandClock,
    random: Seeded,
    pub notes: Notes,
    pub broker: TestBroker,
    pub config: Config,
}

impl World for TestWorld {
    type Database = Hrana<EngineTransport, HandClock>;
    type Mailer = ModelMailer;
    type Clock = HandClock;
    type Random = Seeded;
    type Log = Notes;
    type Zones = BundledZones;

    fn database(&self) -> &Self::Database {
        &self.database
    }
    fn mailer(&self) -> &Self::Mailer {
        &self.mailer
    }
    fn clock(&self) -> &Self::Clock {
        &self.clock
    }
    fn random(&self) -> &Self::Random {
        &self.random
    }
    fn log(&self) -> &Self::Log {
        &self.notes
    }
    fn zones(&self) -> &Self::Zones {
        &BundledZones
    }
}

impl TestWorld {
    /// A migrated database, an empty queue and a provider that accepts everything.
    pub async fn new() -> Self {
        Self::with(config()).await
    }

    pub async fn with(config: Config) -> Self {
        let clock = HandClock::new();
        let transport = EngineTransport::new().await;
        let database = Hrana::new(transport.clone(), clock.clone());
        migrate(&database, MIGRATIONS, clock.now())
            .await
            .expect("the migrations apply");
        transport.take_requests();
        Self {
            database,
            transport,
            mailer: ModelMailer::new(clock.clone()),
            clock,
            random: Seeded::new(7),
            notes: Notes::default(),
            broker: TestBroker::default(),
            config,
        }
    }

    /// Records and publishes, as a request does. Returns what the producer was told.
    pub async fn intake(&self, intents: &[serde_json::Value]) -> Result<Accepted, IntakeError> {
        let body = json!({ "intents": intents }).to_string();
        let accepted = record_intents(self, &self.config, body.as_bytes()).await?;
        publish_after_intake(self, &self.broker, &self.config, &accepted.to_publish).await;
        Ok(accepted)
    }

    /// Records `count` notices and returns their ids.
    pub async fn notices(&self, count: usize) -> Vec<String> {
        let intents: Vec<_> = (0..count)
            .map(|number| notice_with_key(&format!("n{number}")))
            .collect();
        let accepted = self.intake(&intents).await.expect("the notices are recorded");
        accepted.receipts.into_iter().map(|receipt| receipt.id).collect()
    }

    /// Delivers everything that is in the queue as one batch (first delivery).
    pub async fn deliver(&self) -> Vec<Decision> {
        let bodies: Vec<String> = self.broker.take().into_iter().map(|message| message.body).collect();
        self.deliver_bodies(&bodies).await
    }

    /// Delivers these bodies as one batch (first delivery).
    pub async fn deliver_bodies(&self, bodies: &[String]) -> Vec<Decision> {
        let deliveries: Vec<Delivery> = bodies
            .iter()
            .map(|body| Delivery {
                body: Some(body.clone()),
                attempts: 1,
            })
            .collect();
        consume(self, &self.config, &deliveries).await
    }

    /// Delivers the envelopes of these rows as one batch.
    pub async fn deliver_ids(&self, ids: &[&str]) -> Vec<Decision> {
        let bodies: Vec<String> = ids
            .iter()
            .map(|id| sealpost::outbox::envelope::Envelope::to_row(id).to_body())
            .collect();
        self.deliver_bodies(&bodies).await
    }

    /// Delivers bodies from the dead-letter queue.
    pub async fn deliver_dead(&self, bodies: &[String]) -> Vec<Decision> {
        let deliveries: Vec<Delivery> = bodies
            .iter()
            .map(|body| Delivery {
                body: Some(body.clone()),
                attempts: 1,
            })
            .collect();
        consume_dead_letters(self, &self.config, &deliveries).await
    }

    /// One tick of the schedule.
    pub async fn tick(&self) -> Tick {
        tick(self, &self.broker, &self.config).await
    }

    /// Lets time run in steps, with a tick and a delivery after each.
    pub async fn run_for(&self, time: Duration, step: Duration) {
        let end = self.clock.now().plus(time);
        while self.clock.now() < end {
            self.clock.advance(step);
            self.tick().await;
            while self.broker.len() > 0 {
                self.deliver().await;
            }
        }
    }

    /// Runs a statement as a test's own look into (or hand on) the database; the count of requests starts again after it.
    pub async fn sql(&self, sql: &'static str, args: Vec<Value>) -> Vec<Vec<Value>> {
        let results = self
            .database
            .run(Transaction::write(vec![Statement::new(sql, args)]))
            .await
            .expect("a test's own statement runs");
        self.transport.take_requests();
        results.into_iter().next().expect("one result").rows
    }

    /// The state and cause of a row.
    pub async fn state(&self, id: &str) -> (String, String) {
        let rows = self
            .sql("SELECT status, cause FROM outbox WHERE id = ?1", vec![id.into()])
            .await;
        let row = rows.first().unwrap_or_else(|| panic!("no row {id}"));
        (text(&row[0]), text(&row[1]))
    }

    pub async fn status(&self, id: &str) -> String {
        self.state(id).await.0
    }

    /// How many rows are in each state.
    pub async fn count(&self, status: &str) -> i64 {
        let rows = self
            .sql("SELECT count(*) FROM outbox WHERE status = ?1", vec![status.into()])
            .await;
        integer(&rows[0][0])
    }
}

pub fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Null | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => format!("{value:?}"),
    }
}

pub fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        Value::Null | Value::Text(_) | Value::Real(_) | Value::Blob(_) => panic!("no integer: {value:?}"),
    }
}

/// Ready content for one person.
pub fn notice() -> serde_json::Value {
    notice_with_key("n0")
}

pub fn notice_with_key(key: &str) -> serde_json::Value {
    json!({
        "family": "notice",
        "idempotencyKey": key,
        "to": { "email": format!("{key}@example.com"), "name": "Ada" },
        "content": { "subject": format!("Subject of {key}"), "text": "Good news." },
    })
}
