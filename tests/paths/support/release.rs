//! A release of many bulk mails at once, with one consumer, a tick each minute and an urgent mail beside each tick: what it
//! took, and what it cost from its first rows to its last.

use std::collections::BTreeMap;
use std::time::Duration;

use sealpost::ports::Clock as _;
use serde_json::{Value as Json, json};

use super::policy::{ONE_BY_ONE, policy_with};
use super::queue::TestQueue;
use super::settings::config_with;
use super::world::{TestWorld, integer, notice_with_key};

pub const PER_SECOND: usize = 5;
pub const FAMILY_PER_MINUTE: usize = 60;
pub const DOMAIN_PER_MINUTE: usize = 120;

/// What so many rows cost, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    pub rows: usize,
    /// Round trips of consumers, ticks and urgent mails' intakes left out.
    pub consumer: usize,
    /// Rows that the engine visited for consumers and ticks.
    pub visited: u64,
    /// The bytes of the largest request with its answer.
    pub largest: usize,
    /// Wall-clock time.
    pub took: Duration,
}

/// What a release came to.
#[derive(Debug)]
pub struct Release {
    pub rows: usize,
    pub calls: usize,
    /// Business keys of which more than one mail went out.
    pub twice: usize,
    /// Bulk rows that are not sent at the end.
    pub unsent: i64,
    pub took: Duration,
    /// At most so many calls in any second and in any minute, of the paced family and of one domain in any minute.
    pub second: usize,
    pub minute: usize,
    pub family: usize,
    pub domain: usize,
    pub most_queued: usize,
    pub ticks: u64,
    pub batches: usize,
    /// From the record of an urgent mail to its call, the slowest.
    pub urgent: Duration,
    /// Tenths of the rows.
    pub parts: Vec<Part>,
}

impl Release {
    /// The time at the set pace, and nothing else.
    pub fn bare(&self) -> Duration {
        Duration::from_secs_f64(self.calls as f64 / PER_SECOND as f64)
    }

    /// How much of the set pace was used.
    pub fn share(&self) -> f64 {
        self.bare().as_secs_f64() / self.took.as_secs_f64()
    }

    pub fn consumer_per_100(&self, part: &Part) -> f64 {
        part.consumer as f64 * 100.0 / part.rows.max(1) as f64
    }

    /// One line.
    pub fn line(&self) -> String {
        let most = |of: fn(&Part) -> f64| self.parts.iter().map(of).fold(0.0, f64::max);
        format!(
            "{} rows in {:.0} s: {:.1} % of the pace ({PER_SECOND} a second); at most {} calls a second, {} a minute, {} of \
             the paced family and {} of a domain a minute; {} ticks, {} batches, at most {:.1} consumer round trips per 100 \
             rows; at most {:.0} rows visited per mail, {:.0} kB in one round trip, {} messages in the queue; an urgent mail \
             left within {:.1} s",
            self.rows,
            self.took.as_secs_f64(),
            100.0 * self.share(),
            self.second,
            self.minute,
            self.family,
            self.domain,
            self.ticks,
            self.batches,
            most(|part| part.consumer as f64 * 100.0 / part.rows.max(1) as f64),
            most(|part| part.visited as f64 / part.rows.max(1) as f64),
            most(|part| part.largest as f64) / 1_000.0,
            self.most_queued,
            self.urgent.as_secs_f64(),
        )
    }
}

