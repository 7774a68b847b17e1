//! Public reports of outboxes without a back-off: three attempts within six seconds, lost to a recipient who greylists; a
//! loop that claims and fails as fast as it can. Here a whole crowd meets an outage (scenario 49).

use std::collections::BTreeMap;
use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::ports::Clock as _;
use serde_json::{Value as Json, json};

use crate::support::{ONE_BY_ONE, TestQueue, TestWorld, config_with, integer, notice_with_key};

const ROWS: usize = 500;
const PER_SECOND: usize = 5;
const STEP: Duration = Duration::from_secs(10);
const OUTAGE: Duration = Duration::from_secs(600);

/// The most of these times that any window of a second has.
fn most_within_a_second(times: &[i64]) -> usize {
    let most = |first: usize| {
        times[first..]
            .iter()
            .take_while(|at| **at < times[first] + 1_000)
            .count()
    };
    (0..times.len()).map(most).max().unwrap_or_default()
}

#[tokio::test]
async fn scenario_49_five_hundred_mails_outlast_ten_minutes_of_503_without_a_burst() {
    let mut settings = vec![("PACE_PER_SECOND", "5"), ("PACE_WAIT_MS", "30000")];
    settings.extend(ONE_BY_ONE);
    let world = TestWorld::with(config_with(&settings)).await;
    let mut ids = Vec::new();
    for part in 0..ROWS / 100 {
        let of_the_part = part * 100..(part + 1) * 100;
        let intents: Vec<Json> = of_the_part
            .map(|n| {
                let mut intent = notice_with_key(&format!("s{n}"));
                intent["to"] = json!(format!("s{n}@d{}.example", n % 50));
                intent
            })
            .collect();
        let accepted = world.intake(&intents).await.expect("recorded");
        ids.extend(accepted.receipts.into_iter().map(|receipt| receipt.id));
    }
    world.mailer.fault(FaultKind::ServiceUnavailable, -1);
    let queue = TestQueue::default();
    let began = world.clock.now();
    queue.deliver_all(&world).await;
    while world.clock.now().since(began) < OUTAGE {
        queue.run_for(&world, STEP, STEP).await;
    }
    assert_eq!(world.mailer.accepted(), 0, "an outage");
    assert_eq!(
        world.count("retry").await,
        i64::try_from(ROWS).expect("a count"),
        "nobody gives up"
    );
    let failed = world.mailer.calls();

    // The retries are spread: no second has a twentieth of them, and hardly two are due at one instant.
    let rows = world
        .sql(
            "SELECT next_attempt_at FROM outbox WHERE status = 'retry' ORDER BY next_attempt_at",
            vec![],
        )
        .await;
    let due: Vec<i64> = rows.iter().map(|row| integer(&row[0])).collect();
    let mut instants = due.clone();
    instants.dedup();
    let crowd = most_within_a_second(&due);
    assert!(instants.len() * 100 >= ROWS * 95, "{} instants", instants.len());
    assert!(crowd < ROWS / 20, "{crowd} are due within a second");

    world.mailer.clear_faults();
    let mended = world.clock.now();
    while world.count("sent").await < i64::try_from(ROWS).expect("a count") {
        queue.run_for(&world, STEP, STEP).await;
        assert!(world.clock.now().since(mended) < 3 * OUTAGE, "it never ends");
    }
    for id in &ids {
        assert_eq!(world.status(id).await, "sent");
    }
    assert_eq!(world.mailer.accepted(), ROWS, "one mail each");
    let model = world.mailer.model.borrow();
    let (mut all, mut by_key): (Vec<i64>, BTreeMap<&str, Vec<i64>>) = Default::default();
    for seen in model.ledger().requests() {
        all.push(seen.at.get());
        let key = seen.idempotency_key.as_deref().expect("a key");
        by_key.entry(key).or_default().push(seen.at.get());
    }
    assert_eq!(by_key.len(), ROWS, "one key each");
    all.sort_unstable();
    let second = most_within_a_second(&all);
    assert!(second <= PER_SECOND, "{second} calls within a second");
    // Each wait is at least half of the one that its number asks for: 10 s, 20 s, 40 s and so on.
    let mut fewest = usize::MAX;
    for times in by_key.values() {
        fewest = fewest.min(times.len());
        for (number, pair) in times.windows(2).enumerate() {
            let wait = pair[1] - pair[0];
            assert!(wait >= 5_000 << number, "retry {number} after {wait} ms");
        }
    }
    assert!(fewest >= 2, "everybody met the outage");
    println!(
        "{failed} calls in the outage, {} after it; at most {second} calls and {crowd} due retries within a second; all out \
         {:.0} s after the end",
        all.len() - failed,
        world.clock.now().since(mended).as_secs_f64()
    );
}
