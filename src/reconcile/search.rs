//! The calls of a look-up: which mails are looked at, in which order, and where the looking ends.

use core::time::Duration;

use crate::config::Config;
use crate::outbox::id::is_message_id;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, LookUp, MailAnswer, Mailer as _, World};
use crate::provider::look_up::{self, Mail, Ours, Page, Seen};
use crate::store::look_up::{Begun, Case};

/// Pages of one look-up at most: 500 mails back from where the list is begun.
const PAGES_MAX: usize = 5;
/// Calls that must be left for a page to be read: one for it, and one for a mail that it shows.
const PAGE_CALLS_MIN: u32 = 2;
/// Mails of one look-up that are read one by one: more with the same recipient and subject are no case for a program.
const CANDIDATES_MAX: usize = 10;
/// Message ids of a row that are looked at: an attempt seldom has one, and a row has had two at most.
const KNOWN_IDS_MAX: usize = 3;

/// Why the calls ended before the answer was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
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
pub(super) enum End {
    Found(String),
    Nothing,
    /// Something stayed unread.
    Incomplete,
    Stopped(Stop),
}

/// What was looked at for one row, and what it came to.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    pub(super) end: End,
    pub(super) pages: usize,
    pub(super) candidates: usize,
    /// Calls that were made for this row.
    pub(super) calls: u32,
}

/// What makes an item of a list a candidate. A list has no tags, so that no item of it proves anything.
struct Wanted<'a> {
    outbox_id: &'a str,
    environment: &'a str,
    to: &'a str,
    subject: &'a str,
    from: Millis,
    until: Millis,
}

impl<'a> Wanted<'a> {
    /// `None` where the row does not say whom it was for, or when it was tried.
    fn of(case: &'a Case, config: &'a Config) -> Option<Self> {
        let timing = &config.timing;
        let until = Millis::new(case.last_at?).plus(timing.provider_timeout);
        Some(Self {
            outbox_id: &case.id,
            environment: &config.sender.environment,
            to: case.to.as_deref()?,
            subject: case.subject.as_deref()?,
            from: Millis::new(case.first_at?).minus(timing.skew),
            until: until.plus(timing.skew),
        })
    }

    /// The ids of the mails to be read whole: first those whose Message-ID names the row, then those of the time in
    /// question that have its recipient and subject.
    fn among<'p>(&self, page: &'p Page) -> Vec<&'p str> {
        // An item without a time may be of any.
        let is_in_time = |mail: &Mail| mail.created_at.is_none_or(|at| self.from <= at && at <= self.until);
        let (named, others): (Vec<&Mail>, Vec<&Mail>) = page
            .mails
            .iter()
            .partition(|mail| mail.is_named(self.outbox_id, self.environment));
        let alike = others
            .into_iter()
            .filter(|mail| is_in_time(mail) && mail.looks_like(self.to, self.subject));
        named.into_iter().chain(alike).map(|mail| mail.id.as_str()).collect()
    }
}

/// One look-up's way through the provider.
pub(super) struct Search<'a, W> {
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

impl<'a, W: World> Search<'a, W> {
    /// A search that begins at the first slot of what was begun.
    pub(super) fn new(world: &'a W, config: &'a Config, begun: &Begun, ends_at: Millis) -> Self {
        Self {
            world,
            config,
            first_slot_at: begun.first_slot_at,
            interval: config.timing.pace_interval_ms(),
            calls: 0,
            calls_max: 0,
            ends_at,
            stopped: if begun.has_slots { None } else { Some(Stop::NoSlot) },
        }
    }

    /// Calls that were made so far.
    pub(super) const fn calls(&self) -> u32 {
        self.calls
    }

    /// Calls that could have been made for the rows so far.
    pub(super) const fn calls_max(&self) -> u32 {
        self.calls_max
    }

    /// Looks for the mail of one row, with so many calls more than the rows before have left.
    pub(super) async fn case(&mut self, case: &Case, calls_max: u32) -> Looked {
        self.calls_max = self.calls_max.saturating_add(calls_max);
        let mut looked = Looked {
            end: End::Nothing,
            pages: 0,
            candidates: 0,
            calls: 0,
        };
        let calls_before = self.calls;
        looked.end = self.search(case, &mut looked).await.unwrap_or_else(End::Stopped);
        looked.calls = self.calls.saturating_sub(calls_before);
        looked
    }

