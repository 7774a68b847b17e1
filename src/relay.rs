//! The relay: the scheduled sweep that carries whatever was left.
//!
//! It loops over pages until nothing is due, within a bound on pages and time. IO steps of a page, and what a death
//! right after each leaves behind:
//!
//! 1. *Page* (one transaction): rows that are over are ended, rows that a later version can read are driven again,
//!    paused and held rows are put aside, the next ones are reserved. Dead after it: the reservations run out, and the
//!    next tick finds the rows again.
//! 2. *Send*, and 3. *mark*: as for every publication (see [`crate::publish`]).
//! 4. *Health record* and *prune* (one transaction), once a tick. Dead before it: `/health` shows an old tick, which is
//!    the truth, and the next tick prunes.
//! 5. *Look-up* of an unknown row, where a key is configured that may read (see [`crate::reconcile`]). Last, because
//!    nothing waits for them. Dead in them: the rows are due again ten minutes later.
//!
//! Two ticks may overlap: a reserved row is in nobody else's page.

use core::time::Duration;

use crate::config::{Config, PROVIDER, Timing, timing::BATCH_MAX};
use crate::outbox::time::Millis;
use crate::ports::{Broker, BrokerError, Clock as _, Field, Level, Log as _, World};
use crate::publish::publish_page;
use crate::reconcile::{self, Asked};
use crate::store::database::DatabaseError;
use crate::store::inspect::{TickRecord, TickSeen, record_tick};
use crate::store::look_up::due;
use crate::store::publish::{PageRequest, reserve_page};

/// Pages of one tick: 100 × 100 rows is more than two ticks of any pace we know; what remains is reported.
const PAGES_MAX: usize = 100;
/// A tick stops opening pages after this long, so that it ends before the next but one begins.
const TICK_TIME_MAX: Duration = Duration::from_secs(50);
/// Requests to the database and the queue that a page of up to a hundred rows needs: reserve, send, mark.
const PAGE_SUBREQUESTS: u32 = 3;
/// Requests that each further hundred rows of a page need: send, mark.
const CHUNK_SUBREQUESTS: u32 = 2;
/// Rows of one page at most where bulk rows are among them. A page looks at all that is admitted, so there should be few pages; a thousand
/// envelopes are 100 kB.
const BULK_ROWS_MAX: usize = 1_000;
/// No burst is longer than this part of what a claimed row may wait for its slot: urgent mails take slots of a burst, too.
const BURST_OF_WAIT: i64 = 2;
/// The first wait before a row is published again; it doubles with each publication.
const REPUBLISH_BASE_MS: i64 = 30_000;
/// The longest such wait: an outage's end is noticed within a quarter of an hour.
const REPUBLISH_CAP_MS: i64 = 900_000;
/// Unknown rows that one tick looks up at most: they wait for days as it is, and mails need the pace.
const LOOK_UP_ROWS_MAX: u32 = 1;
/// Calls of such a look-up at most. So many slots of the pace are kept from mails each minute while unknown rows are due:
/// at one call a second a tenth of it. Five pages and their one candidate fit; for more, a person may ask.
const LOOK_UP_CALLS_MAX: u32 = 6;
/// Requests to the database that look-ups need: which are due, begin, finish, and one repetition.
const LOOK_UP_SUBREQUESTS: u32 = 4;
/// With fewer calls than a page and a mail, a look-up can find nothing.
const LOOK_UP_CALLS_MIN: u32 = 2;
/// Bulk rows are admitted for so many ticks: with one, the queue would run dry before each tick; with more, an urgent
/// mail would wait behind them.
const ADMITTED_TICKS: i64 = 2;
/// How long a held row is put aside.
const PUT_ASIDE_MS: i64 = 3_600_000;

/// What a tick did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Rows handed to the queue.
    pub published: usize,
    /// Rows that were ended, driven again or put aside.
    pub moved: usize,
    /// Rows that are still due (counted up to 1000); `None` where it could not be asked.
    pub remaining: Option<i64>,
    /// Why it stopped early, if it did.
    pub stopped_by: Option<&'static str>,
}

/// Runs one tick. Never fails: what went wrong is in the note, in the record, and is mended by the next tick.
pub async fn tick<W: World>(world: &W, broker: &impl Broker, config: &Config) -> Tick {
    let clock = world.clock();
    let began = clock.now();
    let mut tick = Tick::default();
    let mut broker_error: Option<BrokerError> = None;
    let mut requests_left = config.timing.subrequest_budget.saturating_sub(2).max(PAGE_SUBREQUESTS);
    // Unless a page finds nothing, more may be due than a tick carries.
    tick.stopped_by = Some("pages_used_up");
    for _ in 0..PAGES_MAX {
        if requests_left < PAGE_SUBREQUESTS {
            break;
        }
        let now = clock.now();
        if now.since(began) >= TICK_TIME_MAX {
            tick.stopped_by = Some("tick_time_over");
            break;
        }
        let request = page_request(config, now, requests_left);
        requests_left = requests_left.saturating_sub(PAGE_SUBREQUESTS);
        let page = match reserve_page(world.database(), &request).await {
            Ok(page) => page,
            Err(error) => {
                tick.stopped_by = Some(error.code());
                break;
            }
        };
        note_people(world, page.ask_for_a_person);
        tick.moved = tick.moved.saturating_add(page.moved);
        let more_chunks = u32::try_from(page.reserved.len().saturating_sub(1) / BATCH_MAX).unwrap_or(u32::MAX);
        requests_left = requests_left.saturating_sub(CHUNK_SUBREQUESTS.saturating_mul(more_chunks));
        if page.reserved.is_empty() && page.moved == 0 {
            tick.stopped_by = None;
            break;
        }
        let published = publish_page(world, broker, config, &page.reserved).await;
        tick.published = tick.published.saturating_add(published.taken);
        if let Some(error) = published.refused {
            tick.stopped_by = Some(error.code());
            broker_error = Some(error);
            break;
        }
    }
    finish(world, config, &mut tick, broker_error.map(|error| error.code())).await;
    look_ups(
        world,
        config,
        began.plus(TICK_TIME_MAX),
        requests_left.saturating_add(1),
    )
    .await;
    tick
}

