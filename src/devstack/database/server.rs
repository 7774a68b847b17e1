//! The engine with its controls: counts, latency and faults, with or without HTTP in front.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::answer::{Answer, decode, refused};
use super::clock::{EngineClock, SystemClock};
use super::counters::{Counters, Ledger};
use super::engine::{ClearError, Engine, OpenError};
use super::failure::Refusal;
use super::faults::{FaultKind, FaultRule, Faults, Parked, Released, RuleState, TooManyRules};
use super::program::Injected;
use super::proto::{PipelineRequest, StreamRequest, Version};

/// How a development database is set up.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The database file; absent for a temporary one that goes with the server.
    pub file: Option<PathBuf>,
    /// How long every pipeline and cursor request waits first, in milliseconds: the way to a database far away.
    pub latency_ms: u64,
    /// The bearer token that requests over HTTP must carry; absent for none.
    pub auth_token: Option<String>,
}

/// What becomes of a pipeline request.
pub enum Outcome {
    /// It is answered.
    Answer(Answer),
    /// The connection closes without an answer. Whether the request ran, the client cannot know.
    Cut,
    /// Status and headers are sent, the body waits. A caller without HTTP treats it as a time-out.
    Headers(Answer, BodyWait),
}

/// The wait between the headers and the body.
pub struct BodyWait(Parked);

impl BodyWait {
    /// Waits until the body may go out.
    pub async fn wait(self) -> Released {
        self.0.wait().await
    }
}

/// A development database with its controls.
pub struct Server {
    engine: Arc<Engine>,
    faults: Arc<Faults>,
    ledger: Ledger,
    latency_ms: AtomicU64,
    pub(super) auth_token: Option<String>,
}

/// The page of a gateway that lost its upstream.
const BAD_GATEWAY: &str = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n\
    <body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n";

impl Server {
    /// Opens the database on the machine's clock.
    ///
    /// # Errors
    /// [`OpenError`] where the file cannot be used.
    pub async fn open(options: Options) -> Result<Arc<Self>, OpenError> {
        Self::open_at(options, Arc::new(SystemClock)).await
    }

    /// Opens the database on a clock of the caller's.
    ///
    /// # Errors
    /// [`OpenError`] where the file cannot be used.
    pub async fn open_at(options: Options, clock: Arc<dyn EngineClock>) -> Result<Arc<Self>, OpenError> {
        Ok(Arc::new(Self {
            engine: Arc::new(Engine::open(options.file.as_deref(), clock).await?),
            faults: Arc::default(),
            ledger: Ledger::default(),
            latency_ms: AtomicU64::new(options.latency_ms),
            auth_token: options.auth_token,
        }))
    }

    /// The engine alone: neither counted, delayed nor subject to faults.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Takes a pipeline request through counts, latency and faults.
    ///
    /// Once begun it runs to its end, even where the caller drops this future: so does a database whose client died.
    pub async fn pipeline(self: &Arc<Self>, version: Version, body: Vec<u8>) -> Outcome {
        let server = Arc::clone(self);
        let work = tokio::spawn(async move { server.pipeline_to_end(version, &body).await });
        work.await.unwrap_or_else(|_| Outcome::Answer(broken()))
    }

    async fn pipeline_to_end(&self, version: Version, body: &[u8]) -> Outcome {
        let request: Result<PipelineRequest, Refusal> = decode(body);
        let texts = request.as_ref().map(texts_of).unwrap_or_default();
        self.ledger.pipeline(&texts);
        let fault = self.faults.pick(&texts);
        self.delay().await;
        let request = match request {
            Ok(request) => request,
            Err(refusal) => return Outcome::Answer(refused(&refusal)),
        };
        match fault {
            None => Outcome::Answer(self.run(version, request, Injected::default()).await),
            Some(rule) => self.with_fault(&rule, version, request).await,
        }
    }

    async fn with_fault(&self, rule: &FaultRule, version: Version, request: PipelineRequest) -> Outcome {
        let normal = Injected::default();
        match rule.kind {
            FaultKind::Refuse => Outcome::Cut,
            FaultKind::DropAfterCommit => {
                self.run(version, request, normal).await;
                Outcome::Cut
            }
            FaultKind::BadGateway => Outcome::Answer(bad_gateway()),
            FaultKind::BadGatewayAfterCommit => {
                self.run(version, request, normal).await;
                Outcome::Answer(bad_gateway())
            }
            FaultKind::Busy => Outcome::Answer(self.run(version, request, Injected { busy: true }).await),
            FaultKind::Stall => {
                self.faults.park(rule.ms).wait().await;
                Outcome::Cut
            }
            FaultKind::StallAfterHeaders => {
                let answer = self.run(version, request, normal).await;
                Outcome::Headers(answer, BodyWait(self.faults.park(rule.ms)))
            }
            FaultKind::HoldBefore => match self.faults.park(rule.ms).wait().await {
                Released::Continue => Outcome::Answer(self.run(version, request, normal).await),
                Released::Discard => Outcome::Cut,
            },
            FaultKind::HoldAfter => {
                let answer = self.run(version, request, normal).await;
                match self.faults.park(rule.ms).wait().await {
                    Released::Continue => Outcome::Answer(answer),
                    Released::Discard => Outcome::Cut,
                }
            }
        }
    }

