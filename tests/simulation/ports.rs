//! What an invocation of the program gets from this world: database, provider, queue, clock, randomness and log, all
//! of which can fail, stall and lie, and any of whose awaits can be the last.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use sealpost::config::Config;
use sealpost::devstack::provider::fault::{Fault, FaultKind, RetryAfter};
use sealpost::devstack::provider::model::{Call, Next, Ticket};
use sealpost::devstack::provider::{answer::Reply, effect::Wire};
use sealpost::outbox::time::Millis;
use sealpost::ports::{
    Broker, BrokerError, Clock, Field, Level, Log, MailAnswer, MailRequest, Mailer, QueueMessage, Random, World,
};
use sealpost::store::database::{DatabaseError, Mode, Rows, Transaction};
use sealpost::store::hrana::{Exchange, Repeating, WireError};

use super::choices::{SplitMix, Subject};
use super::faults::{DatabaseFault, OTHERS};
use super::oracle::{CallId, Role, Who};
use super::script::Io;
use super::setting::{Poison, Profile, Program, START_MS};
use super::sim::{Instance, Sim};

/// One run of one handler.
pub struct Worker {
    pub sim: Rc<Sim>,
    pub who: Who,
    pub program: Program,
    database: super::planted::Database<Repeating<SimDatabase, SimClock>>,
    mailer: SimMailer,
    clock: SimClock,
    random: SimRandom,
    log: SimLog,
}

impl Worker {
    pub fn new(sim: &Rc<Sim>, role: Role, instance: Instance) -> Self {
        let who = Who {
            role,
            invocation: sim.fresh_invocation(),
            skew: instance.skew,
        };
        let clock = SimClock {
            sim: Rc::clone(sim),
            who,
        };
        let config = sim.config(instance.program);
        let exchange = SimDatabase {
            sim: Rc::clone(sim),
            who,
            timeout: ms(config.timing.database_timeout),
        };
        Self {
            database: super::planted::Database::new(
                Repeating::over(exchange, clock.clone()),
                sim.planted,
                SimBroker {
                    sim: Rc::clone(sim),
                    who,
                },
            ),
            mailer: SimMailer {
                sim: Rc::clone(sim),
                who,
                scope: config.provider_scope.clone(),
                timeout: ms(config.timing.provider_timeout),
            },
            random: SimRandom(Cell::new(
                sim.planted.randomness.unwrap_or_else(|| sim.fresh_randomness()),
            )),
            log: SimLog(Rc::clone(sim), who),
            clock,
            program: instance.program,
            sim: Rc::clone(sim),
            who,
        }
    }

    pub fn config(&self) -> Config {
        let mut config = self.sim.config(self.program).clone();
        (self.sim.planted.config)(&mut config);
        config
    }

    pub fn broker(&self) -> SimBroker {
        SimBroker {
            sim: Rc::clone(&self.sim),
            who: self.who,
        }
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl World for Worker {
    type Database = super::planted::Database<Repeating<SimDatabase, SimClock>>;
    type Mailer = SimMailer;
    type Clock = SimClock;
    type Random = SimRandom;
    type Log = SimLog;

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
        &self.log
    }
}

/// An instance's clock: right up to its skew.
#[derive(Clone)]
pub struct SimClock {
    sim: Rc<Sim>,
    who: Who,
}

impl Clock for SimClock {
    fn now(&self) -> Millis {
        Millis::new(self.sim.now() + self.who.skew)
    }

    async fn sleep(&self, duration: Duration) {
        let scripted = self.sim.script.next(self.who, Io::Sleep);
        scripted.before(&self.sim).await;
        self.sim.kernel.sleep(ms(duration)).await;
        scripted.after(&self.sim).await;
    }
}

/// Randomness of one invocation.
pub struct SimRandom(Cell<u64>);

impl Random for SimRandom {
    fn fill(&self, buffer: &mut [u8]) {
        let mut random = SplitMix(self.0.get());
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
        }
        self.0.set(random.0);
    }
}

/// Notes go into the trace, and are searched for personal data.
pub struct SimLog(Rc<Sim>, Who);

