//! A world without chance, and the hands that bring its rows into a wanted state: by the program itself, so that the
//! oracle has seen all of it.

use std::rc::Rc;

use sealpost::outbox::envelope::Envelope;

use super::callers;
use super::choices::{Choices, Tapes};
use super::faults::DatabaseFault;
use super::kernel::TaskId;
use super::people;
use super::planted::Planted;
use super::queue::Message;
use super::run::{Outcome, finish, run_until, settle};
use super::schedule;
use super::script::{Injection, Io, Step, Taken};
use super::setting::{BATCH_FAMILY, Fact, Profile, Program, Setting};
use super::sim::Sim;
use super::store::{OutboxRow, Store};
use super::webhooks;
use sealpost::devstack::provider::fault::FaultKind;

/// How long a path may take that somebody does something to, with repetitions of callers and of the queue, in ms: past
/// every time limit of the program.
const PATH_MS: i64 = 100_000;
/// How long an invocation takes that nobody does anything to, in ms.
const CALM_MS: i64 = 3_000;
/// What is late by design comes within this, in ms.
pub const LATEST_MS: i64 = 400_000;
/// Longest that a preparation waits for its rows, in ms.
const PREPARATION_MS_MAX: i64 = 40 * 86_400_000;

/// The provider accepts, and the connection is cut.
pub const LOST_ANSWER: Injection = Injection::Provider(FaultKind::AcceptThenDrop, "provider: accepted, connection cut");
/// The provider has an outage.
pub const UNAVAILABLE: Injection = Injection::Provider(FaultKind::ServiceUnavailable, "provider: 503");
/// The provider refuses the mail for good.
pub const REFUSED: Injection = Injection::Provider(FaultKind::Refuse, "provider: 422");

impl Setting {
    /// Nothing happens by chance: one instance, no faults, the shortest waits.
    pub fn calm(profile: Profile, facts: Vec<Fact>) -> Self {
        Self {
            profile,
            facts,
            programs: vec![Program::First],
            instances: 1,
            skews: vec![0],
            ..Self::draw(&Choices::from_tapes(&Tapes::default()))
        }
    }
}

/// One calm run.
pub struct Stage {
    pub sim: Rc<Sim>,
}

impl Stage {
    pub fn new(profile: Profile, facts: Vec<Fact>, store: &Rc<Store>, planted: &'static Planted, trace: bool) -> Self {
        store.clear();
        let setting = Setting::calm(profile, facts);
        let choices = Choices::from_tapes(&Tapes::default());
        let sim = Sim::new(choices, setting, Rc::clone(store), planted, trace);
        sim.main.hold(&sim, true);
        sim.dead.hold(&sim, true);
        Self { sim }
    }

    pub fn wait(&self, ms: i64) {
        run_until(&self.sim, self.sim.now() + ms);
    }

    pub fn fact(&self, number: usize) -> Fact {
        self.sim.setting.facts[number].clone()
    }

    /// One request with these facts.
    pub fn state(&self, numbers: &[usize]) {
        callers::state(&self.sim, numbers.iter().map(|number| self.fact(*number)).collect());
    }

    /// The row of a fact.
    pub fn row(&self, number: usize) -> OutboxRow {
        let to = self.fact(number).to;
        let id = self
            .sim
            .store
            .one_text("SELECT outbox_id FROM letters WHERE instr(body, ?1) > 0", &to)
            .unwrap_or_else(|| panic!("fact {number} has a row"));
        self.sim.oracle.rows()[&id].clone()
    }

    fn message(&self, body: String) -> Message {
        Message {
            body,
            visible_at: self.sim.now(),
            deliveries: 0,
        }
    }

    fn messages(&self, numbers: &[usize], others: &[&str]) -> Vec<Message> {
        let envelopes = numbers
            .iter()
            .map(|number| Envelope::to_row(&self.row(*number).id).to_body());
        envelopes
            .chain(others.iter().map(|body| (*body).to_owned()))
            .map(|body| self.message(body))
            .collect()
    }

