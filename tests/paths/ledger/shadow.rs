//! A family in shadow mode: everything is recorded and counted, and nothing is sent. On hold: it waits.

use std::time::Duration;

use sealpost::outbox::family::Mode;
use serde_json::json;

use super::{in_mode, number, tally};
use crate::support::{TestWorld, Wire, notice_with_key, order};

#[tokio::test]
async fn shadow_mode_counts_what_would_not_have_gone_out() {
    let mut world = TestWorld::new().await;
    world.config = in_mode(&world.config, "notice", Mode::Shadow);
    let who = json!({ "address": "late@example.com" });
    assert_eq!(order(&world, "/v1/suppressions", &who).await.status, 200);
    let mut suppressed = notice_with_key("n1");
    suppressed["to"] = json!("late@example.com");
    let mut closed = notice_with_key("n2");
    closed["notAfter"] = json!("2025-01-01T00:00:00Z");
    let intents = [notice_with_key("n0"), suppressed, closed, notice_with_key("n0")];
    world.transport.next(Wire::LoseAnswer);
    let accepted = world.intake(&intents).await.expect("recorded");
    assert!(accepted.to_publish.is_empty());
    world.intake(&[notice_with_key("n0")]).await.expect("a duplicate");
    world
        .run_for(Duration::from_secs(3_600), Duration::from_secs(600))
        .await;
    assert_eq!(world.mailer.calls(), 0);
    assert_eq!(world.count("shadowed").await, 3);
    for (name, value) in [
        ("shadow_duplicate", 2),
        ("shadow_recipient_suppressed", 1),
        ("shadow_window_closed", 1),
        ("duplicate", 0),
    ] {
        assert_eq!(tally(&world, name, "notice").await, value, "{name}");
    }
    // Live again: what was recorded in shadow is never sent, and is still a duplicate.
    world.config = in_mode(&world.config, "notice", Mode::Live);
    world.intake(&[notice_with_key("n0")]).await.expect("a duplicate");
    world
        .run_for(Duration::from_secs(3_600), Duration::from_secs(600))
        .await;
    assert_eq!(world.mailer.calls(), 0);
    assert_eq!(tally(&world, "duplicate", "notice").await, 1);
}

#[tokio::test]
async fn an_intake_without_a_duplicate_writes_no_tally() {
    let world = TestWorld::new().await;
    world.notices(3).await;
    assert_eq!(number(&world, "SELECT count(*) FROM tallies").await, 0);
    world.notices(3).await;
    assert_eq!(tally(&world, "duplicate", "notice").await, 3);
}

#[tokio::test]
async fn what_was_held_goes_out_once_the_family_is_live_again() {
    let mut world = TestWorld::new().await;
    world.config = in_mode(&world.config, "notice", Mode::Hold);
    let ids = world.notices(2).await;
    world
        .run_for(Duration::from_secs(3 * 3_600), Duration::from_secs(600))
        .await;
    assert_eq!(world.mailer.calls(), 0);
    assert_eq!(world.state(&ids[0]).await, ("retry".to_owned(), "held".to_owned()));
    world.config = in_mode(&world.config, "notice", Mode::Live);
    world.run_for(Duration::from_secs(3_700), Duration::from_secs(60)).await;
    assert_eq!(world.count("sent").await, 2);
    assert_eq!(world.mailer.accepted(), 2);
}