impl Log for SimLog {
    fn note(&self, level: Level, code: &'static str, fields: &[(&'static str, Field<'_>)]) {
        let text = format!("{fields:?}");
        self.0.oracle.public_text("a note", &text);
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, field)| match field {
                Field::Code(code) => format!("{name}={code}"),
                Field::Number(number) => format!("{name}={number}"),
                Field::Id(id) => format!("{name}={id}"),
            })
            .collect();
        let invocation = self.1.invocation;
        self.0
            .note(|| format!("#{invocation} notes {level:?} {code} {}", fields.join(" ")));
    }
}

/// The wire to the database, and the engine behind it.
pub struct SimDatabase {
    sim: Rc<Sim>,
    who: Who,
    timeout: i64,
}

impl SimDatabase {
    fn fault(&self) -> Option<DatabaseFault> {
        let mix = self.sim.mix()?;
        if mix
            .database_outage
            .is_some_and(|outage| outage.covers(self.sim.now() - START_MS))
        {
            self.sim.counted(OTHERS[8]);
            return Some(DatabaseFault::Refused);
        }
        if mix.database.is_empty() || !self.sim.choices.chance(Subject::Database, mix.database_permille) {
            return None;
        }
        let fault = self.sim.choices.one(Subject::Database, &mix.database);
        self.sim.counted(fault.name());
        Some(fault)
    }

    /// For how long the worker is not run, before its request or after the answer. A call to the provider is never
    /// stretched so: its time limit is the client's, and the claim is measured by it.
    fn frozen(&self) -> Option<(i64, bool)> {
        let mix = self.sim.mix()?;
        let choices = &self.sim.choices;
        if mix.freeze_permille == 0 || !choices.chance(Subject::Database, mix.freeze_permille) {
            return None;
        }
        self.sim.counted(OTHERS[11]);
        // For a while, or until its claim has ended and another may just have taken the row.
        let lease = self.sim.setting.version(Program::First).config.timing.lease;
        let lease = ms(lease);
        let lengths = [(0, 20_000), (0, 120_000), (lease, 10_000), (lease, 70_000)];
        let (least, most) = choices.one(Subject::Database, &lengths);
        let ms = least + i64::from(choices.below(Subject::Database, most));
        self.sim
            .note(|| format!("#{} is not run for {ms} ms", self.who.invocation));
        Some((ms, choices.chance(Subject::Database, 500)))
    }

    fn execute(&self, transaction: &Transaction) -> Result<Vec<Rows>, WireError> {
        execute(&self.sim, self.who, transaction)
    }
}

fn execute(sim: &Rc<Sim>, who: Who, transaction: &Transaction) -> Result<Vec<Rows>, WireError> {
    let result = sim.store.execute(transaction);
    sim.note(|| {
        format!(
            "#{} {:?} runs {}: {}",
            who.invocation,
            who.role,
            shape(transaction),
            outcome(&result)
        )
    });
    if result.is_ok() && transaction.mode == Mode::Write {
        sim.oracle.committed(who, sim.now(), &sim.store);
    }
    result
}

/// The first words of a transaction's statements that say something.
fn shape(transaction: &Transaction) -> String {
    let words = |sql: &str| {
        let words: Vec<&str> = sql.split_whitespace().take(3).collect();
        words.join(" ")
    };
    let mut shapes: Vec<String> = transaction
        .statements
        .iter()
        .map(|statement| words(statement.sql))
        .filter(|words| words != "INSERT INTO guards")
        .collect();
    shapes.dedup();
    shapes.truncate(4);
    shapes.join(", ")
}

fn outcome(result: &Result<Vec<Rows>, WireError>) -> String {
    match result {
        Ok(rows) => format!("{} rows", rows.iter().map(|rows| rows.rows.len()).sum::<usize>()),
        Err(WireError::Database(error)) => error.code().to_owned(),
        Err(error) => format!("{error:?}"),
    }
}

/// Whether a transaction freezes the bytes of the row that kills.
fn seals(transaction: &Transaction, poison: &Poison) -> bool {
    !poison.by_call
        && transaction.statements.iter().any(|statement| {
            let mut texts = statement.args.iter().filter_map(|arg| match arg {
                libsql::Value::Text(text) => Some(text),
                libsql::Value::Null | libsql::Value::Integer(_) | libsql::Value::Real(_) | libsql::Value::Blob(_) => {
                    None
                }
            });
            statement.sql.starts_with("INSERT INTO seals") && texts.any(|text| text.contains(&poison.to))
        })
}

