//! `POST /v1/intents/{id}/cancel`: the producer's second thought.
//!
//! IO steps, and what a death right after each leaves behind:
//!
//! 1. *Cancel* (one transaction). Dead after it: the row is canceled, and the producer who asks again is told so. A
//!    message that is still in the queue finds a settled row and is acknowledged.

use serde_json::{Value, json};

use super::http::Answer;
use crate::outbox::status::{Standing, Status};
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::cancel::{CAUSE, cancel as cancel_row};
use crate::store::database::DatabaseError;

/// Cancels a row that nobody is sending at the moment.
///
/// # Errors
/// [`DatabaseError`].
pub(super) async fn cancel<W: World>(world: &W, id: &str) -> Result<Answer, DatabaseError> {
    let Some(row) = cancel_row(world.database(), id, world.clock().now()).await? else {
        return Ok(Answer::problem(
            404,
            "no_such_intent",
            "There is no intent with this id.",
        ));
    };
    let in_doubt = row.status == Status::Unknown;
    if row.moved == 1 {
        let fields = [("outboxId", Field::Id(id))];
        if in_doubt {
            world.log().note(Level::Alarm, "outcome_unknown", &fields);
        } else {
            world.log().note(Level::Info, "intent_canceled", &fields);
        }
    }
    // A row in doubt is not sent again by itself either; whether it went out before, nobody can know.
    if row.status == Status::Canceled || (in_doubt && row.cause == CAUSE) {
        let canceled = row.status == Status::Canceled;
        return Ok(Answer::json(
            200,
            json!({ "id": id, "canceled": canceled, "status": row.status }),
        ));
    }
    let mut answer = match row.status.standing() {
        Standing::Open if row.together == 0 => Answer::problem(
            409,
            "being_sent",
            "The mail is being sent at this moment. Ask again in a few minutes: it is sent by then, or can be canceled.",
        ),
        Standing::Open | Standing::Settled | Standing::AsksForAPerson => Answer::problem(
            409,
            "too_late",
            "The mail has come to its end, or is frozen in one request with others; see its status. Nothing was written.",
        ),
    };
    if let Value::Object(members) = &mut answer.body {
        members.insert("intentStatus".to_owned(), json!(row.status));
        members.insert("cause".to_owned(), json!(row.cause));
    }
    Ok(answer)
}
