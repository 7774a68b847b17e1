//! Zones: which names are taken, whose hours count, and what a name that went bad does.

use serde_json::Value as Json;

use super::*;
use crate::doors::post;
use crate::support::text;

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    zone: String,
    not_before: String,
    opens: String,
}

/// The same file is read by the test of the Worker in workerd, whose zones are the platform's.
#[tokio::test]
async fn the_vectors_of_the_platform_are_those_of_the_library() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("../../e2e/quiet-hours.json")).unwrap();
    assert!(vectors.len() > 20);
    let world = quiet_world("2026-01-01T12:00:00Z").await;
    for (number, vector) in vectors.iter().enumerate() {
        let members = json!({ "timeZone": vector.zone, "notBefore": vector.not_before });
        let id = record(&world, &format!("n{number}"), members).await;
        assert_eq!(
            window(&world, &id).await.0,
            vector.opens,
            "{} {}",
            vector.zone,
            vector.not_before
        );
    }
}

#[tokio::test]
async fn aliases_are_zones_and_what_is_none_is_refused_at_the_field() {
    let world = quiet_world("2026-01-01T12:00:00Z").await;
    for (number, zone) in ["Europe/Kiev", "Asia/Calcutta", "US/Pacific", "UTC"]
        .into_iter()
        .enumerate()
    {
        record(&world, &format!("n{number}"), json!({ "timeZone": zone })).await;
    }
    for zone in [
        json!(""),
        json!("+02:00"),
        json!("Etc/Unknown"),
        json!("Mars/Olympus"),
        json!("Europe"),
        json!("BST"),
        json!(" UTC"),
        json!("x".repeat(10_000)),
    ] {
        let answer = post(
            &world,
            &json!({ "intents": [notice("bad", &json!({ "timeZone": zone }))] }),
        )
        .await;
        assert_eq!(answer.status, 422, "{zone}");
        assert_eq!(answer.body["errors"][0]["path"], "/intents/0/timeZone", "{zone}");
        assert_eq!(answer.body["errors"][0]["code"], "time_zone_unknown", "{zone}");
    }
    let answer = post(
        &world,
        &json!({ "intents": [notice("bad", &json!({ "timeZone": 2 }))] }),
    )
    .await;
    assert_eq!(answer.body["errors"][0]["code"], "string_expected");
}

