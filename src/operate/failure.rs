//! What a door answers where the database could not do its part.

use super::http::Answer;
use crate::ports::{Field, Level, Log as _, World};
use crate::store::database::DatabaseError;

/// A failure of ours. The code says which; the advice is the same for all that may pass: repeat the very same request.
pub(super) fn database_failed<W: World>(world: &W, error: &DatabaseError) -> Answer {
    world
        .log()
        .note(Level::Warn, "database_failed", &[("error", Field::Code(error.code()))]);
    let code = error.code();
    match error {
        DatabaseError::Busy => {
            Answer::problem(503, code, "Nothing was written. Repeat the request.").with_header("retry-after", "1")
        }
        DatabaseError::Ambiguous => Answer::problem(
            503,
            code,
            "The request may have been recorded. Repeat the very same request: it is recorded once.",
        )
        .with_header("retry-after", "2"),
        DatabaseError::Refused { .. } | DatabaseError::SchemaMismatch => Answer::problem(
            503,
            code,
            "Nothing was written. The service cannot use its database; its operators have to act.",
        )
        .with_header("retry-after", "60"),
        DatabaseError::Constraint { .. } | DatabaseError::Failed { .. } | DatabaseError::Shape => Answer::problem(
            500,
            code,
            "This is an error of the service. Nothing needs to change in the request.",
        ),
    }
}
