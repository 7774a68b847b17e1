//! The pace. What is promised: every call has a slot of its own in each of its buckets, and is made at its slot or later.
//! Slots of one bucket lie an interval apart: one for each call in the provider's, one for each mail in those of the
//! families and of the domains, so that a call with ten mails of a family keeps the next one ten intervals away.
//!
//! The oracle knows nothing of the slots that the program wrote down. A slot lies between the moment at which the worker
//! asked for it (the last question to the database before the call) and the call. So whatever slots there were, the calls
//! that asked and called within some stretch of time must fit into it, an interval apart; and this is what is checked,
//! for each stretch that ends with a call. Where no worker is late, it is the plain promise: never more than the pace
//! allows in a second, or in a minute. All times are those on the workers' own clocks, in which slots are given away, so
//! that a difference between clocks excuses nothing.
//!
//! Calls of one worker keep the interval of the provider's bucket among each other, however late they are.

use std::collections::BTreeMap;

use super::{Oracle, State, Who};
use crate::paced::Intervals;
use crate::report::Invariant;
use crate::store::OutboxRow;

/// A call that waited longer than this for its slot was kept back by the pace, in ms; no answer is as slow.
const WAITED_MS: i64 = 400;

/// What the oracle knows of the pace.
#[derive(Default)]
pub(super) struct Account {
    intervals: Intervals,
    /// When each worker asked its last question of the database, on its clock, and whether it was answered.
    asked: BTreeMap<u64, (i64, bool)>,
    buckets: BTreeMap<String, Vec<Taken>>,
    /// The last call of each worker since it asked.
    last: BTreeMap<u64, (i64, i64)>,
}

/// Slots of a bucket that a call took.
#[derive(Clone, Copy)]
struct Taken {
    asked: i64,
    called: i64,
    mails: i64,
}

impl Oracle {
    /// The pace that is set.
    pub fn paced_by(&self, intervals: Intervals) {
        self.inner.borrow_mut().pace.intervals = intervals;
    }

    /// A worker asks the database something. A repetition of what was not answered asks nothing new.
    pub fn asks(&self, who: Who, now: i64) {
        let mut state = self.inner.borrow_mut();
        let asked = state.pace.asked.entry(who.invocation).or_insert((0, true));
        if asked.1 {
            *asked = (now + who.skew, false);
        }
    }

    pub fn is_answered(&self, who: Who, well: bool) {
        let mut state = self.inner.borrow_mut();
        if let Some((_, answered)) = state.pace.asked.get_mut(&who.invocation) {
            *answered |= well;
        }
    }

    /// Everybody stood still, and wakes at once.
    pub fn stood_still(&self) {
        self.inner.borrow_mut().pace.last.clear();
    }

    /// A worker looks something up at the provider, in a slot of the same pace.
    pub fn looks_up(&self, who: Who, now: i64) {
        let mut state = self.inner.borrow_mut();
        let provider = state.pace.intervals.provider;
        state.takes(who, now, "provider", provider, 1);
    }
}

impl State {
    /// When the worker of a call asked for its slot, on its clock.
    pub(super) fn asked(&self, who: Who) -> i64 {
        self.pace.asked.get(&who.invocation).map_or(0, |(at, _)| *at)
    }

    pub(super) fn intervals(&self) -> &Intervals {
        &self.pace.intervals
    }

    /// The domain of the row's recipient, as its fact says it.
    fn domain_of(&self, row: &OutboxRow) -> String {
        let truth = self.fact_of.get(&row.id).and_then(|fact| self.facts.get(fact));
        truth
            .and_then(|truth| truth.to.rsplit_once('@'))
            .map(|(_, domain)| domain.to_owned())
            .unwrap_or_default()
    }

    /// A call takes its slots.
    pub(super) fn paced(&mut self, who: Who, now: i64, key: &str) {
        let rows: Vec<OutboxRow> = self
            .rows_under(key)
            .into_iter()
            .filter(|row| row.status == "processing")
            .collect();
        let intervals = self.pace.intervals.clone();
        self.takes(who, now, "provider", intervals.provider, 1);
        self.keeps_its_distance(who, now);
        let (mut families, mut domains): (BTreeMap<String, i64>, BTreeMap<String, i64>) = Default::default();
        for row in &rows {
            *families.entry(row.family.clone()).or_default() += 1;
            *domains.entry(self.domain_of(row)).or_default() += 1;
        }
        for (family, mails) in families {
            let every = intervals.families.get(&family).copied().unwrap_or(0);
            self.takes(who, now, &format!("family {family}"), every, mails);
        }
        for (domain, mails) in domains {
            self.takes(who, now, &format!("domain {domain}"), intervals.domain, mails);
        }
    }

    fn takes(&mut self, who: Who, now: i64, bucket: &str, every: i64, mails: i64) {
        if every == 0 {
            return;
        }
        self.report.checked(Invariant::P1);
        let called = now + who.skew;
        let taken = Taken {
            asked: self.asked(who).min(called),
            called,
            mails,
        };
        let slots = self.pace.buckets.entry(bucket.to_owned()).or_default();
        let kept_back = taken.called - taken.asked > WAITED_MS
            && slots
                .iter()
                .any(|before| (taken.asked..=called).contains(&(before.called + before.mails * every)));
        slots.push(taken);
        let wrong = overfull(slots, taken, every);
        if kept_back {
            self.report.event(match bucket.split(' ').next() {
                Some("family") => "pace: a family's kept a call back",
                Some("domain") => "pace: a domain's kept a call back",
                _ => "pace: the provider's kept a call back",
            });
        }
        if mails > 1 {
            self.report.event("pace: a batch took its slots");
        }
        if let Some((mails, within)) = wrong {
            let what = format!("{bucket}: {mails} within {within} ms, and there is a slot every {every} ms");
            self.broken(Invariant::P1, what);
        }
    }

    /// Calls of one worker are the provider's interval apart, whatever kept them.
    fn keeps_its_distance(&mut self, who: Who, now: i64) {
        let asked = self.asked(who);
        let before = self.pace.last.insert(who.invocation, (asked, now));
        let every = self.pace.intervals.provider;
        if let Some((before_asked, before)) = before
            && before_asked == asked
            && now - before < every
        {
            let what = format!(
                "two calls of one worker are {} ms apart, and not {every} ms",
                now - before
            );
            self.broken(Invariant::P1, what);
        }
    }
}

/// Slots that cannot be where they should: the mails that asked and called within a stretch of time with which the new
/// call has to do, and its length.
fn overfull(slots: &[Taken], new: Taken, every: i64) -> Option<(i64, i64)> {
    let ends = slots.iter().map(|slot| slot.called).filter(|end| *end >= new.called);
    for end in ends {
        let starts = slots.iter().map(|slot| slot.asked).filter(|start| *start <= new.asked);
        for start in starts {
            let within = slots.iter().filter(|slot| slot.asked >= start && slot.called <= end);
            let (mails, most) = within.fold((0, 0), |(sum, most), slot| (sum + slot.mails, most.max(slot.mails)));
            // The last of them needs no room behind it.
            if (mails - most) * every > end - start {
                return Some((mails, end - start));
            }
        }
    }
    None
}
