//! What an intent says of its time, and what is stored of it.

use super::*;
use crate::doors::post;

/// The path and code of every refused field of one intent.
async fn refused(world: &TestWorld, intent: Json) -> Vec<(String, String)> {
    let answer = post(world, &json!({ "intents": [intent] })).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    let errors = answer.body["errors"].as_array().expect("errors").iter();
    let text = |error: &Json, name: &str| error[name].as_str().expect("a text").to_owned();
    errors.map(|error| (text(error, "path"), text(error, "code"))).collect()
}

fn one(path: &str, code: &str) -> Vec<(String, String)> {
    vec![(format!("/intents/0/{path}"), code.to_owned())]
}

#[tokio::test]
async fn durations_count_from_the_business_instant_and_the_answer_shows_what_counts() {
    let world = TestWorld::new().await;
    let members = json!({ "businessAt": "2026-03-01T09:00:00+01:00", "notBefore": "-P1DT12H", "notAfter": "PT90M" });
    let id = record(&world, "n1", members).await;
    assert_eq!(
        window(&world, &id).await,
        (json!("2026-02-27T20:00:00.000Z"), json!("2026-03-01T09:30:00.000Z"))
    );
    // The same times, said otherwise, mean the same.
    let absolute = json!({ "notBefore": "2026-02-27T20:00:00Z", "notAfter": "2026-03-01T10:30:00+01:00" });
    let again = world.intake(&[notice("n1", &absolute)]).await.expect("known");
    assert!(again.receipts[0].duplicate);
    // Another window does not.
    let other = json!({ "notBefore": "2026-02-27T20:00:01Z", "notAfter": "2026-03-01T10:30:00+01:00" });
    assert_eq!(
        post(&world, &json!({ "intents": [notice("n1", &other)] })).await.status,
        409
    );
}

#[tokio::test]
async fn what_is_no_time_is_refused_at_its_field() {
    let world = TestWorld::new().await;
    let said = |members: Json| notice("n1", &members);
    let business = "2026-03-01T09:00:00Z";
    for (members, path, code) in [
        (json!({ "notBefore": "-PT72H" }), "notBefore", "business_at_required"),
        (
            json!({ "businessAt": "2026-03-01T09:00:00" }),
            "businessAt",
            "time_without_offset",
        ),
        (json!({ "businessAt": "-PT72H" }), "businessAt", "time_invalid"),
        (
            json!({ "businessAt": "soon", "notAfter": "PT1H" }),
            "businessAt",
            "time_invalid",
        ),
        (
            json!({ "businessAt": business, "notAfter": "P1M" }),
            "notAfter",
            "duration_invalid",
        ),
        (
            json!({ "businessAt": business, "notAfter": "P4000D" }),
            "notAfter",
            "duration_too_long",
        ),
        (
            json!({ "businessAt": "1970-01-02T00:00:00Z", "notBefore": "-P2D" }),
            "notBefore",
            "time_out_of_range",
        ),
        (
            json!({ "businessAt": business, "notBefore": "PT2H", "notAfter": "PT2H" }),
            "notAfter",
            "window_empty",
        ),
        (json!({ "delay": -1 }), "delay", "delay_invalid"),
        (json!({ "delay": 1.5 }), "delay", "delay_invalid"),
        (json!({ "delay": "PT1H" }), "delay", "delay_invalid"),
        (json!({ "delay": 31_622_400_001_u64 }), "delay", "delay_invalid"),
    ] {
        assert_eq!(
            refused(&world, said(members.clone())).await,
            one(path, code),
            "{members}"
        );
    }
    assert_eq!(world.count("pending").await, 0);
}

#[tokio::test]
async fn a_family_with_a_window_needs_the_business_instant_and_the_caller_may_only_narrow_it() {
    let world = TestWorld::new().await;
    assert_eq!(
        refused(&world, renewal(&json!({}))).await,
        one("businessAt", "required")
    );
    let charge = "2026-03-10T09:00:00Z";
    for (members, path) in [
        // The family's window is 7 March 9:00 to 9 March 9:00.
        (
            json!({ "businessAt": charge, "notAfter": "2026-03-07T09:00:00Z" }),
            "notAfter",
        ),
        (json!({ "businessAt": charge, "notAfter": "-PT72H" }), "notAfter"),
        (
            json!({ "businessAt": charge, "notBefore": "2026-03-09T09:00:00Z" }),
            "notBefore",
        ),
        (json!({ "businessAt": charge, "notBefore": "PT0S" }), "notBefore"),
    ] {
        assert_eq!(
            refused(&world, renewal(&members)).await,
            one(path, "window_empty"),
            "{members}"
        );
    }
    let cases = [
        (json!({}), "2026-03-07T09:00:00.000Z", "2026-03-09T09:00:00.000Z"),
        (
            json!({ "notBefore": "-PT48H", "notAfter": "PT0S" }),
            "2026-03-08T09:00:00.000Z",
            "2026-03-09T09:00:00.000Z",
        ),
        (
            json!({ "notBefore": "-P9D", "notAfter": "-PT71H" }),
            "2026-03-07T09:00:00.000Z",
            "2026-03-07T10:00:00.000Z",
        ),
    ];
    for (number, (mut members, opens, closes)) in cases.into_iter().enumerate() {
        members["businessAt"] = json!(charge);
        members["key"] = json!({ "subscriptionId": number, "periodStart": "p", "kind": "k" });
        let accepted = world.intake(&[renewal(&members)]).await.expect("recorded");
        assert_eq!(
            window(&world, &accepted.receipts[0].id).await,
            (json!(opens), json!(closes)),
            "{members}"
        );
    }
    // Nothing goes out before the window opens, and then everything does.
    world.run_for(Duration::from_secs(64 * 86_400), 2 * HOUR).await;
    assert_eq!(world.mailer.calls(), 0);
    go_to(&world, "2026-03-08T10:00:00Z");
    world.tick().await;
    world.deliver().await;
    assert_eq!((world.count("sent").await, world.count("expired").await), (2, 1));
}

