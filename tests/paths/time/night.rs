//! Quiet hours: nothing is called in them, whatever brings a row at night.

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;

use super::*;
use crate::support::{TestQueue, integer};

/// Attempts of a row, tries that it used, claims.
async fn spent(world: &TestWorld, id: &str) -> (i64, i64, i64) {
    let sql = "SELECT (SELECT count(*) FROM attempts WHERE outbox_id = ?1), attempt_count, claim_count
      FROM outbox WHERE id = ?1";
    let rows = world.sql(sql, vec![id.into()]).await;
    (integer(&rows[0][0]), integer(&rows[0][1]), integer(&rows[0][2]))
}

#[tokio::test]
async fn what_is_recorded_at_night_waits_for_the_morning_in_the_database() {
    for (now, waits) in [
        ("2026-01-05T20:59:59Z", false),
        ("2026-01-05T21:00:00Z", true),
        ("2026-01-05T23:30:00Z", true),
        ("2026-01-06T00:30:00Z", true),
        ("2026-01-06T06:59:00Z", true),
        ("2026-01-06T07:00:00Z", false),
    ] {
        let world = quiet_world(now).await;
        let id = record(&world, "n1", json!({})).await;
        let published = world.broker.take();
        assert_eq!(published.len(), usize::from(!waits), "{now}");
        if waits {
            assert_eq!(window(&world, &id).await.0, "2026-01-06T07:00:00.000Z", "{now}");
            world.deliver_ids(&[&id]).await;
            assert_eq!(world.mailer.calls(), 0, "{now}");
            go_to(&world, "2026-01-06T07:00:00Z");
        }
        world.deliver_ids(&[&id]).await;
        assert_eq!(world.status(&id).await, "sent", "{now}");
    }
}

#[tokio::test]
async fn a_whole_night_costs_no_publication_and_the_morning_sends() {
    let world = quiet_world("2026-01-05T22:00:00Z").await;
    let id = record(&world, "n1", json!({ "timeZone": "Europe/London" })).await;
    let queue = TestQueue::default();
    queue.run_for(&world, 9 * HOUR - 10 * MINUTE, 10 * MINUTE).await;
    assert_eq!((world.mailer.calls(), spent(&world, &id).await), (0, (0, 0, 0)));
    queue.run_for(&world, 20 * MINUTE, 10 * MINUTE).await;
    assert_eq!(
        (world.status(&id).await, spent(&world, &id).await),
        ("sent".to_owned(), (1, 1, 1))
    );
}

#[tokio::test]
async fn a_retry_that_comes_due_at_night_is_given_back_in_two_requests() {
    let world = quiet_world("2026-01-05T20:50:00Z").await;
    let ids = [
        record(&world, "n1", json!({})).await,
        record(&world, "n2", json!({})).await,
    ];
    world.mailer.fault(FaultKind::SecurityError, 2);
    world.deliver().await;
    let before = [spent(&world, &ids[0]).await, spent(&world, &ids[1]).await];
    assert_eq!(before, [(1, 1, 1); 2]);
    go_to(&world, "2026-01-05T23:30:00Z");
    world.transport.take_requests();
    let decisions = world.deliver_ids(&[&ids[0], &ids[1]]).await;
    assert_eq!(
        world.transport.take_requests(),
        2,
        "claim and give back; there is nothing to settle"
    );
    assert_eq!(decisions, [Decision::Acknowledge; 2], "longer than a tick: the relay's");
    for id in &ids {
        assert_eq!(world.state(id).await, owned("retry", "outside_hours"));
        assert_eq!(spent(&world, id).await, (1, 1, 2), "no try burnt, no attempt opened");
        let sql = "SELECT next_attempt_at, relay_at, suspect, claim_token IS NULL FROM outbox WHERE id = ?1";
        let row = world.sql(sql, vec![id.clone().into()]).await;
        let seven = at("2026-01-06T07:00:00Z").get();
        assert_eq!(row, [[seven.into(), seven.into(), 0.into(), 1.into()]]);
    }
    // All night long nobody asks again.
    world.run_for(7 * HOUR, 10 * MINUTE).await;
    assert_eq!((world.mailer.calls(), spent(&world, &ids[0]).await.2), (2, 2));
    world.run_for(HOUR, 10 * MINUTE).await;
    assert_eq!(world.count("sent").await, 2);
}

