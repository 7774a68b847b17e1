//! Pace and order: what one domain or one family must wait for, nobody else waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use sealpost::devstack::provider::fault::{Fault, FaultKind, RetryAfter};

use crate::support::{ONE_BY_ONE, TestQueue, TestWorld, config_with, integer, notice_with_key, policy_with, text};

const SECOND: Duration = Duration::from_secs(1);

async fn paced(settings: &[(&'static str, &'static str)]) -> TestWorld {
    let mut all = settings.to_vec();
    all.extend(ONE_BY_ONE);
    let world = TestWorld::with(config_with(&all)).await;
    world.mailer.latency.set(Duration::ZERO);
    world
}

fn to(key: &str, family: &str, domain: &str) -> Json {
    let mut intent = notice_with_key(key);
    intent["family"] = json!(family);
    intent["to"] = json!(format!("{key}@{domain}"));
    intent
}

/// When each domain was called, in ms since the test's start, in the order of the calls.
pub(crate) fn calls_by_domain(world: &TestWorld) -> BTreeMap<String, Vec<i64>> {
    let mut calls: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for seen in world.mailer.model.borrow().ledger().requests() {
        let (_, domain) = seen.to[0].rsplit_once('@').expect("an address");
        let domain = domain.trim_end_matches('>').to_owned();
        calls.entry(domain).or_default().push(seen.at.get() - 1_767_225_600_000);
    }
    calls
}

fn least_gap(times: &[i64]) -> i64 {
    times.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(i64::MAX)
}

#[tokio::test]
async fn ninety_mails_to_one_slow_domain_hold_back_no_other_of_their_batch() {
    let world = paced(&[
        ("PACE_PER_SECOND", "5"),
        ("PACE_PER_DOMAIN_PER_MINUTE", "30"),
        ("PACE_WAIT_MS", "10000"),
    ])
    .await;
    let mut intents: Vec<Json> = (0..90)
        .map(|n| to(&format!("s{n}"), "notice", "slow.example"))
        .collect();
    intents.extend((0..10).map(|n| to(&format!("f{n}"), "notice", &format!("fast{n}.example"))));
    world.intake(&intents).await.expect("recorded");
    let queue = TestQueue::default();
    world.transport.take_requests();
    queue.deliver(&world).await;
    assert_eq!(world.transport.take_requests(), 3, "round trips");
    let calls = calls_by_domain(&world);
    assert_eq!(calls["slow.example"], [0, 2_000, 4_000, 6_000, 8_000, 10_000]);
    assert_eq!(calls.len(), 11, "{calls:?}");
    let fast: Vec<i64> = (0..10)
        .flat_map(|n| calls[&format!("fast{n}.example")].clone())
        .collect();
    // The slot at 2,000 is the slow domain's.
    let expected: Vec<i64> = (1..=9).chain([11]).map(|n| n * 200).collect();
    assert_eq!(fast, expected, "at the provider's own pace");
    let rows = world
        .sql(
            "SELECT count(*), max(attempt_count), max(doubts) FROM outbox WHERE status = 'retry' AND cause = 'paced'",
            vec![],
        )
        .await;
    assert_eq!(rows[0].iter().map(integer).collect::<Vec<_>>(), [84, 0, 0]);
    queue.run_for(&world, 400 * SECOND, 10 * SECOND).await;
    assert_eq!(world.count("sent").await, 100);
    let slow = &calls_by_domain(&world)["slow.example"];
    assert!(least_gap(slow) >= 2_000, "{slow:?}");
}

#[tokio::test]
async fn a_familys_pace_holds_behind_a_crowd_of_others_too() {
    let mut world = paced(&[("PACE_PER_SECOND", "5"), ("PACE_WAIT_MS", "30000")]).await;
    world.config.policy = policy_with(|family| match family.name {
        "notice" => family.priority = 0,
        "report" => family.pace_per_minute = 60,
        _ => {}
    });
    let mut intents: Vec<Json> = (0..10)
        .map(|n| to(&format!("r{n}"), "report", "slow.example"))
        .collect();
    intents.extend((0..50).map(|n| to(&format!("n{n}"), "notice", "fast.example")));
    world.intake(&intents).await.expect("recorded");
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    let calls = calls_by_domain(&world);
    assert_eq!(calls["fast.example"].len(), 50, "{calls:?}");
    assert_eq!(calls["slow.example"].len(), 10, "{calls:?}");
    assert!(least_gap(&calls["slow.example"]) >= 1_000, "{calls:?}");
    let mut all: Vec<i64> = calls.into_values().flatten().collect();
    all.sort_unstable();
    assert!(least_gap(&all) >= 200, "{all:?}");
    // The next batch begins where the buckets are.
    let more: Vec<Json> = (10..13)
        .map(|n| to(&format!("r{n}"), "report", "slow.example"))
        .collect();
    world.intake(&more).await.expect("recorded");
    queue.deliver(&world).await;
    let slow = calls_by_domain(&world)["slow.example"].clone();
    assert_eq!(slow.len(), 13);
    assert!(least_gap(&slow) >= 1_000, "{slow:?}");
}

