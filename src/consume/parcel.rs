//! What goes out in one call: a mail by itself, or a batch of them.

use std::rc::Rc;

use super::prepare::{Ready, Unreadable, prepare, prepare_member};
use super::verdict::{self, Case, NotCalled};
use crate::config::{Config, Timing};
use crate::outbox::id::{attempt_id, batch_id};
use crate::outbox::seal::{Sealed, seal};
use crate::outbox::time::Millis;
use crate::ports::{Random, random_number};
use crate::provider::batch::{LIST_BYTES_MAX, MAILS_MAX, frame_bytes, list_of};
use crate::provider::classify::Answer;
use crate::store::batches::{BatchOpening, ClaimedBatch, MemberOpening};
use crate::store::claim::{Claimed, ClaimedRow};
use crate::store::settle::Settlement;

/// One call to the provider with the rows that it carries; never empty.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) rows: Vec<Ready>,
    /// `None` where the one row goes out by itself.
    batch: Option<Batch>,
}

/// What a call has that carries several mails.
#[derive(Debug)]
struct Batch {
    id: String,
    family: &'static str,
    sealed: Rc<Sealed>,
    /// How many mails the list has. Of a batch that was sent before, some may be settled: they are no rows of ours.
    mails: usize,
    /// The place of each of the rows in the list.
    places: Vec<usize>,
    /// The bytes of each of the rows in the list, where it is frozen now.
    bytes: Vec<usize>,
    is_new: bool,
    /// The provider has accepted it, whatever each row knows.
    proved: bool,
    anchor: Option<Millis>,
}

/// Claimed rows as parcels, and those that cannot be sent. `alone`: every row is run alone, so nothing new is put together.
pub(super) fn parcels(
    claimed: Claimed,
    alone: bool,
    random: &impl Random,
    config: &Config,
) -> (Vec<Parcel>, Vec<Unreadable>) {
    let (members, singles): (Vec<ClaimedRow>, Vec<ClaimedRow>) =
        claimed.rows.into_iter().partition(|row| row.batch_id.is_some());
    let (mut parcels, mut unreadable, mut joining) = (Vec::new(), Vec::new(), Vec::new());
    for row in singles {
        match prepare(row, attempt_id(random), config) {
            Ok(row) if row.joins.is_some() && !alone => joining.push(row),
            Ok(row) => parcels.push(Parcel::single(row)),
            Err(row) => unreadable.push(row),
        }
    }
    put_together(joining, random, &mut parcels);
    for batch in claimed.batches {
        again(batch, &members, random, config, &mut parcels, &mut unreadable);
    }
    (parcels, unreadable)
}

/// Rows of one family that were never sent, in batches as large as the provider and the seal allow. One that is left over
/// goes out by itself.
fn put_together(mut joining: Vec<Ready>, random: &impl Random, parcels: &mut Vec<Parcel>) {
    joining.sort_by_key(|row| row.joins);
    let mut group: Vec<Ready> = Vec::new();
    let mut bytes = 0usize;
    for row in joining {
        let own = row.sealed.body().len();
        let together = bytes.saturating_add(own).saturating_add(frame_bytes(group.len() + 1));
        let fits = group.len() < MAILS_MAX && together <= LIST_BYTES_MAX;
        if !group.is_empty() && (!fits || group.first().map(|first| first.joins) != Some(row.joins)) {
            parcels.push(Parcel::of(core::mem::take(&mut group), random));
            bytes = 0;
        }
        bytes = bytes.saturating_add(own);
        group.push(row);
    }
    if !group.is_empty() {
        parcels.push(Parcel::of(group, random));
    }
}