    /// Takes a cursor request through latency. Faults are for pipelines, which is what Sealpost sends.
    pub async fn cursor(self: &Arc<Self>, body: Vec<u8>) -> Answer {
        self.ledger.cursor();
        self.delay().await;
        let engine = Arc::clone(&self.engine);
        let work = tokio::task::spawn_blocking(move || engine.cursor(&body));
        work.await.unwrap_or_else(|_| broken())
    }

    async fn run(&self, version: Version, request: PipelineRequest, injected: Injected) -> Answer {
        let engine = Arc::clone(&self.engine);
        // The engine blocks while it waits for the disk or for another writer.
        let work = tokio::task::spawn_blocking(move || engine.run_pipeline(version, request, injected));
        work.await.unwrap_or_else(|_| broken())
    }

    async fn delay(&self) {
        let ms = self.latency_ms.load(Ordering::Relaxed);
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    /// Sets how long every request waits first.
    pub fn set_latency_ms(&self, ms: u64) {
        self.latency_ms.store(ms, Ordering::Relaxed);
    }

    /// Adds fault rules after those that stand.
    ///
    /// # Errors
    /// [`TooManyRules`] where there would be more than [`super::faults::RULES_MAX`]; none is added then.
    pub fn add_faults(&self, rules: Vec<FaultRule>) -> Result<(), TooManyRules> {
        self.faults.add(rules)
    }

    /// All fault rules with their hits.
    pub fn faults(&self) -> Vec<RuleState> {
        self.faults.list()
    }

    /// Forgets the fault rules. Requests that are held stay held.
    pub fn clear_faults(&self) {
        self.faults.clear();
    }

    /// How many requests are held or stalled now.
    pub fn held(&self) -> usize {
        self.faults.held()
    }

    /// Waits until at least `count` requests are held: the marker for tests in the same process.
    pub async fn wait_held(&self, count: usize) {
        let mut held = self.faults.watch_held();
        // Fails only where the server is gone, and then there is nothing to wait for.
        let _gone = held.wait_for(|now| *now >= count).await.is_err();
    }

    /// Lets the held requests go; tells how many there were.
    pub fn release(&self, how: Released) -> usize {
        self.faults.release(how)
    }

    /// The counts since the last reset.
    pub fn counters(&self) -> Counters {
        self.ledger.read(self.engine.rows())
    }

    /// Sets the counts to zero.
    pub fn reset_counters(&self) {
        self.ledger.reset(self.engine.rows());
    }

    /// Forgets faults and counts and discards held requests; with `data`, empties the database too.
    ///
    /// # Errors
    /// [`ClearError`] where the database could not be emptied.
    pub async fn reset(&self, data: bool) -> Result<(), ClearError> {
        self.clear_faults();
        self.release(Released::Discard);
        let mut cleared = Ok(());
        if data {
            let engine = Arc::clone(&self.engine);
            let aborted = || ClearError::Refused(Refusal::Internal("request aborted".to_owned()));
            let work = tokio::task::spawn_blocking(move || engine.clear());
            cleared = work.await.unwrap_or_else(|_| Err(aborted()));
        }
        self.reset_counters();
        cleared
    }
}

/// Every SQL text that a request carries, in order.
fn texts_of(request: &PipelineRequest) -> Vec<&str> {
    let mut texts = Vec::new();
    for request in &request.requests {
        match request {
            StreamRequest::Execute { stmt } => texts.extend(stmt.text.sql.as_deref().or(Some(""))),
            StreamRequest::Batch { batch } => texts.extend(
                batch
                    .steps
                    .iter()
                    .map(|step| step.stmt.text.sql.as_deref().unwrap_or_default()),
            ),
            StreamRequest::Sequence(text) => texts.extend(text.sql.as_deref().or(Some(""))),
            StreamRequest::Close {}
            | StreamRequest::Describe(_)
            | StreamRequest::StoreSql { .. }
            | StreamRequest::CloseSql { .. }
            | StreamRequest::GetAutocommit {} => {}
        }
    }
    texts
}

fn bad_gateway() -> Answer {
    Answer {
        status: 502,
        content_type: "text/html",
        body: BAD_GATEWAY.as_bytes().to_vec(),
    }
}

/// The answer where the engine's thread died.
fn broken() -> Answer {
    refused(&Refusal::Internal("Internal Error: `request aborted`".to_owned()))
}
