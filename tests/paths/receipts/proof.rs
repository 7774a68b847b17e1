//! Events prove mails: whatever the row says, whoever holds it, and in whatever order they come.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use serde_json::json;

use super::{column, count, delivery, event, hear, message_ids, one_sent, post_event};
use crate::support::{TestWorld, notice_with_key};

#[tokio::test]
async fn news_before_our_own_write_proves_the_mail_and_the_late_answer_changes_nothing() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.hold_next.set(true);
    let talk = async {
        while message_ids(&world).is_empty() {
            tokio::task::yield_now().await;
        }
        let mail = message_ids(&world).remove(0);
        assert_eq!(
            hear(&world, "msg_1", &mail, "email.delivered", json!({})).await,
            "heard"
        );
        assert_eq!(
            world.state(&id).await,
            ("sent".to_owned(), "proved_by_receipt".to_owned())
        );
        world.mailer.let_go.set(true);
    };
    let (decisions, ()) = tokio::join!(world.deliver(), talk);
    assert_eq!(decisions, [sealpost::consume::Decision::Acknowledge]);
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(delivery(&world, &id).await, "delivered");
    assert_eq!(world.notes.count("message_id_conflict"), 0);
}

#[tokio::test]
async fn news_without_our_tag_waits_and_is_joined_when_the_answer_is_written() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.hold_next.set(true);
    let talk = async {
        while message_ids(&world).is_empty() {
            tokio::task::yield_now().await;
        }
        let mail = message_ids(&world).remove(0);
        let bare = json!({ "tags": null, "headers": null });
        assert_eq!(hear(&world, "msg_1", &mail, "email.complained", bare).await, "waits");
        assert_eq!(world.status(&id).await, "processing");
        world.mailer.let_go.set(true);
    };
    tokio::join!(world.deliver(), talk);
    assert_eq!(delivery(&world, &id).await, "complained");
    assert_eq!(
        count(&world, "SELECT count(*) FROM suppressions WHERE reason = 'complained'").await,
        1
    );
    assert_eq!(
        count(&world, "SELECT count(*) FROM receipts WHERE processed_at IS NULL").await,
        0
    );
}

#[tokio::test]
async fn the_relay_joins_news_whose_row_got_its_id_in_another_way() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    let mail = message_ids(&world).remove(0);
    let bare = json!({ "tags": null, "headers": null });
    assert_eq!(hear(&world, "msg_1", &mail, "email.delivered", bare).await, "waits");
    world
        .sql(
            "UPDATE outbox SET status = 'sent', cause = 'accepted', provider_message_id = ?2, settled_at = 1,
               relay_at = NULL, next_attempt_at = NULL WHERE id = ?1",
            vec![id.clone().into(), mail.into()],
        )
        .await;
    world.tick().await;
    assert_eq!(delivery(&world, &id).await, "delivered");
}

#[tokio::test]
async fn evidence_outranks_every_state() {
    // What became of the row after its answer was lost; CHECKs let a row in doubt be no more than these.
    let endings = [
        "UPDATE outbox SET status = 'unknown', cause = 'provider_window_closed', relay_at = NULL, next_attempt_at = NULL WHERE id = ?1",
        "UPDATE outbox SET status = 'pending', cause = 'recorded', next_attempt_at = NULL WHERE id = ?1",
        "UPDATE outbox SET status = 'enqueued', cause = 'published', next_attempt_at = NULL WHERE id = ?1",
        "UPDATE outbox SET status = 'processing', cause = 'claimed', claim_token = 'x', claim_expires_at = 9e15, next_attempt_at = NULL WHERE id = ?1",
        "UPDATE outbox SET status = 'failed', cause = 'verdict_not_sent', settled_at = 1, relay_at = NULL, next_attempt_at = NULL, doubts = 0 WHERE id = ?1",
        "UPDATE outbox SET status = 'dead_letter', cause = 'claims_exhausted', dead_class = 'pipeline', relay_at = NULL, next_attempt_at = NULL, doubts = 0 WHERE id = ?1",
        "UPDATE outbox SET status = 'expired', cause = 'window_missed', settled_at = 1, relay_at = NULL, next_attempt_at = NULL, doubts = 0 WHERE id = ?1",
        "UPDATE outbox SET status = 'suppressed', cause = 'recipient_suppressed', settled_at = 1, relay_at = NULL, next_attempt_at = NULL, doubts = 0 WHERE id = ?1",
    ];
    for ending in endings {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.mailer.fault(FaultKind::AcceptThenDrop, 1);
        world.deliver().await;
        assert_eq!(world.status(&id).await, "retry");
        world.sql(ending, vec![id.clone().into()]).await;
        let mail = message_ids(&world).remove(0);
        hear(&world, "msg_1", &mail, "email.sent", json!({})).await;
        assert_eq!(
            world.state(&id).await,
            ("sent".to_owned(), "proved_by_receipt".to_owned()),
            "{ending}"
        );
        assert_eq!(
            column(&world, "SELECT provider_message_id FROM outbox WHERE id = ?1", &id).await,
            mail
        );
        assert!((world.notes.count("sent_by_receipt") > 0));
        // Nothing is sent again, whatever is still in the queue.
        world.deliver_ids(&[&id]).await;
        world.run_for(Duration::from_secs(600), Duration::from_secs(60)).await;
        assert_eq!(world.mailer.accepted(), 1);
        assert_eq!(world.status(&id).await, "sent");
    }
}

#[tokio::test]
async fn another_message_id_under_our_tag_is_proof_of_a_second_mail() {
    let (world, id, mail) = one_sent().await;
    let body = event(&world, &mail, "email.delivered", &json!({ "email_id": "another-mail" }));
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "heard");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(post_event(&world, "msg_2", &body).await.body["result"], "heard");
    let seen = count(&world, "SELECT count(*) FROM events WHERE cause = 'duplicate_seen'").await;
    assert_eq!(seen, 1, "written down once");
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(delivery(&world, &id).await, "Null", "it is the other mail's news");
    assert_eq!(world.notes.count("duplicate_seen"), 1);
}

#[tokio::test]
async fn a_message_id_that_belongs_to_another_row_makes_the_row_unknown() {
    let (world, _, mail) = one_sent().await;
    let accepted = world.intake(&[notice_with_key("other")]).await.expect("recorded");
    let other = accepted.receipts[0].id.clone();
    let tags = json!({ "tags": { "sealpost_env": "test", "sealpost_id": other } });
    hear(&world, "msg_1", &mail, "email.delivered", tags).await;
    assert_eq!(
        world.state(&other).await,
        ("unknown".to_owned(), "message_id_conflict".to_owned())
    );
    assert!((world.notes.count("message_id_conflict") > 0));
}

#[tokio::test]
async fn a_receipt_for_a_mail_that_was_pruned_is_heard_and_goes_by_its_own_age() {
    let (world, id, mail) = one_sent().await;
    world.clock.advance(Duration::from_secs(8 * 86_400));
    world.tick().await;
    assert_eq!(
        count(&world, "SELECT count(*) FROM outbox WHERE pruned_at IS NOT NULL").await,
        1
    );
    assert_eq!(
        hear(&world, "msg_1", &mail, "email.complained", json!({})).await,
        "heard"
    );
    assert_eq!(delivery(&world, &id).await, "complained");
    world.clock.advance(Duration::from_secs(8 * 86_400));
    world.tick().await;
    assert_eq!(count(&world, "SELECT count(*) FROM receipts").await, 0);
    assert_eq!(
        count(&world, "SELECT count(*) FROM suppressions").await,
        1,
        "suppressions survive"
    );
}