/// A batch that was frozen before, with those of its rows that are still open.
fn again(
    batch: ClaimedBatch,
    members: &[ClaimedRow],
    random: &impl Random,
    config: &Config,
    parcels: &mut Vec<Parcel>,
    unreadable: &mut Vec<Unreadable>,
) {
    let sealed = match batch.body {
        Some(body) => Sealed::verify(body, &batch.sha256)
            .map(Rc::new)
            .map_err(|_| "seal_corrupt"),
        None => Err("seal_missing"),
    };
    let mails = sealed
        .as_ref()
        .map_or(Err("seal_missing"), |sealed| mails_in(sealed.body()));
    let sealed = sealed.and_then(|sealed| mails.map(|_| sealed));
    let mut mine: Vec<&ClaimedRow> = members
        .iter()
        .filter(|row| row.batch_id.as_deref() == Some(batch.id.as_str()))
        .collect();
    mine.sort_by_key(|row| row.batch_position);
    let (mut rows, mut places) = (Vec::new(), Vec::new());
    for row in mine {
        let place = row.batch_position.unwrap_or(usize::MAX);
        let sealed = match mails {
            Ok(mails) if place < mails => sealed.clone(),
            Ok(_) => Err("seal_corrupt"),
            Err(_) => sealed.clone(),
        };
        match prepare_member(row.clone(), sealed, attempt_id(random), config) {
            Ok(row) => {
                rows.push(row);
                places.push(place);
            }
            Err(row) => unreadable.push(row),
        }
    }
    if let (Ok(sealed), Ok(mails), false) = (sealed, mails, rows.is_empty()) {
        parcels.push(Parcel {
            batch: Some(Batch {
                id: batch.id,
                family: "",
                sealed,
                mails,
                bytes: Vec::new(),
                places,
                is_new: false,
                proved: batch.proved == 1,
                anchor: batch.window_anchor_at.map(Millis::new),
            }),
            rows,
        });
    }
}

/// How many mails a sealed list has.
fn mails_in(body: &str) -> Result<usize, &'static str> {
    serde_json::from_str::<Vec<serde::de::IgnoredAny>>(body)
        .map(|mails| mails.len())
        .map_err(|_| "seal_corrupt")
}

impl Parcel {
    fn single(row: Ready) -> Self {
        Self {
            rows: vec![row],
            batch: None,
        }
    }

    /// Freezes rows together; one by itself keeps its own bytes and key.
    fn of(mut rows: Vec<Ready>, random: &impl Random) -> Self {
        if rows.len() < 2 {
            return Self { rows, batch: None };
        }
        let family = rows.first().and_then(|row| row.joins).unwrap_or_default();
        let bytes = rows.iter().map(|row| row.sealed.body().len()).collect();
        let sealed = Rc::new(seal(list_of(rows.iter().map(|row| row.sealed.body()))));
        for row in &mut rows {
            row.sealed = Rc::clone(&sealed);
        }
        let batch = Batch {
            id: batch_id(random),
            family,
            sealed,
            mails: rows.len(),
            places: (0..rows.len()).collect(),
            bytes,
            is_new: true,
            proved: false,
            anchor: None,
        };
        Self {
            rows,
            batch: Some(batch),
        }
    }

    /// The row, where it goes out by itself.
    pub(super) fn alone(&self) -> Option<&Ready> {
        match self.batch {
            None => self.rows.first(),
            Some(_) => None,
        }
    }

    /// The batch's id and the hash of its bytes, where it is one.
    pub(super) fn together(&self) -> Option<(&str, &str)> {
        let batch = self.batch.as_ref()?;
        Some((&batch.id, batch.sealed.sha256_hex()))
    }

    /// The bytes that leave.
    pub(super) fn body(&self) -> &str {
        match &self.batch {
            Some(batch) => batch.sealed.body(),
            None => self.rows.first().map_or("", |row| row.sealed.body()),
        }
    }

    /// The key that they leave under.
    pub(super) fn key(&self) -> &str {
        match &self.batch {
            Some(batch) => &batch.id,
            None => self.rows.first().map_or("", |row| &row.idempotency_key),
        }
    }

    /// How many mails the provider answers for; `None` where the answer is that to a single one.
    pub(super) fn mails(&self) -> Option<usize> {
        self.batch.as_ref().map(|batch| batch.mails)
    }

