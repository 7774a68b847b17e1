//! Delivery news that go out by themselves: which events follow an accepted mail, and when each is sent again.
//!
//! As pure as the rest of the model: the caller brings the time, the ids and the receiver's answers. The first tries of
//! one mail's events go out in their order, one at a time; an event that waits for its next try holds no other back, so
//! they may well arrive in another order, as the real ones may.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Map;

use super::ledger::Sent;
use super::mail::bare_address;
use super::model::Model;
use crate::outbox::time::Millis;

/// How long after a mail's acceptance its first event goes out, in milliseconds. The real provider is no faster; at once,
/// nearly every event would be there before the receiver has written down the answer to its own call.
pub const FIRST_WAIT_MS: i64 = 500;
/// How long after each refusal an event is sent again, in milliseconds; after the last it is given up. The real provider
/// waits for hours; somebody who looks at this machine does not.
pub const RETRY_WAITS_MS: [i64; 5] = [1_000, 2_000, 4_000, 8_000, 16_000];
/// Events that wait at once; those of further mails are given up right away, and counted. They hold a few thousand
/// bytes each at most, so that a receiver that stays away costs no more than some dozens of megabytes.
pub const WAITING_MAX: usize = 20_000;
/// The domain of the addresses that ask for an event; every other address is delivered to.
const TEST_DOMAIN: &str = "resend.dev";

/// Which events follow a mail to this recipient, in their order: what Resend's own test addresses ask for, with or
/// without a label (`bounced+anything@resend.dev`).
pub fn events_for(recipient: &str) -> &'static [&'static str] {
    let address = bare_address(recipient).to_ascii_lowercase();
    let name = address
        .rsplit_once('@')
        .filter(|(_, domain)| *domain == TEST_DOMAIN)
        .map(|(local, _)| local.split_once('+').map_or(local, |(name, _label)| name));
    match name {
        Some("bounced") => &["email.sent", "email.bounced"],
        Some("complained") => &["email.sent", "email.delivered", "email.complained"],
        Some("suppressed") => &["email.sent", "email.suppressed"],
        Some(_) | None => &["email.sent", "email.delivered"],
    }
}

/// What became of the events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewsCounts {
    /// Events that the receiver answered with 2xx.
    pub sent: u64,
    /// Tries that had another answer, or none.
    pub refused: u64,
    /// Events that are not sent again.
    pub given_up: u64,
    /// Events that are on their way, or wait for a try.
    pub waiting: u64,
}

/// One event.
#[derive(Debug)]
struct Event {
    mail: String,
    kind: &'static str,
    svix_id: String,
    /// Made at the first try, and the same at every later one.
    body: Option<String>,
    refusals: usize,
    state: State,
}

/// Where an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits for this time.
    Due(Millis),
    /// It is on its way.
    OnItsWay,
}

/// An event to post now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// For [`Model::news_answered`].
    pub number: u64,
    /// The same at every try.
    pub svix_id: String,
    /// The same bytes at every try.
    pub body: String,
}

/// The events that wait. Numbers are never used twice, so an answer from before a reset finds nothing.
#[derive(Debug, Default)]
pub(super) struct Courier {
    waiting: BTreeMap<u64, Event>,
    numbers: u64,
    counts: NewsCounts,
}

impl Courier {
    /// Forgets everything but how far the numbers have come.
    pub(super) fn forgotten(&self) -> Self {
        Self {
            numbers: self.numbers,
            ..Self::default()
        }
    }

    fn counts(&self) -> NewsCounts {
        NewsCounts {
            waiting: u64::try_from(self.waiting.len()).unwrap_or(u64::MAX),
            ..self.counts
        }
    }

    fn give_up(&mut self, number: u64) {
        self.waiting.remove(&number);
        self.counts.given_up = self.counts.given_up.saturating_add(1);
    }

