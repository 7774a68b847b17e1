//! The provider calls of one wave, side by side and at their pace.

use core::cell::{Cell, RefCell};
use core::time::Duration;

use futures_util::StreamExt as _;

use super::outside::wakes_at;
use super::parcel::Parcel;
use super::verdict::{self, NotCalled};
use crate::config::Config;
use crate::hours::Hours;
use crate::outbox::time::{Millis, whole_ms};
use crate::outbox::window::Repetition;
use crate::ports::{Clock as _, Field, Level, Log as _, MailAnswer, MailRequest, Mailer as _, World, random_number};
use crate::provider::batch::classify_list;
use crate::provider::classify::{Answer, ThrottleKind, classify};
use crate::provider::code::ProviderCode;
use crate::store::settle::{NewPause, Settlement};

/// A rate limit that is over this soon is waited for within the batch; a longer one sends the rest back.
const BRAKE_WAIT_MAX: Duration = Duration::from_secs(2);

/// A mail whose zone was known at the claim and is not before the call is looked at again after this long.
const ZONE_GONE_WAIT: Duration = Duration::from_secs(60);

/// What the calls of a wave came to.
#[derive(Debug, Default)]
pub(super) struct Called {
    pub(super) settlements: Vec<Settlement>,
    /// How many calls they are of, at most.
    pub(super) calls: usize,
    pub(super) pause: Option<NewPause>,
}

/// One wave's shared knowledge: an answer that says "stop" keeps the calls that have not begun from being made.
struct Wave<'a, W> {
    world: &'a W,
    config: &'a Config,
    claim_ends: Millis,
    /// No call before this time; `None` where nothing braked. `bool`: whether it is short enough to wait for.
    brake: Cell<Option<(Millis, bool)>>,
    pause: RefCell<Option<NewPause>>,
    /// The next call of this wave is made no earlier, however late the ones before were.
    next_call_at: Cell<Millis>,
}

/// Makes the calls of a wave, as many at once as the configuration allows. Every row gets a settlement; one slow or
/// failing call touches no other.
pub(super) async fn call_all<W: World>(
    world: &W,
    config: &Config,
    claim_ends: Millis,
    wave: Vec<(&Parcel, Millis)>,
) -> Called {
    let shared = Wave {
        world,
        config,
        claim_ends,
        brake: Cell::new(None),
        pause: RefCell::new(None),
        next_call_at: Cell::new(Millis::new(0)),
    };
    let calls = wave.len();
    let settlements: Vec<Vec<Settlement>> = futures_util::stream::iter(wave)
        .map(|(parcel, planned_at)| shared.call(parcel, planned_at))
        .buffer_unordered(config.timing.calls_at_once)
        .collect()
        .await;
    Called {
        settlements: settlements.into_iter().flatten().collect(),
        calls,
        pause: shared.pause.into_inner(),
    }
}

