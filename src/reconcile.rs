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

use core::time::Duration;

use crate::config::{Config, PROVIDER};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, Field, Level, Log as _, LookUp, Mailer as _, World};
use crate::provider::classify::is_message_id;
use crate::provider::look_up::{self, Mail, Ours, Page, Seen};
use crate::store::database::DatabaseError;
use crate::store::look_up::{BeginRequest, Case, Finding, LookedUp, Unused, begin, finish};
use crate::store::operator_log::Order;

/// Look-ups of one row at most, by the relay: what was not there after ten of them over days will hardly come.
pub const LOOK_UPS_MAX: u32 = 10;
/// Pages of one look-up at most: 500 mails back from now.
const PAGES_MAX: usize = 5;
/// Mails of one look-up that are read one by one: more with the same recipient and subject are no case for a program.
const CANDIDATES_MAX: usize = 10;
/// Message ids of a row that are looked at: an attempt seldom has one, and a row has had two at most.
const KNOWN_IDS_MAX: usize = 3;
/// Calls of one look-up at most.
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
        provider: PROVIDER,
        calls_max: asked.calls_max,
        pace_interval_ms: interval,
        pace_wait_ms_max: whole_ms(timing.pace_wait),
    };
    let begun = begin(world.database(), &request).await?;
    if begun.cases.is_empty() {
        return Ok(Vec::new());
    }
    let mut search = Search {
        world,
        config,
        first_slot_at: begun.first_slot_at,
        interval,
        calls: 0,
        calls_max: 0,
        ends_at: asked.ends_at,
        stopped: if begun.has_slots { None } else { Some(Stop::NoSlot) },
    };
    let mut looked = Vec::with_capacity(begun.cases.len());
    for case in &begun.cases {
        search.calls_max = search.calls_max.saturating_add(asked.calls_max);
        looked.push(search.case(case).await);
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
            slots(search.calls_max)
        } else {
            i64::MIN
        },
        used_until: slots(search.calls),
    };
    let findings: Vec<Finding> = begun
        .cases
        .iter()
        .zip(&looked)
        .map(|(case, looked)| looked.finding(case, now))
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

/// Why the calls ended before the answer was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The key may not read.
    Restricted,
    /// Too many requests.
    Throttled(Duration),
    /// The provider did not answer, or not in a way that can be read.
    NoAnswer,
    /// The pace had no slot in time.
    NoSlot,
    /// The calls or the time of this look-up are used up.
    UsedUp,
}

/// What a search for one row came to.
#[derive(Clone, Debug)]
enum End {
    Found(String),
    Nothing,
    /// Something stayed unread.
    Incomplete,
    Stopped(Stop),
}

#[derive(Clone, Debug)]
struct Looked {
    end: End,
    pages: usize,
    candidates: usize,
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

    /// A look-up that the account or our own pace kept from its end does not count.
    fn finding(&self, case: &Case, now: Millis) -> Finding {
        let (message_id, counts, wait) = match &self.end {
            End::Found(id) => (Some(id.clone()), true, None),
            End::Nothing | End::Incomplete | End::Stopped(Stop::NoAnswer | Stop::UsedUp) => (None, true, None),
            End::Stopped(Stop::Throttled(wait)) => (None, false, Some(*wait)),
            End::Stopped(Stop::Restricted | Stop::NoSlot) => (None, false, Some(AGAIN_BASE)),
        };
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

/// One look-up's way through the provider.
struct Search<'a, W> {
    world: &'a W,
    config: &'a Config,
    first_slot_at: i64,
    interval: i64,
    /// Calls that were made; each took a slot.
    calls: u32,
    /// Calls that may be made up to the row at hand.
    calls_max: u32,
    ends_at: Millis,
    /// What keeps every further call from being made.
    stopped: Option<Stop>,
}

impl<W: World> Search<'_, W> {
    async fn case(&mut self, case: &Case) -> Looked {
        let mut looked = Looked {
            end: End::Nothing,
            pages: 0,
            candidates: 0,
        };
        looked.end = self.search(case, &mut looked).await.unwrap_or_else(End::Stopped);
        looked
    }