#[tokio::test]
async fn a_zone_stands_with_the_letter_alone_and_is_no_part_of_its_meaning() {
    let world = quiet_world("2026-01-01T12:00:00Z").await;
    let id = record(&world, "n1", json!({ "timeZone": "Asia/Calcutta" })).await;
    for members in [json!({}), json!({ "timeZone": "Europe/Kiev" })] {
        let again = world.intake(&[notice("n1", &members)]).await.expect("known");
        assert!(again.receipts[0].duplicate, "{members}");
    }
    let letter = world.sql("SELECT body FROM letters", vec![]).await;
    assert!(text(&letter[0][0]).contains(r#""timeZone":"Asia/Calcutta""#));
    let row = world.sql("SELECT * FROM outbox", vec![]).await;
    assert!(!format!("{row:?}").contains("Calcutta"));
    let answer = get(&world, &format!("/v1/intents/{id}"), Some(PRODUCER)).await;
    assert!(!answer.body.to_string().contains("Calcutta"));
}

#[tokio::test]
async fn the_recipients_zone_counts_then_the_familys() {
    let config = with_families(&config_with(&[]), |family| {
        if family.name == "notice" {
            (family.quiet_hours, family.time_zone) = (Some(NIGHT), "America/New_York");
        }
    });
    let world = TestWorld::with(config).await;
    // Seven in the evening in New York, nine in the morning in Tokyo, one in the morning in Berlin.
    for (key, members, opens) in [
        ("n1", json!({}), Json::Null),
        ("n2", json!({ "timeZone": "Asia/Tokyo" }), Json::Null),
        (
            "n3",
            json!({ "timeZone": "Europe/Berlin" }),
            json!("2026-01-01T06:00:00.000Z"),
        ),
        (
            "n4",
            json!({ "timeZone": "Asia/Tokyo", "notBefore": "2026-01-01T13:00:00Z" }),
            json!("2026-01-01T22:00:00.000Z"),
        ),
        (
            "n5",
            json!({ "notBefore": "2026-01-01T02:00:00Z" }),
            json!("2026-01-01T12:00:00.000Z"),
        ),
    ] {
        let id = record(&world, key, members.clone()).await;
        assert_eq!(window(&world, &id).await.0, opens, "{key} {members}");
    }
}

/// What somebody may have written into a letter's zone.
const SPOILT: [&str; 6] = [
    "UPDATE letters SET body = json_set(body, '$.timeZone', 'Mars/Olympus') WHERE outbox_id = ?1",
    "UPDATE letters SET body = json_set(body, '$.timeZone', '') WHERE outbox_id = ?1",
    "UPDATE letters SET body = json_set(body, '$.timeZone', '+02:00') WHERE outbox_id = ?1",
    "UPDATE letters SET body = json_set(body, '$.timeZone', 7) WHERE outbox_id = ?1",
    "UPDATE letters SET body = json_set(body, '$.timeZone', json('{\"a\":[]}')) WHERE outbox_id = ?1",
    "UPDATE letters SET body = 'no letter' WHERE outbox_id = ?1",
];

#[tokio::test]
async fn a_stored_zone_that_cannot_be_read_parks_its_row_alone() {
    for spoilt in SPOILT {
        for sealed in [false, true] {
            let world = quiet_world("2026-01-01T12:00:00Z").await;
            let bad = record(&world, "bad", json!({ "timeZone": "UTC" })).await;
            let good = record(&world, "good", json!({ "timeZone": "UTC" })).await;
            if sealed {
                // Both are sealed, and declined for now.
                world
                    .mailer
                    .fault(sealpost::devstack::provider::fault::FaultKind::RateLimit, 2);
                world.deliver().await;
                world.clock.advance(2 * HOUR);
                assert_eq!(world.count("retry").await, 2);
            }
            world.sql(spoilt, vec![bad.clone().into()]).await;
            world.deliver_ids(&[&bad, &good]).await;
            let state = owned("dead_letter", "time_zone_unknown");
            assert_eq!(world.state(&bad).await, state, "{spoilt}, sealed: {sealed}");
            assert_eq!(world.status(&good).await, "sent", "{spoilt}, sealed: {sealed}");
            let class = world.sql("SELECT dead_class FROM outbox WHERE id = ?1", vec![bad.clone().into()]);
            assert_eq!(class.await, [["pipeline".into()]]);
            // No tick stumbles over it, and none drives it again.
            for _ in 0..3 {
                world.clock.advance(10 * MINUTE);
                assert_eq!(world.tick().await.stopped_by, None);
            }
            assert_eq!(world.state(&bad).await, state);
        }
    }
}

#[tokio::test]
async fn a_zone_is_mended_in_the_letter_and_the_row_tried_again() {
    let world = quiet_world("2026-01-01T12:00:00Z").await;
    let id = record(&world, "bad", json!({ "timeZone": "UTC" })).await;
    world.sql(SPOILT[0], vec![id.clone().into()]).await;
    world.deliver().await;
    assert_eq!(world.state(&id).await, owned("dead_letter", "time_zone_unknown"));
    world
        .sql(
            "UPDATE letters SET body = json_set(body, '$.timeZone', 'Asia/Tokyo')",
            vec![],
        )
        .await;
    let answer = crate::support::order(&world, "/v1/queues/outbox/retry-dead", &json!({ "ids": [id] })).await;
    assert_eq!(answer.body["items"][0]["result"], "retried");
    world.tick().await;
    world.deliver().await;
    // In Tokyo it is night now.
    assert_eq!(world.state(&id).await, owned("retry", "outside_hours"));
    world.run_for(11 * HOUR, 10 * MINUTE).await;
    assert_eq!(world.status(&id).await, "sent");
}
