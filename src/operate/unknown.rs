//! Unknown outcomes: the quarantine, look-ups and verdicts.

use core::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Operator;
use super::http::{Answer, Request};
use super::lists::{Page, note, query_invalid};
use crate::config::timing::DATABASE_SUBREQUESTS;
use crate::config::{Config, PROVIDER};
use crate::outbox::id::{is_message_id, is_outbox_id, outbox_id};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, World};
use crate::reconcile::{self, Asked, Conclusion, Report};
use crate::store::database::DatabaseError;
use crate::store::operator_log::Order;
use crate::store::publish::Reservation;
use crate::store::unknown::{self, Account, Judged, Resend, UnknownRow};

/// Longer than this no operator waits at the door: the pace's wait, and some calls that come to their limit.
const LOOK_UP_TIME_MAX: Duration = Duration::from_secs(90);

/// The doors of this room.
pub(super) enum Door<'a> {
    /// The quarantine.
    List,
    /// A verdict about one row.
    Resolve(&'a str),
    /// A look at the provider for one row.
    LookUp(&'a str),
}

impl<'a> Door<'a> {
    /// The door behind the rest of the path.
    pub(super) fn of(rest: &[&'a str]) -> Option<Self> {
        match rest {
            [] => Some(Self::List),
            [id, "resolve"] => Some(Self::Resolve(id)),
            [id, "look-up"] => Some(Self::LookUp(id)),
            _ => None,
        }
    }

    pub(super) const fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::List => &["GET"],
            Self::Resolve(_) | Self::LookUp(_) => &["POST"],
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
    let order = operator.order(None, world.clock().now());
    match door {
        Door::List => list(world, request).await,
        Door::Resolve(id) | Door::LookUp(id) if !is_outbox_id(id) => Ok(no_such_intent()),
        Door::Resolve(id) => match Verdict::of(request) {
            Ok(verdict) => resolve(world, config, id, &verdict, order).await,
            Err(refusal) => Ok(refusal),
        },
        Door::LookUp(id) => look_up(world, config, id, &order).await,
    }
}

fn no_such_intent() -> Answer {
    Answer::problem(404, "no_such_intent", "There is no intent with this id.")
}

async fn list<W: World>(world: &W, request: &Request<'_>) -> Result<Answer, DatabaseError> {
    let page = match Page::of(request) {
        Ok(page) => page,
        Err(refusal) => return Ok(refusal),
    };
    let Some(after) = page.after_seq() else {
        return Ok(query_invalid());
    };
    let rows = unknown::unknown(world.database(), after, page.rows_max()).await?;
    Ok(page.answer(&rows, |row| row.seq.to_string(), item))
}

fn item(row: &UnknownRow) -> Value {
    let time = |at: i64| Millis::new(at).to_string();
    json!({
        "id": row.id,
        "seq": row.seq,
        "family": row.family,
        "cause": row.cause,
        "since": time(row.updated_at),
        "attemptCount": row.attempt_count,
        "doubts": row.doubts,
        "firstDoubtAt": row.window_anchor_at.map(time),
        "lookUps": row.look_ups,
        "lookUpAt": row.look_up_at.filter(|_| row.look_ups < reconcile::LOOK_UPS_MAX).map(time),
        "resendOf": row.resend_of,
    })
}

/// What a person says of an unknown outcome.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Verdict {
    verdict: Kind,
    message_id: Option<String>,
    note: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Sent,
    NotSent,
    SendAgain,
}

impl Verdict {
    /// Reads and checks the order.
    fn of(request: &Request<'_>) -> Result<Self, Answer> {
        let verdict: Self = request.order()?;
        if note(Some(verdict.note.clone()))?.is_none() {
            return Err(Answer::problem(
                422,
                "note_required",
                "Say in note why you think so. Name nobody.",
            ));
        }
        let fits = match (verdict.kind(), &verdict.message_id) {
            (Kind::Sent, Some(id)) => is_message_id(id),
            (Kind::NotSent | Kind::SendAgain, None) => true,
            (Kind::Sent, None) | (Kind::NotSent | Kind::SendAgain, Some(_)) => false,
        };
        if fits {
            Ok(verdict)
        } else {
            Err(Answer::problem(
                422,
                "message_id_invalid",
                "The verdict `sent` needs the provider's id of the mail as `messageId`; the others take none.",
            ))
        }
    }

    const fn kind(&self) -> Kind {
        self.verdict
    }
}

async fn resolve<W: World>(
    world: &W,
    config: &Config,
    id: &str,
    verdict: &Verdict,
    order: Order<'_>,
) -> Result<Answer, DatabaseError> {
    let database = world.database();
    let order = Order {
        note: Some(&verdict.note),
        ..order
    };
    let message_id = verdict.message_id.as_deref().unwrap_or_default();
    let (judged, resend) = match verdict.kind() {
        Kind::Sent => {
            let account = Account {
                provider: PROVIDER,
                scope: &config.provider_scope,
            };
            let judged = unknown::judge_sent(database, id, message_id, &account, &order).await?;
            (judged, None)
        }
        Kind::NotSent => (unknown::judge_not_sent(database, id, &order).await?, None),
        Kind::SendAgain => {
            // The family's prefix as it was when the first row got its id.
            let Some((prefix, _)) = id.rsplit_once('_') else {
                return Ok(no_such_intent());
            };
            let new_id = outbox_id(prefix, world.random());
            let relay_at = order.now.plus(config.timing.pending_grace);
            unknown::judge_send_again(database, id, &new_id, relay_at, &order).await?
        }
    };
    match judged {
        Judged::Done => Ok(done(id, verdict, resend, false)),
        Judged::NotUnknown => settled_before(world, id, verdict).await,
        Judged::MessageIdConflict => Ok(Answer::problem(
            409,
            "message_id_conflict",
            "Another row has this message id. Nothing was written.",
        )),
        Judged::ProofExists => Ok(Answer::problem(
            409,
            "proof_exists",
            "The provider has taken a mail of this intent. Nothing was written. Look it up, or judge it sent.",
        )),
        Judged::LetterGone => Ok(Answer::problem(
            409,
            "letter_gone",
            "The letter was removed after the retention. Nothing was written; its producer has to record it anew.",
        )),
    }
}

/// The answer to a verdict that was carried out, now or (`duplicate`) before.
fn done(id: &str, verdict: &Verdict, resend: Option<Resend>, duplicate: bool) -> Answer {
    match (verdict.kind(), resend) {
        (Kind::SendAgain, Some(resend)) => Answer {
            to_publish: if duplicate || resend.publish_count == 0 {
                Vec::new()
            } else {
                vec![Reservation {
                    id: resend.id.clone(),
                    publish_count: 1,
                    claim_count: 0,
                    due_at: 0,
                }]
            },
            ..Answer::json(
                if duplicate { 200 } else { 202 },
                json!({
                    "id": resend.id,
                    "seq": resend.seq,
                    "status": resend.status,
                    "duplicate": duplicate,
                    "mayDuplicate": true,
                    "resendOf": id,
                }),
            )
        },
        (Kind::Sent, _) => Answer::json(
            200,
            json!({ "id": id, "status": Status::Sent, "messageId": verdict.message_id, "duplicate": duplicate }),
        ),
        (Kind::NotSent | Kind::SendAgain, _) => Answer::json(
            200,
            json!({ "id": id, "status": Status::Failed, "duplicate": duplicate }),
        ),
    }
}

/// A verdict about a row that no longer asks: the same one again is answered as before, another one is refused.
async fn settled_before<W: World>(world: &W, id: &str, verdict: &Verdict) -> Result<Answer, DatabaseError> {
    let Some((row, resend)) = unknown::standing(world.database(), id).await? else {
        return Ok(no_such_intent());
    };
    let same = match verdict.kind() {
        Kind::Sent => row.status == Status::Sent && row.provider_message_id == verdict.message_id,
        Kind::NotSent => row.status == Status::Failed && row.cause == "verdict_not_sent",
        Kind::SendAgain => resend.is_some(),
    };
    Ok(if same {
        done(id, verdict, resend, true)
    } else {
        not_unknown(row.status, &row.cause)
    })
}

fn not_unknown(status: Status, cause: &str) -> Answer {
    let mut answer = Answer::problem(
        409,
        "not_unknown",
        "This intent is not in the quarantine. Nothing was written.",
    );
    if let Value::Object(members) = &mut answer.body {
        members.insert("intentStatus".to_owned(), json!(status));
        members.insert("cause".to_owned(), json!(cause));
    }
    answer
}

async fn look_up<W: World>(world: &W, config: &Config, id: &str, order: &Order<'_>) -> Result<Answer, DatabaseError> {
    let calls = config.timing.subrequest_budget.saturating_sub(DATABASE_SUBREQUESTS);
    let asked = Asked {
        order: Some(order),
        calls_max: reconcile::CALLS_MAX.min(calls),
        ends_at: order.now.plus(LOOK_UP_TIME_MAX),
    };
    let reports = reconcile::look_up(world, config, &[id], &asked).await?;
    if let Some(report) = reports.into_iter().next() {
        return Ok(looked_up(&report));
    }
    Ok(match unknown::standing(world.database(), id).await? {
        None => no_such_intent(),
        // It was found before, by whatever way.
        Some((row, _)) if row.status == Status::Sent => looked_up(&Report {
            id: id.to_owned(),
            conclusion: Conclusion::Sent,
            message_id: row.provider_message_id,
            pages: 0,
            candidates: 0,
        }),
        Some((row, _)) => not_unknown(row.status, &row.cause),
    })
}

fn looked_up(report: &Report) -> Answer {
    Answer::json(
        200,
        json!({
            "id": report.id,
            "result": report.conclusion.code(),
            "messageId": report.message_id,
            "looked": { "pages": report.pages, "candidates": report.candidates },
            "why": report.conclusion.why(),
        }),
    )
}