impl Exchange for SimDatabase {
    /// Two awaits: who dies at the first never reached the server, who dies at the second never read its answer.
    async fn once(&self, transaction: &Transaction) -> Result<Vec<Rows>, WireError> {
        const AMBIGUOUS: WireError = WireError::Database(DatabaseError::Ambiguous);
        let sim = &self.sim;
        let scripted = sim.script.next(self.who, Io::Database);
        let fault = scripted.database().or_else(|| self.fault());
        let (mut there, mut back) = (sim.latency(), sim.latency());
        match self.frozen() {
            Some((ms, true)) => there += ms,
            Some((ms, false)) => back += ms,
            None => {}
        }
        if self.who.role == Role::Consumer
            && sim
                .setting
                .poison
                .as_ref()
                .is_some_and(|poison| seals(transaction, poison))
        {
            sim.die_of_it(self.who).await;
        }
        if let Some(fault) = fault {
            sim.note(|| format!("#{} {}", self.who.invocation, fault.name()));
        }
        sim.kernel.sleep(there).await;
        scripted.before(sim).await;
        let result = match fault {
            None => self.execute(transaction),
            Some(DatabaseFault::Refused) => Err(AMBIGUOUS),
            Some(DatabaseFault::AnswerLost) => {
                let _ = self.execute(transaction);
                Err(AMBIGUOUS)
            }
            Some(DatabaseFault::Stalled) => {
                sim.kernel.sleep(self.timeout).await;
                return Err(AMBIGUOUS);
            }
            Some(DatabaseFault::StalledAfterCommit) => {
                let _ = self.execute(transaction);
                sim.kernel.sleep(self.timeout).await;
                return Err(AMBIGUOUS);
            }
            Some(DatabaseFault::Late) => {
                let (late, who, transaction) = (Rc::clone(sim), self.who, transaction.clone());
                let drawn = || {
                    let longest = sim.choices.one(Subject::Database, &[20_000, 200_000, 600_000]);
                    i64::from(sim.choices.below(Subject::Database, longest))
                };
                let wait = self.timeout + scripted.late_by().unwrap_or_else(drawn);
                sim.kernel.spawn(0, async move {
                    late.kernel.sleep(wait).await;
                    let _ = execute(&late, who, &transaction);
                });
                sim.kernel.sleep(self.timeout).await;
                return Err(AMBIGUOUS);
            }
            Some(DatabaseFault::Busy) => Err(WireError::BeginBusy),
            Some(DatabaseFault::Aborted) => Err(WireError::Aborted),
            Some(DatabaseFault::Unauthorized) => Err(WireError::Database(DatabaseError::Refused { status: 401 })),
        };
        scripted.after(sim).await;
        sim.way_back(back).await;
        result
    }
}

/// The way into the queue.
pub struct SimBroker {
    sim: Rc<Sim>,
    who: Who,
}

impl SimBroker {
    /// The time of the one who sends, in ms.
    pub fn now(&self) -> i64 {
        self.sim.now() + self.who.skew
    }
}

impl Broker for SimBroker {
    async fn send_batch(&self, messages: Vec<QueueMessage>) -> Result<(), BrokerError> {
        (self.sim.planted.broker)(self.send(messages).await)
    }
}

