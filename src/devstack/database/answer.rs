//! From results and refusals to HTTP answers, and from a body to a request.

use super::failure::{Refusal, StatementError};
use super::proto::{BatchResult, CursorEntry, ErrorBody};
use super::session::Run;

/// An HTTP answer that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The whole body.
    pub body: Vec<u8>,
}

/// Reads a request's body.
pub(super) fn decode<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::Protocol(format!("Cannot deserialize client message from JSON: {error}")))
}

/// An error as it stands in a message.
pub(super) fn body_of(error: &StatementError) -> ErrorBody {
    ErrorBody {
        message: error.to_string(),
        code: error.code(),
    }
}

/// The result of a batch from the runs of its steps.
pub(super) fn batch_of(runs: Vec<Option<Run>>) -> BatchResult {
    let (step_results, step_errors) = runs
        .into_iter()
        .map(|run| match run.map(Run::into_result) {
            Some(Ok(result)) => (Some(result), None),
            Some(Err(error)) => (None, Some(body_of(&error))),
            None => (None, None),
        })
        .unzip();
    BatchResult {
        step_results,
        step_errors,
        replication_index: None,
    }
}

/// The lines of one step in the answer to a cursor.
pub(super) fn cursor_lines(body: &mut Vec<u8>, step: usize, run: Run) -> Result<(), Refusal> {
    if let Some(cols) = run.cols {
        line(body, &CursorEntry::StepBegin { step, cols })?;
    }
    for row in run.rows {
        line(body, &CursorEntry::Row { row })?;
    }
    match run.end {
        Ok(end) => line(
            body,
            &CursorEntry::StepEnd {
                affected_row_count: end.affected_row_count,
                last_insert_rowid: end.last_insert_rowid,
            },
        ),
        Err(error) => line(
            body,
            &CursorEntry::StepError {
                step,
                error: body_of(&error),
            },
        ),
    }
}

/// One line of JSON.
pub(super) fn line<T: serde::Serialize>(body: &mut Vec<u8>, entry: &T) -> Result<(), Refusal> {
    serde_json::to_writer(&mut *body, entry).map_err(|error| Refusal::Internal(error.to_string()))?;
    body.push(b'\n');
    Ok(())
}

/// An answer in JSON.
pub(super) fn json<T: serde::Serialize>(status: u16, body: &T) -> Result<Answer, Refusal> {
    Ok(Answer {
        status,
        content_type: "application/json",
        body: serde_json::to_vec(body).map_err(|error| Refusal::Internal(error.to_string()))?,
    })
}

/// The answer to a request that was refused as a whole.
pub(super) fn refused(refusal: &Refusal) -> Answer {
    let text = refusal.to_string();
    let (status, body) = match refusal {
        Refusal::Protocol(_) => {
            return Answer {
                status: 400,
                content_type: "text/plain",
                body: text.into_bytes(),
            };
        }
        Refusal::StreamExpired => (400, serde_json::json!({ "message": text, "code": "STREAM_EXPIRED" })),
        Refusal::NoConnection => (429, serde_json::json!({ "error": text })),
        Refusal::Internal(_) => (500, serde_json::json!({ "error": text })),
    };
    Answer {
        status,
        content_type: "application/json",
        body: body.to_string().into_bytes(),
    }
}