/// Asks the provider about the next unknown rows, within the time and the requests that the tick has left.
async fn look_ups<W: World>(world: &W, config: &Config, ends_at: Millis, requests_left: u32) {
    let now = world.clock().now();
    let calls = requests_left.saturating_sub(LOOK_UP_SUBREQUESTS) / LOOK_UP_ROWS_MAX;
    let calls_max = calls.min(LOOK_UP_CALLS_MAX);
    if config.credentials.provider_reading.is_none() || calls_max < LOOK_UP_CALLS_MIN || now >= ends_at {
        return;
    }
    let asked = Asked {
        order: None,
        calls_max,
        ends_at,
    };
    let looked_up = match due(world.database(), now, LOOK_UP_ROWS_MAX, reconcile::LOOK_UPS_MAX).await {
        Ok(rows) if rows.is_empty() => return,
        Ok(rows) => {
            let ids: Vec<&str> = rows.iter().map(String::as_str).collect();
            reconcile::look_up(world, config, &ids, &asked).await.map(|_| ())
        }
        Err(error) => Err(error),
    };
    if let Err(error) = looked_up {
        world
            .log()
            .note(Level::Warn, "look_up_failed", &[("error", Field::Code(error.code()))]);
    }
}

fn note_people<W: World>(world: &W, rows: usize) {
    if rows > 0 {
        let rows = Field::Number(i64::try_from(rows).unwrap_or(i64::MAX));
        world
            .log()
            .note(Level::Alarm, "rows_ask_for_a_person", &[("rows", rows)]);
    }
}

async fn finish<W: World>(world: &W, config: &Config, tick: &mut Tick, broker_error: Option<&'static str>) {
    let now = world.clock().now();
    let record = TickRecord {
        published: tick.published,
        moved: tick.moved,
        broker_error,
        prune_settled_until: now.minus(config.timing.retention),
        window_ms: i64::try_from(config.timing.window.usable().as_millis()).unwrap_or(i64::MAX),
        known_templates: config.policy.known_templates(),
    };
    let recorded: Result<TickSeen, DatabaseError> = record_tick(world.database(), now, &record).await;
    match recorded {
        Ok(seen) => {
            tick.remaining = Some(seen.remaining);
            tick.moved = tick.moved.saturating_add(seen.stopped);
            note_people(world, seen.ask_for_a_person);
        }
        Err(error) => tick.stopped_by = Some(error.code()),
    }
    let number = |count: usize| Field::Number(i64::try_from(count).unwrap_or(i64::MAX));
    let level = if tick.stopped_by.is_some() {
        Level::Warn
    } else {
        Level::Info
    };
    world.log().note(
        level,
        "relay_tick",
        &[
            ("published", number(tick.published)),
            ("moved", number(tick.moved)),
            ("remaining", Field::Number(tick.remaining.unwrap_or(-1))),
            ("stoppedBy", Field::Code(tick.stopped_by.unwrap_or("nothing_due"))),
        ],
    );
}

fn page_request(config: &Config, now: Millis, requests_left: u32) -> PageRequest<'_> {
    let timing = &config.timing;
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let chunks = usize::try_from(requests_left.saturating_sub(1) / CHUNK_SUBREQUESTS).unwrap_or(usize::MAX);
    PageRequest {
        now,
        rows_max: BATCH_MAX,
        // Never more patient than the intake's own grace asks for: a short profile stays short.
        republish_base_ms: REPUBLISH_BASE_MS.min(ms(timing.pending_grace)),
        republish_cap_ms: REPUBLISH_CAP_MS.min(ms(timing.enqueued_patience)),
        put_aside_ms: PUT_ASIDE_MS,
        window_ms: ms(timing.window.usable()),
        known_templates: config.policy.known_templates(),
        held_families: config.policy.held_families(),
        drain_ms: ms(timing.tick).saturating_mul(ADMITTED_TICKS),
        pace_interval_ms: timing.pace_interval_ms(),
        family_intervals: config.policy.family_intervals(),
        batch_families: config.policy.batch_families(),
        domain_interval_ms: timing.domain_interval_ms(),
        provider: PROVIDER,
        rows_max_with_bulk: BULK_ROWS_MAX.min(BATCH_MAX.saturating_mul(chunks)),
        burst_ms: burst_ms(timing),
    }
}

/// What one claim can send, at the pace; where the provider has none, families and domains may have.
fn burst_ms(timing: &Timing) -> i64 {
    let longest = i64::try_from(timing.pace_wait.as_millis()).unwrap_or(i64::MAX) / BURST_OF_WAIT;
    let rows = i64::try_from(timing.rows_per_invocation()).unwrap_or(i64::MAX);
    match timing.pace_interval_ms() {
        0 => longest,
        interval => interval.saturating_mul(rows).min(longest),
    }
}