impl SimBroker {
    async fn send(&self, messages: Vec<QueueMessage>) -> Result<(), BrokerError> {
        let sim = &self.sim;
        let messages = (sim.planted.publish)(sim, messages);
        let chance = |at: usize| {
            sim.mix()
                .is_some_and(|mix| sim.choices.chance(Subject::Queue, mix.queue_permille[at]))
        };
        let away = sim
            .mix()
            .and_then(|mix| mix.queue_outage)
            .is_some_and(|outage| outage.covers(sim.now() - START_MS));
        if away {
            sim.counted(OTHERS[10]);
        }
        let scripted = sim.script.next(self.who, Io::Queue);
        let drawn = || (away || chance(0), chance(1));
        let (refused, lied) = scripted.queue().unwrap_or_else(drawn);
        sim.kernel.sleep(sim.latency()).await;
        scripted.before(sim).await;
        if refused {
            sim.counted(super::faults::QUEUE[0]);
            sim.note(|| format!("#{} the queue refuses {}", self.who.invocation, messages.len()));
            return Err(BrokerError::Refused);
        }
        for message in messages {
            sim.oracle.public_text("a message", &message.body);
            sim.main
                .put(sim, message.body, i64::from(message.delay_seconds) * 1_000, 0);
        }
        scripted.after(sim).await;
        sim.way_back(sim.latency()).await;
        if lied {
            sim.counted(super::faults::QUEUE[1]);
            sim.note(|| format!("#{} the queue stored, and answers with an error", self.who.invocation));
            return Err(BrokerError::Refused);
        }
        Ok(())
    }
}

/// The provider, through one account.
pub struct SimMailer {
    sim: Rc<Sim>,
    who: Who,
    scope: String,
    timeout: i64,
}

/// A send that the provider works on. It ends its work even when nobody waits for the answer any more.
struct Working {
    sim: Rc<Sim>,
    scope: String,
    call: CallId,
    ticket: Option<Ticket>,
    timeout: i64,
}

impl Working {
    fn finish(&mut self) -> Option<(Reply, Wire)> {
        let ticket = self.ticket.take()?;
        let sim = &self.sim;
        sim.mails.set(sim.mails.get() + 1);
        let id = format!("00000000-0000-4000-8000-{:012}", sim.mails.get());
        let now = Millis::new(sim.now());
        let (outcome, taken) = sim.with_provider(&self.scope, |model| {
            let before = model.ledger().sent().len();
            let outcome = model.finish(now, ticket, &id);
            let sent = model.ledger().sent();
            let taken = (sent.len() > before).then(|| sent.back().map(|sent| (sent.mail.to.clone(), sent.id.clone())));
            (outcome, taken.flatten())
        });
        if let Some((to, id)) = taken {
            sim.note(|| format!("the provider accepts {id}"));
            sim.oracle.accepted(self.call, &to, &id);
        }
        if outcome.wire == Wire::AfterRelease {
            // The provider's own business, whether or not anybody waits for it.
            let wait = self.timeout + i64::from(sim.choices.below(Subject::Provider, 60_000));
            let (later, scope) = (Rc::clone(sim), self.scope.clone());
            sim.kernel.spawn(0, async move {
                later.kernel.sleep(wait).await;
                later.with_provider(&scope, |model| model.released(ticket));
            });
        }
        Some((outcome.reply, outcome.wire))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.finish();
    }
}

impl SimMailer {
    fn fault(&self) -> Option<(Fault, &'static str)> {
        let mix = self.sim.mix()?;
        let choices = &self.sim.choices;
        if let Some((outage, (kind, name))) = mix.provider_outage
            && outage.covers(self.sim.now() - START_MS)
        {
            self.sim.counted(OTHERS[9]);
            return Some((Fault::once(kind), name));
        }
        if mix.provider.is_empty() || !choices.chance(Subject::Provider, mix.provider_permille) {
            return None;
        }
        let (kind, name) = choices.one(Subject::Provider, &mix.provider);
        let mut fault = Fault::once(kind);
        if choices.chance(Subject::Provider, 300) {
            fault.retry_after = Some(choices.one(Subject::Provider, &[5, 90, 4_000]).into_retry_after());
        }
        Some((fault, name))
    }

    async fn call(&self, key: &str, body: &str) -> MailAnswer {
        let sim = &self.sim;
        let call = sim.oracle.call_begins(self.who, sim.now(), key, body, &self.scope);
        sim.note(|| format!("#{} calls with {} bytes", self.who.invocation, body.len()));
        let answer = self.exchange(call, key, body).await;
        sim.note(|| match &answer {
            MailAnswer::Response { status, .. } => format!("#{} is answered {status}", self.who.invocation),
            MailAnswer::TimedOut => format!("#{} waits in vain", self.who.invocation),
            MailAnswer::Disconnected => format!("#{} is cut off", self.who.invocation),
        });
        sim.oracle.call_ends(call, &answer);
        answer
    }

