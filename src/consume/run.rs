//! From claimed rows to settled ones: the steps of a batch, in their order.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::calls::{Called, call_all};
use super::decision::{self, Decision};
use super::outside::{self, sort};
use super::parcel::{Parcel, parcels};
use super::prepare::{Ready, Unreadable};
use super::verdict::NotCalled;
use super::waves;
use crate::config::timing::BATCH_MAX;
use crate::config::{Config, PROVIDER};
use crate::outbox::id::claim_token;
use crate::outbox::status::Status;
use crate::outbox::time::Millis;
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::claim::{ClaimRequest, Claimed, RowState, claim};
use crate::store::database::DatabaseError;
use crate::store::open::{OpenRequest, Opened, open};
use crate::store::outside::PutBack;
use crate::store::settle::Settlement;

/// Letters with their attachments, and seals, that one claim brings back at most: the answer must fit into a Worker's
/// memory several times. One row alone is never larger: 256 KiB and 2 MiB in base64, or a request made of them.
const CLAIM_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Suspects that one invocation runs, each alone: each costs three round trips and a call.
const SUSPECTS_MAX: usize = 4;
/// Requests that a suspect needs: claim, open, call, settle.
const SUSPECT_SUBREQUESTS: usize = 4;

/// What became of a row in this batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Decided(Decision),
    /// Something of ours failed before it could be known.
    NotDone,
    NoRow,
}

/// One batch's work.
pub(super) struct Run<'a, W> {
    pub(super) world: &'a W,
    pub(super) config: &'a Config,
}