#[tokio::test]
async fn a_familys_other_window_is_no_new_meaning_and_moves_no_row() {
    let mut world = TestWorld::new().await;
    let intent = renewal(&json!({ "businessAt": "2026-03-10T09:00:00Z", "notBefore": "-PT60H" }));
    let first = world
        .intake(std::slice::from_ref(&intent))
        .await
        .expect("recorded")
        .receipts
        .remove(0);
    let stored = window(&world, &first.id).await;
    for other in [None, Some((-96, -12)), Some((-48, -24))] {
        world.config = with_families(&config_with(&[]), |family| family.window_hours = other);
        let again = world
            .intake(std::slice::from_ref(&intent))
            .await
            .expect("known")
            .receipts
            .remove(0);
        assert_eq!((again.duplicate, &again.id), (true, &first.id), "{other:?}");
        assert_eq!(window(&world, &first.id).await, stored, "{other:?}");
    }
}

#[tokio::test]
async fn a_window_that_closed_before_is_recorded_as_missed_and_never_published() {
    let world = TestWorld::new().await;
    let said = json!({ "notBefore": "2025-12-01T00:00:00Z", "notAfter": "2025-12-31T23:59:59Z" });
    let answer = post(
        &world,
        &json!({ "intents": [notice("n1", &said), notice_with_key("n2")] }),
    )
    .await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.body["intents"][0]["status"], "expired");
    assert_eq!(answer.body["intents"][1]["status"], "pending");
    assert_eq!(answer.to_publish.len(), 1, "the other one alone is published");
    let id = answer.body["intents"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.state(&id).await, owned("expired", "window_missed"));
    let events = world.sql(
        "SELECT to_status, cause FROM events WHERE outbox_id = ?1",
        vec![id.clone().into()],
    );
    assert_eq!(events.await, [["expired".into(), "window_missed".into()]]);
    // Whatever comes for it, it stays.
    world.deliver_ids(&[&id]).await;
    world.run_for(HOUR, MINUTE).await;
    assert_eq!(world.state(&id).await, owned("expired", "window_missed"));
    assert_eq!(world.mailer.calls(), 1, "the other one alone");
    let again = post(&world, &json!({ "intents": [notice("n1", &said)] })).await;
    assert_eq!(again.body["intents"][0]["duplicate"], true);
    assert_eq!(again.body["intents"][0]["status"], "expired");
}

#[tokio::test]
async fn a_mail_of_a_shadow_stays_a_shadow_and_one_on_hold_expires_when_its_window_closed_before() {
    use sealpost::outbox::family::Mode;
    for (mode, state) in [
        (Mode::Shadow, "shadowed"),
        (Mode::Hold, "expired"),
        (Mode::Live, "expired"),
    ] {
        let mut world = TestWorld::new().await;
        world.config = with_families(&world.config, |family| family.mode = mode);
        let id = record(&world, "n1", json!({ "notAfter": "2025-12-31T23:59:59Z" })).await;
        assert_eq!(world.status(&id).await, state, "{mode:?}");
    }
}

#[tokio::test]
async fn a_delay_holds_this_send_back_and_is_no_part_of_its_meaning() {
    let world = TestWorld::new().await;
    let id = record(&world, "n1", json!({ "delay": 90_000 })).await;
    assert_eq!(window(&world, &id).await.0, "2026-01-01T00:01:30.000Z");
    assert!(world.broker.take().is_empty(), "longer than a tick: the relay's");
    for delay in [0, 5_000_000] {
        let again = world
            .intake(&[notice("n1", &json!({ "delay": delay }))])
            .await
            .expect("known");
        assert!(again.receipts[0].duplicate);
    }
    world.clock.advance(Duration::from_millis(89_999));
    assert_eq!(world.tick().await.published, 0);
    world.deliver_ids(&[&id]).await;
    assert_eq!(world.mailer.calls(), 0);
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.tick().await.published, 1);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
    // The later of delay and opening counts; past the closing it is missed.
    let id = record(
        &world,
        "n2",
        json!({ "delay": 60_000, "notBefore": "2026-01-02T00:00:00Z" }),
    )
    .await;
    assert_eq!(window(&world, &id).await.0, "2026-01-02T00:00:00.000Z");
    let id = record(
        &world,
        "n3",
        json!({ "delay": 60_000, "notAfter": "2026-01-01T00:02:00Z" }),
    )
    .await;
    assert_eq!(world.state(&id).await, owned("expired", "window_missed"));
    // Without a delay worth a tick the queue bridges it.
    record(&world, "n4", json!({ "delay": 20_000 })).await;
    let delays: Vec<u32> = world
        .broker
        .take()
        .iter()
        .map(|message| message.delay_seconds)
        .collect();
    assert_eq!(delays, [20]);
}
