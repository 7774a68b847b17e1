//! The wire to the database: what it does to a request, and what a death around it leaves.

use std::rc::Rc;

use sealpost::store::database::{DatabaseError, Mode, Rows, Transaction};
use sealpost::store::hrana::{Exchange, WireError};

use super::ms;
use crate::choices::Subject;
use crate::faults::{DatabaseFault, OTHERS};
use crate::oracle::{Role, Who};
use crate::script::Io;
use crate::setting::{Poison, Program};
use crate::sim::Sim;

/// The wire to the database, and the engine behind it.
pub struct SimDatabase {
    pub(super) sim: Rc<Sim>,
    pub(super) who: Who,
    pub(super) timeout: i64,
}

impl SimDatabase {
    fn fault(&self) -> Option<DatabaseFault> {
        let mix = self.sim.mix()?;
        if mix
            .database_outage
            .is_some_and(|outage| outage.covers(self.sim.now() - self.sim.setting.start_ms))
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
    async fn once(&self, transaction: &Transaction) -> Result<Vec<Rows>, WireError> {
        self.sim.oracle.asks(self.who, self.sim.now());
        let result = self.exchange(transaction).await;
        self.sim.oracle.is_answered(self.who, result.is_ok());
        result
    }
}

impl SimDatabase {
    /// Two awaits: who dies at the first never reached the server, who dies at the second never read its answer.
    async fn exchange(&self, transaction: &Transaction) -> Result<Vec<Rows>, WireError> {
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
