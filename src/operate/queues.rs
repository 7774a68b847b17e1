//! The queue as its operators see it: figures and dead letters.

use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Operator;
use super::http::{Answer, Request};
use super::lists::{Page, note, query_invalid};
use crate::config::Config;
use crate::outbox::id::is_outbox_id;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, World};
use crate::store::database::DatabaseError;
use crate::store::operator_log::Order;
use crate::store::queues::{self, COUNT_MAX, Chosen, DeadClass, DeadLetter, Filter, Judge, Retried, Retry};

/// Rows that one order retries at most.
const RETRIES_MAX: usize = 100;

/// The doors of this room; each names the queue.
pub(super) enum Door<'a> {
    Stats(&'a str),
    DeadLetters(&'a str),
    RetryDead(&'a str),
}

impl<'a> Door<'a> {
    /// The door behind the rest of the path.
    pub(super) fn of(rest: &[&'a str]) -> Option<Self> {
        match *rest {
            [name, "stats"] => Some(Self::Stats(name)),
            [name, "dead-letters"] => Some(Self::DeadLetters(name)),
            [name, "retry-dead"] => Some(Self::RetryDead(name)),
            _ => None,
        }
    }

    pub(super) const fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::Stats(_) | Self::DeadLetters(_) => &["GET"],
            Self::RetryDead(_) => &["POST"],
        }
    }

    const fn queue(&self) -> &'a str {
        match self {
            Self::Stats(name) | Self::DeadLetters(name) | Self::RetryDead(name) => name,
        }
    }
}

/// Answers an operator.
///
/// # Errors
/// [`DatabaseError`].
pub(super) async fn answer<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &Operator,
    door: Door<'_>,
) -> Result<Answer, DatabaseError> {
    if door.queue() != config.queue_name {
        return Ok(Answer::problem(
            404,
            "no_such_queue",
            "Name the main queue, as QUEUE_NAME has it.",
        ));
    }
    match door {
        Door::Stats(_) => stats(world).await,
        Door::DeadLetters(_) => dead_letters(world, request).await,
        Door::RetryDead(_) => retry_dead(world, config, request, operator).await,
    }
}

async fn stats<W: World>(world: &W) -> Result<Answer, DatabaseError> {
    let now = world.clock().now();
    let stats = queues::stats(world.database(), now).await?;
    let looked_at = [
        stats.open,
        stats.dead,
        stats.unknown,
        stats.parked,
        stats.receipts_waiting,
        stats.suppressions,
    ];
    let waits = stats.oldest_ready_at.map(|at| now.since(Millis::new(at)).as_millis());
    Ok(Answer::json(
        200,
        json!({
            "ready": stats.ready,
            "inFlight": stats.in_flight,
            "delayed": stats.delayed,
            "dead": { "pipeline": stats.dead_pipeline, "recipient": stats.dead_recipient },
            "unknown": stats.unknown,
            "parked": stats.parked,
            "receiptsWaiting": stats.receipts_waiting,
            "suppressed": stats.suppressed,
            "pendingAgeMs": waits.and_then(|ms| u64::try_from(ms).ok()),
            "countedTo": COUNT_MAX,
            "more": looked_at.iter().any(|count| *count > COUNT_MAX),
        }),
    ))
}

async fn dead_letters<W: World>(world: &W, request: &Request<'_>) -> Result<Answer, DatabaseError> {
    let page = match Page::of(request) {
        Ok(page) => page,
        Err(refusal) => return Ok(refusal),
    };
    let after = page.after.as_deref().map_or(Ok(0), str::parse::<i64>);
    let class = match request.parameter("class").as_deref() {
        None => Ok(None),
        Some(text) => DeadClass::of(text).map(Some).ok_or(()),
    };
    let (Ok(after), Ok(class)) = (after, class) else {
        return Ok(query_invalid());
    };
    // Any family: one that this version does not know is often the reason.
    let family = request.parameter("family");
    let filter = Filter {
        class,
        family: family.as_deref(),
    };
    let letters = queues::dead_letters(world.database(), filter, after, page.rows_max()).await?;
    Ok(page.answer(&letters, |letter| letter.seq.to_string(), shown))
}

