//! Pieces of SQL that more than one question needs word for word. Each is a macro, so that every statement is one
//! constant text.

/// `o` may be claimed or moved: it waits, or its last claim has ended. `?now` is the parameter given.
macro_rules! movable {
    ($now:literal) => {
        concat!(
            "(o.status IN ('pending', 'enqueued', 'retry') OR (o.status = 'processing' AND o.claim_expires_at <= ",
            $now,
            "))"
        )
    };
}

/// `o` is due: no waiting time and no window keeps it back.
macro_rules! due {
    ($now:literal) => {
        concat!(
            "(coalesce(o.next_attempt_at, 0) <= ",
            $now,
            " AND coalesce(o.not_before, 0) <= ",
            $now,
            ")"
        )
    };
}

/// When an open row was or will be due; a bulk row that was admitted: from then on.
macro_rules! due_since {
    () => {
        "max(iif(bulk = 1 AND status = 'enqueued', updated_at, created_at), coalesce(next_attempt_at, 0),
          coalesce(not_before, 0))"
    };
}

/// Why `o` must not be sent any more, as a code, or NULL. In order: what nobody may repeat, what was to be sent once more
/// and proved to have gone out the first time, who must not be written to, what is too late, what killed its worker too often, what no version here can read.
///
/// Parameters: now, the used part of the provider window (ms), known templates (JSON array of
/// `{family, template, version}`), how many lone deaths end a row.
macro_rules! stop_cause {
    ($now:literal, $window:literal, $known:literal, $deaths:literal) => {
        concat!(
            "CASE
               WHEN o.doubts > 0 AND o.window_anchor_at + ", $window, " <= ", $now, " THEN 'provider_window_closed'
               WHEN o.doubts = 0 AND EXISTS (SELECT 1 FROM outbox before
                 WHERE before.id = o.resend_of AND before.status = 'sent') THEN 'first_was_sent'
               WHEN EXISTS (SELECT 1 FROM suppressions s
                 WHERE s.recipient_hash = o.recipient_hash AND s.family IN ('*', o.family)
                   AND s.lifted_at IS NULL AND (s.until IS NULL OR s.until > ", $now, ")) THEN 'recipient_suppressed'
               WHEN o.not_after <= ", $now, " THEN 'window_missed'
               WHEN o.status = 'processing' AND o.lone_claim = 1 AND o.lone_deaths + 1 >= ", $deaths, " THEN 'claims_exhausted'
               WHEN o.seal_sha256 IS NULL AND NOT EXISTS (SELECT 1 FROM json_each(", $known, ") k
                 WHERE k.value ->> 'family' = o.family AND k.value ->> 'template' IS o.template) THEN 'outbox_id_unclaimed'
             END"
        )
    };
}

/// The assignments that end a row for `stop.cause` at `?now`. A row in doubt becomes unknown whatever stops it.
macro_rules! stop_assignments {
    ($now:literal) => {
        concat!(
            "status = CASE
               WHEN doubts > 0 THEN 'unknown'
               WHEN stop.cause = 'recipient_suppressed' THEN 'suppressed'
               WHEN stop.cause = 'window_missed' THEN 'expired'
               WHEN stop.cause = 'first_was_sent' THEN 'canceled'
               ELSE 'dead_letter' END,
             cause = stop.cause,
             last_error = stop.cause,
             dead_class = CASE WHEN doubts = 0 AND stop.cause IN ('claims_exhausted', 'outbox_id_unclaimed')
               THEN 'pipeline' END,
             settled_at = CASE WHEN doubts = 0 AND stop.cause IN ('recipient_suppressed', 'window_missed', 'first_was_sent')
               THEN ",
            $now,
            " END,
             claim_token = NULL, claim_expires_at = NULL, suspect = 0, lone_claim = 0,
             next_attempt_at = NULL, relay_at = NULL, updated_at = ",
            $now
        )
    };
}

/// Until when nobody may send `o` (ms), or NULL: a pause of its family or of everything, unless this claim is the
/// pause's probe. Parameters: now, token.
macro_rules! paused_until {
    ($now:literal, $token:literal) => {
        concat!(
            "(SELECT max(p.until) FROM pauses p WHERE p.scope IN ('*', o.family) AND p.until > ",
            $now,
            " AND p.probe_token IS NOT ",
            $token,
            ")"
        )
    };
}

/// Whether the family of `o` is on hold in this version. Parameter: JSON array of family names.
macro_rules! held {
    ($held:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM json_each(",
            $held,
            ") h WHERE h.value = o.family)"
        )
    };
}

/// The open rows that the relay hands over as soon as they are due, by their own index. Bulk rows are among them where
/// they are in doubt, whose provider window runs, and where they were admitted and their message got lost.
macro_rules! singles {
    () => {
        "outbox INDEXED BY outbox_due_single
           WHERE relay_at IS NOT NULL AND (bulk = 0 OR doubts > 0 OR status IN ('enqueued', 'processing'))"
    };
}

/// The bulk rows that wait for their admission, by the index given.
macro_rules! bulk_waiting {
    ($index:literal) => {
        concat!(
            "outbox INDEXED BY ",
            $index,
            "
               WHERE relay_at IS NOT NULL AND bulk = 1 AND doubts = 0 AND status IN ('pending', 'retry')"
        )
    };
}

/// The families of which bulk rows wait, as a table `waiting (family)`: one look into the index for each.
macro_rules! waiting_families {
    () => {
        concat!(
            "waiting (family) AS (
               SELECT (SELECT min(family) FROM ",
            super::shared_sql::bulk_waiting!("outbox_due_bulk"),
            ")
               UNION ALL
               SELECT (SELECT min(family) FROM ",
            super::shared_sql::bulk_waiting!("outbox_due_bulk"),
            " AND family > waiting.family)
               FROM waiting WHERE waiting.family IS NOT NULL)"
        )
    };
}

pub(super) use {
    bulk_waiting, due, due_since, held, movable, paused_until, singles, stop_assignments, stop_cause, waiting_families,
};