#[tokio::test]
async fn rows_outside_their_hours_touch_no_row_beside_them() {
    let world = quiet_world("2026-01-05T20:50:00Z").await;
    let sleeps = record(&world, "n1", json!({})).await;
    let wakes = record(
        &world,
        "n2",
        json!({ "timeZone": "Asia/Tokyo", "notBefore": "2026-01-05T22:00:00Z" }),
    )
    .await;
    world.broker.take();
    go_to(&world, "2026-01-05T23:30:00Z");
    world.transport.take_requests();
    let decisions = world.deliver_ids(&[&sleeps, &wakes]).await;
    assert_eq!(world.transport.take_requests(), 3);
    assert_eq!(decisions, [Decision::Acknowledge; 2]);
    assert_eq!(world.state(&sleeps).await, owned("retry", "outside_hours"));
    assert_eq!(world.status(&wakes).await, "sent");
}

#[tokio::test]
async fn the_last_minute_of_the_night_stays_with_the_queue() {
    let world = quiet_world("2026-01-05T20:50:00Z").await;
    let id = record(&world, "n1", json!({})).await;
    world.broker.take();
    go_to(&world, "2026-01-06T06:59:30Z");
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Retry { delay_seconds: 30 }]);
    assert_eq!(world.state(&id).await, owned("retry", "outside_hours"));
}

#[tokio::test]
async fn the_hours_are_looked_at_again_just_before_the_call() {
    // Slots a second apart: the third one is at nine.
    let world = quiet_world_with(
        "2026-01-05T20:59:58Z",
        &[("PACE_PER_SECOND", "1"), ("CALLS_AT_ONCE", "2"), ("LEASE_MS", "700000")],
    )
    .await;
    let mut ids = Vec::new();
    for key in ["n1", "n2", "n3", "n4"] {
        ids.push(record(&world, key, json!({})).await);
    }
    world.mailer.latency.set(Duration::ZERO);
    world.deliver().await;
    assert_eq!(world.mailer.calls(), 2);
    for id in &ids[2..] {
        assert_eq!(world.state(id).await, owned("retry", "outside_hours"));
        let sql = "SELECT outcome, error FROM attempts WHERE outbox_id = ?1";
        let attempts = world.sql(sql, vec![id.clone().into()]).await;
        assert_eq!(attempts, [["not_sent".into(), "outside_hours".into()]]);
        assert_eq!(spent(&world, id).await.1, 0, "no try burnt");
    }
    world.run_for(10 * HOUR + 10 * MINUTE, 10 * MINUTE).await;
    assert_eq!(world.count("sent").await, 4);
}

#[tokio::test]
async fn no_time_that_a_clock_skips_or_shows_twice_is_lost_or_sent_twice() {
    // New York goes from 2:00 to 3:00 on 8 March, and from 2:00 back to 1:00 on 1 November; quiet is 22:00 to 2:30, then
    // 1:15 to 1:45.
    for (hours, recorded, opens) in [
        ((22 * 60, 150), "2026-03-08T05:00:00Z", "2026-03-08T07:00:00.000Z"),
        ((75, 105), "2026-11-01T05:30:00Z", "2026-11-01T05:45:00.000Z"),
        ((75, 105), "2026-11-01T06:30:00Z", "2026-11-01T06:45:00.000Z"),
    ] {
        let config = with_families(&config_with(&[]), |family| family.quiet_hours = Some(hours));
        let world = TestWorld::with(config).await;
        go_to(&world, recorded);
        let id = record(&world, "n1", json!({ "timeZone": "America/New_York" })).await;
        assert_eq!(window(&world, &id).await.0, opens);
        world.run_for(48 * HOUR, 30 * MINUTE).await;
        assert_eq!((world.status(&id).await.as_str(), world.mailer.calls()), ("sent", 1));
    }
}

