//! Doubt and time: the provider's window counts from the first attempt, whoever asks; and quiet hours keep a doubtful mail
//! back for as long as it can still be repeated after them.

use sealpost::devstack::provider::fault::FaultKind;

use super::*;
use crate::support::order;
use crate::unknown;

/// A row whose mail was accepted and whose answer was lost, under these families.
async fn in_doubt(world: &TestWorld, members: Json) -> String {
    let id = record(world, "n1", members).await;
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "retry");
    id
}

#[tokio::test]
async fn a_day_after_a_lost_answer_nothing_repeats_by_itself() {
    let world = TestWorld::new().await;
    let id = in_doubt(&world, json!({})).await;
    world.clock.advance(25 * HOUR);
    world.run_for(48 * HOUR, HOUR).await;
    assert_eq!(world.state(&id).await, owned("unknown", "provider_window_closed"));
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn a_day_after_a_lost_answer_an_operator_repeats_only_by_saying_that_it_may_be_a_second_mail() {
    let world = TestWorld::new().await;
    let id = in_doubt(&world, json!({})).await;
    world.clock.advance(25 * HOUR);
    world.tick().await;
    let answer = order(&world, "/v1/queues/outbox/retry-dead", &json!({ "ids": [id] })).await;
    assert_eq!(answer.body["items"][0]["result"], "not_dead");
    world.run_for(2 * HOUR, 10 * MINUTE).await;
    assert_eq!((world.status(&id).await.as_str(), world.mailer.calls()), ("unknown", 1));
    let verdict = json!({ "verdict": "send_again", "note": "the recipient has nothing" });
    let answer = unknown::order(&world, &format!("/v1/unknown/{id}/resolve"), &verdict).await;
    assert_eq!((answer.status, &answer.body["mayDuplicate"]), (202, &json!(true)));
    let written = world
        .sql(
            "SELECT result FROM operator_log WHERE action = 'unknown_resolve'",
            vec![],
        )
        .await;
    assert_eq!(written, [["send_again".into()]]);
}

#[tokio::test]
async fn quiet_hours_keep_a_doubtful_mail_back_while_the_provider_still_knows_it_afterwards() {
    let world = quiet_world("2026-01-05T20:59:00Z").await;
    let id = in_doubt(&world, json!({})).await;
    world.run_for(10 * HOUR, 10 * MINUTE).await;
    assert_eq!(world.mailer.calls(), 1, "it is night");
    assert_eq!(world.state(&id).await, owned("retry", "outside_hours"));
    world.run_for(10 * MINUTE, 5 * MINUTE).await;
    assert_eq!(
        world.status(&id).await,
        "sent",
        "the repetition is answered with the first id"
    );
    assert_eq!((world.mailer.accepted(), world.mailer.calls()), (1, 2));
}

#[tokio::test]
async fn a_doubtful_mail_whose_window_ends_in_the_night_is_unknown_then_and_not_in_the_morning() {
    // A provider that remembers keys for five hours, of which four are used.
    let changes = [
        ("PROVIDER_WINDOW_MS", "18000000"),
        ("PROVIDER_WINDOW_MARGIN_MS", "3600000"),
    ];
    let world = quiet_world_with("2026-01-05T20:59:00Z", &changes).await;
    let id = in_doubt(&world, json!({})).await;
    world.run_for(4 * HOUR - 5 * MINUTE, 5 * MINUTE).await;
    assert_eq!(world.state(&id).await, owned("retry", "outside_hours"));
    world.run_for(10 * MINUTE, 5 * MINUTE).await;
    assert_eq!(world.state(&id).await, owned("unknown", "provider_window_closed"));
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn a_doubtful_mail_with_a_zone_that_went_bad_is_unknown() {
    let world = quiet_world("2026-01-05T12:00:00Z").await;
    let id = in_doubt(&world, json!({ "timeZone": "UTC" })).await;
    world
        .sql(
            "UPDATE letters SET body = json_set(body, '$.timeZone', 'Mars/Olympus')",
            vec![],
        )
        .await;
    world.run_for(HOUR, 10 * MINUTE).await;
    assert_eq!(world.state(&id).await, owned("unknown", "time_zone_unknown"));
    assert_eq!(world.mailer.calls(), 1);
}
