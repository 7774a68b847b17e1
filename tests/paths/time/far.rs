//! Times beyond what a queue can hold: they stay in the database, and no delay is longer than the platform's.

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::{Fault, FaultKind, RetryAfter};

use super::*;
use crate::doors::post;
use crate::support::TestQueue;

/// The longest delay that is ever asked for, in seconds; the platform's own limit is a day.
const DELAY_MAX: u32 = 3_600;

#[tokio::test]
async fn a_mail_of_tomorrow_or_of_next_year_waits_in_the_database() {
    for (at_time, wait) in [
        ("2026-01-02T06:00:00Z", 30 * HOUR),
        ("2027-02-01T00:00:00Z", 396 * 24 * HOUR),
        ("2026-01-02T11:30:00+05:30", 30 * HOUR),
    ] {
        let world = TestWorld::new().await;
        let id = record(&world, "n1", json!({ "notBefore": at_time })).await;
        assert_eq!(world.broker.len(), 0, "{at_time}: nothing is handed to the queue");
        // A message that comes too early is not called, and asks for no delay either.
        assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
        world.clock.advance(wait - 2 * MINUTE);
        assert_eq!(world.tick().await.published, 0, "{at_time}");
        world.clock.advance(2 * MINUTE);
        assert_eq!(world.tick().await.published, 1, "{at_time}");
        let delays: Vec<u32> = world
            .broker
            .take()
            .iter()
            .map(|message| message.delay_seconds)
            .collect();
        assert_eq!(delays, [0], "{at_time}");
        world.deliver_ids(&[&id]).await;
        assert_eq!(
            (world.status(&id).await.as_str(), world.mailer.calls()),
            ("sent", 1),
            "{at_time}"
        );
    }
}

#[tokio::test]
async fn a_time_that_is_over_is_now_and_what_names_no_instant_is_refused() {
    let world = TestWorld::new().await;
    let id = record(&world, "n1", json!({ "notBefore": "2020-01-01T00:00:00Z" })).await;
    assert_eq!(world.broker.len(), 1);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
    for (text, code) in [
        ("2026-02-30T10:00:00Z", "time_invalid"),
        ("2026-02-20T10:00:00", "time_without_offset"),
        ("30h", "time_invalid"),
    ] {
        let answer = post(
            &world,
            &json!({ "intents": [notice("n2", &json!({ "notBefore": text }))] }),
        )
        .await;
        assert_eq!(
            (answer.status, &answer.body["errors"][0]["code"]),
            (422, &json!(code)),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_provider_that_names_days_costs_no_long_delay() {
    let world = TestWorld::new().await;
    let id = record(&world, "n1", json!({})).await;
    let fault = Fault {
        retry_after: Some(RetryAfter::Text("200000".to_owned())),
        ..Fault::once(FaultKind::RateLimit)
    };
    world
        .mailer
        .model
        .borrow_mut()
        .faults()
        .add(vec![fault])
        .expect("a rule fits");
    let decisions = world.deliver().await;
    for decision in decisions {
        assert!(
            matches!(
                decision,
                Decision::Acknowledge
                    | Decision::Retry {
                        delay_seconds: 1..=DELAY_MAX
                    }
            ),
            "{decision:?}"
        );
    }
    assert_eq!(world.status(&id).await, "retry");
    let queue = TestQueue::default();
    queue.run_for(&world, 80 * HOUR, 10 * MINUTE).await;
    assert_eq!((world.status(&id).await.as_str(), world.mailer.accepted()), ("sent", 1));
}
