//! Events that come late, or beside what somebody else has decided meanwhile.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::operate::{Request, answer};
use sealpost::ports::Clock as _;
use serde_json::{Value as Json, json};

use super::{column, count, delivery, event, hear, message_ids, one_sent, post_event};
use crate::support::{TestWorld, notice_with_key, order};
use crate::unknown::{unknown_row, unknown_rows};

const HOUR: Duration = Duration::from_secs(3_600);
const IN_FORCE: &str = "SELECT count(*) FROM suppressions WHERE lifted_at IS NULL AND until IS NULL";

/// An event that does not say whose mail it is about.
fn bare() -> Json {
    json!({ "tags": null, "headers": null })
}

async fn judge(world: &TestWorld, id: &str, verdict: &Json) -> sealpost::operate::Answer {
    order(world, &format!("/v1/unknown/{id}/resolve"), verdict).await
}

#[tokio::test]
async fn a_complaint_that_is_older_than_a_temporary_suppression_outlives_it() {
    let (world, _, mail) = one_sent().await;
    let complaint = event(&world, &mail, "email.complained", &json!({}));
    world.clock.advance(Duration::from_secs(60));
    let until = world.clock.now().plus(HOUR).to_string();
    let who = json!({ "address": "n0@example.com", "until": until });
    assert_eq!(order(&world, "/v1/suppressions", &who).await.status, 200);
    world.clock.advance(Duration::from_secs(60));
    post_event(&world, "msg_1", &complaint).await;
    world.clock.advance(2 * HOUR);
    let mut again = notice_with_key("again");
    again["to"] = json!("n0@example.com");
    let id = world.intake(&[again]).await.expect("recorded").receipts.remove(0).id;
    world.deliver().await;
    assert_eq!(world.status(&id).await, "suppressed");
}

#[tokio::test]
async fn a_lift_does_not_stand_against_a_complaint_that_nobody_had_heard() {
    let (world, _, mail) = one_sent().await;
    hear(&world, "msg_1", &mail, "email.bounced", json!({})).await;
    world.clock.advance(Duration::from_secs(60));
    let complaint = event(&world, &mail, "email.complained", &json!({}));
    world.clock.advance(Duration::from_secs(60));
    let who = json!({ "address": "n0@example.com" });
    assert_eq!(order(&world, "/v1/suppressions/lift", &who).await.status, 200);
    world.clock.advance(Duration::from_secs(60));
    post_event(&world, "msg_2", &complaint).await;
    assert_eq!(count(&world, IN_FORCE).await, 1);
    // Lifted again, and told once more under another id: nobody says anything new.
    assert_eq!(order(&world, "/v1/suppressions/lift", &who).await.status, 200);
    post_event(&world, "msg_3", &complaint).await;
    assert_eq!(count(&world, IN_FORCE).await, 0);
}

#[tokio::test]
async fn a_complaint_that_waits_and_names_nobody_is_about_the_rows_recipient() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.hold_next.set(true);
    let talk = async {
        while message_ids(&world).is_empty() {
            tokio::task::yield_now().await;
        }
        let mail = message_ids(&world).remove(0);
        let nobody = json!({ "tags": null, "headers": null, "to": null });
        assert_eq!(hear(&world, "msg_1", &mail, "email.complained", nobody).await, "waits");
        world.mailer.let_go.set(true);
    };
    tokio::join!(world.deliver(), talk);
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(count(&world, IN_FORCE).await, 1);
}

#[tokio::test]
async fn an_event_that_tells_whose_mail_it_is_brings_along_what_waited_for_it() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let mail = message_ids(&world).remove(0);
    assert_eq!(hear(&world, "msg_1", &mail, "email.complained", bare()).await, "waits");
    // Hundreds of events of other programs on the account wait as well, for ever.
    for number in 0..250 {
        let mut other = bare();
        other["email_id"] = json!(format!("other-{number}"));
        let body = event(&world, &mail, "email.delivered", &other);
        assert_eq!(
            post_event(&world, &format!("o_{number}"), &body).await.body["result"],
            "waits"
        );
    }
    world.clock.advance(25 * HOUR);
    hear(&world, "msg_2", &mail, "email.delivered", json!({})).await;
    assert_eq!(world.status(&id).await, "sent");
    assert_eq!(delivery(&world, &id).await, "complained");
    assert_eq!(count(&world, IN_FORCE).await, 1);
}

#[tokio::test]
async fn an_event_that_waits_finds_its_row_when_it_is_told_again() {
    let (world, id, mail) = one_sent().await;
    world.sql("UPDATE outbox SET provider_scope = 'old'", Vec::new()).await;
    assert_eq!(hear(&world, "msg_1", &mail, "email.complained", bare()).await, "waits");
    world.sql("UPDATE outbox SET provider_scope = 'main'", Vec::new()).await;
    world.clock.advance(25 * HOUR);
    hear(&world, "msg_1", &mail, "email.complained", bare()).await;
    assert_eq!(delivery(&world, &id).await, "complained");
}

#[tokio::test]
async fn a_complaint_waits_for_its_mail_longer_than_anything_else_is_kept() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let mail = message_ids(&world).remove(0);
    hear(&world, "msg_1", &mail, "email.complained", bare()).await;
    hear(&world, "msg_2", &mail, "email.delivered", bare()).await;
    world.clock.advance(8 * 24 * HOUR);
    world.tick().await;
    assert_eq!(
        count(&world, "SELECT count(*) FROM receipts").await,
        1,
        "the complaint alone"
    );
    let verdict = json!({ "verdict": "sent", "messageId": mail, "note": "seen there" });
    assert_eq!(judge(&world, &id, &verdict).await.status, 200);
    assert_eq!(count(&world, IN_FORCE).await, 1);
}

