//! Order. What is promised: bulk mails reach the queue by the relay alone (or by a person, one by one), and of each family it reserves no more than
//! drain by the family's pace before the next two ticks, less those that were admitted and are not settled; of all no more
//! than the provider's pace drains. Calls that one worker makes with what it opened in one step go out in the order of
//! their priorities, where no bucket of a family or of a domain gives another order.

use std::collections::BTreeMap;

use sealpost::outbox::envelope::Envelope;
use sealpost::outbox::family::{Family, find};

use super::{Oracle, Role, State, Who};
use crate::report::Invariant;
use crate::store::OutboxRow;

/// What the oracle knows of the order.
#[derive(Default)]
pub(super) struct Account {
    /// The priority of the last call of each worker by itself, and when it had asked for its slot.
    last: BTreeMap<u64, (i64, u8)>,
}

fn family(row: &OutboxRow) -> Option<&'static Family> {
    find(&row.family)
}

fn is_bulk(row: &OutboxRow) -> bool {
    family(row).is_some_and(|family| family.bulk)
}

fn waits(row: &OutboxRow) -> bool {
    is_bulk(row) && row.doubts == 0 && ["pending", "retry"].contains(&row.status.as_str())
}

fn is_admitted(row: &OutboxRow) -> bool {
    is_bulk(row) && ["enqueued", "processing"].contains(&row.status.as_str())
}

impl Oracle {
    /// The queue takes a message.
    pub fn handed_over(&self, who: Who, body: &str) {
        let mut state = self.inner.borrow_mut();
        let row = Envelope::read(Some(body))
            .ok()
            .and_then(|envelope| state.rows.get(&envelope.outbox_id).cloned());
        let Some(row) = row.filter(is_bulk) else { return };
        state.report.checked(Invariant::P2);
        // What a person sends again by name goes to the queue at once.
        if ![Role::Relay, Role::People].contains(&who.role) {
            let what = format!("{:?} hands {} over, a bulk mail", who.role, row.id);
            state.broken(Invariant::P2, what);
        }
    }
}

impl State {
    /// What a page of the relay reserved.
    pub(super) fn admitted(
        &mut self,
        who: Who,
        now: i64,
        before: &BTreeMap<String, OutboxRow>,
        after: &BTreeMap<String, OutboxRow>,
    ) {
        if who.role != Role::Relay {
            return;
        }
        let reserved = |row: &OutboxRow| {
            let old = before.get(&row.id);
            old.is_some_and(|old| waits(old) && waits(row) && old.publish_count < row.publish_count)
        };
        let (mut fresh, mut waiting): (BTreeMap<&str, i64>, bool) = Default::default();
        for row in after.values() {
            if reserved(row) {
                *fresh.entry(row.family.as_str()).or_default() += 1;
            } else if waits(row) && row.relay_at.is_some_and(|at| at <= now + who.skew) {
                waiting = true;
            }
        }
        if fresh.is_empty() {
            if waiting {
                self.report.event("bulk: a mail waited for its admission");
            }
            return;
        }
        self.report.event("bulk: a mail was admitted");
        let standing = |of: &str| {
            let count = |rows: &BTreeMap<String, OutboxRow>| {
                let admitted = rows.values().filter(|row| is_admitted(row));
                admitted.filter(|row| of == "*" || row.family == of).count()
            };
            i64::try_from(count(before).min(count(after))).expect("few")
        };
        let intervals = self.intervals().clone();
        let all: i64 = fresh.values().sum();
        let limits = fresh
            .iter()
            .map(|(name, count)| (*name, *count, intervals.families.get(*name).copied().unwrap_or(0)))
            .chain([("*", all, intervals.provider)]);
        for (name, count, every) in limits.filter(|(_, _, every)| *every > 0).collect::<Vec<_>>() {
            self.report.checked(Invariant::P2);
            let room = (intervals.drain / every - standing(name)).max(0);
            if count > room {
                let what =
                    format!("{count} bulk mails of {name} are admitted, and {room} drain before the next two ticks");
                self.broken(Invariant::P2, what);
            }
        }
    }

    /// A mail that goes out by itself, after those that are as urgent or more.
    pub(super) fn in_order(&mut self, who: Who, key: &str) {
        let row = self.key_of.get(key).and_then(|id| self.rows.get(id));
        let Some(row) = row.filter(|row| row.batch.is_none()) else {
            return;
        };
        let intervals = self.intervals();
        if intervals.domain > 0 || !intervals.families.is_empty() {
            return;
        }
        let Some(priority) = family(row).map(|family| family.priority) else {
            return;
        };
        let (id, asked) = (row.id.clone(), self.asked(who));
        let Some((_, before)) = self
            .order
            .last
            .insert(who.invocation, (asked, priority))
            .filter(|(before, _)| *before == asked)
        else {
            return;
        };
        self.report.checked(Invariant::P2);
        if before < priority {
            self.report.event("priority: the urgent one went first");
        }
        if before > priority {
            let what = format!("{id} of priority {priority} goes out after one of priority {before}");
            self.broken(Invariant::P2, what);
        }
    }
}
