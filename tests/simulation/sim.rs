//! The world of one run: everything that its tasks share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sealpost::config::Config;
use sealpost::devstack::provider::model::{Model, Settings};

use super::choices::{Choices, Subject, mix};
use super::faults::Mix;
use super::kernel::Kernel;
use super::oracle::{Limits, Oracle, Truth, Who};
use super::people::People;
use super::planted::Planted;
use super::queue::Queue;
use super::script::Script;
use super::setting::{Fact, Program, Setting, hash_of};
use super::store::Store;
use super::trace::Trace;
use super::webhooks::Webhooks;

/// A place where the program runs. All it does dies with it.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// Names its life; a new one begins with each restart.
    pub group: u64,
    pub program: Program,
    pub skew: i64,
}

/// What the tasks of one run share.
pub struct Sim {
    pub kernel: Rc<Kernel>,
    pub choices: Choices,
    pub store: Rc<Store>,
    pub setting: Setting,
    pub oracle: Oracle,
    pub trace: Trace,
    pub planted: &'static Planted,
    /// What is done to chosen steps.
    pub script: Script,
    /// One provider for each account.
    pub providers: RefCell<BTreeMap<String, Model>>,
    pub mails: Cell<u64>,
    /// What the provider says afterwards.
    pub webhooks: Webhooks,
    /// What people do about it.
    pub people: People,
    pub main: Queue,
    pub dead: Queue,
    pub instances: RefCell<Vec<Instance>>,
    /// When bulk rows were last seen waiting for the end of a pause, by row.
    pub paused_at: RefCell<std::collections::BTreeMap<String, i64>>,
    /// Faults have stopped.
    pub quiet: Cell<bool>,
    invocations: Cell<u64>,
    randomness: Cell<u64>,
}

impl Sim {
    pub fn new(
        choices: Choices,
        setting: Setting,
        store: Rc<Store>,
        planted: &'static Planted,
        keep_trace: bool,
    ) -> Rc<Self> {
        let kernel = Kernel::starting_at(setting.start_ms);
        let timing = &setting.version(Program::First).config.timing;
        let ms = |duration: std::time::Duration| i64::try_from(duration.as_millis()).expect("short");
        let oracle = Oracle::new(Limits {
            window_ms: ms(timing.window.usable()),
            skew_ms: ms(timing.skew),
            call_ms: ms(timing.provider_timeout),
        });
        oracle.paced_by(super::paced::Intervals::of(&setting));
        let crowd = super::setting::crowd(setting.crowd);
        for fact in setting.facts.iter().chain(&crowd) {
            let truth = Truth {
                to: fact.to.clone(),
                shadow: fact.family == super::setting::SHADOW_FAMILY,
                times: fact.times.clone(),
                name: fact.intent["id"].as_str().map(|id| format!("{} {id}", fact.family)),
                files: fact.files(),
            };
            oracle.fact(&fact.name, truth);
        }
        let instances = (0..setting.instances)
            .map(|number| Instance {
                group: 1_000_000 + number as u64,
                program: setting.programs[number % setting.programs.len()],
                skew: setting.skews[number],
            })
            .collect();
        Rc::new(Self {
            trace: Trace::begin(keep_trace, setting.start_ms),
            main: Queue::new("main", setting.max_retries),
            dead: Queue::new("dead letters", 100),
            kernel,
            webhooks: Webhooks::draw(&choices),
            people: People::draw(&choices),
            choices,
            store,
            setting,
            oracle,
            planted,
            script: Script::default(),
            providers: RefCell::default(),
            mails: Cell::new(0),
            instances: RefCell::new(instances),
            paused_at: Default::default(),
            quiet: Cell::new(false),
            invocations: Cell::new(0),
            randomness: Cell::new(0),
        })
    }

    pub fn now(&self) -> i64 {
        self.kernel.now()
    }

    pub fn note(&self, text: impl FnOnce() -> String) {
        self.trace.line(self.now(), text);
    }