impl<W: World> Run<'_, W> {
    /// Everything that is to be done for these rows; a fate for each.
    pub(super) async fn all(&self, ids: &[&str]) -> BTreeMap<String, Fate> {
        let mut fates = BTreeMap::new();
        fates.extend(ids.iter().map(|id| ((*id).to_owned(), Fate::NotDone)));
        let timing = &self.config.timing;
        let Some((claimed, claim)) = self.claim(ids, timing.rows_per_invocation(), false).await else {
            return fates;
        };
        let suspects = self.read_states(ids, &claimed, &mut fates);
        let calls = self.send(claimed, false, &claim, &mut fates).await;

        let mut left = timing.calls_per_invocation().saturating_sub(calls) / SUSPECT_SUBREQUESTS;
        if calls == 0 {
            // What the healthy rows did not use is enough for one, on the smallest plan too.
            left = left.max(1);
        }
        for id in suspects.iter().take(left.min(SUSPECTS_MAX)) {
            if let Some((claimed, claim)) = self.claim(&[id], 1, true).await {
                self.read_states(&[id], &claimed, &mut fates);
                self.send(claimed, true, &claim, &mut fates).await;
            }
        }
        fates
    }

    /// Step 1.
    async fn claim(&self, ids: &[&str], rows_max: usize, suspects: bool) -> Option<(Claimed, Claim)> {
        let timing = &self.config.timing;
        let now = self.world.clock().now();
        let claim_of = Claim {
            token: claim_token(self.world.random()),
            ends: now.plus(timing.lease),
        };
        let result = claim(
            self.world.database(),
            &ClaimRequest {
                ids,
                token: &claim_of.token,
                now,
                expires_at: claim_of.ends,
                skew_ms: i64::try_from(timing.skew.as_millis()).unwrap_or(i64::MAX),
                rows_max: rows_max.min(BATCH_MAX),
                rows_max_beside_suspects: timing
                    .calls_per_invocation()
                    .saturating_sub(SUSPECT_SUBREQUESTS)
                    .clamp(1, rows_max.clamp(1, BATCH_MAX)),
                bytes_max: CLAIM_BYTES_MAX,
                suspects,
                lone_deaths_max: timing.lone_deaths_max,
                window_ms: i64::try_from(timing.window.usable().as_millis()).unwrap_or(i64::MAX),
                provider: PROVIDER,
                provider_scope: &self.config.provider_scope,
                known_templates: self.config.policy.known_templates(),
                held_families: self.config.policy.held_families(),
                batch_families: self.config.policy.batch_families(),
            },
        )
        .await;
        match result {
            Ok(claimed) => Some((claimed, claim_of)),
            Err(error) => {
                self.note_database("claim_failed", &error);
                None
            }
        }
    }

    /// Decides about the rows that were not claimed; returns those that have to run alone.
    fn read_states(&self, ids: &[&str], claimed: &Claimed, fates: &mut BTreeMap<String, Fate>) -> Vec<String> {
        let now = self.world.clock().now();
        let timing = &self.config.timing;
        for id in &claimed.stopped_beside {
            let fields = [("outboxId", Field::Id(id))];
            self.world.log().note(Level::Alarm, "outcome_unknown", &fields);
        }
        let mut mine = BTreeSet::new();
        mine.extend(claimed.rows.iter().map(|row| row.id.as_str()));
        // A batch runs alone as a whole: one of its rows brings all of them.
        let (mut suspects, mut batches) = (Vec::new(), Vec::new());
        for id in ids {
            fates.insert((*id).to_owned(), Fate::NoRow);
        }
        for state in &claimed.states {
            let fate = if mine.contains(state.id.as_str()) {
                // Until it is settled: not before the claim's end.
                Fate::Decided(decision::retry_after(timing.lease.saturating_add(timing.skew)))
            } else {
                Fate::Decided(decision::of_state(state, now, timing))
            };
            fates.insert(state.id.clone(), fate);
            if state.stopped == 1 {
                let code = if state.status == Status::Unknown {
                    "outcome_unknown"
                } else {
                    "dead_lettered"
                };
                let fields = [("outboxId", Field::Id(&state.id))];
                self.world.log().note(Level::Alarm, code, &fields);
            }
            let with_another = state.batch_id.is_some() && batches.contains(&state.batch_id.as_deref());
            if !mine.contains(state.id.as_str()) && must_run_alone(state, now) && !with_another {
                batches.push(state.batch_id.as_deref());
                suspects.push(state.id.clone());
            }
        }
        suspects
    }

    /// Steps 2 to 4, in one wave or several. Returns how many calls that could be.
    async fn send(&self, claimed: Claimed, alone: bool, claim: &Claim, fates: &mut BTreeMap<String, Fate>) -> usize {
        let looked_at = self.world.clock().now();
        let (claimed, mut put_back, outside) = sort(claimed, self.world.zones(), self.config, looked_at);
        let (ready, mut unreadable) = parcels(claimed, alone, self.world.random(), self.config);
        unreadable.extend(outside);
        let calls = ready.len();
        for row in &unreadable {
            let fields = [("outboxId", Field::Id(&row.id)), ("code", Field::Code(row.code))];
            self.world.log().note(Level::Alarm, "row_unreadable", &fields);
        }
        if ready.is_empty() && unreadable.is_empty() && put_back.is_empty() {
            return calls;
        }
        let mut before = Called::default();
        let plan = waves::plan(ready, self.world.clock().now(), &self.config.timing);
        let mut waves = plan.waves.into_iter();
        let mut not_opened = NotCalled::NoRoom;
        let rejected: Vec<String> = unreadable.iter().map(|row| row.id.clone()).collect();
        for wave in waves.by_ref() {
            let opened = match self
                .open(claim, &wave, &unreadable, &put_back, &before.settlements)
                .await
            {
                Ok(opened) => opened,
                Err(error) => {
                    self.note_database("open_failed", &error);
                    break;
                }
            };
            for id in &rejected {
                fates.insert(id.clone(), Fate::Decided(Decision::Acknowledge));
            }
            unreadable.clear();
            self.note_put_back(&put_back, fates);
            put_back.clear();
            self.note_settled(&opened.settled, &before.settlements, fates);
            self.note_paced(&wave, &opened, fates);
            self.note_lost(&opened, fates);
            let mut slots: Vec<_> = wave
                .iter()
                .filter_map(|parcel| Some((parcel, opened.slot_of(parcel)?)))
                .collect();
            // In the order of their slots: one that waits long for its family or domain keeps no place from the others.
            slots.sort_by_key(|(_, planned_at)| *planned_at);
            let called = call_all(self.world, self.config, claim.ends, slots).await;
            before = Called {
                settlements: called.settlements,
                calls: called.calls,
                pause: called.pause.or(before.pause),
            };
            if let Some(pause) = &before.pause {
                let wait = Duration::from_millis(pause.base_ms.unsigned_abs());
                let until = self.world.clock().now().plus(wait);
                not_opened = NotCalled::Braked { until };
                break;
            }
        }
        // Rows of waves that were not opened are given back: a claim that nobody works on looks like a death.
        let given_back = waves.flatten().chain(plan.rest);
        let now = self.world.clock().now();
        before.settlements.extend(
            given_back.flat_map(|parcel| parcel.given_back(not_opened, now, self.world.random(), &self.config.timing)),
        );
        if !before.settlements.is_empty() {
            self.settle_halving(claim, before, fates).await;
        }
        calls
    }

    /// Step 2 (and step 4 of the wave before).
    async fn open(
        &self,
        claim: &Claim,
        wave: &[Parcel],
        unreadable: &[Unreadable],
        put_back: &[PutBack],
        settlements: &[Settlement],
    ) -> Result<Opened, DatabaseError> {
        let openings: Vec<_> = wave.iter().filter_map(Parcel::alone).map(Ready::opening).collect();
        let batches: Vec<_> = wave.iter().filter_map(Parcel::batch_opening).collect();
        let rejections: Vec<_> = unreadable.iter().map(Unreadable::rejection).collect();
        let timing = &self.config.timing;
        open(
            self.world.database(),
            &OpenRequest {
                token: &claim.token,
                now: self.world.clock().now(),
                provider: PROVIDER,
                provider_scope: &self.config.provider_scope,
                openings: &openings,
                batches: &batches,
                rejections: &rejections,
                put_back,
                settlements,
                pace_interval_ms: timing.pace_interval_ms(),
                family_intervals: self.config.policy.family_intervals(),
                domain_interval_ms: timing.domain_interval_ms(),
                pace_wait_ms_max: i64::try_from(timing.pace_wait.as_millis()).unwrap_or(i64::MAX),
            },
        )
        .await
    }

    /// Rows of ours without an attempt: the pace had no slot for them. The row says when it goes on, and the relay brings
    /// it. A batch that others took a mail out of may have been opened all the same: until its claim ends, its messages
    /// are kept.
    fn note_paced(&self, wave: &[Parcel], opened: &Opened, fates: &mut BTreeMap<String, Fate>) {
        let mut paced = 0i64;
        let lost = |id: &str| opened.lost.iter().any(|row| row.id == id);
        for row in wave
            .iter()
            .filter(|parcel| !opened.has(parcel) && !parcel.rows.iter().any(|row| lost(&row.id)))
            .flat_map(|parcel| &parcel.rows)
        {
            paced = paced.saturating_add(1);
            fates.insert(row.id.clone(), Fate::Decided(Decision::Acknowledge));
        }
        if paced > 0 {
            self.world
                .log()
                .note(Level::Info, "rows_without_slot", &[("rows", Field::Number(paced))]);
        }
    }

    /// Rows of ours whose quiet hours have begun. What others took meanwhile is decided about after this.
    fn note_put_back(&self, put_back: &[PutBack], fates: &mut BTreeMap<String, Fate>) {
        let now = self.world.clock().now();
        for row in put_back {
            let decision = outside::decision_of(row, now, &self.config.timing);
            fates.insert(row.id.clone(), Fate::Decided(decision));
        }
        if !put_back.is_empty() {
            let rows = Field::Number(i64::try_from(put_back.len()).unwrap_or(i64::MAX));
            self.world
                .log()
                .note(Level::Info, "rows_outside_hours", &[("rows", rows)]);
        }
    }

    /// Rows that others took, or moved, while this worker slept. Where a claim holds one, its message comes again after
    /// that claim's end; otherwise the row says itself how it goes on.
    fn note_lost(&self, opened: &Opened, fates: &mut BTreeMap<String, Fate>) {
        let now = self.world.clock().now();
        for row in &opened.lost {
            let decision = match row.claim_expires_at {
                Some(_) => decision::past_the_claim(row.claim_expires_at, now, &self.config.timing),
                None => Decision::Acknowledge,
            };
            fates.insert(row.id.clone(), Fate::Decided(decision));
            self.world
                .log()
                .note(Level::Warn, "claim_lost", &[("outboxId", Field::Id(&row.id))]);
        }
    }

    pub(super) fn note_database(&self, code: &'static str, error: &DatabaseError) {
        self.world
            .log()
            .note(Level::Warn, code, &[("error", Field::Code(error.code()))]);
    }
}