    async fn search(&mut self, case: &Case, looked: &mut Looked) -> Result<End, Stop> {
        let environment = &self.config.sender.environment;
        let known: Vec<String> = serde_json::from_str(&case.message_ids).unwrap_or_default();
        for id in known.iter().filter(|id| is_message_id(id)).take(KNOWN_IDS_MAX) {
            looked.candidates = looked.candidates.saturating_add(1);
            if let Some(mail) = self.mail(id).await?
                && mail.is_of(&case.id, environment) == Ours::Yes
            {
                return Ok(End::Found(mail.id));
            }
        }
        let (Some(to), Some(subject), Some(first_at), Some(last_at)) =
            (&case.to, &case.subject, case.first_at, case.last_at)
        else {
            return Ok(End::Incomplete);
        };
        let timing = &self.config.timing;
        let from = Millis::new(first_at).minus(timing.skew);
        let until = Millis::new(last_at).plus(timing.provider_timeout).plus(timing.skew);
        let mut candidates: Vec<String> = Vec::new();
        let mut complete = false;
        let mut after: Option<String> = None;
        while looked.pages < PAGES_MAX && !complete {
            let page = self.page(after.as_deref()).await?;
            looked.pages = looked.pages.saturating_add(1);
            if page.unreadable > 0 {
                return Ok(End::Incomplete);
            }
            for mail in &page.mails {
                // A list has no tags, but it has the header that we set ourselves.
                if mail.is_of(&case.id, environment) == Ours::Yes {
                    return Ok(End::Found(mail.id.clone()));
                }
                let in_time = mail.created_at.is_some_and(|at| from <= at && at <= until);
                if in_time && mail.looks_like(to, subject) && !candidates.contains(&mail.id) {
                    candidates.push(mail.id.clone());
                }
            }
            let oldest = page.mails.last();
            complete = !page.has_more || oldest.is_some_and(|mail| mail.created_at.is_some_and(|at| at < from));
            after = oldest.map(|mail| mail.id.clone());
            if after.is_none() {
                break;
            }
        }
        complete = complete && candidates.len() <= CANDIDATES_MAX;
        for id in candidates.iter().take(CANDIDATES_MAX) {
            looked.candidates = looked.candidates.saturating_add(1);
            match self.mail(id).await?.map(|mail| mail.is_of(&case.id, environment)) {
                Some(Ours::Yes) => return Ok(End::Found(id.clone())),
                Some(Ours::No) => {}
                Some(Ours::CannotSay) | None => complete = false,
            }
        }
        Ok(if complete { End::Nothing } else { End::Incomplete })
    }

    /// One mail; `None` where the provider has none of this id.
    async fn mail(&mut self, id: &str) -> Result<Option<Mail>, Stop> {
        match self.call(LookUp::Mail(id), look_up::mail).await? {
            Seen::Found(mail) => Ok(Some(mail).filter(|mail| mail.id == id)),
            Seen::NotFound => Ok(None),
            Seen::Restricted => self.stop(Stop::Restricted),
            Seen::Throttled(wait) => self.stop(Stop::Throttled(wait)),
            Seen::NotNow => Err(Stop::NoAnswer),
        }
    }

    async fn page(&mut self, after: Option<&str>) -> Result<Page, Stop> {
        match self.call(LookUp::Page { after }, look_up::page).await? {
            Seen::Found(page) => Ok(page),
            Seen::Restricted => self.stop(Stop::Restricted),
            Seen::Throttled(wait) => self.stop(Stop::Throttled(wait)),
            Seen::NotFound | Seen::NotNow => Err(Stop::NoAnswer),
        }
    }

    /// What concerns the account concerns every row that would come after.
    fn stop<T>(&mut self, stop: Stop) -> Result<T, Stop> {
        self.stopped = Some(stop);
        Err(stop)
    }

    /// One call at the next slot.
    async fn call<T>(
        &mut self,
        query: LookUp<'_>,
        read: impl FnOnce(&crate::ports::MailAnswer, Millis) -> Seen<T>,
    ) -> Result<Seen<T>, Stop> {
        if let Some(stop) = self.stopped {
            return Err(stop);
        }
        let clock = self.world.clock();
        let slot = i64::from(self.calls).saturating_mul(self.interval);
        let slot = Millis::new(self.first_slot_at.saturating_add(slot));
        let begins = slot.max(clock.now());
        if self.calls >= self.calls_max || begins.plus(self.config.timing.provider_timeout) > self.ends_at {
            return Err(Stop::UsedUp);
        }
        let wait = slot.since(clock.now());
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
        self.calls = self.calls.saturating_add(1);
        let answer = self.world.mailer().look_up(query).await;
        Ok(read(&answer, clock.now()))
    }
}

fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