    async fn exchange(&self, call: CallId, key: &str, body: &str) -> MailAnswer {
        let sim = &self.sim;
        let began = sim.now();
        let scripted = sim.script.next(self.who, Io::Provider);
        let fault = scripted.provider().or_else(|| self.fault());
        let slow = fault.as_ref().is_some_and(|(fault, _)| fault.kind == FaultKind::Slow);
        let (there, back) = (sim.latency(), sim.latency());
        // The request is on its way; who dies here never reaches the provider.
        sim.kernel.sleep(there).await;
        scripted.before(sim).await;
        if let Some((_, name)) = &fault {
            sim.counted(name);
            sim.note(|| format!("#{} {name}", self.who.invocation));
        }
        let arrival = sim.with_provider(&self.scope, |model| {
            if let Some((fault, _)) = &fault {
                model.faults().add(vec![fault.clone()]).expect("a rule fits");
            }
            let request = Call {
                authorization: Some("Bearer re_test"),
                user_agent: Some("sealpost-simulation"),
                // A provider without a window keeps no keys: it takes whatever comes for a new mail.
                idempotency_key: (sim.setting.profile != Profile::WindowZero).then_some(key),
                body: body.as_bytes(),
            };
            let arrival = model.arrive(Millis::new(sim.now()), &request);
            model.faults().clear();
            arrival
        });
        let (reply, wire) = match arrival.next {
            Next::Answered(outcome) => (outcome.reply, outcome.wire),
            Next::Running { ticket, .. } => {
                let mut working = Working {
                    sim: Rc::clone(sim),
                    scope: self.scope.clone(),
                    call,
                    ticket: Some(ticket),
                    timeout: self.timeout,
                };
                if slow {
                    // It works on when its client has gone.
                    let drawn = || i64::from(sim.choices.below(Subject::Provider, 30_000));
                    let wait = self.timeout + scripted.late_by().unwrap_or_else(drawn);
                    let later = Rc::clone(sim);
                    sim.kernel.spawn(0, async move {
                        later.kernel.sleep(wait).await;
                        drop(working);
                    });
                    sim.kernel.sleep_until(began + self.timeout).await;
                    return MailAnswer::TimedOut;
                }
                sim.kernel.sleep(sim.latency()).await;
                match working.finish() {
                    Some((reply, wire)) => (reply, wire),
                    None => return MailAnswer::Disconnected,
                }
            }
        };
        scripted.after(sim).await;
        let retry_after = reply.header("retry-after").map(str::to_owned);
        match wire {
            // The answer is on its way; who dies here never reads it.
            Wire::Whole => {
                sim.way_back(back).await;
                MailAnswer::Response {
                    status: reply.status,
                    retry_after,
                    body: Some(reply.body.into_bytes()),
                }
            }
            Wire::Cut => {
                sim.way_back(back).await;
                MailAnswer::Disconnected
            }
            Wire::Stall | Wire::AfterRelease => {
                sim.kernel.sleep_until(began + self.timeout).await;
                MailAnswer::TimedOut
            }
            Wire::StallBody => {
                sim.kernel.sleep_until(began + self.timeout).await;
                MailAnswer::Response {
                    status: reply.status,
                    retry_after,
                    body: None,
                }
            }
        }
    }
}

trait IntoRetryAfter {
    fn into_retry_after(self) -> RetryAfter;
}

impl IntoRetryAfter for u64 {
    fn into_retry_after(self) -> RetryAfter {
        RetryAfter::Seconds(self)
    }
}

impl Mailer for SimMailer {
    async fn send(&self, request: MailRequest<'_>) -> MailAnswer {
        let sim = &self.sim;
        let (key, body) = (sim.planted.request)(request.idempotency_key, request.body, self.who.invocation);
        let poison = sim.setting.poison.as_ref();
        if poison.is_some_and(|poison| poison.by_call && body.contains(&poison.to)) {
            sim.die_of_it(self.who).await;
        }
        let mut answer = self.call(&key, &body).await;
        if sim.planted.calls_again && matches!(answer, MailAnswer::Disconnected | MailAnswer::TimedOut) {
            answer = self.call(&key, &body).await;
        }
        (sim.planted.answer)(answer)
    }
}
