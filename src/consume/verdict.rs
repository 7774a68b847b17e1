//! One attempt's end and where its row goes: a pure function of the row, the answer and the time.

use core::time::Duration;

use super::decision::queue_keeps;
use crate::config::Timing;
use crate::outbox::attempt::Outcome;
use crate::outbox::backoff::{BACKOFF_CAP, backoff, spread};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;
use crate::outbox::window::Repetition;
use crate::provider::classify::{Answer, ThrottleKind};
use crate::store::settle::{NewPause, Settlement};

/// The longest pause after a broken configuration: somebody mends it, and nobody wants to wait long afterwards.
const PAUSE_CAP_MS: i64 = 15 * 60 * 1_000;
/// No pause is longer, whatever the provider says: quotas are renewed daily, and a probe costs one call.
const PAUSE_NAMED_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// The longest wait of a row that is only throttled: the limit is one of seconds, and its end should be noticed soon.
const SLOW_DOWN_CAP: Duration = Duration::from_secs(120);

/// Why a call was not made although its attempt was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotCalled {
    /// The claim would not outlast the call.
    LeaseTooShort,
    /// The mail's own window has closed.
    WindowMissed,
    /// The provider may have forgotten the key of a doubtful mail.
    ProviderWindowClosed,
    /// The recipient's quiet hours have begun.
    OutsideHours {
        /// When the row is looked at again.
        until: Millis,
    },
    /// The invocation has no requests left for it.
    NoRoom,
    /// Another mail of its batch must not be sent any more.
    Stopped,
    /// An answer to another call of this batch told us to stop until then.
    Braked {
        /// When calls may be made again.
        until: Millis,
    },
}

/// What is known of a row when its call ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    pub(super) id: &'a str,
    pub(super) attempt: &'a str,
    /// Tries counted before this one.
    pub(super) attempt_count: u32,
    /// How many tries its family allows.
    pub(super) retry_limit: u32,
    /// Claims before this one that counted no try: throttled, braked, without a slot.
    pub(super) idle_claims: u32,
    /// Attempts before this one that may have been accepted.
    pub(super) doubts: u32,
    /// When the provider may first have seen the key, this attempt included.
    pub(super) anchor: Millis,
    pub(super) now: Millis,
    pub(super) random: u64,
}

/// The end of an attempt whose call was not made. Burns no try.
pub(super) fn not_called(case: &Case<'_>, reason: NotCalled, timing: &Timing) -> Settlement {
    let base = settlement(case, Outcome::NotSent, None);
    match reason {
        NotCalled::LeaseTooShort => retry(
            Settlement {
                code: "lease_too_short",
                ..base
            },
            case,
            spread_soon(case, timing),
            timing,
        ),
        NotCalled::NoRoom => retry(
            Settlement {
                code: "invocation_full",
                ..base
            },
            case,
            Duration::from_secs(1),
            timing,
        ),
        NotCalled::Stopped => retry(
            Settlement {
                code: "batch_stopped",
                ..base
            },
            case,
            Duration::from_secs(1),
            timing,
        ),
        NotCalled::WindowMissed => Settlement {
            code: "window_missed",
            status: Status::Expired,
            ..base
        },
        NotCalled::ProviderWindowClosed => Settlement {
            code: "provider_window_closed",
            status: Status::Unknown,
            ..base
        },
        NotCalled::OutsideHours { until } => retry(
            Settlement {
                code: "outside_hours",
                ..base
            },
            case,
            until.since(case.now),
            timing,
        ),
        NotCalled::Braked { until } => {
            let wait = slow_down(case, until.since(case.now), timing);
            retry(
                Settlement {
                    code: "provider_braked",
                    ..base
                },
                case,
                wait,
                timing,
            )
        }
    }
}