    /// The faults of this moment.
    pub fn mix(&self) -> Option<&Mix> {
        (!self.quiet.get()).then_some(&self.setting.mix)
    }

    pub fn counted(&self, fault: &'static str) {
        self.oracle.report().fault(fault);
    }

    pub fn fresh_invocation(&self) -> u64 {
        self.invocations.set(self.invocations.get() + 1);
        self.invocations.get()
    }

    /// A number that seeds an invocation's randomness.
    pub fn fresh_randomness(&self) -> u64 {
        self.randomness.set(self.randomness.get() + 1);
        mix(self.randomness.get())
    }

    /// Ends the task that runs: it touched the row that kills.
    pub async fn die_of_it(&self, who: Who) {
        self.counted(super::faults::OTHERS[12]);
        self.note(|| format!("#{} touches the row that kills", who.invocation));
        self.kernel.kill(self.kernel.current());
        self.kernel.sleep(0).await;
    }

    /// Some time, short as a rule, in ms.
    pub fn latency(&self) -> i64 {
        let ms = 1 + i64::from(self.choices.below(Subject::Latency, 30));
        if ms == 30 {
            // Once in a while something takes long.
            ms + i64::from(self.choices.below(Subject::Latency, 3_000))
        } else {
            ms
        }
    }

    /// An answer travels back to its reader, who may die meanwhile.
    pub async fn way_back(&self, ms: i64) {
        if !self.script.coarse.get() {
            self.kernel.sleep(ms).await;
        }
    }

    /// The instance that a new invocation runs on.
    pub fn any_instance(&self) -> (usize, Instance) {
        let instances = self.instances.borrow();
        let at = self
            .choices
            .below(Subject::Schedule, u32::try_from(instances.len()).expect("few")) as usize;
        (at, instances[at])
    }

    pub fn config(&self, program: Program) -> &'static Config {
        &self.setting.version(program).config
    }

    /// The provider behind an account.
    pub fn with_provider<T>(&self, scope: &str, work: impl FnOnce(&mut Model) -> T) -> T {
        let mut providers = self.providers.borrow_mut();
        let model = providers.entry(scope.to_owned()).or_insert_with(|| {
            Model::new(Settings {
                per_second: 0,
                example_domains_allowed: true,
            })
        });
        work(model)
    }

    /// An operator, or the world, writes.
    pub fn operator(&self, sql: &'static str, args: Vec<libsql::Value>) {
        use sealpost::store::database::{Statement, Transaction};
        self.store
            .execute(&Transaction::write(vec![Statement::new(sql, args)]))
            .unwrap_or_else(|_| panic!("the operator's own statement runs: {sql}"));
        let who = Who {
            role: super::oracle::Role::Operator,
            invocation: 0,
            skew: 0,
        };
        self.oracle.committed(who, self.now(), &self.store);
    }

    /// Suppresses the recipient of a fact from now on.
    pub fn suppress(&self, fact: &Fact) {
        let hash = hash_of(self.config(Program::First), &fact.to);
        self.note(|| format!("operator suppresses the recipient of {}", fact.name));
        self.oracle.report().event("operator: recipient suppressed");
        self.operator(
            "INSERT INTO suppressions (recipient_hash, family, reason, created_at) VALUES (?1, '*', 'complained', ?2)
             ON CONFLICT DO NOTHING",
            vec![hash.clone().into(), self.now().into()],
        );
    }

    /// Pauses everything, or a family, for a while.
    pub fn pause(&self, scope: &'static str, ms: i64) {
        self.note(|| format!("operator pauses {scope} for {} s", ms / 1_000));
        self.oracle.report().event("operator: pause");
        self.operator(
            "INSERT INTO pauses (scope, reason, until, created_at) VALUES (?1, 'operator', ?2, ?3) ON CONFLICT DO NOTHING",
            vec![scope.into(), (self.now() + ms).into(), self.now().into()],
        );
    }
}