impl<W: World> Wave<'_, W> {
    async fn call(&self, parcel: &Parcel, planned_at: Millis) -> Vec<Settlement> {
        let clock = self.world.clock();
        let timing = &self.config.timing;
        let anchor = parcel.anchor().unwrap_or_else(|| clock.now());
        self.wait_until(self.slot(planned_at)).await;
        if let Some((until, true)) = self.brake.get()
            && clock.now() < until
        {
            // Each at a slot of its own: whoever waited for the same limit would call in the same moment.
            self.wait_until(self.slot(until)).await;
        }
        let now = clock.now();
        let random = random_number(self.world.random());
        if let Some(reason) = self.reason_not_to_call(parcel, now) {
            return parcel.not_called(&parcel.cases(anchor, now, random), reason, now, timing);
        }
        let request = MailRequest {
            body: parcel.body(),
            idempotency_key: parcel.key(),
            batch: parcel.mails().is_some(),
        };
        let raw = self.world.mailer().send(request).await;
        let now = clock.now();
        let http_status = match &raw {
            MailAnswer::Response { status, .. } => Some(*status),
            MailAnswer::TimedOut | MailAnswer::Disconnected => None,
        };
        let answers = match parcel.mails() {
            Some(mails) => classify_list(&raw, mails, now),
            None => vec![classify(&raw, now)],
        };
        let usual = &self.config.sender.from;
        let answers: Vec<Answer> = answers
            .into_iter()
            .map(|answer| of_one_mail(answer, parcel.body(), usual))
            .collect();
        let accepted = |answer: &&Answer| matches!(answer, Answer::Accepted { .. });
        if let (Some(row), Some(answer)) = (
            parcel.rows.first(),
            answers.iter().find(accepted).or_else(|| answers.first()),
        ) {
            self.learn(answer, &row.id, now);
        }
        parcel.answered(&parcel.cases(anchor, now, random), &answers, http_status, timing)
    }

    /// The call's slot, or later: where answers were slow, the calls that waited for them keep their distance and do not
    /// make up for the time.
    fn slot(&self, planned_at: Millis) -> Millis {
        let now = self.world.clock().now();
        let at = planned_at.max(self.next_call_at.get()).max(now);
        let interval = self.config.timing.pace_interval_ms().unsigned_abs();
        self.next_call_at.set(at.plus(Duration::from_millis(interval)));
        at
    }

    /// The last look before the bytes leave: nothing may be called that could not be answered within the claim, that is
    /// too late, or that the provider may have forgotten.
    fn reason_not_to_call(&self, parcel: &Parcel, now: Millis) -> Option<NotCalled> {
        let timing = &self.config.timing;
        if let Some((until, waited)) = self.brake.get()
            && (!waited || now < until)
        {
            return Some(NotCalled::Braked { until });
        }
        if now.plus(timing.provider_timeout).plus(timing.skew) > self.claim_ends {
            return Some(NotCalled::LeaseTooShort);
        }
        let too_late = |end: Millis| now >= end;
        if parcel.rows.iter().any(|row| row.not_after.is_some_and(too_late)) {
            return Some(NotCalled::WindowMissed);
        }
        if parcel.doubts() > 0
            && let Some(anchor) = parcel.anchor()
            && timing.window.judge(anchor, now) == Repetition::Closed
        {
            return Some(NotCalled::ProviderWindowClosed);
        }
        self.quiet(parcel, now)
    }

    /// The hours of one of the recipients may have begun since the claim, while the call waited for its slot.
    fn quiet(&self, parcel: &Parcel, now: Millis) -> Option<NotCalled> {
        // The claim has read the zone; should it be gone meanwhile, the next one says so.
        let permitted = |hours: &Hours| {
            hours
                .permitted(self.world.zones(), now)
                .unwrap_or(now.plus(ZONE_GONE_WAIT))
        };
        let hours = parcel.rows.iter().filter_map(|row| row.hours.as_ref());
        let permitted = hours.map(permitted).max()?;
        let not_after = parcel.rows.iter().filter_map(|row| row.not_after).min();
        let doubt = (parcel.doubts() > 0).then_some(parcel.anchor()).flatten();
        let until = wakes_at(permitted, not_after, doubt, now, &self.config.timing);
        (permitted > now).then_some(NotCalled::OutsideHours { until })
    }

    fn learn(&self, answer: &Answer, id: &str, now: Millis) {
        let log = self.world.log();
        if let Answer::Throttled {
            kind: ThrottleKind::Rate,
            wait,
        } = answer
        {
            self.brake_until(now.plus(*wait), *wait <= BRAKE_WAIT_MAX);
            log.note(
                Level::Info,
                "provider_rate_limited",
                &[("waitMs", Field::Number(whole_ms(*wait)))],
            );
        }
        if let Answer::PayloadConflict = answer {
            log.note(Level::Alarm, "payload_conflict", &[("outboxId", Field::Id(id))]);
        }
        if let Some(pause) = verdict::pause_of(answer, &self.config.timing) {
            self.brake_until(now.plus(Duration::from_millis(pause.base_ms.unsigned_abs())), false);
            self.pause.replace(Some(pause));
        }
    }

    /// Answers come in any order: a short wait never takes back a long one, nor an earlier end a later one.
    fn brake_until(&self, until: Millis, waited: bool) {
        let (until, waited) = match self.brake.get() {
            Some((other, other_waited)) => (until.max(other), waited && other_waited),
            None => (until, waited),
        };
        self.brake.set(Some((until, waited)));
    }

    async fn wait_until(&self, at: Millis) {
        let clock = self.world.clock();
        let wait = at.since(clock.now());
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
    }
}

/// A sender's domain that is not verified is everybody's trouble only where it is everybody's sender. A mail that brought
/// a sender of another domain is refused by itself, and so is a batch with such a mail: its bytes are sealed, so no later
/// try could do better, and a pause for its sake would stop the others again after each probe.
fn of_one_mail(answer: Answer, body: &str, usual_sender: &str) -> Answer {
    #[derive(serde::Deserialize)]
    struct Sent {
        from: String,
    }
    if let Answer::Misconfigured {
        code: code @ ProviderCode::DomainNotVerified,
    } = answer
    {
        let sent = serde_json::from_str::<Sent>(body)
            .map(|one| vec![one])
            .or_else(|_| serde_json::from_str::<Vec<Sent>>(body))
            .unwrap_or_default();
        if sent.iter().any(|one| domain(&one.from) != domain(usual_sender)) {
            return Answer::Refused { code };
        }
    }
    answer
}

fn domain(mailbox: &str) -> Option<String> {
    let (_, domain) = mailbox.rsplit_once('@')?;
    Some(domain.trim_end_matches('>').to_ascii_lowercase())
}