    /// A consumer gets these rows' messages, and others.
    pub fn consumer(&self, numbers: &[usize], others: &[&str]) -> TaskId {
        self.sim.main.hand_over(&self.sim, self.messages(numbers, others))
    }

    /// A consumer of the dead-letter queue gets them.
    pub fn dead_letter_consumer(&self, numbers: &[usize], others: &[&str]) -> TaskId {
        self.sim.dead.hand_over(&self.sim, self.messages(numbers, others))
    }

    /// The provider tells something of the mail of a fact, which it accepted.
    pub fn tell(&self, number: usize, news: &'static str, tagged: bool) {
        let to = self.fact(number).to;
        let id = self.sim.with_provider("main", |model| {
            let mut sent = model.ledger().sent().iter();
            sent.find(|sent| sent.mail.to.iter().any(|one| one.contains(&to)))
                .map(|sent| sent.id.clone())
        });
        let id = id.unwrap_or_else(|| panic!("the mail of fact {number} was accepted"));
        webhooks::tell(&self.sim, "main", &id, &to, news, tagged);
    }

    /// An operator judges the row of a fact, which is unknown.
    pub fn judge(&self, number: usize, order: &'static str) {
        people::order(&self.sim, format!("/v1/unknown/{}/resolve", self.row(number).id), order);
    }