#[tokio::test]
async fn a_night_that_outlasts_the_window_is_told_at_once() {
    let world = quiet_world("2026-01-05T22:00:00Z").await;
    let id = record(&world, "n1", json!({ "notAfter": "2026-01-06T07:00:00Z" })).await;
    assert_eq!(world.state(&id).await, owned("expired", "window_missed"));
    assert_eq!(
        window(&world, &id).await,
        (json!(null), json!("2026-01-06T07:00:00.000Z"))
    );
    assert_eq!(world.broker.len(), 0);
    // Half a second later would do.
    let id = record(&world, "n2", json!({ "notAfter": "2026-01-06T07:00:00.500Z" })).await;
    assert_eq!(world.status(&id).await, "pending");
    // What is given back in the night expires when its window closes, and not in the morning.
    let world = quiet_world("2026-01-05T20:00:00Z").await;
    let id = record(&world, "n3", json!({ "notAfter": "2026-01-06T01:00:00Z" })).await;
    world.broker.take();
    go_to(&world, "2026-01-05T23:00:00Z");
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.state(&id).await, owned("retry", "outside_hours"));
    go_to(&world, "2026-01-06T01:00:00Z");
    world.tick().await;
    assert_eq!(world.state(&id).await, owned("expired", "window_missed"));
    assert_eq!(world.mailer.calls(), 0);
}

#[tokio::test]
async fn a_family_that_turned_quiet_keeps_back_what_waits_already() {
    let mut world = TestWorld::new().await;
    go_to(&world, "2026-01-05T23:00:00Z");
    let id = world.notices(1).await.remove(0);
    world.config = with_quiet_notices(&world.config);
    world.deliver().await;
    assert_eq!(world.state(&id).await, owned("retry", "outside_hours"));
}

#[tokio::test]
async fn a_row_that_must_not_be_called_is_no_probe_of_a_pause() {
    let world = quiet_world("2026-01-05T20:50:00Z").await;
    let sleeps = record(&world, "n1", json!({})).await;
    let wakes = record(
        &world,
        "n2",
        json!({ "timeZone": "Asia/Tokyo", "notBefore": "2026-01-05T22:00:00Z" }),
    )
    .await;
    world.broker.take();
    go_to(&world, "2026-01-05T23:30:00Z");
    world
        .sql(
            "INSERT INTO pauses (scope, reason, until, created_at) VALUES ('*', 'x', ?1, 0)",
            vec![at("2026-01-05T23:00:00Z").get().into()],
        )
        .await;
    world.deliver_ids(&[&sleeps]).await;
    assert_eq!(world.state(&sleeps).await, owned("retry", "outside_hours"));
    world.deliver_ids(&[&wakes]).await;
    assert_eq!(
        world.status(&wakes).await,
        "sent",
        "the next one is the probe, and lifts the pause"
    );
}

#[tokio::test]
async fn a_claim_that_was_lost_gives_nothing_back() {
    use crate::support::Wire;
    let world = quiet_world("2026-01-05T20:50:00Z").await;
    let id = record(&world, "n1", json!({})).await;
    world.broker.take();
    go_to(&world, "2026-01-05T23:30:00Z");
    // The answer is lost, and the second run finds its own work.
    world.transport.next_with("outside_hours", Wire::LoseAnswer);
    assert_eq!(world.deliver_ids(&[&id]).await, [Decision::Acknowledge]);
    assert_eq!(world.state(&id).await, owned("retry", "outside_hours"));
    let events = world
        .sql("SELECT count(*) FROM events WHERE cause = 'outside_hours'", vec![])
        .await;
    assert_eq!(integer(&events[0][0]), 1);
}

#[tokio::test]
async fn a_suspect_that_is_given_back_stays_a_suspect() {
    let world = quiet_world("2026-01-05T20:50:00Z").await;
    let id = record(&world, "n1", json!({})).await;
    world.broker.take();
    world.sql("UPDATE outbox SET suspect = 1", vec![]).await;
    go_to(&world, "2026-01-05T23:30:00Z");
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.state(&id).await, owned("retry", "outside_hours"));
    let row = world
        .sql("SELECT suspect, lone_claim, lone_deaths FROM outbox", vec![])
        .await;
    assert_eq!(row, [[1.into(), 0.into(), 0.into()]]);
}
