//! Steps in order, each under its condition: how a batch, a sequence and a cursor run.

use std::collections::HashMap;
use std::sync::Mutex;

use super::failure::{Refusal, StatementError};
use super::proto::{Batch, Condition, SqlText, Stmt, Version};
use super::session::{Query, Run, Session, Stop};
use super::statement::{Kind, parse};
use super::values::Args;

/// A step that was parsed and checked.
#[derive(Clone, Debug)]
pub(super) struct Step {
    condition: Option<Condition>,
    query: Query,
}

/// Why a request of a pipeline has no response.
#[derive(Debug)]
pub(super) enum Unready {
    /// The client's SQL or arguments: the request fails, the stream lives on.
    Statement(StatementError),
    /// The HTTP request fails and the stream is closed.
    Refused(Refusal),
}

impl From<StatementError> for Unready {
    fn from(error: StatementError) -> Self {
        Self::Statement(error)
    }
}

impl From<Refusal> for Unready {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Stop> for Unready {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::TooLarge => Self::Statement(StatementError::ResponseTooLarge),
            Stop::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

fn protocol(text: &str) -> Unready {
    Unready::Refused(Refusal::Protocol(text.to_owned()))
}

/// Texts that a stream keeps for its client.
pub(super) type Stored = HashMap<i32, String>;

/// The text that a request means.
pub(super) fn text_of<'a>(text: &'a SqlText, stored: &'a Stored) -> Result<&'a str, Unready> {
    match (text.sql.as_deref(), text.sql_id) {
        (Some(sql), None) => Ok(sql),
        (None, Some(id)) => stored
            .get(&id)
            .map(String::as_str)
            .ok_or_else(|| protocol(&format!("SQL text {id} not found"))),
        (Some(_), Some(_)) => Err(protocol("Either `sql` or `sql_id` are required, but not both")),
        (None, None) => Err(protocol("Either `sql` or `sql_id` are required")),
    }
}

/// Parses a statement and pairs it with its arguments.
pub(super) fn query_of(stmt: &Stmt, stored: &Stored) -> Result<Query, Unready> {
    let sql = text_of(&stmt.text, stored)?;
    let mut statements = parse(sql).into_iter();
    let statement = match statements.next() {
        Some(Ok(statement)) => statement,
        Some(Err(error)) => return Err(Unready::Statement(StatementError::Parse(error))),
        None => return Err(Unready::Statement(StatementError::NoStatement)),
    };
    if statements.next().is_some() {
        return Err(Unready::Statement(StatementError::ManyStatements));
    }
    let args = match (stmt.args.is_empty(), stmt.named_args.is_empty()) {
        (false, false) => return Err(Unready::Statement(StatementError::ArgsBothPositionalAndNamed)),
        (true, false) => Args::Named(
            stmt.named_args
                .iter()
                .map(|arg| (arg.name.clone(), arg.value.clone()))
                .collect(),
        ),
        (true | false, true) => Args::Positional(stmt.args.clone()),
    };
    Ok(Query { statement, args })
}

/// Parses a whole batch: nothing runs unless everything can be read.
pub(super) fn steps_of_batch(batch: &Batch, stored: &Stored, version: Version) -> Result<Vec<Step>, Unready> {
    let mut steps = Vec::with_capacity(batch.steps.len());
    for (index, step) in batch.steps.iter().enumerate() {
        let query = query_of(&step.stmt, stored)?;
        if let Some(condition) = &step.condition {
            check(condition, version, index)?;
        }
        steps.push(Step {
            condition: step.condition.clone(),
            query,
        });
    }
    Ok(steps)
}

/// Parses a script: each statement runs where the one before it did.
pub(super) fn steps_of_script(sql: &str) -> Result<Vec<Step>, StatementError> {
    let mut steps = Vec::new();
    let mut before = None;
    for (index, statement) in (0_u32..).zip(parse(sql)) {
        steps.push(Step {
            condition: before.map(|step| Condition::Ok { step }),
            query: Query {
                statement: statement.map_err(StatementError::Parse)?,
                args: Args::Positional(Vec::new()),
            },
        });
        before = Some(index);
    }
    Ok(steps)
}

/// Refuses conditions on steps that do not stand before, and those that the version does not know.
fn check(condition: &Condition, version: Version, index: usize) -> Result<(), Unready> {
    match condition {
        Condition::Ok { step } | Condition::Error { step } => match usize::try_from(*step) {
            Ok(step) if step < index => Ok(()),
            Ok(_) | Err(_) => Err(protocol("Invalid reference to step in a batch condition")),
        },
        Condition::Not { cond } => check(cond, version, index),
        Condition::And { conds } | Condition::Or { conds } => {
            conds.iter().try_for_each(|inner| check(inner, version, index))
        }
        Condition::IsAutocommit {} => match version {
            Version::Hrana2 => Err(protocol(
                "BatchCond of type `is_autocommit` is only supported in protocol version hrana3 and higher",
            )),
            Version::Hrana3 => Ok(()),
        },
    }
}

/// Whether a condition holds. `ran` says of each earlier step whether it ran without an error.
fn holds(condition: &Condition, ran: &[bool], autocommit: bool) -> bool {
    let step_ran = |step: u32| usize::try_from(step).ok().and_then(|step| ran.get(step)).copied();
    match condition {
        Condition::Ok { step } => step_ran(*step).unwrap_or(false),
        // True for a skipped step too: that is what the real server does.
        Condition::Error { step } => !step_ran(*step).unwrap_or(false),
        Condition::Not { cond } => !holds(cond, ran, autocommit),
        Condition::And { conds } => conds.iter().all(|inner| holds(inner, ran, autocommit)),
        Condition::Or { conds } => conds.iter().any(|inner| holds(inner, ran, autocommit)),
        Condition::IsAutocommit {} => autocommit,
    }
}

/// What a test wants to go wrong inside the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Every `BEGIN` fails with `SQLITE_BUSY`.
    pub busy: bool,
}

/// Runs the steps; `None` stands for one that was skipped.
///
/// The session is locked for one step at a time, so that a writer that waits for too long can step in between.
pub(super) fn run(
    session: &Mutex<Session>,
    steps: &[Step],
    injected: Injected,
    response_bytes_max: u64,
) -> Result<Vec<Option<Run>>, Stop> {
    let mut budget = response_bytes_max;
    let mut ran = Vec::with_capacity(steps.len());
    let mut runs = Vec::with_capacity(steps.len());
    let mut timed_out = false;
    for step in steps {
        let mut session = Session::lock(session);
        timed_out |= session.take_timed_out();
        let run = if timed_out {
            Some(Run::failed(StatementError::TransactionTimeout))
        } else if step
            .condition
            .as_ref()
            .is_none_or(|condition| holds(condition, &ran, session.is_autocommit()))
        {
            Some(if injected.busy && step.query.statement.kind == Kind::Begin {
                Run::failed(StatementError::busy())
            } else {
                session.run(&step.query, &mut budget)?
            })
        } else {
            None
        };
        ran.push(run.as_ref().is_some_and(|run| run.end.is_ok()));
        runs.push(run);
    }
    Ok(runs)
}

/// Runs one statement outside a batch.
pub(super) fn run_one(
    session: &Mutex<Session>,
    query: Query,
    injected: Injected,
    response_bytes_max: u64,
) -> Result<Run, Stop> {
    let step = Step { condition: None, query };
    let runs = run(session, &[step], injected, response_bytes_max)?;
    runs.into_iter()
        .flatten()
        .next()
        .ok_or_else(|| Stop::Refused(Refusal::Internal("the statement was skipped".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_step_counts_as_an_error() {
        let ran = [true, false];
        assert!(holds(&Condition::Error { step: 1 }, &ran, true));
        assert!(!holds(&Condition::Ok { step: 1 }, &ran, true));
        assert!(holds(&Condition::And { conds: vec![] }, &ran, true));
        assert!(!holds(&Condition::Or { conds: vec![] }, &ran, true));
        let not_open = Condition::Not {
            cond: Box::new(Condition::IsAutocommit {}),
        };
        assert!(!holds(&not_open, &ran, true));
        assert!(holds(&not_open, &ran, false));
    }

    #[test]
    fn a_condition_names_only_steps_before_it() {
        let condition = Condition::Ok { step: 1 };
        assert!(check(&condition, Version::Hrana3, 2).is_ok());
        assert!(check(&condition, Version::Hrana3, 1).is_err());
        assert!(check(&Condition::IsAutocommit {}, Version::Hrana2, 1).is_err());
    }
}
