//! Look-ups: what the provider says of mails whose outcome nobody knows.
//!
//! A look-up may prove that a mail went out, and never that it did not. IO steps, and what a death right after each
//! leaves behind:
//!
//! 1. *Begin* (one transaction): load the rows, their attempts, recipient and subject, take slots of the pace, and put
//!    the rows off. Dead after it: the slots are wasted, and the rows are due again ten minutes later.
//! 2. *Calls* to the provider, one after the other at their slots; they only read. Dead after any: as after 1.
//! 3. *Finish* (one transaction): proof lifts a row to `sent`, anything else says when to look again; slots that nobody
//!    used go back. Dead before it: as after 1. Where its answer is lost, the row says what became of it.

mod search;

use core::time::Duration;

use self::search::{End, Looked, Search, Stop};
use crate::config::{Config, PROVIDER};
use crate::outbox::status::Status;
use crate::outbox::time::{Millis, whole_ms};
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::database::DatabaseError;
use crate::store::look_up::{BeginRequest, Case, Finding, LookedUp, Unused, begin, finish};
use crate::store::operator_log::Order;

/// Look-ups of one row at most, by the relay: what was not there after ten of them over days will hardly come. Only one
/// that asked the provider about this very row counts, and no person's order does.
pub const LOOK_UPS_MAX: u32 = 10;
/// Calls of one look-up at most: three known ids, five pages and ten candidates. A person's order may need them all.
pub const CALLS_MAX: u32 = 18;
/// The first wait before a row is looked up again; it doubles.
const AGAIN_BASE: Duration = Duration::from_secs(600);
/// The longest such wait.
const AGAIN_CAP: Duration = Duration::from_secs(86_400);
/// The last millisecond of the year 9999: a row that was looked up often enough is not due before.
const NEVER_MS: i64 = 253_402_300_799_999;

/// Who wants to know, and what it may cost.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// A person's order; the relay has none.
    pub order: Option<&'a Order<'a>>,
    /// Calls for one row at most; [`CALLS_MAX`] is always enough.
    pub calls_max: u32,
    /// No call begins that could not be over by then.
    pub ends_at: Millis,
}

/// What a look-up came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The provider has the mail: the row is `sent`.
    Sent,
    /// It is not among the mails of the time in question. That proves nothing.
    NotFound,
    /// Not all that should have been looked at could be.
    NotConclusive,
    /// The mail is there, and another row has its message id.
    MessageIdConflict,
    /// The key may not read.
    RestrictedKey,
    /// The provider did not answer, or the pace had no slot.
    NotNow,
}

impl Conclusion {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::NotFound => "not_found",
            Self::NotConclusive => "not_conclusive",
            Self::MessageIdConflict => "message_id_conflict",
            Self::RestrictedKey => "restricted_key",
            Self::NotNow => "not_now",
        }
    }

    /// What a person is told.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Sent => "The provider has this mail: its tags or its Message-ID name the intent.",
            Self::NotFound => {
                "No mail of the time in question is this one. That does not prove that nothing went out: a list may lack a mail."
            }
            Self::NotConclusive => {
                "Not all mails of the time in question could be looked at, or told apart. Nothing is proved."
            }
            Self::MessageIdConflict => "The provider has this mail, and another intent has its message id.",
            Self::RestrictedKey => "The key may not read mails. Set RESEND_READ_KEY to one with full access.",
            Self::NotNow => "The provider could not be asked now. Ask again later.",
        }
    }
}

/// What was looked at for one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The row.
    pub id: String,
    /// What it came to.
    pub conclusion: Conclusion,
    /// The provider's id of the mail, where it is known now.
    pub message_id: Option<String>,
    /// Pages that were read.
    pub pages: usize,
    /// Mails that were read one by one.
    pub candidates: usize,
}

/// Looks these rows up; those that no longer ask are left out. For the relay, also those that are not due any more.
///
/// # Errors
/// [`DatabaseError`]. After `Ambiguous`, proof may have been written; the rows say so.
pub async fn look_up<W: World>(
    world: &W,
    config: &Config,
    ids: &[&str],
    asked: &Asked<'_>,
) -> Result<Vec<Report>, DatabaseError> {
    let now = world.clock().now();
    let timing = &config.timing;
    let interval = timing.pace_interval_ms();
    let request = BeginRequest {
        ids,
        due_only: asked.order.is_none(),
        now,
        look_up_at: now.plus(AGAIN_BASE),
        lease_ms: whole_ms(timing.lease),
        call_ms: whole_ms(timing.provider_timeout.saturating_add(timing.skew)),
        provider: PROVIDER,
        calls_max: asked.calls_max,
        pace_interval_ms: interval,
        pace_wait_ms_max: whole_ms(timing.pace_wait),
    };
    let begun = begin(world.database(), &request).await?;
    if begun.cases.is_empty() {
        return Ok(Vec::new());
    }
    let mut search = Search::new(world, config, &begun, asked.ends_at);
    let mut looked = Vec::with_capacity(begun.cases.len());
    for case in &begun.cases {
        looked.push(search.case(case, asked.calls_max).await);
    }
    let now = world.clock().now();
    let slots = |calls: u32| {
        begun
            .first_slot_at
            .saturating_add(i64::from(calls).saturating_mul(interval))
    };
    let unused = Unused {
        provider: PROVIDER,
        // Where no slot was given, this is nobody's end.
        taken_until: if begun.has_slots {
            slots(search.calls_max())
        } else {
            i64::MIN
        },
        used_until: slots(search.calls()),
    };
    let findings: Vec<Finding> = begun
        .cases
        .iter()
        .zip(&looked)
        .map(|(case, looked)| looked.finding(case, asked.order.is_none(), now))
        .collect();
    let result = looked.first().map_or("not_now", Looked::code);
    let order = asked.order.map(|order| (order, result));
    let rows = finish(world.database(), now, &findings, &unused, order).await?;
    let reports: Vec<Report> = begun
        .cases
        .iter()
        .zip(looked)
        .map(|(case, looked)| looked.report(case, &rows))
        .collect();
    for report in &reports {
        note(world, report);
    }
    Ok(reports)
}

