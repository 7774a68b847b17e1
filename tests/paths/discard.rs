//! What one cause fills the parking with goes by one order, and what was decided about goes with time.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::receipts::{count, event, hear, one_sent, post_event};
use crate::support::{TestWorld, all_pages, check_door, look, order, refusal, text};

const DAY: Duration = Duration::from_secs(24 * 3_600);
const DISCARD: &str = "/v1/parking/discard";
const OPEN: &str = "SELECT count(*) FROM parking WHERE state = 'parked'";

/// Events of a kind that nobody here knows, about mails with our tag.
async fn unknown_kinds(world: &TestWorld, number: usize) {
    for n in 0..number {
        let body = json!({ "type": "email.needle", "created_at": "2026-01-01T00:00:00Z",
            "data": { "email_id": format!("other-{n}"), "to": ["p@q.example"], "tags": { "sealpost_env": "test" } } });
        let answer = post_event(world, &format!("o_{n}"), &body.to_string()).await;
        assert_eq!(answer.body["result"], "parked");
        world.clock.advance(Duration::from_millis(10));
    }
}

async fn discard(world: &TestWorld, body: &Json) -> Json {
    let answer = order(world, DISCARD, body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

#[tokio::test]
async fn many_entries_of_a_kind_go_by_one_order_and_each_has_its_line() {
    let world = TestWorld::new().await;
    unknown_kinds(&world, 5).await;
    world.deliver_bodies(&["what?".to_owned()]).await;
    let list = look(&world, "/v1/parking").await.body;
    let reason = list["items"][0]["reason"].clone();
    let three = json!({ "source": "receipts", "reason": reason, "note": "a kind that we do not need", "limit": 3 });
    assert_eq!(discard(&world, &three).await, json!({ "discarded": 3, "more": true }));
    let left = look(&world, "/v1/parking").await.body;
    assert_eq!(left["items"][0]["hash"], list["items"][3]["hash"], "the oldest went");
    assert_eq!(discard(&world, &three).await, json!({ "discarded": 2, "more": false }));
    assert_eq!(discard(&world, &three).await, json!({ "discarded": 0, "more": false }));
    assert_eq!(count(&world, OPEN).await, 1, "what is of another kind stays");
    let lines = world
        .sql(
            "SELECT l.action || l.result || l.note FROM operator_log l JOIN parking p ON p.hash = l.subject
             WHERE p.state = 'discarded' AND p.body = '' AND p.closed_at = l.at",
            vec![],
        )
        .await;
    assert_eq!(lines.len(), 5);
    assert!(
        lines
            .iter()
            .all(|line| text(&line[0]) == "parking_discardeddiscardeda kind that we do not need")
    );
    assert_eq!(
        discard(&world, &json!({ "source": "queue", "note": "a test" })).await,
        json!({ "discarded": 1, "more": false })
    );
}

#[tokio::test]
async fn an_order_without_a_kind_or_a_reason_why_discards_nothing() {
    let world = TestWorld::new().await;
    unknown_kinds(&world, 1).await;
    for (body, code) in [
        (json!({ "note": "all of them" }), "selection_invalid"),
        (
            json!({ "source": "receipts", "note": "n", "limit": 0 }),
            "selection_invalid",
        ),
        (
            json!({ "source": "receipts", "note": "n", "limit": 101 }),
            "selection_invalid",
        ),
        (json!({ "source": "receipts" }), "note_required"),
        (json!({ "source": "receipts", "note": " " }), "note_required"),
        (
            json!({ "source": "receipts", "note": "needle@example.com" }),
            "note_names_somebody",
        ),
        (json!({ "source": 7, "note": "n" }), "order_invalid"),
        (json!({ "sources": "receipts", "note": "n" }), "order_invalid"),
    ] {
        let answer = order(&world, DISCARD, &body).await;
        assert_eq!(refusal(&answer), (422, code), "{body}");
        assert!(!answer.body.to_string().contains("needle"));
    }
    assert_eq!(
        discard(&world, &json!({ "source": "nobody", "note": "n" })).await,
        json!({ "discarded": 0, "more": false })
    );
    assert_eq!(count(&world, OPEN).await, 1);
    check_door(&world, "POST", DISCARD, "POST").await;
}

#[tokio::test]
async fn a_note_with_an_address_is_refused_at_every_door() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    let hash = "a".repeat(64);
    let note = json!("ada@example.com asked");
    for (path, mut body) in [
        ("/v1/suppressions".to_owned(), json!({ "address": "a@b.example" })),
        ("/v1/suppressions/lift".to_owned(), json!({ "address": "a@b.example" })),
        (format!("/v1/parking/{hash}/discard"), json!({})),
        (format!("/v1/parking/{hash}/replay"), json!({})),
        ("/v1/queues/outbox/retry-dead".to_owned(), json!({ "limit": 1 })),
        (format!("/v1/unknown/{id}/resolve"), json!({ "verdict": "not_sent" })),
    ] {
        body["note"] = note.clone();
        let answer = order(&world, &path, &body).await;
        assert_eq!(refusal(&answer), (422, "note_names_somebody"), "{path}");
        assert_eq!(answer.body["detail"], "Name nobody: a note is kept for good.");
    }
    assert_eq!(count(&world, "SELECT count(*) FROM operator_log").await, 0);
}

#[tokio::test]
async fn closed_entries_are_listed_in_the_order_in_which_they_were_closed() {
    let world = TestWorld::new().await;
    unknown_kinds(&world, 5).await;
    let open = look(&world, "/v1/parking").await.body;
    let hash = |index: usize| open["items"][index]["hash"].clone();
    for index in [3, 1] {
        let path = format!("/v1/parking/{}/discard", hash(index).as_str().expect("a hash"));
        order(&world, &path, &json!({ "note": "n" })).await;
        world.clock.advance(DAY);
    }
    discard(&world, &json!({ "source": "receipts", "note": "n" })).await;
    let closed = all_pages(&world, "/v1/parking?state=discarded", 1).await;
    let shown: Vec<&Json> = closed.iter().map(|entry| &entry["hash"]).collect();
    assert_eq!(shown[..2], [&hash(3), &hash(1)]);
    let mut rest: Vec<String> = [0, 2, 4].map(|index| hash(index).to_string()).to_vec();
    rest.sort();
    let last: Vec<String> = shown[2..].iter().map(|hash| hash.to_string()).collect();
    assert_eq!(
        last, rest,
        "closed at the same time: by hash, none left out and none twice"
    );
}

#[tokio::test]
async fn what_was_decided_about_is_removed_after_the_retention_and_what_waits_is_not() {
    let world = TestWorld::new().await;
    unknown_kinds(&world, 3).await;
    discard(&world, &json!({ "source": "receipts", "limit": 2, "note": "n" })).await;
    world.clock.advance(6 * DAY);
    world.tick().await;
    assert_eq!(count(&world, "SELECT count(*) FROM parking").await, 3);
    world.clock.advance(DAY);
    world.tick().await;
    assert_eq!(count(&world, "SELECT count(*) FROM parking").await, 1);
    world.clock.advance(400 * DAY);
    world.tick().await;
    assert_eq!(count(&world, OPEN).await, 1, "somebody has to look at it");
    assert_eq!(count(&world, "SELECT count(*) FROM operator_log").await, 2);
}

#[tokio::test]
async fn a_long_event_that_was_not_understood_is_kept_whole_and_can_be_replayed() {
    const KIB: usize = 1_024;
    for (bytes, kept_whole) in [(17 * KIB, true), (64 * KIB, true), (64 * KIB + 1, false)] {
        let (world, _, mail) = one_sent().await;
        let known = event(&world, &mail, "email.delivered", &json!({}));
        // White space at the end: it means the same.
        let mut body = known.replace("email.delivered", "email.teleported");
        body.push_str(&" ".repeat(bytes - body.len()));
        assert_eq!(post_event(&world, "msg_new", &body).await.body["result"], "parked");
        // A later version knows the kind.
        world
            .sql(
                "UPDATE parking SET body = replace(body, '\"email.teleported\"', '\"email.delivered\" ')",
                vec![],
            )
            .await;
        let hash = look(&world, "/v1/parking").await.body["items"][0]["hash"].clone();
        let path = format!("/v1/parking/{}/replay", hash.as_str().expect("a hash"));
        let replayed = order(&world, &path, &json!({})).await;
        if kept_whole {
            assert_eq!(
                (replayed.status, &replayed.body["event"]),
                (200, &json!("heard")),
                "{bytes}"
            );
        } else {
            assert_eq!(refusal(&replayed), (409, "body_was_cut"));
            assert_eq!(
                hear(&world, "msg_2", &mail, "email.delivered", json!({})).await,
                "heard"
            );
        }
    }
}
