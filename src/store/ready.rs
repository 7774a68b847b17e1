//! What a claim may take: rows by themselves, and batches as a whole. Each piece is a macro, so that every statement is
//! one constant text; whoever uses them has [`super::batches::whole_batches`] and the pieces of
//! [`super::shared_sql`] at hand.

/// The account that `o` is sealed for is this one. An open member of a batch says it by its batch.
macro_rules! own_account {
    ($provider:literal, $scope:literal) => {
        concat!(
            "(o.provider = ",
            $provider,
            " AND CASE WHEN o.batch_id IS NULL THEN o.provider_scope
                ELSE (SELECT b.provider_scope FROM provider_batches b WHERE b.id = o.batch_id) END = ",
            $scope,
            ")"
        )
    };
}

/// This version may send `o`, and through this account.
macro_rules! sendable {
    ($held:literal, $provider:literal, $scope:literal) => {
        concat!(
            "NOT ",
            held!($held),
            " AND (o.seal_sha256 IS NULL OR ",
            own_account!($provider, $scope),
            ")"
        )
    };
}

/// The rows that may be claimed now, and those that this token holds already. A row by itself, or the open members of a
/// batch, are a unit, which is claimed whole or not at all: each of its rows waits or its claim ended, is due, kept back
/// by no pause and no hold, sealed for this account, and it is of the kind that is claimed now: suspects alone, or all
/// others. `?1` ids; now, token, suspects only, held families, provider, scope, batch families
macro_rules! ready {
    ($now:literal, $token:literal, $suspects:literal, $held:literal, $provider:literal, $scope:literal, $families:literal) => {
        concat!(
            "(SELECT unit.* FROM (
               SELECT flags.*, min(seq) OVER whole AS unit_seq, min(priority) OVER whole AS unit_priority, min(may) OVER whole AS may_all,
                 max(mine) OVER whole AS mine_any, max(alone) OVER whole AS alone_any
               FROM (SELECT o.id, o.seq, o.priority, o.family, o.batch_id,
                   EXISTS (SELECT 1 FROM pauses p WHERE p.scope = o.family AND p.probe_token = ",
            $token,
            ") AS probing,
                   coalesce(o.seal_bytes, o.letter_bytes) AS bytes,
                   CASE WHEN o.seal_sha256 IS NULL AND o.batch_refused = 0 AND EXISTS
                     (SELECT 1 FROM json_each(",
            $families,
            ") k WHERE k.value = o.family) THEN o.family END AS joins,
                   o.status = 'processing' AND o.claim_token = ",
            $token,
            " AS mine,
                   o.suspect = 1 OR o.status = 'processing' AS alone,
                   (o.status = 'processing' AND o.claim_token = ",
            $token,
            " OR ",
            movable!($now),
            " AND ",
            due!($now),
            ") AND ",
            paused_until!($now, $token),
            " IS NULL AND ",
            sendable!($held, $provider, $scope),
            " AS may
                 FROM ",
            whole_batches!(),
            " w JOIN outbox o ON o.id = w.id WHERE o.relay_at IS NOT NULL) AS flags
               WINDOW whole AS (PARTITION BY coalesce(batch_id, id))) AS unit
             WHERE may_all AND (mine_any OR alone_any = ",
            $suspects,
            ")) AS ready"
        )
    };
}

/// Of the open members of the batch of `o`.
macro_rules! of_the_batch {
    ($what:literal) => {
        concat!(
            "(SELECT ",
            $what,
            " FROM outbox m WHERE m.batch_id = o.batch_id AND m.relay_at IS NOT NULL)"
        )
    };
}

pub(super) use {of_the_batch, own_account, ready, sendable};
