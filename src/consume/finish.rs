//! Step 4: what is known is written down, whatever it takes, and what it means for the messages.

use std::collections::BTreeMap;

use super::calls::Called;
use super::decision;
use super::run::{Claim, Fate, Run};
use crate::outbox::status::Status;
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::database::DatabaseError;
use crate::store::settle::{NewPause, PauseNow, Settled, Settlement, settle};

/// How often a list that could not be settled is halved: enough to corner a single bad row among a hundred.
const HALVINGS_MAX: u32 = 7;
/// Settles that one batch may spend on halving; the rest is left to the lease.
const SETTLES_MAX: u32 = 16;
/// Requests of an invocation before its first settle, calls apart: parking, claim, open, and one to spare.
const SUBREQUESTS_BEFORE_SETTLE: u32 = 4;

impl<W: World> Run<'_, W> {
    /// Step 4. A list that the database refuses is halved until the row is cornered that spoils it. What still cannot
    /// be written, and all of it where the database is not there, is left to the lease: the attempt stays open, and
    /// the same bytes are sent again under the same key.
    pub(super) async fn settle_halving(&self, claim: &Claim, called: Called, fates: &mut BTreeMap<String, Fate>) {
        let mut settles = 0u32;
        let settles_max = self.settles_max(called.calls);
        let mut stack = vec![(called.settlements, called.pause, 0u32)];
        while let Some((list, pause, halvings)) = stack.pop() {
            settles = settles.saturating_add(1);
            match self.settle(claim, &list, pause.as_ref()).await {
                Ok(settled) => self.note_settled(&settled, &list, fates),
                Err(error) => {
                    self.note_database("settle_failed", &error);
                    let mut list = list;
                    let helps = may_be_one_row(&error) && settles < settles_max;
                    if helps && list.len() > 1 && halvings < HALVINGS_MAX {
                        let rest = list.split_off(list.len().div_ceil(2));
                        stack.push((rest, None, halvings.saturating_add(1)));
                        stack.push((list, pause, halvings.saturating_add(1)));
                    }
                }
            }
        }
    }

    /// Halving takes what the calls have left of the invocation's requests.
    fn settles_max(&self, calls: usize) -> u32 {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let left = self.config.timing.subrequest_budget.saturating_sub(calls);
        left.saturating_sub(SUBREQUESTS_BEFORE_SETTLE).min(SETTLES_MAX)
    }

    async fn settle(
        &self,
        claim: &Claim,
        list: &[Settlement],
        pause: Option<&NewPause>,
    ) -> Result<Settled, DatabaseError> {
        settle(
            self.world.database(),
            &claim.token,
            self.world.clock().now(),
            list,
            pause,
        )
        .await
    }

    pub(super) fn note_settled(&self, settled: &Settled, list: &[Settlement], fates: &mut BTreeMap<String, Fate>) {
        let now = self.world.clock().now();
        let log = self.world.log();
        for row in &settled.states {
            let decision = decision::of_settled(row, now, &self.config.timing);
            fates.insert(row.id.clone(), Fate::Decided(decision));
            if row.status == Status::Unknown {
                log.note(Level::Alarm, "outcome_unknown", &[("outboxId", Field::Id(&row.id))]);
            }
            if row.status == Status::DeadLetter && row.foreign_claim == 0 {
                log.note(Level::Alarm, "dead_lettered", &[("outboxId", Field::Id(&row.id))]);
            }
        }
        for id in &settled.lost {
            log.note(Level::Warn, "claim_lost", &[("outboxId", Field::Id(id))]);
        }
        for id in &settled.conflicts {
            log.note(Level::Alarm, "message_id_conflict", &[("outboxId", Field::Id(id))]);
        }
        if !list.is_empty() {
            let sent = settled.states.iter().filter(|row| row.status == Status::Sent).count();
            let number = |count: usize| Field::Number(i64::try_from(count).unwrap_or(i64::MAX));
            log.note(
                Level::Info,
                "batch_settled",
                &[("rows", number(list.len())), ("sent", number(sent))],
            );
        }
        match settled.pause {
            Some(PauseNow::New { reason }) => {
                log.note(Level::Alarm, "sending_paused", &[("reason", Field::Code(reason))]);
            }
            Some(PauseNow::Known { reason }) => {
                log.note(Level::Warn, "sending_still_paused", &[("reason", Field::Code(reason))]);
            }
            None => {}
        }
    }
}

/// Whether the failure of a whole list may come from one of its rows.
fn may_be_one_row(error: &DatabaseError) -> bool {
    match error {
        DatabaseError::Constraint { .. } | DatabaseError::Failed { .. } => true,
        DatabaseError::Busy
        | DatabaseError::Refused { .. }
        | DatabaseError::SchemaMismatch
        | DatabaseError::Ambiguous
        | DatabaseError::Shape => false,
    }
}
