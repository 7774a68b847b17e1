//! One thread's place to run in: a database of its own, and a net under the program. A panic in a run is a find like
//! any other; the lane goes on with a fresh database.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

use super::choices::{Choices, Tapes};
use super::planted::Planted;
use super::report::{Invariant, Report};
use super::run;
use super::store::Store;
use super::trace::Trace;

/// What was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A promise that the oracle watches.
    Promise(Invariant),
    /// The program must never panic, whatever the world does.
    Panic,
}

impl Kind {
    /// `I3` or `panic`.
    pub fn name(self) -> String {
        match self {
            Self::Promise(invariant) => format!("{invariant:?}"),
            Self::Panic => "panic".to_owned(),
        }
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Option<Self> {
        super::report::INVARIANTS
            .into_iter()
            .map(Self::Promise)
            .chain([Self::Panic])
            .find(|kind| kind.name() == name)
    }

    pub const fn promise(self) -> &'static str {
        match self {
            Self::Promise(invariant) => invariant.promise(),
            Self::Panic => "the program never panics",
        }
    }
}

/// One thing that was broken in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub kind: Kind,
    pub what: String,
    /// After how many lines of the trace it was seen.
    pub line: usize,
}

/// What came of a run, whether it ended or panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub broken: Vec<Broken>,
    pub report: Report,
    pub trace: Vec<String>,
    /// Lines of the trace, kept or not.
    pub lines: usize,
    pub tapes: Tapes,
}

impl Ran {
    /// The first break of a kind.
    pub fn first(&self, kind: Kind) -> Option<&Broken> {
        self.broken.iter().find(|broken| broken.kind == kind)
    }
}

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static LAST_WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what a watched run says when it panics; panics of the harness itself are printed as ever.
fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if WATCHED.get() {
                LAST_WORDS.set(panic.to_string().replace('\n', " "));
            } else {
                usual(panic);
            }
        }));
    });
}

/// A place to run in. Not shared between threads.
pub struct Lane {
    store: Option<Rc<Store>>,
    planted: &'static Planted,
    behind_the_server: bool,
}

impl Lane {
    pub fn new(planted: &'static Planted) -> Self {
        listen();
        Self {
            store: None,
            planted,
            behind_the_server: false,
        }
    }

    /// The same, with every transaction going through the development database's own server.
    pub fn behind_the_server(self) -> Self {
        Self {
            behind_the_server: true,
            ..self
        }
    }

    fn open(&self) -> Store {
        if self.behind_the_server {
            Store::open_behind_the_server()
        } else {
            Store::open(self.planted.schema, self.planted.sql)
        }
    }

    /// Runs what the choices say.
    pub fn run(&mut self, choices: Choices, keep_trace: bool) -> Ran {
        let planted = self.planted;
        let store = self.store.take().unwrap_or_else(|| Rc::new(self.open()));
        let made = choices.clone();
        WATCHED.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| run::run(choices, &store, planted, keep_trace)));
        WATCHED.set(false);
        let trace = Trace::newest();
        match outcome {
            Ok(outcome) => {
                self.store = Some(store);
                let broken = outcome.violations.into_iter().map(|violation| Broken {
                    line: trace.broken_at(violation.invariant).unwrap_or(outcome.lines),
                    kind: Kind::Promise(violation.invariant),
                    what: violation.what,
                });
                Ran {
                    broken: broken.collect(),
                    report: outcome.report,
                    trace: outcome.trace,
                    lines: outcome.lines,
                    tapes: outcome.tapes,
                }
            }
            // Its database may be in the middle of anything: the next run gets a new one.
            Err(_) => {
                let what = LAST_WORDS.take();
                trace.last_words(&format!("BROKEN {}: {what}", Kind::Panic.name()));
                Ran {
                    broken: vec![Broken {
                        kind: Kind::Panic,
                        what,
                        line: trace.count(),
                    }],
                    report: Report {
                        seeds: 1,
                        violations: 1,
                        ..Report::default()
                    },
                    trace: trace.lines(),
                    lines: trace.count(),
                    tapes: made.tapes(),
                }
            }
        }
    }

    /// Runs a seed.
    pub fn seed(&mut self, seed: u64, keep_trace: bool) -> Ran {
        self.run(Choices::from_seed(seed), keep_trace)
    }

    /// Runs tapes.
    pub fn tapes(&mut self, tapes: &Tapes, keep_trace: bool) -> Ran {
        self.run(Choices::from_tapes(tapes), keep_trace)
    }
}
