//! The arrows between states, as docs/states.md has them: from, to, the causes that each allows.

use std::sync::LazyLock;

/// Which causes lead along an arrow.
#[derive(Clone, Copy, Debug)]
pub enum Causes {
    /// One of these.
    Of(&'static [&'static str]),
    /// A code of an attempt or of an unreadable row: anything that is not a cause of another arrow's own.
    Codes,
}

/// One arrow.
#[derive(Clone, Copy, Debug)]
pub struct Arrow {
    /// The state before; empty for a new row.
    pub from: &'static str,
    pub to: &'static str,
    pub causes: Causes,
}

impl Arrow {
    pub fn name(&self) -> String {
        name(self.from, self.to)
    }
}

/// An arrow as reports call it.
pub fn name(from: &str, to: &str) -> String {
    let from = if from.is_empty() { "(new)" } else { from };
    format!("{from} -> {to}")
}

/// Causes that belong to one arrow each and are no codes.
const OWN: [&str; 20] = [
    "backfilled",
    "recorded",
    "published",
    "claimed",
    "held",
    "shadow_mode",
    "paused",
    "provider_scope_changed",
    "recipient_suppressed",
    "readable_again",
    "queue_exhausted",
    "paced",
    "message_id_conflict",
    "accepted",
    "proved_by_receipt",
    "verdict_sent",
    "verdict_not_sent",
    "look_up_found",
    "sent_again",
    "retried_by_operator",
];

const STOPPED: [&str; 5] = [
    "canceled_by_producer",
    "recipient_suppressed",
    "unsubscribed",
    "window_missed",
    "first_was_sent",
];
const UNREADABLE: [&str; 2] = ["claims_exhausted", "outbox_id_unclaimed"];

/// Who must not be written to: found at the claim or by the relay, or said by the recipient just now.
const SUPPRESSED: &[&str] = &["recipient_suppressed", "unsubscribed"];

/// Rows that are put aside, by the claim or by the relay, or given back by the dead-letter queue.
const ASIDE: &[&str] = &[
    "paused",
    "pause_lifted",
    "held",
    "provider_scope_changed",
    "queue_exhausted",
];

/// A repetition whose first mail was proved meanwhile, or a producer's second thought.
const CALLED_OFF: &[&str] = &["first_was_sent", "canceled_by_producer"];

/// What proves that the provider has the mail.
const PROOF: &[&str] = &["accepted", "proved_by_receipt"];

/// Every arrow that the simulation must have seen.
pub static ALL: LazyLock<Vec<Arrow>> = LazyLock::new(|| {
    let arrow = |from, to, causes| Arrow { from, to, causes };
    let mut all = vec![
        arrow("", "pending", Causes::Of(&["recorded", "held"])),
        arrow("", "shadowed", Causes::Of(&["shadow_mode"])),
        arrow("", "expired", Causes::Of(&["window_missed"])),
        arrow("", "external", Causes::Of(&["backfilled"])),
        arrow("pending", "enqueued", Causes::Of(&["published"])),
        arrow("retry", "enqueued", Causes::Of(&["published"])),
        arrow("pending", "processing", Causes::Of(&["claimed"])),
        arrow("enqueued", "processing", Causes::Of(&["claimed"])),
        arrow("retry", "processing", Causes::Of(&["claimed"])),
        arrow("processing", "processing", Causes::Of(&["claimed"])),
        arrow("processing", "retry", Causes::Codes),
        arrow("pending", "retry", Causes::Of(ASIDE)),
        arrow("enqueued", "retry", Causes::Of(ASIDE)),
        arrow("retry", "retry", Causes::Of(ASIDE)),
        arrow("processing", "sent", Causes::Of(PROOF)),
        arrow("retry", "sent", Causes::Of(PROOF)),
        arrow("processing", "failed", Causes::Codes),
        arrow("processing", "dead_letter", Causes::Codes),
        arrow("processing", "unknown", Causes::Codes),
        arrow("processing", "expired", Causes::Of(&["window_missed"])),
        arrow("dead_letter", "retry", Causes::Of(&["readable_again"])),
        arrow("unknown", "sent", Causes::Of(PROOF)),
    ];
    for from in ["pending", "enqueued", "retry"] {
        all.push(arrow(from, "suppressed", Causes::Of(SUPPRESSED)));
        all.push(arrow(from, "expired", Causes::Of(&["window_missed"])));
        all.push(arrow(from, "dead_letter", Causes::Of(&["outbox_id_unclaimed"])));
    }
    all.push(arrow("retry", "unknown", Causes::Codes));
    // A person's verdicts, and what the provider was found to have.
    all.push(arrow("unknown", "sent", Causes::Of(&["verdict_sent", "look_up_found"])));
    all.push(arrow("unknown", "failed", Causes::Of(&["verdict_not_sent"])));
    all.push(arrow("unknown", "unknown", Causes::Of(&["sent_again"])));
    all.push(arrow("", "pending", Causes::Of(&["sent_again"])));
    all.push(arrow("dead_letter", "retry", Causes::Of(&["retried_by_operator"])));
    all
});

/// Arrows that are right and so rare that a short run may miss them.
static RARE: LazyLock<Vec<Arrow>> = LazyLock::new(|| {
    let arrow = |from, to, causes| Arrow { from, to, causes };
    let mut rare = vec![
        arrow("processing", "suppressed", Causes::Of(SUPPRESSED)),
        arrow("pending", "unknown", Causes::Codes),
        arrow("enqueued", "unknown", Causes::Codes),
        arrow("dead_letter", "sent", Causes::Of(PROOF)),
        arrow("failed", "sent", Causes::Of(PROOF)),
        arrow("expired", "sent", Causes::Of(PROOF)),
        arrow("suppressed", "sent", Causes::Of(PROOF)),
        arrow("pending", "sent", Causes::Of(PROOF)),
        arrow("enqueued", "sent", Causes::Of(PROOF)),
        arrow("failed", "sent", Causes::Of(&["look_up_found"])),
        arrow("pending", "canceled", Causes::Of(CALLED_OFF)),
        arrow("enqueued", "canceled", Causes::Of(CALLED_OFF)),
        arrow("retry", "canceled", Causes::Of(CALLED_OFF)),
        arrow("processing", "canceled", Causes::Of(CALLED_OFF)),
        arrow("dead_letter", "canceled", Causes::Of(CALLED_OFF)),
        arrow("canceled", "sent", Causes::Of(PROOF)),
        // What an operator's retry finds.
        arrow("dead_letter", "suppressed", Causes::Of(&["recipient_suppressed"])),
        arrow("dead_letter", "expired", Causes::Of(&["window_missed"])),
    ];
    for from in ["pending", "enqueued", "retry", "dead_letter", "failed"] {
        rare.push(arrow(from, "unknown", Causes::Of(&["message_id_conflict"])));
    }
    rare
});

/// Whether a row may go this way for this cause.
pub fn is_legal(from: &str, to: &str, cause: &str) -> bool {
    ALL.iter()
        .chain(RARE.iter())
        .filter(|arrow| arrow.from == from && arrow.to == to)
        .any(|arrow| match arrow.causes {
            Causes::Of(list) => list.contains(&cause),
            Causes::Codes => {
                let stopped = STOPPED.contains(&cause) || UNREADABLE.contains(&cause);
                let aside = arrow.to == "retry" && (ASIDE.contains(&cause) || cause == "paced");
                let conflict = arrow.to == "unknown" && cause == "message_id_conflict";
                aside || conflict || (stopped && arrow.to != "retry") || !(OWN.contains(&cause) || stopped)
            }
        })
}