#[tokio::test]
async fn the_urgent_ones_of_a_batch_are_claimed_and_sent_first() {
    let mut world = paced(&[("PACE_PER_SECOND", "5"), ("SUBREQUEST_BUDGET", "28")]).await;
    world.config = config_with(&[
        ("PACE_PER_SECOND", "5"),
        ("CALLS_AT_ONCE", "1"),
        ("PROVIDER_TIMEOUT_MS", "5000"),
        ("SUBREQUEST_BUDGET", "28"),
    ]);
    world.config.policy = policy_with(|family| {
        if family.name == "report" {
            family.priority = 0;
        }
    });
    let mut intents: Vec<Json> = (0..60)
        .map(|n| to(&format!("n{n}"), "notice", "late.example"))
        .collect();
    intents.extend((0..15).map(|n| to(&format!("r{n}"), "report", "urgent.example")));
    world.intake(&intents).await.expect("recorded");
    world.deliver().await;
    let calls = calls_by_domain(&world);
    assert_eq!((calls["urgent.example"].len(), calls["late.example"].len()), (15, 5));
    assert!(
        calls["urgent.example"].last() < calls["late.example"].first(),
        "{calls:?}"
    );
}

#[tokio::test]
async fn rows_remember_priority_and_domain_and_no_domain_stands_there_in_plain() {
    let world = TestWorld::new().await;
    for (key, domain) in [("a", "One.Example"), ("b", "one.example"), ("c", "two.example")] {
        world.intake(&[to(key, "notice", domain)]).await.expect("recorded");
    }
    let rows = world
        .sql(
            "SELECT domain_hash, recipient_hash, priority, bulk FROM outbox ORDER BY seq",
            vec![],
        )
        .await;
    let hash = |at: usize| text(&rows[at][0]);
    assert_eq!((hash(0), hash(0).len()), (hash(1), 64));
    assert_ne!(hash(0), hash(2));
    assert_ne!(hash(0), text(&rows[0][1]));
    assert_eq!((integer(&rows[0][2]), integer(&rows[0][3])), (5, 0));
    for table in ["outbox", "pace", "events", "attempts"] {
        let all = world.sql(format!("SELECT * FROM {table}").leak(), vec![]).await;
        assert!(!format!("{all:?}").to_lowercase().contains("one.example"), "{table}");
    }
}

#[tokio::test]
async fn an_answer_lost_where_slots_were_taken_takes_no_second_ones() {
    let world = paced(&[("PACE_PER_SECOND", "1"), ("PACE_PER_DOMAIN_PER_MINUTE", "30")]).await;
    let intents: Vec<Json> = (0..3).map(|n| to(&format!("n{n}"), "notice", "slow.example")).collect();
    world.intake(&intents).await.expect("recorded");
    world
        .transport
        .next_with("INSERT INTO attempts", crate::support::Wire::LoseAnswer);
    world.deliver().await;
    assert_eq!(calls_by_domain(&world)["slow.example"], [50, 2_000, 4_000]);
    let rows = world
        .sql(
            "SELECT name, next_free_at - 1767225600000 FROM pace ORDER BY name",
            vec![],
        )
        .await;
    let free: Vec<i64> = rows.iter().map(|row| integer(&row[1])).collect();
    assert_eq!(free, [6_000, 5_000], "domain, provider");
}

#[tokio::test]
async fn whoever_waits_for_the_same_short_limit_keeps_the_pace_after_it() {
    let world = TestWorld::with(config_with(&[("PACE_PER_SECOND", "5"), ("CALLS_AT_ONCE", "5")])).await;
    world.clock.wake_in_order();
    world.notices(20).await;
    let fault = Fault {
        retry_after: Some(RetryAfter::Seconds(1)),
        ..Fault::once(FaultKind::RateLimit)
    };
    let add = |fault| world.mailer.model.borrow_mut().faults().add(vec![fault]);
    add(fault).expect("a rule");
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    let mut calls = calls_by_domain(&world).remove("example.com").expect("calls");
    calls.sort_unstable();
    assert_eq!(calls.len(), 20, "nobody is sent back for a second");
    assert!(calls[1] - calls[0] >= 1_000, "the limit is waited for: {calls:?}");
    assert!(least_gap(&calls) >= 200, "{calls:?}");
}

#[tokio::test]
async fn buckets_that_have_been_full_for_long_go() {
    let world = paced(&[("PACE_PER_SECOND", "5"), ("PACE_PER_DOMAIN_PER_MINUTE", "60")]).await;
    world.notices(1).await;
    world.deliver().await;
    let count = async || integer(&world.sql("SELECT count(*) FROM pace", vec![]).await[0][0]);
    assert_eq!(count().await, 2);
    world.tick().await;
    assert_eq!(count().await, 2);
    world.clock.advance(3_700 * SECOND);
    world.tick().await;
    assert_eq!(count().await, 0);
}
