//! Suppressions: whom they block, and whom not; until when; and what operators see and order.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::ports::Clock as _;
use serde_json::{Value as Json, json};

use crate::support::{
    TestQueue, TestWorld, all_pages, check_door, config_with, integer, look, notice_with_key, order, refusal, text,
};

const SECOND: Duration = Duration::from_secs(1);
const SUPPRESSIONS: &str = "/v1/suppressions";
const LIFT: &str = "/v1/suppressions/lift";
const LOOK_UP: &str = "/v1/suppressions/look-up";

fn to(key: &str, to: impl Into<Json>) -> Json {
    let mut intent = notice_with_key(key);
    intent["to"] = to.into();
    intent
}

async fn record(world: &TestWorld, intents: &[Json]) -> Vec<String> {
    let accepted = world.intake(intents).await.expect("recorded");
    accepted.receipts.into_iter().map(|receipt| receipt.id).collect()
}

async fn suppress(world: &TestWorld, address: &str) -> Json {
    let answer = order(world, SUPPRESSIONS, &json!({ "address": address })).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

fn blocked() -> (String, String) {
    ("suppressed".to_owned(), "recipient_suppressed".to_owned())
}

#[tokio::test]
async fn every_spelling_of_a_suppressed_address_is_blocked_and_a_tag_is_another_recipient() {
    let world = TestWorld::new().await;
    suppress(&world, "Reader@Example.com").await;
    suppress(&world, "reader@b\u{fc}cher.example").await;
    let ids = record(
        &world,
        &[
            to("a", "reader@example.com"),
            to("b", "READER@EXAMPLE.COM"),
            to("c", " reader@example.com "),
            to("d", "R <reader@example.com>"),
            to("e", json!({ "email": "Reader@example.COM", "name": "R" })),
            to("f", "reader@xn--bcher-kva.example"),
            to("g", "reader@B\u{dc}CHER.example"),
            to("h", "reader+x@example.com"),
            to("i", "other@example.com"),
        ],
    )
    .await;
    world.deliver().await;
    for id in &ids[..7] {
        assert_eq!(world.state(id).await, blocked());
    }
    for id in &ids[7..] {
        assert_eq!(world.status(id).await, "sent");
    }
    assert_eq!(world.mailer.calls(), 2, "blocked mails cost no call");
    let rows = world.sql("SELECT count(*) FROM seals", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 0, "nor are they rendered");
}

#[tokio::test]
async fn the_check_is_made_when_the_mail_falls_due_however_it_got_there() {
    let world = TestWorld::new().await;
    let queue = TestQueue::default();
    let mut delayed = to("delayed", "reader@example.com");
    delayed["notBefore"] = "2026-01-01T00:30:00Z".into();
    let mut soon = to("soon", "reader@example.com");
    soon["notBefore"] = "2026-01-01T00:00:30Z".into();
    let ids = record(&world, &[delayed, soon, to("retry", "reader@example.com")]).await;
    world.mailer.fault(FaultKind::RateLimit, 1);
    queue.deliver(&world).await;
    assert_eq!(world.status(&ids[2]).await, "retry");
    assert_eq!(world.mailer.calls(), 1);

    suppress(&world, "READER@example.com").await;
    queue.run_for(&world, 2_400 * SECOND, 30 * SECOND).await;
    for id in &ids {
        assert_eq!(world.state(id).await, blocked());
    }
    assert_eq!(world.mailer.calls(), 1, "no further call");
    assert_eq!(world.mailer.accepted(), 0);
    let seals = world.sql("SELECT count(*) FROM seals", vec![]).await;
    assert_eq!(integer(&seals[0][0]), 0, "the seal goes with the row");
}

#[tokio::test]
async fn a_batch_of_suppressed_recipients_ends_whole_and_shows_in_no_figure_of_what_waits() {
    let world = TestWorld::new().await;
    suppress(&world, "n0@example.com").await;
    suppress(&world, "n1@example.com").await;
    let ids = world.notices(3).await;
    world.deliver().await;
    assert_eq!(world.state(&ids[0]).await, blocked());
    assert_eq!(world.state(&ids[1]).await, blocked());
    assert_eq!(world.status(&ids[2]).await, "sent");
    let stats = look(&world, "/v1/queues/outbox/stats").await.body;
    let waits = ["ready", "inFlight", "delayed", "unknown"].map(|name| stats[name].as_i64());
    assert_eq!(waits, [Some(0); 4], "{stats}");
    assert_eq!(stats["suppressed"], 2);
}

#[tokio::test]
async fn a_suppression_of_one_family_blocks_that_family_alone() {
    let world = TestWorld::new().await;
    let answer = order(
        &world,
        SUPPRESSIONS,
        &json!({ "address": "ada@example.com", "family": "invitation", "reason": "unsubscribed" }),
    )
    .await;
    assert_eq!(
        (answer.status, &answer.body["family"]),
        (200, &json!("invitation")),
        "{}",
        answer.body
    );
    assert_eq!(answer.body["reason"], "unsubscribed");
    let invitation = json!({
        "family": "invitation", "key": { "invitationId": "i-1" }, "to": "ada@example.com",
        "data": { "company": "Northwind", "inviterName": "Grace", "programme": "Mentoring",
            "acceptUrl": "https://example.com/i-1" },
    });
    let ids = record(&world, &[invitation, to("n", "ada@example.com")]).await;
    world.deliver().await;
    assert_eq!(world.state(&ids[0]).await, blocked());
    assert_eq!(world.status(&ids[1]).await, "sent");
}

#[tokio::test]
async fn a_suppression_ends_at_its_time_and_a_lift_ends_it_at_once() {
    let world = TestWorld::new().await;
    let ends = json!({ "address": "n0@example.com", "until": "2026-01-01T00:10:00+00:00", "note": "on leave" });
    let entry = order(&world, SUPPRESSIONS, &ends).await.body;
    assert_eq!(entry["until"], "2026-01-01T00:10:00.000Z");
    assert_eq!(entry["inForce"], true);
    world.clock.advance(600 * SECOND);
    let list = look(&world, SUPPRESSIONS).await.body;
    assert_eq!(
        list,
        json!({ "items": [], "next": null }),
        "what has ended is not in force"
    );
    let all = look(&world, "/v1/suppressions?all=true").await.body;
    assert_eq!(all["items"][0]["inForce"], false);
    let gone = order(&world, LIFT, &json!({ "address": "n0@example.com" })).await;
    assert_eq!(refusal(&gone), (404, "no_such_suppression"));

    suppress(&world, "n1@example.com").await;
    let lifted = order(
        &world,
        LIFT,
        &json!({ "address": "N1@example.com", "note": "asked for it" }),
    )
    .await;
    assert_eq!(lifted.status, 200);
    assert_eq!(lifted.body["liftedAt"], "2026-01-01T00:10:00.000Z");
    assert_eq!(lifted.body["inForce"], false);
    let again = order(&world, LIFT, &json!({ "address": "n1@example.com" })).await;
    assert_eq!(refusal(&again), (404, "no_such_suppression"));

    let ids = world.notices(2).await;
    world.deliver().await;
    for id in &ids {
        assert_eq!(world.status(id).await, "sent");
    }
}

#[tokio::test]
async fn the_same_order_twice_is_one_change_and_a_shorter_one_takes_nothing_back() {
    let world = TestWorld::new().await;
    let complained = json!({ "address": "ada@example.com", "reason": "complained" });
    let first = order(&world, SUPPRESSIONS, &complained).await.body;
    world.clock.advance(SECOND);
    assert_eq!(order(&world, SUPPRESSIONS, &complained).await.body, first);
    let shorter = json!({ "address": "ada@example.com", "until": "2026-02-01T00:00:00Z" });
    assert_eq!(order(&world, SUPPRESSIONS, &shorter).await.body, first);

    let hash = first["recipientHash"].as_str().expect("a hash");
    let known = order(&world, LOOK_UP, &json!({ "recipientHash": hash })).await.body;
    assert_eq!(known["history"].as_array().map(Vec::len), Some(1), "{known}");

    // A longer one does, and one after a lift is a new one.
    order(&world, LIFT, &json!({ "recipientHash": hash.to_uppercase() })).await;
    world.clock.advance(SECOND);
    assert_eq!(
        order(&world, SUPPRESSIONS, &shorter).await.body["until"],
        "2026-02-01T00:00:00.000Z"
    );
    let longer = suppress(&world, "ada@example.com").await;
    assert_eq!(
        (&longer["until"], &longer["reason"]),
        (&Json::Null, &json!("manual")),
        "{longer}"
    );
    let known = order(&world, LOOK_UP, &json!({ "address": "Ada <ADA@example.com>" }))
        .await
        .body;
    let steps: Vec<_> = known["history"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| (change["change"].as_str().unwrap(), change["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(
        steps,
        [
            ("suppressed", "complained"),
            ("lifted", "complained"),
            ("suppressed", "manual"),
            ("suppressed", "manual")
        ]
    );
    assert_eq!(known["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(known["entries"][0]["inForce"], true);
}

#[tokio::test]
async fn an_order_of_a_person_counts_as_a_fact_of_its_own_time() {
    let world = TestWorld::new().await;
    suppress(&world, "ada@example.com").await;
    let rows = world.sql("SELECT fact_at, created_at FROM suppressions", vec![]).await;
    let now = world.clock.now().get();
    assert_eq!((integer(&rows[0][0]), integer(&rows[0][1])), (now, now));
}

#[tokio::test]
async fn the_list_is_walked_by_pages_and_tells_no_address() {
    let world = TestWorld::new().await;
    for number in 0..7 {
        suppress(&world, &format!("needle{number}@example.com")).await;
    }
    order(&world, LIFT, &json!({ "address": "needle3@example.com" })).await;
    order(
        &world,
        SUPPRESSIONS,
        &json!({ "address": "needle4@example.com", "family": "notice" }),
    )
    .await;
    let in_force = all_pages(&world, SUPPRESSIONS, 3).await;
    assert_eq!(in_force.len(), 7);
    let all = all_pages(&world, "/v1/suppressions?all=true", 2).await;
    assert_eq!(all.len(), 8);
    let mut keys: Vec<String> = all
        .iter()
        .map(|entry| format!("{} {}", entry["recipientHash"], entry["family"]))
        .collect();
    keys.dedup();
    assert_eq!(keys.len(), 8, "none twice");
    let shown = json!([in_force, all]).to_string() + &world.notes.text();
    assert!(!shown.contains("needle"), "{shown}");
    for wrong in ["?limit=0", "?all=maybe", "?after=nodot"] {
        let answer = look(&world, &format!("{SUPPRESSIONS}{wrong}")).await;
        assert_eq!(refusal(&answer), (422, "query_invalid"), "{wrong}");
    }
}

#[tokio::test]
async fn every_order_leaves_a_line_with_who_and_why() {
    let world = TestWorld::new().await;
    order(
        &world,
        SUPPRESSIONS,
        &json!({ "address": "ada@example.com", "note": "by phone" }),
    )
    .await;
    order(&world, LIFT, &json!({ "address": "ada@example.com" })).await;
    order(&world, LIFT, &json!({ "address": "ada@example.com" })).await;
    let lines = world
        .sql(
            "SELECT action, result, coalesce(note, '-'), length(operator) > 0, length(subject) FROM operator_log ORDER BY seq",
            vec![],
        )
        .await;
    let lines: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                text(&line[0]),
                text(&line[1]),
                text(&line[2]),
                integer(&line[3]),
                integer(&line[4]),
            )
        })
        .collect();
    let line = |action: &str, note: &str| (action.to_owned(), "*".to_owned(), note.to_owned(), 1, 64);
    assert_eq!(
        lines,
        [
            line("recipient_suppressed", "by phone"),
            line("suppression_lifted", "-")
        ]
    );
}

#[tokio::test]
async fn orders_that_name_nobody_or_nothing_known_are_refused_and_write_nothing() {
    let world = TestWorld::new().await;
    let hash = "0".repeat(64);
    let cases = [
        (json!({}), "recipient_required"),
        (
            json!({ "address": "a@b.example", "recipientHash": hash }),
            "recipient_required",
        ),
        (json!({ "recipientHash": "abc" }), "recipient_required"),
        (json!({ "address": "needle" }), "address_invalid"),
        (json!({ "address": "a@b.example, c@d.example" }), "address_invalid"),
        (
            json!({ "address": "a@b.example", "family": "needle" }),
            "family_unknown",
        ),
        (
            json!({ "address": "a@b.example", "until": "2026-01-01T00:00:00Z" }),
            "until_invalid",
        ),
        (
            json!({ "address": "a@b.example", "until": "2027-01-01T00:00:00" }),
            "until_invalid",
        ),
        (json!({ "address": "a@b.example", "reason": "needle" }), "order_invalid"),
        (json!({ "address": "a@b.example", "needle": 1 }), "order_invalid"),
        (json!({ "address": 7 }), "order_invalid"),
        (
            json!({ "address": "a@b.example", "note": "x".repeat(1_001) }),
            "note_too_long",
        ),
    ];
    world.transport.take_requests();
    for (body, code) in cases {
        let answer = order(&world, SUPPRESSIONS, &body).await;
        assert_eq!(refusal(&answer), (422, code), "{body}");
        assert!(!answer.body.to_string().contains("needle"), "{}", answer.body);
    }
    for path in [LIFT, LOOK_UP] {
        assert_eq!(
            refusal(&order(&world, path, &json!({})).await),
            (422, "recipient_required")
        );
    }
    assert_eq!(world.transport.take_requests(), 0, "the database is not asked");
}

#[tokio::test]
async fn the_doors_open_to_operators_alone() {
    let world = TestWorld::new().await;
    check_door(&world, "GET", SUPPRESSIONS, "GET, POST").await;
    check_door(&world, "POST", SUPPRESSIONS, "GET, POST").await;
    check_door(&world, "POST", LIFT, "POST").await;
    check_door(&world, "POST", LOOK_UP, "POST").await;
    assert_eq!(
        refusal(&look(&world, "/v1/suppressions/needle").await),
        (404, "no_such_door")
    );
    let closed = TestWorld::with(config_with(&[("OPERATOR_TOKENS", "")])).await;
    assert_eq!(refusal(&look(&closed, SUPPRESSIONS).await), (403, "door_closed"));
}