impl Opened {
    /// Whether its attempts are open.
    fn has(&self, parcel: &Parcel) -> bool {
        match (parcel.together(), parcel.alone()) {
            (Some((id, _)), _) => self.batches.iter().any(|batch| batch.id == id),
            (None, Some(row)) => self.attempts.iter().any(|attempt| attempt.outbox_id == row.id),
            (None, None) => false,
        }
    }

    /// When it may be called, where the database's word on what is sealed is that of the bytes in hand: others must not
    /// leave.
    fn slot_of(&self, parcel: &Parcel) -> Option<Millis> {
        let planned_at = if let Some((id, sha256)) = parcel.together() {
            let opened = self.batches.iter().find(|batch| batch.id == id)?;
            (opened.sha256 == sha256).then_some(opened.planned_at)?
        } else {
            let row = parcel.alone()?;
            let opened = self.attempts.iter().find(|attempt| attempt.attempt == row.attempt)?;
            (opened.seal_sha256 == row.sealed.sha256_hex()).then_some(opened.planned_at)?
        };
        Some(Millis::new(planned_at))
    }
}

/// Whether a row that could be claimed now has to be claimed alone.
fn must_run_alone(state: &RowState, now: Millis) -> bool {
    match state.status {
        Status::Processing => state.claim_expires_at.is_some_and(|end| Millis::new(end) <= now),
        Status::Pending | Status::Enqueued | Status::Retry => state.suspect == 1 && Millis::new(state.due_at) <= now,
        Status::Sent
        | Status::Failed
        | Status::Suppressed
        | Status::Expired
        | Status::Canceled
        | Status::External
        | Status::Shadowed
        | Status::DeadLetter
        | Status::Unknown => false,
    }
}

/// The proof of a claim, and when it ends by itself.
pub(super) struct Claim {
    pub(super) token: String,
    pub(super) ends: Millis,
}