fn shown(letter: &DeadLetter) -> Value {
    json!({
        "id": letter.id,
        "seq": letter.seq,
        "family": letter.family,
        "class": letter.dead_class,
        "cause": letter.cause,
        "lastError": letter.last_error,
        "attemptCount": letter.attempt_count,
        "since": Millis::new(letter.updated_at).to_string(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RetryOrder {
    seq: Option<i64>,
    ids: Option<Vec<String>>,
    class: Option<DeadClass>,
    family: Option<String>,
    limit: Option<usize>,
    after: Option<i64>,
    note: Option<String>,
}

/// Which rows an order means: exactly one of the three ways.
enum Selection {
    Seq(i64),
    Ids(Vec<String>),
    Oldest {
        class: Option<DeadClass>,
        family: Option<String>,
        limit: usize,
        after: i64,
    },
}

impl RetryOrder {
    fn selection(self) -> Option<Selection> {
        match (self.seq, self.ids, self.class, self.family, self.limit) {
            // A place in the order belongs to the third way alone.
            (Some(_), _, _, _, _) | (_, Some(_), _, _, _) if self.after.is_some() => None,
            (Some(seq), None, None, None, None) => Some(Selection::Seq(seq)),
            (None, Some(ids), None, None, None) => {
                let legal = (1..=RETRIES_MAX).contains(&ids.len()) && ids.iter().all(|id| is_outbox_id(id));
                legal.then_some(Selection::Ids(ids))
            }
            // All of them by accident is not what an empty order means.
            (None, None, None, None, None) => None,
            (None, None, class, family, limit) => {
                let limit = limit.unwrap_or(RETRIES_MAX);
                (1..=RETRIES_MAX).contains(&limit).then_some(Selection::Oldest {
                    class,
                    family,
                    limit,
                    after: self.after.unwrap_or(0),
                })
            }
            (Some(_), _, _, _, _) | (_, Some(_), _, _, _) => None,
        }
    }
}

async fn retry_dead<W: World>(
    world: &W,
    config: &Config,
    request: &Request<'_>,
    operator: &Operator,
) -> Result<Answer, DatabaseError> {
    let read = || -> Result<_, Answer> {
        let mut order: RetryOrder = request.order()?;
        let note = note(order.note.take())?;
        let selection = order.selection().ok_or_else(|| {
            Answer::problem(
                422,
                "selection_invalid",
                "Send seq, or 1 to 100 ids, or at least one of class, family and limit (1 to 100), with after if need be.",
            )
        })?;
        Ok((selection, note))
    };
    let (selection, note) = match read() {
        Ok(order) => order,
        Err(refusal) => return Ok(refusal),
    };
    let order = operator.order(note.as_deref(), world.clock().now());
    let (seq, ids, next) = match selection {
        Selection::Seq(seq) => (Some(seq), Vec::new(), None),
        Selection::Ids(ids) => (None, ids, None),
        Selection::Oldest {
            class,
            family,
            limit,
            after,
        } => {
            let filter = Filter {
                class,
                family: family.as_deref(),
            };
            // One more than is taken tells whether there is another page.
            let rows_max = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
            let judge = judge(config);
            let mut chosen = queues::next_dead(world.database(), filter, after, rows_max, judge, order.now).await?;
            let more = chosen.len() > limit;
            chosen.truncate(limit);
            let next = chosen.last().filter(|_| more).map(|last| last.seq);
            let ids = chosen.into_iter().map(|Chosen { id, seq: _ }| id).collect();
            (None, ids, Some(next))
        }
    };
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let retried = retry(world, config, &ids, seq, &order).await?;
    let mut items: Vec<Value> = retried.iter().map(item).collect();
    let missing = |id: &&&str| !retried.iter().any(|row| row.id == **id);
    items.extend(
        ids.iter()
            .filter(missing)
            .map(|id| json!({ "id": id, "seq": null, "result": "not_found", "why": null })),
    );
    if let Some(seq) = seq
        && retried.is_empty()
    {
        items.push(json!({ "id": null, "seq": seq, "result": "not_found", "why": null }));
    }
    let mut answer = Answer::json(200, json!({ "items": items }));
    if let (Some(next), Value::Object(members)) = (next, &mut answer.body) {
        members.insert("next".to_owned(), json!(next));
    }
    Ok(answer)
}

/// How this version judges a dead letter.
fn judge(config: &Config) -> Judge<'_> {
    Judge {
        window_ms: i64::try_from(config.timing.window.usable().as_millis()).unwrap_or(i64::MAX),
        known_templates: config.policy.known_templates(),
    }
}

/// Retries these rows as this version judges them.
///
/// # Errors
/// [`DatabaseError`].
pub(super) async fn retry<W: World>(
    world: &W,
    config: &Config,
    ids: &[&str],
    seq: Option<i64>,
    order: &Order<'_>,
) -> Result<Vec<Retried>, DatabaseError> {
    let retry = Retry {
        ids,
        seq,
        judge: judge(config),
    };
    queues::retry_dead(world.database(), retry, order).await
}

/// What became of one row.
pub(super) fn item(row: &Retried) -> Value {
    json!({ "id": row.id, "seq": row.seq, "result": row.result, "why": row.why })
}