/// The end of an attempt whose call was made. `http_status` is for the record.
///
/// A settlement that ends a row in doubt is turned into `unknown` by the statement that writes it; here the doubt only
/// decides whether a row goes on.
pub(super) fn answered(case: &Case<'_>, answer: &Answer, http_status: Option<u16>, timing: &Timing) -> Settlement {
    match answer {
        Answer::Accepted { message_id } => Settlement {
            message_id: Some(message_id.clone()),
            status: Status::Sent,
            code: "accepted",
            burns: 1,
            ..settlement(case, Outcome::Accepted, http_status)
        },
        Answer::Refused { code } => Settlement {
            status: if case.doubts > 0 {
                Status::Unknown
            } else {
                Status::Failed
            },
            code: code.as_str(),
            burns: 1,
            ..settlement(case, Outcome::Refused, http_status)
        },
        Answer::Declined { code } => {
            let base = Settlement {
                code: code.as_str(),
                burns: 1,
                ..settlement(case, Outcome::Refused, http_status)
            };
            decline(base, case, timing)
        }
        Answer::Throttled { kind, wait } => {
            let code = match kind {
                ThrottleKind::Rate => "provider_rate_limited",
                ThrottleKind::Day => "provider_day_quota",
                ThrottleKind::Month => "provider_month_quota",
            };
            let wait = slow_down(case, *wait, timing);
            retry(
                Settlement {
                    code,
                    ..settlement(case, Outcome::Throttled, http_status)
                },
                case,
                wait,
                timing,
            )
        }
        Answer::Misconfigured { code } => {
            let wait = spread(timing.pause, timing.backoff_base, case.random);
            let base = settlement(case, Outcome::NotSent, http_status);
            retry(
                Settlement {
                    code: code.as_str(),
                    ..base
                },
                case,
                wait,
                timing,
            )
        }
        Answer::InProgress { wait } => {
            let base = Settlement {
                code: "provider_in_progress",
                ..settlement(case, Outcome::InProgress, http_status)
            };
            repeat_in_doubt(base, case, Some(*wait), timing)
        }
        Answer::PayloadConflict => Settlement {
            status: Status::Unknown,
            code: "payload_conflict",
            burns: 1,
            ..settlement(case, Outcome::PayloadConflict, http_status)
        },
        Answer::Ambiguous { code, wait } => {
            let base = Settlement {
                code: code.as_str(),
                burns: 1,
                ..settlement(case, Outcome::Ambiguous, http_status)
            };
            repeat_in_doubt(base, case, *wait, timing)
        }
    }
}

/// The end of a batch member's attempt. What the provider refuses for one mail's sake it refuses for all of them: where it
/// was certainly never accepted, each goes out by itself after the next claim, and no try is used up.
pub(super) fn answered_together(
    case: &Case<'_>,
    answer: &Answer,
    http_status: Option<u16>,
    timing: &Timing,
) -> Settlement {
    match answer {
        Answer::Refused { code } | Answer::Declined { code } if case.doubts == 0 => {
            let base = Settlement {
                code: code.as_str(),
                ..settlement(case, Outcome::Refused, http_status)
            };
            retry(base, case, Duration::from_secs(1), timing)
        }
        Answer::Refused { .. }
        | Answer::Declined { .. }
        | Answer::Accepted { .. }
        | Answer::Throttled { .. }
        | Answer::Misconfigured { .. }
        | Answer::InProgress { .. }
        | Answer::PayloadConflict
        | Answer::Ambiguous { .. } => answered(case, answer, http_status, timing),
    }
}

