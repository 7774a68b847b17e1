//! Where a mail is, by what was said of it, once and in any order.

use std::time::Duration;

use serde_json::json;

use super::{count, delivery, event, hear, one_sent, post_event};
use crate::doors::{PRODUCER, get};
use crate::support::Wire;

#[tokio::test]
async fn delivery_news_is_one_round_trip_and_shows_in_the_story() {
    let (world, id, mail) = one_sent().await;
    world.transport.take_requests();
    assert_eq!(
        hear(&world, "msg_1", &mail, "email.delivered", json!({})).await,
        "heard"
    );
    assert_eq!(world.transport.take_requests(), 1, "one transaction");
    assert_eq!(delivery(&world, &id).await, "delivered");
    assert_eq!(world.status(&id).await, "sent");
    let story = get(&world, &format!("/v1/intents/{id}"), Some(PRODUCER)).await;
    assert_eq!(story.body["delivery"], "delivered");
    assert_eq!(story.body["receipts"][0]["news"], "delivered");
    let events = story.body["events"].as_array().expect("events");
    let last = events.last().expect("one");
    assert_eq!(
        (last["from"].as_str(), last["to"].as_str(), last["cause"].as_str()),
        (Some("sent"), Some("sent"), Some("delivery_delivered"))
    );
}

#[tokio::test]
async fn an_event_counts_once_however_often_it_comes() {
    let (world, id, mail) = one_sent().await;
    let body = event(&world, &mail, "email.complained", &json!({}));
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "heard");
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "known");
    // Two at once.
    let (one, other) = tokio::join!(post_event(&world, "msg_2", &body), post_event(&world, "msg_2", &body));
    assert_eq!((one.status, other.status), (200, 200));
    assert_eq!(count(&world, "SELECT count(*) FROM receipts").await, 2);
    assert_eq!(count(&world, "SELECT count(*) FROM suppression_history").await, 1);
    assert_eq!(delivery(&world, &id).await, "complained");
}

#[tokio::test]
async fn an_event_that_the_database_could_not_take_leaves_no_trace_and_comes_again() {
    let (world, _, mail) = one_sent().await;
    let body = event(&world, &mail, "email.complained", &json!({}));
    world.transport.always(Some(Wire::Refuse));
    let refused = post_event(&world, "msg_1", &body).await;
    assert!(refused.status >= 500, "{}", refused.status);
    world.transport.always(None);
    assert_eq!(count(&world, "SELECT count(*) FROM receipts").await, 0);
    assert_eq!(post_event(&world, "msg_1", &body).await.body["result"], "heard");
    assert_eq!(count(&world, "SELECT count(*) FROM suppressions").await, 1);
}

#[tokio::test]
async fn worse_news_stays_and_later_news_outranks_earlier_in_every_order() {
    // What is said, in the order in which it happened; and what must be known in the end.
    let cases: [(&[&str], &str); 6] = [
        (
            &["email.sent", "email.delivery_delayed", "email.delivered"],
            "delivered",
        ),
        (&["email.delivered", "email.bounced", "email.delivered"], "bounced"),
        (&["email.complained", "email.delivered", "email.opened"], "complained"),
        (&["email.bounced", "email.complained", "email.bounced"], "complained"),
        (&["email.delivered", "email.delivery_delayed"], "delayed"),
        (&["email.sent", "email.clicked"], "delivered"),
    ];
    for (kinds, wanted) in cases {
        for turn in 0..kinds.len() {
            let (world, id, mail) = one_sent().await;
            let mut bodies = Vec::new();
            for kind in kinds {
                world.clock.advance(Duration::from_secs(60));
                bodies.push(event(&world, &mail, kind, &json!({})));
            }
            bodies.rotate_left(turn);
            for order in [bodies.clone(), bodies.iter().rev().cloned().collect()] {
                for (number, body) in order.iter().enumerate() {
                    post_event(&world, &format!("msg_{number}"), body).await;
                }
                assert_eq!(delivery(&world, &id).await, wanted, "{kinds:?} turned by {turn}");
            }
        }
    }
}

#[tokio::test]
async fn at_the_same_time_the_news_that_says_more_counts() {
    for kinds in [["email.sent", "email.delivered"], ["email.delivered", "email.sent"]] {
        let (world, id, mail) = one_sent().await;
        for (number, kind) in kinds.iter().enumerate() {
            hear(&world, &format!("msg_{number}"), &mail, kind, json!({})).await;
        }
        assert_eq!(delivery(&world, &id).await, "delivered", "{kinds:?}");
    }
}
