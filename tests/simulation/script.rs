//! What is done to chosen steps of a run, where nothing is left to chance: the n-th input or output of the program
//! dies, fails, lies or is late.
//!
//! Every step of the program that leaves it announces itself here and is numbered from the moment that the script was
//! armed. One step has two awaits, so that its invocation can die before it took effect and after.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sealpost::devstack::provider::fault::{Fault, FaultKind};

use super::faults::DatabaseFault;
use super::oracle::{Role, Who};
use super::sim::Sim;

/// What a step speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Io {
    Database,
    Provider,
    Queue,
    Sleep,
    /// The queue is told which messages may be forgotten.
    Acknowledge,
}

impl Io {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Provider => "provider",
            Self::Queue => "queue",
            Self::Sleep => "sleep",
            Self::Acknowledge => "acknowledgement",
        }
    }
}

/// What is done to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// Its invocation dies, and the step never takes effect.
    DieBefore,
    /// It takes effect, and its invocation dies before it reads the answer.
    DieAfter,
    Database(DatabaseFault),
    /// The client gives up, and so many ms after that the server does its work.
    DatabaseLate(i64),
    /// Nothing of this invocation reaches the database any more.
    DatabaseOutage,
    Provider(FaultKind, &'static str),
    /// The client gives up, and so many ms after that the provider accepts.
    ProviderLate(i64),
    QueueRefuses,
    QueueStoresAndRefuses,
    /// Before it takes effect the machine stands still, for so many ms.
    StandstillBefore(i64),
    /// The same before its answer is read.
    StandstillAfter(i64),
}

impl Injection {
    pub fn name(self) -> String {
        match self {
            Self::DieBefore => "death before it".to_owned(),
            Self::DieAfter => "death after it".to_owned(),
            Self::Database(fault) => fault.name().to_owned(),
            Self::DatabaseLate(ms) => format!("database: ran {ms} ms after the client gave up"),
            Self::DatabaseOutage => "database: gone from here on".to_owned(),
            Self::Provider(_, name) => name.to_owned(),
            Self::ProviderLate(ms) => format!("provider: accepted {ms} ms after the client gave up"),
            Self::QueueRefuses => "queue: refused".to_owned(),
            Self::StandstillBefore(ms) => format!("standstill of {ms} ms before it"),
            Self::StandstillAfter(ms) => format!("standstill of {ms} ms after it"),
            Self::QueueStoresAndRefuses => "queue: stored, and answered with an error".to_owned(),
        }
    }
}

/// Which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The n-th of all, from 0.
    Nth(usize),
    /// The n-th of its kind, from 0.
    NthOf(Io, usize),
}

/// A step that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub invocation: u64,
    pub role: Role,
    pub io: Io,
}

/// The plan of a run, and the steps taken since it was armed.
#[derive(Default)]
pub struct Script {
    plan: RefCell<Vec<(Step, Injection)>>,
    taken: RefCell<Vec<Taken>>,
    done: Cell<usize>,
    /// The invocation that the database is gone for.
    cut_off: Cell<Option<u64>>,
    /// The way back of each answer takes no step of its own: only the order of effects is of interest.
    pub coarse: Cell<bool>,
}

impl Script {
    /// Numbers steps from here on, and does this to them.
    pub fn arm(&self, plan: Vec<(Step, Injection)>) {
        self.plan.replace(plan);
        self.taken.borrow_mut().clear();
        self.done.set(0);
        self.cut_off.set(None);
    }

    /// The steps taken since the script was armed.
    pub fn taken(&self) -> Vec<Taken> {
        self.taken.borrow().clone()
    }

    /// How many steps something was done to.
    pub fn done(&self) -> usize {
        self.done.get()
    }

    /// A step begins.
    pub fn next(&self, who: Who, io: Io) -> Scripted {
        let mut taken = self.taken.borrow_mut();
        let of_its_kind = taken.iter().filter(|step| step.io == io).count();
        let all = taken.len();
        taken.push(Taken {
            invocation: who.invocation,
            role: who.role,
            io,
        });
        let planned = self.plan.borrow().iter().find_map(|(step, injection)| {
            let matches = match *step {
                Step::Nth(number) => number == all,
                Step::NthOf(kind, number) => kind == io && number == of_its_kind,
            };
            matches.then_some(*injection)
        });
        if planned.is_some() {
            self.done.set(self.done.get() + 1);
        }
        if planned == Some(Injection::DatabaseOutage) {
            self.cut_off.set(Some(who.invocation));
        }
        let cut_off = io == Io::Database && self.cut_off.get() == Some(who.invocation);
        Scripted(planned.or(cut_off.then_some(Injection::DatabaseOutage)))
    }
}

/// What is done to one step.
#[derive(Clone, Copy, Debug)]
pub struct Scripted(Option<Injection>);

impl Scripted {
    pub fn database(self) -> Option<DatabaseFault> {
        match self.0 {
            Some(Injection::Database(fault)) => Some(fault),
            Some(Injection::DatabaseLate(_)) => Some(DatabaseFault::Late),
            Some(Injection::DatabaseOutage) => Some(DatabaseFault::Refused),
            _ => None,
        }
    }

    pub fn provider(self) -> Option<(Fault, &'static str)> {
        match self.0 {
            Some(Injection::Provider(kind, name)) => Some((Fault::once(kind), name)),
            Some(Injection::ProviderLate(_)) => {
                Some((Fault::once(FaultKind::Slow), "provider: slower than the time limit"))
            }
            _ => None,
        }
    }

    /// Whether the queue refuses, and whether it stores and then answers with an error.
    pub fn queue(self) -> Option<(bool, bool)> {
        match self.0 {
            Some(Injection::QueueRefuses) => Some((true, false)),
            Some(Injection::QueueStoresAndRefuses) => Some((false, true)),
            _ => None,
        }
    }

    /// How long after its client has gone the other side does its work, in ms.
    pub fn late_by(self) -> Option<i64> {
        match self.0 {
            Some(Injection::DatabaseLate(ms) | Injection::ProviderLate(ms)) => Some(ms),
            _ => None,
        }
    }

    /// The step is about to take effect.
    pub async fn before(self, sim: &Rc<Sim>) {
        match self.0 {
            Some(Injection::DieBefore) => die(sim).await,
            Some(Injection::StandstillBefore(ms)) => stand_still(sim, ms),
            _ => {}
        }
    }

    /// The step took effect, and nobody has read its answer.
    pub async fn after(self, sim: &Rc<Sim>) {
        match self.0 {
            Some(Injection::DieAfter) => die(sim).await,
            Some(Injection::StandstillAfter(ms)) => stand_still(sim, ms),
            _ => {}
        }
    }
}

fn stand_still(sim: &Sim, ms: i64) {
    sim.note(|| format!("everything stands still for {} s", ms / 1_000));
    sim.kernel.stand_still(ms);
    sim.oracle.stood_still();
}

async fn die(sim: &Rc<Sim>) {
    sim.kernel.kill(sim.kernel.current());
    // The task is dropped where it is suspended next, which is here.
    sim.kernel.sleep(0).await;
}