/// The most calls that any window of `length` ms has, by the provider's own account.
fn most_within(times: &mut [i64], length: i64) -> usize {
    times.sort_unstable();
    let (mut most, mut first) = (0, 0);
    for (last, at) in times.iter().enumerate() {
        while times[first] <= at - length {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

async fn recorded(count: usize) -> TestWorld {
    let mut settings = vec![
        ("PACE_PER_SECOND", "5"),
        ("PACE_PER_DOMAIN_PER_MINUTE", "120"),
        ("PACE_WAIT_MS", "30000"),
    ];
    settings.extend(ONE_BY_ONE);
    let mut world = TestWorld::with(config_with(&settings)).await;
    world.mailer.latency.set(Duration::from_millis(20));
    world.config.policy = policy_with(|family| {
        if family.name == "announcement" {
            family.pace_per_minute = 60;
        }
        // At any hour, and each mail by its own call.
        (family.quiet_hours, family.batch) = (None, false);
    });
    let intents: Vec<Json> = (0..count)
        .map(|n| {
            let mut intent = notice_with_key(&format!("b{n}"));
            intent["family"] = json!(if n % 10 == 0 { "announcement" } else { "campaign" });
            let domain = if n % 4 == 0 { 0 } else { n % 40 };
            intent["to"] = json!(format!("b{n}@d{domain}.example"));
            intent
        })
        .collect();
    for chunk in intents.chunks(100) {
        world.intake(chunk).await.expect("recorded");
    }
    world
}

/// Releases so many campaign mails to forty domains (a quarter of them to one); a tenth of them are of a family with its
/// own pace. One consumer takes a batch after the other.
#[allow(
    clippy::disallowed_methods,
    reason = "what it takes on this machine is measured by the machine's clock"
)]
pub async fn release(count: usize) -> Release {
    let world = recorded(count).await;
    let began = world.clock.now();
    world.transport.take_requests();
    world.transport.take_largest();
    let queue = TestQueue::default();
    let mut urgent = BTreeMap::new();
    let (mut ticks, mut batches, mut most_queued) = (0u64, 0, 0);
    let (mut parts, mut part, mut part_began) = (Vec::new(), Part::default(), std::time::Instant::now());
    let visited = || world.transport.engine().rows().read;
    let mut last_call = began;
    loop {
        if world.clock.now().since(began) >= Duration::from_secs(60 * ticks) {
            let key = format!("u{ticks}");
            let mut intent = notice_with_key(&key);
            intent["to"] = json!(format!("{key}@urgent.example"));
            world.intake(&[intent]).await.expect("recorded");
            urgent.insert(format!("{key}@urgent.example"), world.clock.now());
            world.transport.take_requests();
            world.broker.batches.set(0);
            let before = visited();
            let tick = world.tick().await;
            part.visited += visited() - before;
            let used = world.transport.take_requests() + world.broker.batches.get();
            assert!(
                used <= 3 * tick.published.div_ceil(100) + 2,
                "{used} requests for {tick:?}"
            );
            ticks += 1;
        }
        most_queued = most_queued.max(queue.len() + world.broker.len());
        let calls = |world: &TestWorld| world.mailer.model.borrow().ledger().requests().len();
        let (before, visited_before) = (calls(&world), visited());
        if queue.deliver(&world).await == 0 {
            world.clock.advance(Duration::from_secs(1));
            if before >= count + urgent.len() {
                break;
            }
        } else {
            let used = world.transport.take_requests();
            assert!(used <= 3, "{used} round trips for a batch");
            part.consumer += used;
            part.visited += visited() - visited_before;
            part.rows += calls(&world) - before;
            batches += 1;
            last_call = world.clock.now();
        }
        if part.rows >= count.div_ceil(10) {
            part.largest = world.transport.take_largest();
            part.took = part_began.elapsed();
            part_began = std::time::Instant::now();
            parts.push(std::mem::take(&mut part));
        }
        assert!(ticks < 10 * count as u64 / 300 + 60, "it never ends");
    }
    let unsent = world
        .sql(
            "SELECT count(*) FROM outbox WHERE bulk = 1 AND status <> 'sent'",
            vec![],
        )
        .await;
    let model = world.mailer.model.borrow();
    let (mut all, mut announcements) = (Vec::new(), Vec::new());
    let mut by_domain: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut to_whom: BTreeMap<&str, usize> = BTreeMap::new();
    let mut slowest = Duration::ZERO;
    for seen in model.ledger().requests() {
        let (at, to) = (seen.at.get(), seen.to[0].as_str());
        let (name, domain) = to.rsplit_once('@').expect("an address");
        all.push(at);
        *to_whom.entry(to).or_default() += 1;
        by_domain.entry(domain).or_default().push(at);
        if let Some(recorded) = urgent.get(to) {
            slowest = slowest.max(seen.at.since(*recorded));
        } else if name.trim_start_matches('b').parse::<usize>().expect("a number") % 10 == 0 {
            announcements.push(at);
        }
    }
    Release {
        rows: count,
        calls: all.len(),
        twice: to_whom.values().filter(|mails| **mails > 1).count(),
        unsent: integer(&unsent[0][0]),
        took: last_call.since(began),
        second: most_within(&mut all, 1_000),
        minute: most_within(&mut all, 60_000),
        family: most_within(&mut announcements, 60_000),
        domain: by_domain
            .values_mut()
            .map(|times| most_within(times, 60_000))
            .max()
            .unwrap_or_default(),
        most_queued,
        ticks,
        batches,
        urgent: slowest,
        parts,
    }
}