    /// Earlier attempts that may have been accepted: one member's doubt is everybody's, and so is the proof.
    pub(super) fn doubts(&self) -> u32 {
        let proved = self.batch.as_ref().is_some_and(|batch| batch.proved);
        let most = self.rows.iter().map(|row| row.doubts).max().unwrap_or(0);
        most.max(u32::from(proved))
    }

    /// When the provider may first have seen the key.
    pub(super) fn anchor(&self) -> Option<Millis> {
        let of_rows = self.rows.iter().filter_map(|row| row.anchor);
        let of_batch = self.batch.as_ref().and_then(|batch| batch.anchor);
        of_rows.chain(of_batch).min()
    }

    /// What is known of each row when the call ends, or is given up. What one call decides, it decides for all of them
    /// alike: the same wait, the same doubt, the same window.
    pub(super) fn cases(&self, anchor: Millis, now: Millis, random: u64) -> Vec<Case<'_>> {
        let doubts = self.doubts();
        let attempt_count = self.rows.iter().map(|row| row.attempt_count).max().unwrap_or(0);
        let idle_claims = self.rows.iter().map(|row| row.idle_claims).max().unwrap_or(0);
        let common = |row| Case {
            doubts,
            anchor,
            attempt_count,
            idle_claims,
            ..Ready::case(row, now, random)
        };
        self.rows.iter().map(common).collect()
    }

    /// The ends of the attempts whose call was not made.
    pub(super) fn not_called(
        &self,
        cases: &[Case<'_>],
        reason: NotCalled,
        now: Millis,
        timing: &Timing,
    ) -> Vec<Settlement> {
        self.rows
            .iter()
            .zip(cases)
            .map(|(row, case)| {
                let own = match reason {
                    // It is too late for one of them: the others go on without it, after the next claim.
                    NotCalled::WindowMissed if row.not_after.is_none_or(|end| now < end) => NotCalled::Stopped,
                    NotCalled::WindowMissed
                    | NotCalled::LeaseTooShort
                    | NotCalled::ProviderWindowClosed
                    | NotCalled::NoRoom
                    | NotCalled::OutsideHours { .. }
                    | NotCalled::Stopped
                    | NotCalled::Braked { .. } => reason,
                };
                verdict::not_called(case, own, timing)
            })
            .collect()
    }

    /// The ends of the attempts whose call was made; `answers` are the mails' of the list.
    pub(super) fn answered(
        &self,
        cases: &[Case<'_>],
        answers: &[Answer],
        http_status: Option<u16>,
        timing: &Timing,
    ) -> Vec<Settlement> {
        let places: Vec<usize> = match &self.batch {
            Some(batch) => batch.places.clone(),
            None => vec![0],
        };
        let of_batch = self.batch.is_some();
        places
            .iter()
            .zip(cases)
            .filter_map(|(place, case)| {
                let answer = answers.get(*place)?;
                Some(if of_batch {
                    verdict::answered_together(case, answer, http_status, timing)
                } else {
                    verdict::answered(case, answer, http_status, timing)
                })
            })
            .collect()
    }

    /// Gives the rows back.
    pub(super) fn given_back(
        &self,
        reason: NotCalled,
        now: Millis,
        random: &impl Random,
        timing: &Timing,
    ) -> Vec<Settlement> {
        let cases = self.cases(self.anchor().unwrap_or(now), now, random_number(random));
        self.not_called(&cases, reason, now, timing)
    }

    /// What the database is asked to freeze and open, where it is a batch.
    pub(super) fn batch_opening(&self) -> Option<BatchOpening<'_>> {
        let batch = self.batch.as_ref()?;
        let members = self.rows.iter().enumerate().zip(&batch.places);
        Some(BatchOpening {
            id: &batch.id,
            sha256: batch.sealed.sha256_hex(),
            family: batch.family,
            body: batch.is_new.then(|| batch.sealed.body()),
            fresh: u8::from(batch.is_new),
            members: members
                .map(|((index, row), place)| MemberOpening {
                    id: &row.id,
                    attempt: &row.attempt,
                    position: *place,
                    bytes: batch.bytes.get(index).copied().unwrap_or(0),
                    template_version: row.template_version,
                })
                .collect(),
        })
    }
}
