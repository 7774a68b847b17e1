//! A lift whose answer was lost is given again, and takes no newer suppression away.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::receipts::{count, hear, message_ids};
use crate::support::{TestWorld, look, order, refusal};

const MINUTE: Duration = Duration::from_secs(60);
const LIFT: &str = "/v1/suppressions/lift";
const IN_FORCE: &str = "SELECT count(*) FROM suppressions WHERE lifted_at IS NULL";
const LINES: &str = "SELECT count(*) FROM operator_log WHERE action = 'suppression_lifted'";

/// A world whose only recipient was suppressed by hand, the mail's id, and the order that lifts that one suppression.
async fn suppressed() -> (TestWorld, String, Json) {
    let world = TestWorld::new().await;
    world.notices(1).await;
    world.deliver().await;
    let mail = message_ids(&world).remove(0);
    order(&world, "/v1/suppressions", &json!({ "address": "n0@example.com" })).await;
    let list = look(&world, "/v1/suppressions").await.body;
    let lift = json!({ "address": "n0@example.com", "createdAt": list["items"][0]["createdAt"] });
    world.clock.advance(MINUTE);
    (world, mail, lift)
}

#[tokio::test]
async fn a_lift_given_again_leaves_a_newer_complaint_in_force() {
    let (world, mail, lift) = suppressed().await;
    assert_eq!(order(&world, LIFT, &lift).await.status, 200);
    world.clock.advance(MINUTE);
    assert_eq!(
        hear(&world, "msg_1", &mail, "email.complained", json!({})).await,
        "heard"
    );
    world.clock.advance(MINUTE);
    let again = order(&world, LIFT, &lift).await;
    assert_eq!(refusal(&again), (409, "suppression_changed"));
    assert_eq!(count(&world, IN_FORCE).await, 1);
    assert_eq!(count(&world, LINES).await, 1, "only what happened");

    // Who has seen the complaint may lift it.
    let list = look(&world, "/v1/suppressions").await.body;
    assert_eq!(list["items"][0]["reason"], "complained");
    let decided = json!({ "address": "n0@example.com", "createdAt": list["items"][0]["createdAt"] });
    assert_eq!(order(&world, LIFT, &decided).await.status, 200);
    assert_eq!(count(&world, IN_FORCE).await, 0);
}

#[tokio::test]
async fn the_same_lift_again_is_answered_as_before_and_is_one_change() {
    let (world, _, lift) = suppressed().await;
    let first = order(&world, LIFT, &lift).await;
    world.clock.advance(MINUTE);
    let again = order(&world, LIFT, &lift).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(count(&world, LINES).await, 1);
    assert_eq!(count(&world, "SELECT count(*) FROM suppression_history").await, 2);
    let without = order(&world, LIFT, &json!({ "address": "n0@example.com" })).await;
    assert_eq!(refusal(&without), (404, "no_such_suppression"));
}

#[tokio::test]
async fn a_lift_names_one_suppression_or_none() {
    let (world, _, lift) = suppressed().await;
    let other = json!({ "address": "n0@example.com", "createdAt": "2026-01-01T00:00:00.001Z" });
    assert_eq!(
        refusal(&order(&world, LIFT, &other).await),
        (409, "suppression_changed")
    );
    let nobody = json!({ "address": "n9@example.com", "createdAt": lift["createdAt"] });
    assert_eq!(
        refusal(&order(&world, LIFT, &nobody).await),
        (404, "no_such_suppression")
    );
    for wrong in ["", "yesterday", "2026-01-01T00:00:00"] {
        let order = order(
            &world,
            LIFT,
            &json!({ "address": "n0@example.com", "createdAt": wrong }),
        )
        .await;
        assert_eq!(refusal(&order), (422, "created_at_invalid"), "{wrong}");
    }
    assert_eq!(count(&world, IN_FORCE).await, 1);
    // Another way to write the same time.
    let offset = lift["createdAt"].as_str().expect("a time").replace('Z', "+00:00");
    let same = json!({ "address": "n0@example.com", "createdAt": offset });
    assert_eq!(order(&world, LIFT, &same).await.status, 200);
}
