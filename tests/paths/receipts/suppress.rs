//! Whom an event keeps from being written to.

use std::time::Duration;

use sealpost::ports::Clock as _;
use serde_json::json;

use super::{count, delivery, event, hear, one_sent, post_event};
use crate::support::{notice_with_key, text};

#[tokio::test]
async fn only_what_is_permanent_suppresses() {
    let cases = [
        (
            "email.bounced",
            json!({ "bounce": { "type": "Permanent" } }),
            Some("bounced"),
        ),
        ("email.bounced", json!({ "bounce": { "type": "Transient" } }), None),
        ("email.bounced", json!({ "bounce": { "type": "Undetermined" } }), None),
        ("email.bounced", json!({ "bounce": null }), None),
        ("email.complained", json!({}), Some("complained")),
        ("email.complained", json!({ "to": null }), Some("complained")),
        ("email.delivered", json!({}), None),
        ("email.failed", json!({}), None),
        ("email.suppressed", json!({}), None),
        ("email.delivery_delayed", json!({}), None),
    ];
    for (kind, extra, reason) in cases {
        let (world, id, mail) = one_sent().await;
        hear(&world, "msg_1", &mail, kind, extra.clone()).await;
        let rows = world
            .sql(
                "SELECT s.reason FROM suppressions s JOIN outbox o ON o.recipient_hash = s.recipient_hash AND s.family = '*'
                 WHERE o.id = ?1",
                vec![id.into()],
            )
            .await;
        let found = rows.first().map(|row| text(&row[0]));
        assert_eq!(found.as_deref(), reason, "{kind} {extra}");
    }
}

#[tokio::test]
async fn of_several_recipients_only_the_one_that_is_named_is_suppressed() {
    let both = json!(["n0@example.com", "b@example.com"]);
    let cases = [
        (
            json!({ "to": both, "bounce": { "type": "Permanent", "diagnosticCode": ["550 <N0@example.com>"] } }),
            1,
        ),
        (json!({ "to": both, "bounce": { "type": "Permanent" } }), 0),
    ];
    for (extra, wanted) in cases {
        let (world, id, mail) = one_sent().await;
        hear(&world, "msg_1", &mail, "email.bounced", extra).await;
        assert_eq!(count(&world, "SELECT count(*) FROM suppressions").await, wanted);
        assert_eq!(delivery(&world, &id).await, "bounced");
        let unclear = world.notes.count("receipt_recipient_unclear") > 0;
        assert_eq!(unclear, wanted == 0);
    }
}

#[tokio::test]
async fn a_complaint_between_intake_and_send_stops_the_mail() {
    let (world, _, mail) = one_sent().await;
    let mut again = notice_with_key("again");
    again["to"] = json!("N0@Example.COM");
    let accepted = world.intake(&[again]).await.expect("recorded");
    hear(&world, "msg_1", &mail, "email.complained", json!({})).await;
    world.deliver().await;
    let id = &accepted.receipts[0].id;
    assert_eq!(
        world.state(id).await,
        ("suppressed".to_owned(), "recipient_suppressed".to_owned())
    );
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn a_lift_is_undone_by_newer_facts_only() {
    let (world, _, mail) = one_sent().await;
    let old = event(&world, &mail, "email.complained", &json!({}));
    post_event(&world, "msg_1", &old).await;
    world.clock.advance(Duration::from_secs(3_600));
    world
        .sql(
            "UPDATE suppressions SET lifted_at = ?1",
            vec![world.clock.now().get().into()],
        )
        .await;
    // The same event, replayed by hand under a new id, and again after its receipt is gone.
    world.clock.advance(Duration::from_secs(60));
    post_event(&world, "msg_2", &old).await;
    world.sql("DELETE FROM receipts", Vec::new()).await;
    post_event(&world, "msg_1", &old).await;
    let lifted = "SELECT count(*) FROM suppressions WHERE lifted_at IS NOT NULL";
    assert_eq!(count(&world, lifted).await, 1, "still lifted");
    let new = event(&world, &mail, "email.complained", &json!({}));
    post_event(&world, "msg_3", &new).await;
    assert_eq!(count(&world, lifted).await, 0, "a newer complaint counts");
    let history = world
        .sql("SELECT change FROM suppression_history ORDER BY seq", Vec::new())
        .await;
    let history: Vec<String> = history.iter().map(|row| text(&row[0])).collect();
    assert_eq!(history, ["suppressed", "lifted", "suppressed"]);
}
