//! Bugs of what is written down: events, errors.

use super::{BASE, Planted};
use crate::report::Invariant;

pub const ALL: [&Planted; 3] = [&NO_EVENT, &OLD_CAUSE, &LETTER_IN_THE_ERROR];

/// One arrow writes no event.
static NO_EVENT: Planted = Planted {
    name: "no event where a row is published",
    breaks: Invariant::I10,
    schema: &[(
        "WHEN OLD.status <> NEW.status\n",
        "WHEN OLD.status <> NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'enqueued')\n",
    )],
    ..BASE
};

/// The event says why the row was in the state before.
static OLD_CAUSE: Planted = Planted {
    name: "events carry the cause of the state before",
    breaks: Invariant::I10,
    schema: &[(
        "VALUES (NEW.id, OLD.status, NEW.status, NEW.cause,",
        "VALUES (NEW.id, OLD.status, NEW.status, OLD.cause,",
    )],
    ..BASE
};

/// The error quotes what it failed for.
static LETTER_IN_THE_ERROR: Planted = Planted {
    name: "the last error quotes the letter",
    breaks: Invariant::I8,
    sql: &[(
        "last_error = moved.code,",
        "last_error = moved.code || ': ' || coalesce((SELECT body FROM letters l WHERE l.outbox_id = outbox.id), ''),",
    )],
    ..BASE
};
