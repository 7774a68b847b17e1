//! The calls of a look-up: which mails are looked at, in which order, and where the looking ends.

use core::time::Duration;

use crate::config::Config;
use crate::outbox::id::is_message_id;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, LookUp, MailAnswer, Mailer as _, World};
use crate::provider::look_up::{self, Mail, Ours, Page, Seen};
use crate::store::look_up::{Begun, Case};

/// Pages of one look-up at most: 500 mails back from now.
const PAGES_MAX: usize = 5;
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
