//! A release of many bulk mails at once: it leaves at the set pace, whatever comes meanwhile, with a bounded number of
//! requests and bounded answers.

use std::collections::BTreeMap;
use std::time::Duration;

use sealpost::ports::Clock as _;
use serde_json::{Value as Json, json};

use crate::support::{ONE_BY_ONE, TestQueue, TestWorld, config_with, integer, notice_with_key, policy_with};

const PER_SECOND: usize = 5;
const FAMILY_PER_MINUTE: usize = 60;
const DOMAIN_PER_MINUTE: usize = 120;

/// The most calls that any window of `length` ms has, by the provider's own account.
fn most_within(times: &[i64], length: i64) -> usize {
    let mut most = 0;
    let mut first = 0;
    for (last, at) in times.iter().enumerate() {
        while times[first] <= at - length {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

/// Releases so many campaign mails to forty domains (a quarter of them to one), and a tenth as many renewal notices of a
/// family with its own pace; an urgent mail is recorded each minute.
async fn release(count: usize) {
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
    let list: Vec<Json> = (0..count)
        .map(|n| {
            let mut intent = notice_with_key(&format!("b{n}"));
            intent["family"] = json!(if n % 10 == 0 { "announcement" } else { "campaign" });
            let domain = if n % 4 == 0 { 0 } else { n % 40 };
            intent["to"] = json!(format!("b{n}@d{domain}.example"));
            intent
        })
        .collect();
    for chunk in list.chunks(100) {
        world.intake(chunk).await.expect("recorded");
    }
    let began = world.clock.now();
    world.transport.take_requests();
    world.transport.bodies();
    let queue = TestQueue::default();
    let (mut requests, mut batches, mut ticks, mut most_queued, mut urgent) = (0, 0, 0u64, 0, BTreeMap::new());
    let count_rows = i64::try_from(count).expect("a count");
    loop {
        if world.clock.now().since(began) >= Duration::from_secs(60 * ticks) {
            let key = format!("u{ticks}");
            let mut intent = notice_with_key(&key);
            intent["to"] = json!(format!("{key}@urgent.example"));
            world.intake(&[intent]).await.expect("recorded");
            urgent.insert(format!("{key}@urgent.example"), world.clock.now());
            world.transport.take_requests();
            world.broker.batches.set(0);
            let tick = world.tick().await;
            let used = world.transport.take_requests() + world.broker.batches.get();
            assert!(
                used <= 3 * tick.published.div_ceil(100) + 2,
                "{used} requests for {tick:?}"
            );
            ticks += 1;
        }
        most_queued = most_queued.max(queue.len() + world.broker.len());
        world.transport.take_requests();
        let delivered = queue.deliver(&world).await;
        if delivered > 0 {
            let used = world.transport.take_requests();
            assert!(used <= 3, "{used} round trips for a batch");
            requests += used;
            batches += 1;
        } else {
            world.clock.advance(Duration::from_secs(1));
            let sent = world
                .sql("SELECT count(*) FROM outbox WHERE bulk = 1 AND status = 'sent'", vec![])
                .await;
            if integer(&sent[0][0]) == count_rows {
                break;
            }
        }
        assert!(
            ticks < 10 * u64::try_from(count).expect("a count") / 300 + 60,
            "it never ends"
        );
    }
    let took = world.clock.now().since(began);
    let model = world.mailer.model.borrow();
    let mut all = Vec::new();
    let (mut by_domain, mut announcements): (BTreeMap<String, Vec<i64>>, Vec<i64>) = Default::default();
    let mut slowest = Duration::ZERO;
    for seen in model.ledger().requests() {
        let at = seen.at.get();
        let to = seen.to[0].as_str();
        let (name, domain) = to.rsplit_once('@').expect("an address");
        all.push(at);
        by_domain.entry(domain.to_owned()).or_default().push(at);
        if let Some(recorded) = urgent.get(to) {
            slowest = slowest.max(seen.at.since(*recorded));
        } else if name.trim_start_matches('b').parse::<usize>().expect("a number") % 10 == 0 {
            announcements.push(at);
        }
    }
    all.sort_unstable();
    announcements.sort_unstable();
    let domain_most = by_domain.values_mut().map(|times| {
        times.sort_unstable();
        most_within(times, 60_000)
    });
    let (second, minute) = (most_within(&all, 1_000), most_within(&all, 60_000));
    let (family, domain) = (
        most_within(&announcements, 60_000),
        domain_most.max().unwrap_or_default(),
    );
    let per_100 = requests * 100 / count;
    println!(
        "{count} rows: {:.0} s of the clock ({:.0} at the bare pace), {ticks} ticks, {batches} batches, {per_100} consumer \
         round trips per 100 rows; at most {second} calls a second, {minute} a minute, {family} of the paced family and \
         {domain} of a domain a minute; at most {most_queued} messages in the queue; an urgent mail left within {:.1} s",
        took.as_secs_f64(),
        all.len() as f64 / PER_SECOND as f64,
        slowest.as_secs_f64(),
    );
    assert!(second <= PER_SECOND, "{second} calls within a second");
    assert!(minute <= 60 * PER_SECOND, "{minute} calls within a minute");
    assert!(family <= FAMILY_PER_MINUTE, "{family} of the family within a minute");
    assert!(domain <= DOMAIN_PER_MINUTE, "{domain} of a domain within a minute");
    assert!(slowest <= Duration::from_secs(150), "an urgent mail waited {slowest:?}");
    assert!(most_queued <= 2 * 60 * PER_SECOND + 50, "{most_queued} in the queue");
    assert!(per_100 <= 30, "{per_100} round trips per 100 rows");
}

#[tokio::test]
async fn two_thousand_bulk_mails_leave_at_the_pace_and_urgent_ones_overtake_them() {
    release(2_000).await;
}

/// Run by hand: `cargo test --features cli --test paths drain::forty -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "minutes of real time; the short release is part of every run"]
async fn forty_thousand_bulk_mails_leave_at_the_pace() {
    release(40_000).await;
}
