//! One batch of the main queue.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::{Called, call_all};
use super::decision::{self, Decision, retry_delay};
use super::prepare::{Claim, Ready, Unreadable, prepare};
use crate::config::timing::BATCH_MAX;
use crate::config::{Config, PROVIDER};
use crate::outbox::envelope::Envelope;
use crate::outbox::id::{attempt_id, claim_token};
use crate::outbox::status::Status;
use crate::outbox::time::Millis;
use crate::outbox::window::Repetition;
use crate::parking::park_all;
use crate::policy;
use crate::ports::{Clock as _, Field, Level, Log as _, World};
use crate::store::claim::{ClaimRequest, Claimed, ClaimedRow, claim};
use crate::store::database::DatabaseError;
use crate::store::open::{OpenRequest, Opened, open};
use crate::store::settle::{NewPause, Settled, Settlement, settle};

/// Letters and seals that one claim brings back at most: the answer must fit into a Worker's memory several times.
const CLAIM_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Suspects that one invocation runs, each alone: each costs three round trips and a call.
const SUSPECTS_MAX: usize = 4;
/// Requests that a suspect needs: claim, open, call, settle.
const SUSPECT_SUBREQUESTS: usize = 4;
/// How often a list that could not be settled is halved: enough to corner a single bad row among a hundred.
const HALVINGS_MAX: u32 = 7;
/// Settles that one batch may spend on halving; the rest is left to the lease.
const SETTLES_MAX: u32 = 16;

/// One delivered message.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its body, where it is a text.
    pub body: Option<String>,
    /// How often it was delivered, this time included; from 1.
    pub attempts: u32,
}

/// Handles a batch; one decision for each delivery, in their order. Never fails: what cannot be done is a retry.
pub async fn consume<W: World>(world: &W, config: &Config, deliveries: &[Delivery]) -> Vec<Decision> {
    let mut decisions: Vec<Option<Decision>> = vec![None; deliveries.len()];
    let mut by_id: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for (index, delivery) in deliveries.iter().enumerate() {
        match Envelope::read(delivery.body.as_deref()) {
            Ok(envelope) => by_id.entry(envelope.outbox_id).or_default().push(index),
            Err(error) => unreadable.push((index, error)),
        }
    }
    for (index, decision) in park_all(world, "queue", deliveries, &unreadable).await {
        set(&mut decisions, &[index], decision);
    }

    let ids: Vec<&str> = by_id.keys().map(String::as_str).collect();
    let mut outcome = BTreeMap::new();
    if !ids.is_empty() {
        let run = Run { world, config };
        outcome = run.all(&ids).await;
    }
    for (id, indexes) in &by_id {
        for index in indexes {
            let attempts = deliveries.get(*index).map_or(1, |delivery| delivery.attempts);
            let decision = match outcome.get(id.as_str()) {
                Some(Fate::Decided(decision)) => *decision,
                Some(Fate::NotDone) => retry_delay(attempts),
                // The claim saw no such row: an envelope of a row that never was. It is kept for a person.
                Some(Fate::NoRow) | None => Decision::Acknowledge,
            };
            set(&mut decisions, &[*index], decision);
        }
    }
    let orphans: Vec<usize> = by_id
        .iter()
        .filter(|(id, _)| matches!(outcome.get(id.as_str()), Some(Fate::NoRow)))
        .flat_map(|(_, indexes)| indexes.iter().copied())
        .collect();
    for (index, decision) in crate::parking::park_orphans(world, "queue", deliveries, &orphans).await {
        set(&mut decisions, &[index], decision);
    }
    // A delivery without a decision cannot be; if it were, the queue would have to bring it again.
    decisions
        .into_iter()
        .map(|decision| decision.unwrap_or_else(|| retry_delay(1)))
        .collect()
}

fn set(decisions: &mut [Option<Decision>], indexes: &[usize], decision: Decision) {
    for index in indexes {
        if let Some(place) = decisions.get_mut(*index) {
            *place = Some(decision);
        }
    }
}

/// What became of a row in this batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Decided(Decision),
    /// Something of ours failed before it could be known.
    NotDone,
    NoRow,
}

struct Run<'a, W> {
    world: &'a W,
    config: &'a Config,
}