    /// What cannot be read is remembered, and keeps nothing else from being looked at: an item that stays unreadable would
    /// hide our own mail for ever.
    async fn search(&mut self, case: &Case, looked: &mut Looked) -> Result<End, Stop> {
        let known: Vec<String> = serde_json::from_str(&case.message_ids).unwrap_or_default();
        let mut complete = true;
        for id in known.iter().filter(|id| is_message_id(id)).take(KNOWN_IDS_MAX) {
            match self.judge(case, id, looked).await? {
                Ours::Yes => return Ok(End::Found(id.clone())),
                Ours::No => {}
                Ours::CannotSay => complete = false,
            }
        }
        let Some(wanted) = Wanted::of(case, self.config) else {
            return Ok(End::Incomplete);
        };
        let mut candidates: Vec<String> = Vec::new();
        // A cursor that the provider does not know, or behind which it has nothing, is no place to begin at.
        let mut cursor = case.cursor.as_deref().filter(|id| is_message_id(id));
        let mut after = cursor.map(str::to_owned);
        let reached = loop {
            if looked.pages >= PAGES_MAX || self.calls_left() < PAGE_CALLS_MIN {
                break false;
            }
            let page = match (self.page(after.as_deref()).await, cursor.take()) {
                (Ok(Some(page)), None) => page,
                (Ok(Some(page)), Some(_)) if !page.mails.is_empty() => page,
                (Ok(_) | Err(Stop::NoAnswer), Some(_)) => {
                    after = None;
                    continue;
                }
                (Ok(None), None) => return Err(Stop::NoAnswer),
                (Err(stop), _) => return Err(stop),
            };
            looked.pages = looked.pages.saturating_add(1);
            complete = complete && page.unreadable == 0;
            for id in wanted.among(&page) {
                if known.iter().chain(&candidates).any(|seen| seen == id) {
                    continue;
                }
                if candidates.len() >= CANDIDATES_MAX || self.calls_left() == 0 {
                    complete = false;
                    break;
                }
                candidates.push(id.to_owned());
                match self.judge(case, id, looked).await? {
                    Ours::Yes => return Ok(End::Found(id.to_owned())),
                    Ours::No => {}
                    Ours::CannotSay => complete = false,
                }
            }
            let oldest = page.mails.last();
            let is_before = |mail: &Mail| mail.created_at.is_some_and(|at| at < wanted.from);
            if !page.has_more || oldest.is_some_and(is_before) {
                break true;
            }
            let Some(oldest) = oldest else { break false };
            after = Some(oldest.id.clone());
        };
        Ok(if complete && reached {
            End::Nothing
        } else {
            End::Incomplete
        })
    }

    /// Reads a mail whole: its tags, or without tags its Message-ID, say whose it is.
    async fn judge(&mut self, case: &Case, id: &str, looked: &mut Looked) -> Result<Ours, Stop> {
        looked.candidates = looked.candidates.saturating_add(1);
        match self.mail(id).await {
            Ok(Some(mail)) => Ok(mail.is_of(&case.id, &self.config.sender.environment)),
            // Too large, or no mail at all: the next one may still be ours.
            Ok(None) | Err(Stop::NoAnswer) => Ok(Ours::CannotSay),
            Err(stop) => Err(stop),
        }
    }

    /// Calls that may still be made for the row at hand.
    const fn calls_left(&self) -> u32 {
        self.calls_max.saturating_sub(self.calls)
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

    /// One page; `None` where the provider knows no such place in its list.
    async fn page(&mut self, after: Option<&str>) -> Result<Option<Page>, Stop> {
        match self.call(LookUp::Page { after }, look_up::page).await? {
            Seen::Found(page) => Ok(Some(page)),
            Seen::NotFound => Ok(None),
            Seen::Restricted => self.stop(Stop::Restricted),
            Seen::Throttled(wait) => self.stop(Stop::Throttled(wait)),
            Seen::NotNow => Err(Stop::NoAnswer),
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
        read: impl FnOnce(&MailAnswer, Millis) -> Seen<T>,
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