#[tokio::test]
async fn nobody_can_say_that_nothing_went_out_against_proof() {
    let world = TestWorld::new().await;
    world.notices(1).await;
    world.deliver().await;
    // The provider gives another mail's id: accepted, and nobody knows which mail it was.
    world
        .mailer
        .next_id
        .replace(Some("00000000-0000-4000-8000-000000000001".to_owned()));
    let id = world
        .intake(&[notice_with_key("n1")])
        .await
        .expect("recorded")
        .receipts
        .remove(0)
        .id;
    world.deliver().await;
    assert_eq!(world.state(&id).await.1, "message_id_conflict");
    let verdict = json!({ "verdict": "not_sent", "note": "it is not there" });
    let refused = judge(&world, &id, &verdict).await;
    assert_eq!(
        (refused.status, refused.body["code"].as_str()),
        (409, Some("proof_exists"))
    );
    assert_eq!(world.status(&id).await, "unknown");
}

#[tokio::test]
async fn a_mail_that_was_to_be_sent_again_stays_where_the_first_one_is_proved() {
    let world = TestWorld::new().await;
    let id = unknown_row(&world).await;
    let mail = message_ids(&world).remove(0);
    let again = judge(&world, &id, &json!({ "verdict": "send_again", "note": "it matters" })).await;
    let again = again.body["id"].as_str().expect("a new row").to_owned();
    hear(&world, "msg_1", &mail, "email.delivered", json!({})).await;
    assert_eq!(world.status(&id).await, "sent");
    world.deliver_ids(&[&again]).await;
    assert_eq!(
        world.state(&again).await,
        ("canceled".to_owned(), "first_was_sent".to_owned())
    );
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn proof_under_a_taken_id_is_an_alarm_on_an_unknown_row_too() {
    let world = TestWorld::new().await;
    let ids = unknown_rows(&world, 2).await;
    let mail = message_ids(&world).remove(0);
    hear(&world, "msg_1", &mail, "email.delivered", json!({})).await;
    let proved = if world.status(&ids[0]).await == "sent" { 0 } else { 1 };
    let other = &ids[1 - proved];
    let tags = json!({ "tags": { "sealpost_env": "test", "sealpost_id": other } });
    hear(&world, "msg_2", &mail, "email.delivered", tags).await;
    assert_eq!(
        world.state(other).await,
        ("unknown".to_owned(), "message_id_conflict".to_owned())
    );
    assert_eq!(world.notes.count("message_id_conflict"), 1);
    // A person who means the very same id is told so, on a row that was never sealed as well.
    let verdict = json!({ "verdict": "sent", "messageId": mail, "note": "n" });
    assert_eq!(judge(&world, other, &verdict).await.body["code"], "message_id_conflict");
    let fresh = world
        .intake(&[notice_with_key("fresh")])
        .await
        .expect("recorded")
        .receipts
        .remove(0)
        .id;
    let tags = json!({ "tags": { "sealpost_env": "test", "sealpost_id": fresh } });
    hear(&world, "msg_3", &mail, "email.delivered", tags).await;
    assert_eq!(
        judge(&world, &fresh, &verdict).await.body["code"],
        "message_id_conflict"
    );
}

#[tokio::test]
async fn a_message_id_that_a_person_got_wrong_gives_way_to_proof() {
    let world = TestWorld::new().await;
    let ids = unknown_rows(&world, 2).await;
    let of = "SELECT idempotency_key FROM outbox WHERE id = ?1";
    let keys = [column(&world, of, &ids[0]).await, column(&world, of, &ids[1]).await];
    let mail_of = |key: &str| {
        let model = world.mailer.model.borrow();
        let sent = model
            .ledger()
            .sent()
            .iter()
            .find(|sent| sent.idempotency_key.as_deref() == Some(key));
        sent.expect("it was accepted").id.clone()
    };
    let (right, wrong) = (mail_of(&keys[0]), mail_of(&keys[1]));
    let verdict = json!({ "verdict": "sent", "messageId": wrong, "note": "pasted from the wrong line" });
    assert_eq!(judge(&world, &ids[0], &verdict).await.status, 200);
    hear(&world, "msg_1", &right, "email.delivered", json!({})).await;
    let id_of = "SELECT provider_message_id FROM outbox WHERE id = ?1";
    assert_eq!(column(&world, id_of, &ids[0]).await, right);
    assert_eq!(delivery(&world, &ids[0]).await, "delivered");
    hear(&world, "msg_2", &wrong, "email.bounced", json!({})).await;
    assert_eq!(world.status(&ids[1]).await, "sent");
    assert_eq!(delivery(&world, &ids[1]).await, "bounced");
}

#[tokio::test]
async fn an_event_with_our_tag_and_no_mail_is_parked() {
    let (world, id, mail) = one_sent().await;
    let body = event(&world, &mail, "email.delivered", &json!({ "email_id": null }));
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "parked");
    assert_eq!(delivery(&world, &id).await, "Null");
}

#[tokio::test]
async fn a_click_that_ends_a_row_in_doubt_asks_for_a_person() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.deliver().await;
    let path = format!(
        "/v1/unsubscribe/{}",
        sealpost::outbox::unsubscribe::token(&world.config.recipient_secret, &id)
    );
    let click = Request {
        method: "POST",
        path: &path,
        body: Some(b"List-Unsubscribe=One-Click"),
        ..Request::default()
    };
    assert_eq!(answer(&world, &world.config, &click).await.status, 200);
    assert_eq!(world.status(&id).await, "unknown");
    assert_eq!(world.notes.count("outcome_unknown"), 1);
}