/// What an answer means for everybody's next calls.
pub(super) fn pause_of(answer: &Answer, timing: &Timing) -> Option<NewPause> {
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match answer {
        Answer::Throttled {
            kind: ThrottleKind::Day,
            wait,
        } => Some(named("provider_day_quota", ms(*wait))),
        Answer::Throttled {
            kind: ThrottleKind::Month,
            wait,
        } => Some(named("provider_month_quota", ms(*wait))),
        Answer::Misconfigured { code } => Some(NewPause {
            reason: code.as_str(),
            base_ms: ms(timing.pause),
            cap_ms: PAUSE_CAP_MS,
        }),
        Answer::Throttled {
            kind: ThrottleKind::Rate,
            ..
        }
        | Answer::Accepted { .. }
        | Answer::Refused { .. }
        | Answer::Declined { .. }
        | Answer::InProgress { .. }
        | Answer::PayloadConflict
        | Answer::Ambiguous { .. } => None,
    }
}

fn named(reason: &'static str, wait_ms: i64) -> NewPause {
    let wait_ms = wait_ms.min(PAUSE_NAMED_MS_MAX);
    NewPause {
        reason,
        base_ms: wait_ms,
        cap_ms: wait_ms,
    }
}

/// A mail that was certainly not taken this time is tried as often as its family allows; then it is the recipient's dead
/// letter. Where an earlier attempt may have been accepted, the rule of doubt decides instead.
fn decline(base: Settlement, case: &Case<'_>, timing: &Timing) -> Settlement {
    let tries = case.attempt_count.saturating_add(1);
    if case.doubts > 0 {
        repeat_in_doubt(base, case, None, timing)
    } else if tries >= case.retry_limit {
        Settlement {
            status: Status::DeadLetter,
            dead_class: Some("recipient"),
            ..base
        }
    } else {
        let wait = backoff(timing.backoff_base, tries, case.random);
        retry(base, case, wait, timing)
    }
}

/// A row in doubt goes on for as long as the provider knows its key; its tries do not run out. After that nobody may
/// repeat it.
fn repeat_in_doubt(base: Settlement, case: &Case<'_>, named: Option<Duration>, timing: &Timing) -> Settlement {
    match timing.window.judge(case.anchor, case.now) {
        Repetition::Closed => Settlement {
            status: Status::Unknown,
            ..base
        },
        Repetition::OpenUntil(end) => {
            let own = backoff(timing.backoff_base, case.attempt_count.saturating_add(1), case.random);
            // A wait of a day would use up the window: the row would end as unknown without having been asked again.
            let named = named.unwrap_or(Duration::ZERO).min(BACKOFF_CAP);
            let wait = own.max(named).min(end.since(case.now));
            retry(base, case, wait, timing)
        }
    }
}

/// The wait of a row that was told to slow down, itself or through a neighbour: what the provider named, and more each
/// time. No try counts here, so nothing else would keep a row from coming back every second for as long as it is told to.
fn slow_down(case: &Case<'_>, named: Duration, timing: &Timing) -> Duration {
    let own = backoff(timing.backoff_base, case.idle_claims.saturating_add(1), case.random).min(SLOW_DOWN_CAP);
    spread(named, timing.backoff_base, case.random).max(own)
}

fn spread_soon(case: &Case<'_>, timing: &Timing) -> Duration {
    spread(Duration::from_secs(1), timing.backoff_base, case.random)
}

/// processing -> retry. Where the queue keeps the message, the relay looks one grace later.
fn retry(base: Settlement, case: &Case<'_>, wait: Duration, timing: &Timing) -> Settlement {
    let at = case.now.plus(wait);
    let relay_at = if queue_keeps(wait, timing) {
        at.plus(timing.pending_grace)
    } else {
        at
    };
    Settlement {
        status: Status::Retry,
        next_attempt_at: Some(at.get()),
        relay_at: Some(relay_at.get()),
        ..base
    }
}

fn settlement(case: &Case<'_>, outcome: Outcome, http_status: Option<u16>) -> Settlement {
    Settlement {
        id: case.id.to_owned(),
        attempt: case.attempt.to_owned(),
        outcome,
        http_status,
        code: "",
        status: Status::Unknown,
        dead_class: None,
        message_id: None,
        next_attempt_at: None,
        relay_at: None,
        burns: 0,
    }
}