fn note<W: World>(world: &W, report: &Report) {
    let id = ("outboxId", Field::Id(&report.id));
    let number = |count: usize| Field::Number(i64::try_from(count).unwrap_or(i64::MAX));
    let fields = [
        id,
        ("result", Field::Code(report.conclusion.code())),
        ("pages", number(report.pages)),
        ("candidates", number(report.candidates)),
    ];
    world.log().note(Level::Info, "looked_up", &fields);
    match report.conclusion {
        Conclusion::RestrictedKey => world.log().note(Level::Warn, "look_up_refused", &[id]),
        Conclusion::MessageIdConflict => world.log().note(Level::Alarm, "message_id_conflict", &[id]),
        Conclusion::Sent | Conclusion::NotFound | Conclusion::NotConclusive | Conclusion::NotNow => {}
    }
}

impl Looked {
    /// What came of it, before anything was written.
    const fn code(&self) -> &'static str {
        match &self.end {
            End::Found(_) => "found",
            End::Nothing | End::Incomplete | End::Stopped(_) => self.conclusion().code(),
        }
    }

    const fn conclusion(&self) -> Conclusion {
        match &self.end {
            // Unless the row took the id.
            End::Found(_) => Conclusion::MessageIdConflict,
            End::Nothing => Conclusion::NotFound,
            End::Incomplete | End::Stopped(Stop::UsedUp) => Conclusion::NotConclusive,
            End::Stopped(Stop::Restricted) => Conclusion::RestrictedKey,
            End::Stopped(Stop::Throttled(_) | Stop::NoAnswer | Stop::NoSlot) => Conclusion::NotNow,
        }
    }

    /// A look-up that the account or our own pace kept from its end does not count; nor does one that asked nobody, or
    /// that a person wanted.
    fn finding(&self, case: &Case, by_relay: bool, now: Millis) -> Finding {
        let asked_nobody = self.calls == 0;
        let (message_id, ended, wait) = match &self.end {
            End::Found(id) => (Some(id.clone()), true, None),
            End::Stopped(Stop::UsedUp) if asked_nobody => (None, false, Some(AGAIN_BASE)),
            // The row itself says too little to be asked about, and will hardly say more soon.
            End::Incomplete if asked_nobody => (None, false, Some(AGAIN_CAP)),
            End::Nothing | End::Incomplete | End::Stopped(Stop::NoAnswer | Stop::UsedUp) => (None, true, None),
            End::Stopped(Stop::Throttled(wait)) => (None, false, Some(*wait)),
            End::Stopped(Stop::Restricted | Stop::NoSlot) => (None, false, Some(AGAIN_BASE)),
        };
        let counts = by_relay && ended;
        let look_ups = case.look_ups.saturating_add(u32::from(counts));
        let wait = wait.unwrap_or_else(|| AGAIN_BASE.saturating_mul(1 << case.look_ups.min(16)).min(AGAIN_CAP));
        Finding {
            id: case.id.clone(),
            message_id,
            look_ups,
            look_up_at: if look_ups < LOOK_UPS_MAX {
                now.plus(wait).get()
            } else {
                NEVER_MS
            },
        }
    }

    /// The row has the last word: it may have been lifted by others meanwhile.
    fn report(self, case: &Case, rows: &[LookedUp]) -> Report {
        let conclusion = self.conclusion();
        let sent = rows.iter().find(|row| row.id == case.id && row.status == Status::Sent);
        let found = match self.end {
            End::Found(id) => Some(id),
            End::Nothing | End::Incomplete | End::Stopped(_) => None,
        };
        Report {
            id: case.id.clone(),
            conclusion: if sent.is_some() { Conclusion::Sent } else { conclusion },
            message_id: sent.map_or(found, |row| row.provider_message_id.clone()),
            pages: self.pages,
            candidates: self.candidates,
        }
    }
}
