//! What an invocation of the program gets from this world: database, provider, queue, clock, randomness and log, all
//! of which can fail, stall and lie, and any of whose awaits can be the last.

mod broker;
mod database;
mod mailer;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use sealpost::config::Config;
use sealpost::devstack::zones::BundledZones;
use sealpost::outbox::time::Millis;
use sealpost::ports::{Clock, Field, Level, Log, Random, World, Zones};
use sealpost::store::hrana::Repeating;

pub use broker::SimBroker;
use database::SimDatabase;
use mailer::SimMailer;

use super::choices::SplitMix;
use super::oracle::{Role, Who};
use super::script::Io;
use super::setting::Program;
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
    zones: SimZones,
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
            zones: SimZones(Rc::clone(sim), who),
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
    type Zones = SimZones;

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
    fn zones(&self) -> &Self::Zones {
        &self.zones
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

/// The zones of the library, with what a planted bug does to them.
pub struct SimZones(Rc<Sim>, Who);

impl Zones for SimZones {
    fn offset(&self, zone: &str, at: Millis) -> Option<i32> {
        let offset = BundledZones.offset(zone, at);
        (self.0.planted.zones)(&self.0, self.1, at, offset)
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