    /// Dead letters are tried once more.
    pub fn retry_dead(&self) {
        people::order(&self.sim, "/v1/queues/outbox/retry-dead".to_owned(), r#"{"limit":100}"#);
    }

    /// The recipient of a fact wants no more of its family.
    pub fn click(&self, number: usize) {
        let (sim, row) = (Rc::clone(&self.sim), self.row(number));
        self.sim.kernel.spawn(0, async move { people::click(&sim, &row).await });
    }

    /// The provider accepted, nobody learned of it, and it keeps no keys.
    pub fn unknown(&self, numbers: &[usize]) {
        self.enqueued(numbers);
        self.doing(Step::NthOf(Io::Provider, 0), LOST_ANSWER);
        self.consumer(numbers, &[]);
        self.wait(CALM_MS);
        self.sim.main.take();
        self.are(numbers, "unknown");
    }

    pub fn tick(&self) -> TaskId {
        schedule::fire(&self.sim)
    }

    fn doing(&self, step: Step, injection: Injection) {
        self.sim.script.arm(vec![(step, injection)]);
    }

    /// Recorded and published; the messages are nowhere, and whoever wants one makes it.
    pub fn enqueued(&self, numbers: &[usize]) {
        self.sim.script.arm(Vec::new());
        self.state(numbers);
        self.wait(CALM_MS);
        let is_bulk = |number: &usize| self.sim.setting.facts[*number].family == BATCH_FAMILY;
        if numbers.iter().any(is_bulk) {
            // Bulk mails are handed over by the relay alone.
            self.tick();
            self.wait(CALM_MS);
        }
        self.sim.main.take();
        self.are(numbers, "enqueued");
    }

    /// Recorded, and its worker died before it published.
    pub fn pending(&self, numbers: &[usize]) {
        self.doing(Step::NthOf(Io::Queue, 0), Injection::DieBefore);
        self.state(numbers);
        self.wait(CALM_MS);
        self.sim.main.take();
    }

    /// Called once with this outcome, and due again.
    pub fn called(&self, numbers: &[usize], outcome: Injection) {
        self.enqueued(numbers);
        self.doing(Step::NthOf(Io::Provider, 0), outcome);
        self.consumer(numbers, &[]);
        self.wait(CALM_MS);
        self.sim.main.take();
        self.until_due(numbers);
    }

    /// Claimed by a consumer that died when its attempt was open; the claim is alive.
    pub fn claimed(&self, numbers: &[usize]) {
        self.enqueued(numbers);
        self.doing(Step::NthOf(Io::Provider, 0), Injection::DieBefore);
        self.consumer(numbers, &[]);
        self.wait(CALM_MS);
        self.sim.main.take();
        self.are(numbers, "processing");
    }

    /// Claimed by a consumer whose call was accepted, and that died before it read the answer; the claim is alive.
    pub fn claimed_after_acceptance(&self, numbers: &[usize]) {
        self.doing(Step::NthOf(Io::Provider, 0), Injection::DieAfter);
        self.consumer(numbers, &[]);
        self.wait(CALM_MS);
        self.sim.main.take();
        self.are(numbers, "processing");
    }

    /// Claimed by a consumer that died right after its claim; the claim is alive.
    pub fn only_claimed(&self, numbers: &[usize]) {
        self.enqueued(numbers);
        self.doing(Step::NthOf(Io::Database, 0), Injection::DieAfter);
        self.consumer(numbers, &[]);
        self.wait(CALM_MS);
        self.sim.main.take();
        self.are(numbers, "processing");
    }

    /// Every claim of these rows has ended.
    pub fn until_claims_end(&self, numbers: &[usize]) {
        let end = numbers.iter().filter_map(|number| self.row(*number).expires_at).max();
        self.until(end.expect("a claim") + 2_000);
    }

    /// Waits until these rows may be tried.
    pub fn until_due(&self, numbers: &[usize]) {
        let due = numbers
            .iter()
            .filter_map(|number| self.row(*number).next_attempt_at)
            .max();
        self.until(due.expect("a row that waits"));
    }

    /// Waits until the relay looks at these rows.
    pub fn until_relay(&self, numbers: &[usize]) {
        let due = numbers.iter().filter_map(|number| self.row(*number).relay_at).max();
        self.until(due.expect("an open row"));
    }

    fn until(&self, at: i64) {
        let wait = (at - self.sim.now()).max(0);
        assert!(wait < PREPARATION_MS_MAX, "a preparation waits for {wait} ms");
        self.wait(wait);
    }

    pub fn are(&self, numbers: &[usize], status: &str) {
        for number in numbers {
            let row = self.row(*number);
            assert_eq!(row.status, status, "the preparation of fact {number} ({})", row.cause);
        }
    }

    /// The path begins: from here on steps are numbered, and queues deliver by themselves.
    pub fn begin(&self, plan: Vec<(Step, Injection)>) {
        self.sim.note(|| "the path begins".to_owned());
        self.sim.script.arm(plan);
    }

    /// Queues deliver, callers repeat, the schedule ticks, until all is quiet; then the oracle closes.
    pub fn end(self) -> (Outcome, Vec<Taken>, usize) {
        let sim = self.sim;
        sim.kernel.schedule_by(None);
        sim.script.coarse.set(false);
        sim.main.hold(&sim, false);
        sim.dead.hold(&sim, false);
        run_until(&sim, sim.now() + PATH_MS);
        settle(&sim);
        // Somebody is late, and finds everything settled.
        if sim.kernel.next_at().is_some() {
            run_until(&sim, sim.now() + LATEST_MS + PATH_MS);
            settle(&sim);
        }
        let (taken, done) = (sim.script.taken(), sim.script.done());
        (finish(&sim), taken, done)
    }
}

/// Everything that the database's wire can do.
pub fn of_the_database() -> Vec<Injection> {
    let mut all: Vec<Injection> = super::faults::DATABASE
        .into_iter()
        .filter(|fault| *fault != DatabaseFault::Late)
        .map(Injection::Database)
        .collect();
    all.extend([1, 20_000, LATEST_MS].map(Injection::DatabaseLate));
    all.push(Injection::DatabaseOutage);
    all
}

/// Everything that the provider can do.
pub fn of_the_provider() -> Vec<Injection> {
    let mut all: Vec<Injection> = super::faults::PROVIDER
        .into_iter()
        .map(|(kind, name)| Injection::Provider(kind, name))
        .collect();
    all.push(Injection::ProviderLate(LATEST_MS));
    all
}
