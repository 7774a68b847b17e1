//! A world without a network: a database that says what it is told to say, or the real engine in process.

use core::time::Duration;
use std::cell::RefCell;
use std::sync::Arc;

use sealpost::devstack::database::clock::HandClock;
use sealpost::devstack::database::engine::Engine;
use sealpost::devstack::database::proto::Version;
use sealpost::devstack::zones::BundledZones;
use sealpost::outbox::time::Millis;
use sealpost::ports::{Clock, Field, Level, Log, LookUp, MailAnswer, MailRequest, Mailer, Random, World};
use sealpost::store::database::{Database, DatabaseError, Rows, Transaction};
use sealpost::store::hrana::{Hrana, Reply, Transport, TransportError};
use sealpost::store::migrations::{MIGRATIONS, migrate};

/// 2026-01-01T00:00:00Z.
pub const NOW_MS: i64 = 1_767_225_600_000;

/// The world of one test; it keeps what was logged.
pub struct FuzzWorld<D> {
    pub database: D,
    pub notes: Notes,
}

impl<D: Database> FuzzWorld<D> {
    pub fn new(database: D) -> Self {
        Self {
            database,
            notes: Notes::default(),
        }
    }
}

impl<D: Database> World for FuzzWorld<D> {
    type Database = D;
    type Mailer = NoMailer;
    type Clock = StillClock;
    type Random = Sevens;
    type Log = Notes;
    type Zones = BundledZones;

    fn database(&self) -> &D {
        &self.database
    }
    fn mailer(&self) -> &NoMailer {
        &NoMailer
    }
    fn clock(&self) -> &StillClock {
        &StillClock
    }
    fn random(&self) -> &Sevens {
        &Sevens
    }
    fn log(&self) -> &Notes {
        &self.notes
    }
    fn zones(&self) -> &BundledZones {
        &BundledZones
    }
}

pub struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Millis {
        Millis::new(NOW_MS)
    }
    async fn sleep(&self, _: Duration) {}
}

pub struct Sevens;

impl Random for Sevens {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
}

pub struct NoMailer;

impl Mailer for NoMailer {
    async fn send(&self, _: MailRequest<'_>) -> MailAnswer {
        panic!("nothing here is to be sent")
    }

    async fn look_up(&self, _: LookUp<'_>) -> MailAnswer {
        panic!("nothing here is to be looked up")
    }
}

/// All notes as one text.
#[derive(Default)]
pub struct Notes(RefCell<String>);

impl Notes {
    pub fn take(&self) -> String {
        self.0.take()
    }
}

impl Log for Notes {
    fn note(&self, _: Level, code: &'static str, fields: &[(&'static str, Field<'_>)]) {
        self.0.borrow_mut().push_str(&format!("{code} {fields:?}\n"));
    }
}

/// Answers every transaction alike.
#[derive(Clone, Debug)]
pub struct Says(pub Result<Vec<Rows>, DatabaseError>);

impl Database for Says {
    async fn run(&self, _: Transaction) -> Result<Vec<Rows>, DatabaseError> {
        self.0.clone()
    }
}

/// The engine behind the wire format, without a socket.
pub struct InProcess(Arc<Engine>);

impl Transport for InProcess {
    async fn post(&self, _: Option<&str>, _: &str, body: String) -> Result<Reply, TransportError> {
        let answer = self.0.pipeline(Version::Hrana3, body.as_bytes());
        Ok(Reply {
            status: answer.status,
            body: answer.body,
        })
    }
}

/// A migrated database.
pub fn engine() -> Hrana<InProcess, StillClock> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let clock = Arc::new(HandClock::new(Millis::new(NOW_MS)));
        let engine = Engine::open(None, clock).await.expect("the engine opens");
        let database = Hrana::new(InProcess(Arc::new(engine)), StillClock);
        migrate(&database, MIGRATIONS, Millis::new(NOW_MS))
            .await
            .expect("the migrations apply");
        database
    })
}

/// What a future gives that waits for nobody.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(future).expect("nothing here waits")
}