    /// The oldest event that is due and whose mail has no other one on its way.
    fn next(&self, now: Millis) -> Option<u64> {
        let is_on_its_way = |mail: &str| {
            self.waiting
                .values()
                .any(|other| other.state == State::OnItsWay && other.mail == mail)
        };
        self.waiting
            .iter()
            .filter(|(_, event)| matches!(event.state, State::Due(at) if at <= now))
            .find(|(_, event)| !is_on_its_way(&event.mail))
            .map(|(number, _)| *number)
    }
}

/// The recipient that a mail's events are about: the first.
fn recipient(sent: &Sent) -> &str {
    sent.mail.to.first().map_or("", String::as_str)
}

impl Model {
    /// Lets the news of an accepted mail follow it; `fresh_id` gives the id of each event, or nothing where there is no
    /// randomness. A mail that nobody knows has no news.
    pub fn follow(&mut self, now: Millis, mail: &str, mut fresh_id: impl FnMut() -> Option<String>) {
        let Some(kinds) = self.ledger.find(mail).map(|sent| events_for(recipient(sent))) else {
            return;
        };
        let due = Millis::new(now.get().saturating_add(FIRST_WAIT_MS));
        for &kind in kinds {
            self.courier.numbers = self.courier.numbers.saturating_add(1);
            let number = self.courier.numbers;
            match fresh_id().filter(|_| self.courier.waiting.len() < WAITING_MAX) {
                Some(svix_id) => {
                    let event = Event {
                        mail: mail.to_owned(),
                        kind,
                        svix_id,
                        body: None,
                        refusals: 0,
                        state: State::Due(due),
                    };
                    self.courier.waiting.insert(number, event);
                }
                None => self.courier.give_up(number),
            }
        }
    }

    /// An event to post now, if one is due. It is on its way until [`Model::news_answered`].
    pub fn next_news(&mut self, now: Millis) -> Option<Errand> {
        loop {
            let number = self.courier.next(now)?;
            let event = self.courier.waiting.get(&number)?;
            let body = match event.body.clone() {
                Some(body) => Some(body),
                None => {
                    let (mail, kind) = (event.mail.clone(), event.kind);
                    self.event(now, &mail, kind, Map::new()).ok()
                }
            };
            let (Some(body), Some(event)) = (body, self.courier.waiting.get_mut(&number)) else {
                // The mail was forgotten before its news could be written.
                self.courier.give_up(number);
                continue;
            };
            event.body = Some(body.clone());
            event.state = State::OnItsWay;
            return Some(Errand {
                number,
                svix_id: event.svix_id.clone(),
                body,
            });
        }
    }

    /// What the receiver answered to an event; `None` where it gave no answer.
    pub fn news_answered(&mut self, now: Millis, number: u64, status: Option<u16>) {
        let Some(event) = self.courier.waiting.get_mut(&number) else {
            return;
        };
        if status.is_some_and(|status| (200..300).contains(&status)) {
            self.courier.waiting.remove(&number);
            self.courier.counts.sent = self.courier.counts.sent.saturating_add(1);
            return;
        }
        self.courier.counts.refused = self.courier.counts.refused.saturating_add(1);
        match RETRY_WAITS_MS.get(event.refusals) {
            Some(wait_ms) => {
                event.refusals = event.refusals.saturating_add(1);
                event.state = State::Due(Millis::new(now.get().saturating_add(*wait_ms)));
            }
            None => self.courier.give_up(number),
        }
    }

    /// When the next event is due that waits, if one does.
    pub fn next_news_at(&self) -> Option<Millis> {
        let due = self.courier.waiting.values().filter_map(|event| match event.state {
            State::Due(at) => Some(at),
            State::OnItsWay => None,
        });
        due.min()
    }

    /// What became of the events so far.
    pub fn news_counts(&self) -> NewsCounts {
        self.courier.counts()
    }
}

#[cfg(test)]
#[path = "courier_tests.rs"]
mod tests;
