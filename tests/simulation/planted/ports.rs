//! Bugs where the program meets provider, queue and database: answers that are misread, messages that are forgotten.

use sealpost::consume::Decision;
use sealpost::ports::MailAnswer;
use sealpost::store::database::{DatabaseError, Rows};

use super::{BASE, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 11] = [
    &CONFLICT_IS_SENT,
    &SUCCESS_WITHOUT_ID,
    &TIMEOUT_IS_REFUSAL,
    &CLIENT_CALLS_AGAIN,
    &ACKNOWLEDGED_FIRST,
    &BATCH_ACKNOWLEDGED,
    &DECISIONS_MISSING,
    &NOT_CLAIMED_IS_DONE,
    &NOT_PARKED,
    &LOST_ANSWER_IS_SUCCESS,
    &LETTER_IN_THE_MESSAGE,
];

/// The answer of an acceptance, as a program makes it up.
fn made_up(id: &str) -> MailAnswer {
    MailAnswer::Response {
        status: 200,
        retry_after: None,
        body: Some(serde_json::json!({ "id": id }).to_string().into_bytes()),
    }
}

/// A conflict of the key is read as "it has the mail already".
static CONFLICT_IS_SENT: Planted = Planted {
    name: "each 409 is taken for sent",
    breaks: Invariant::I4,
    answer: |answer| match answer {
        MailAnswer::Response { status: 409, .. } => made_up("sent-before"),
        MailAnswer::Response { .. } | MailAnswer::TimedOut | MailAnswer::Disconnected => answer,
    },
    ..BASE
};

/// A success is a success, whatever stands in it.
static SUCCESS_WITHOUT_ID: Planted = Planted {
    name: "a 2xx without an id is booked as sent",
    breaks: Invariant::I4,
    answer: |answer| match &answer {
        MailAnswer::Response {
            status: 200..=299,
            body,
            ..
        } => {
            let json = body.as_deref().and_then(|body| serde_json::from_slice(body).ok());
            let id = json.as_ref().and_then(|json: &serde_json::Value| json["id"].as_str());
            if id.is_some_and(|id| !id.is_empty()) {
                answer
            } else {
                made_up("no-id")
            }
        }
        MailAnswer::Response { .. } | MailAnswer::TimedOut | MailAnswer::Disconnected => answer,
    },
    ..BASE
};

/// No answer is taken for a no.
static TIMEOUT_IS_REFUSAL: Planted = Planted {
    name: "a timeout is taken for a refusal",
    breaks: Invariant::I3,
    answer: |answer| match answer {
        MailAnswer::TimedOut | MailAnswer::Disconnected => MailAnswer::Response {
            status: 422,
            retry_after: None,
            body: Some(br#"{"statusCode":422,"name":"validation_error","message":"no answer"}"#.to_vec()),
        },
        MailAnswer::Response { .. } => answer,
    },
    ..BASE
};

/// The client repeats a request that was cut off, as many do by default; where the provider keeps no keys, too.
static CLIENT_CALLS_AGAIN: Planted = Planted {
    name: "the client repeats a lost call by itself",
    breaks: Invariant::I6,
    calls_again: true,
    ..BASE
};

/// The queue's default: a batch is done when its handler begins.
static ACKNOWLEDGED_FIRST: Planted = Planted {
    name: "acknowledged before it is settled",
    breaks: Invariant::I11,
    acknowledges_first: true,
    ..BASE
};

/// One good message carries the whole batch away.
static BATCH_ACKNOWLEDGED: Planted = Planted {
    name: "a batch is acknowledged when one message was done",
    breaks: Invariant::I11,
    decisions: |decisions| {
        if decisions.contains(&Decision::Acknowledge) {
            vec![Decision::Acknowledge; decisions.len()]
        } else {
            decisions
        }
    },
    ..BASE
};

/// The first message that must come again ends the loop over the batch.
static DECISIONS_MISSING: Planted = Planted {
    name: "no decision after the first retry of a batch",
    breaks: Invariant::I11,
    decisions: |mut decisions| {
        let retry = decisions.iter().position(|decision| *decision != Decision::Acknowledge);
        decisions.truncate(retry.map_or(decisions.len(), |at| at + 1));
        decisions
    },
    ..BASE
};

/// A row that somebody else works on is taken for done.
static NOT_CLAIMED_IS_DONE: Planted = Planted {
    name: "a row that could not be claimed is taken for done",
    breaks: Invariant::I11,
    sql: &[(
        "SELECT o.id, o.status, o.claim_expires_at, o.batch_id,",
        "SELECT o.id, CASE WHEN o.status = 'processing' THEN 'sent' ELSE o.status END AS status, o.claim_expires_at,
           o.batch_id,",
    )],
    ..BASE
};

/// Input that nobody understands is logged and forgotten.
static NOT_PARKED: Planted = Planted {
    name: "unknown messages are acknowledged and kept nowhere",
    breaks: Invariant::I11,
    sql: &[(
        "FROM json_each(?1) j WHERE true\n  ON CONFLICT (hash)",
        "FROM json_each(?1) j WHERE false ON CONFLICT (hash)",
    )],
    ..BASE
};

/// An answer that never came is an empty one.
static LOST_ANSWER_IS_SUCCESS: Planted = Planted {
    name: "a lost answer of the database is taken for success",
    breaks: Invariant::I11,
    database: |result, statements| match result {
        Err(DatabaseError::Ambiguous) => Ok(vec![Rows::default(); statements]),
        other => other,
    },
    ..BASE
};

/// The message carries the letter, to spare a question to the database.
static LETTER_IN_THE_MESSAGE: Planted = Planted {
    name: "the message carries the letter",
    breaks: Invariant::I8,
    publish: |sim, messages| {
        let with_letter = |mut message: sealpost::ports::QueueMessage| {
            let mut body: serde_json::Value = serde_json::from_str(&message.body).expect("an envelope");
            let id = body["outboxId"].as_str().unwrap_or_default().to_owned();
            body["letter"] = sim
                .store
                .one_text("SELECT body FROM letters WHERE outbox_id = ?1", &id)
                .into();
            message.body = body.to_string();
            message
        };
        messages.into_iter().map(with_letter).collect()
    },
    ..BASE
};