impl<W: World> Run<'_, W> {
    async fn all(&self, ids: &[&str]) -> BTreeMap<String, Fate> {
        let mut fates: BTreeMap<String, Fate> = ids.iter().map(|id| ((*id).to_owned(), Fate::NotDone)).collect();
        let timing = &self.config.timing;
        let Some((claimed, claim)) = self.claim(ids, timing.rows_per_invocation(), false).await else {
            return fates;
        };
        let calls = claimed.rows.len();
        let suspects = self.read_states(ids, &claimed, &mut fates);
        self.send(claimed.rows, &claim, &mut fates).await;

        let left = timing.calls_per_invocation().saturating_sub(calls) / SUSPECT_SUBREQUESTS;
        for id in suspects.iter().take(left.min(SUSPECTS_MAX)) {
            if let Some((claimed, claim)) = self.claim(&[id], 1, true).await {
                self.read_states(&[id], &claimed, &mut fates);
                self.send(claimed.rows, &claim, &mut fates).await;
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
                bytes_max: CLAIM_BYTES_MAX,
                suspects,
                lone_deaths_max: timing.lone_deaths_max,
                window_ms: i64::try_from(timing.window.usable().as_millis()).unwrap_or(i64::MAX),
                provider: PROVIDER,
                provider_scope: &self.config.provider_scope,
                known_templates: policy::known_templates(),
                held_families: policy::held_families(),
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
        let mine: BTreeSet<&str> = claimed.rows.iter().map(|row| row.id.as_str()).collect();
        let mut suspects = Vec::new();
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
            let ended = state.claim_expires_at.is_some_and(|end| Millis::new(end) <= now);
            let waits = state.suspect == 1 && state.status == Status::Retry && Millis::new(state.due_at) <= now;
            if !mine.contains(state.id.as_str()) && ((state.status == Status::Processing && ended) || waits) {
                suspects.push(state.id.clone());
            }
        }
        suspects
    }

    /// Steps 2 to 4, in one wave or several.
    async fn send(&self, rows: Vec<ClaimedRow>, claim: &Claim, fates: &mut BTreeMap<String, Fate>) {
        let (mut ready, mut unreadable) = (Vec::new(), Vec::new());
        for row in rows {
            match prepare(row, attempt_id(self.world.random()), self.config) {
                Ok(row) => ready.push(row),
                Err(row) => unreadable.push(row),
            }
        }
        for row in &unreadable {
            let fields = [("outboxId", Field::Id(&row.id)), ("code", Field::Code(row.code))];
            self.world.log().note(Level::Alarm, "row_unreadable", &fields);
        }
        if ready.is_empty() && unreadable.is_empty() {
            return;
        }
        let mut before = Called::default();
        let waves = self.waves(ready);
        let rejected: Vec<String> = unreadable.iter().map(|row| row.id.clone()).collect();
        for wave in waves {
            let opened = match self.open(claim, &wave, &unreadable, &before.settlements).await {
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
            self.note_settled(&opened.settled, &before.settlements, fates);
            self.note_paced(&wave, &opened, fates);
            let calls = wave.iter().filter_map(|ready| {
                let attempt = opened
                    .attempts
                    .iter()
                    .find(|attempt| attempt.attempt == ready.attempt)?;
                // The database's word on what is sealed; other bytes must not leave.
                (attempt.seal_sha256 == ready.sealed.sha256_hex()).then(|| (ready, attempt.clone()))
            });
            let called = call_all(self.world, self.config, claim.ends, calls.collect()).await;
            before = Called {
                settlements: called.settlements,
                pause: called.pause.or(before.pause),
                account_works: called.account_works || before.account_works,
            };
            if before.pause.is_some() {
                break;
            }
        }
        if !before.settlements.is_empty() {
            self.settle_halving(claim, before, fates).await;
        }
    }

    /// All at once; where a death would leave doubts that hardly any time is left to clear, as many as are called at
    /// once.
    fn waves(&self, ready: Vec<Ready>) -> Vec<Vec<Ready>> {
        let timing = &self.config.timing;
        let now = self.world.clock().now();
        let (mut calm, mut narrow) = (Vec::new(), Vec::new());
        for row in ready {
            let calm_until = match row.anchor {
                Some(anchor) => timing.window.judge(anchor, now.plus(timing.lease)),
                None => timing.window.judge(now, now.plus(timing.lease)),
            };
            match calm_until {
                Repetition::OpenUntil(_) => calm.push(row),
                Repetition::Closed => narrow.push(row),
            }
        }
        let mut waves = Vec::new();
        if !calm.is_empty() || narrow.is_empty() {
            waves.push(calm);
        }
        let mut rest = narrow.into_iter().peekable();
        while rest.peek().is_some() {
            waves.push(rest.by_ref().take(timing.calls_at_once).collect());
        }
        waves
    }

    /// Step 2 (and step 4 of the wave before).
    async fn open(
        &self,
        claim: &Claim,
        wave: &[Ready],
        unreadable: &[Unreadable],
        settlements: &[Settlement],
    ) -> Result<Opened, DatabaseError> {
        let openings: Vec<_> = wave.iter().map(Ready::opening).collect();
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
                rejections: &rejections,
                settlements,
                pace_interval_ms: timing.pace_interval_ms(),
                pace_wait_ms_max: i64::try_from(timing.pace_wait.as_millis()).unwrap_or(i64::MAX),
            },
        )
        .await
    }

    /// Rows without an attempt: the pace had no slot for them, or the claim was lost. The row says when it goes on, and
    /// the relay brings it.
    fn note_paced(&self, wave: &[Ready], opened: &Opened, fates: &mut BTreeMap<String, Fate>) {
        let open: BTreeSet<&str> = opened
            .attempts
            .iter()
            .map(|attempt| attempt.outbox_id.as_str())
            .collect();
        let mut paced = 0i64;
        for row in wave.iter().filter(|row| !open.contains(row.id.as_str())) {
            paced = paced.saturating_add(1);
            fates.insert(row.id.clone(), Fate::Decided(Decision::Acknowledge));
        }
        if paced > 0 {
            self.world
                .log()
                .note(Level::Info, "rows_without_slot", &[("rows", Field::Number(paced))]);
        }
    }

    /// Step 4. A list that cannot be written is halved until the row is cornered that spoils it; what still cannot be
    /// written is left to the lease: the attempt stays open, and the same bytes are sent again under the same key.
    async fn settle_halving(&self, claim: &Claim, called: Called, fates: &mut BTreeMap<String, Fate>) {
        let mut settles = 0u32;
        let mut stack = vec![(called.settlements, called.pause, 0u32)];
        while let Some((list, pause, halvings)) = stack.pop() {
            settles = settles.saturating_add(1);
            match self.settle(claim, &list, pause.as_ref(), called.account_works).await {
                Ok(settled) => self.note_settled(&settled, &list, fates),
                Err(error) => {
                    self.note_database("settle_failed", &error);
                    let mut list = list;
                    if list.len() > 1 && halvings < HALVINGS_MAX && settles < SETTLES_MAX {
                        let rest = list.split_off(list.len().div_ceil(2));
                        stack.push((rest, None, halvings.saturating_add(1)));
                        stack.push((list, pause, halvings.saturating_add(1)));
                    }
                }
            }
        }
    }

    async fn settle(
        &self,
        claim: &Claim,
        list: &[Settlement],
        pause: Option<&NewPause>,
        account_works: bool,
    ) -> Result<Settled, DatabaseError> {
        settle(
            self.world.database(),
            &claim.token,
            self.world.clock().now(),
            list,
            pause,
            account_works,
        )
        .await
    }

    fn note_settled(&self, settled: &Settled, list: &[Settlement], fates: &mut BTreeMap<String, Fate>) {
        let now = self.world.clock().now();
        let log = self.world.log();
        for row in &settled.states {
            let decision = decision::of_settled(row, now, &self.config.timing);
            fates.insert(row.id.clone(), Fate::Decided(decision));
            if row.status == Status::Unknown {
                log.note(Level::Alarm, "outcome_unknown", &[("outboxId", Field::Id(&row.id))]);
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
                &[("calls", number(list.len())), ("sent", number(sent))],
            );
        }
    }

    fn note_database(&self, code: &'static str, error: &DatabaseError) {
        self.world
            .log()
            .note(Level::Warn, code, &[("error", Field::Code(error.code()))]);
    }
}
