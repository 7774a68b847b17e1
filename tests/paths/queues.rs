//! Figures, dead letters and their retry; and the mail that the provider declines.

use std::time::Duration;

use sealpost::config::Config;
use sealpost::devstack::provider::fault::{Fault, FaultKind, Match};
use sealpost::policy::Policy;
use serde_json::{Value as Json, json};

use crate::support::{
    TestQueue, TestWorld, all_pages, check_door, config_with, integer, look, notice_with_key, order, refusal, text,
};

const SECOND: Duration = Duration::from_secs(1);
const STATS: &str = "/v1/queues/outbox/stats";
const DEAD: &str = "/v1/queues/outbox/dead-letters";
const RETRY: &str = "/v1/queues/outbox/retry-dead";
/// Tries that the family `notice` allows.
const LIMIT: usize = 12;

/// A version of the program that does not know a family.
pub(crate) fn without(family: &str, config: &Config) -> Config {
    let mut kinds = Policy::built_in_kinds();
    kinds.retain(|kind| kind.family.name != family);
    Config {
        policy: Box::leak(Box::new(Policy::of(kinds))),
        ..config.clone()
    }
}

/// Dead letters of the class `pipeline`: the version that ran did not know their family.
async fn unreadable(world: &mut TestWorld, count: usize) -> Vec<String> {
    let known = world.config.clone();
    let ids = world.notices(count).await;
    world.config = without("notice", &known);
    world.deliver().await;
    world.config = known;
    for id in &ids {
        assert_eq!(world.status(id).await, "dead_letter");
    }
    ids
}

fn declines(world: &TestWorld, to: &str, count: i64) {
    let fault = Fault {
        count,
        matches: Match {
            to: Some(to.to_owned()),
            key: None,
        },
        ..Fault::once(FaultKind::SecurityError)
    };
    world
        .mailer
        .model
        .borrow_mut()
        .faults()
        .add(vec![fault])
        .expect("a rule");
}

/// Result and reason of each item of an answer.
fn results(answer: &Json) -> Vec<(&str, &str)> {
    let word =
        |value: &'_ Json| -> &'static str { Box::leak(value.as_str().unwrap_or("-").to_owned().into_boxed_str()) };
    answer["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| (word(&item["result"]), word(&item["why"])))
        .collect()
}

#[tokio::test]
async fn a_mail_that_is_declined_uses_up_its_own_tries_and_stops_nobody_else() {
    let world = TestWorld::new().await;
    let ids = world.notices(3).await;
    declines(&world, "n1@", -1);
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    assert_eq!(
        world.state(&ids[1]).await,
        ("retry".to_owned(), "security_error".to_owned())
    );
    assert_eq!(world.count("sent").await, 2, "{}", world.notes.text());
    assert!(world.sql("SELECT 1 FROM pauses", vec![]).await.is_empty());

    queue.run_for(&world, 6 * 3_600 * SECOND, 60 * SECOND).await;
    assert_eq!(
        world.state(&ids[1]).await,
        ("dead_letter".to_owned(), "security_error".to_owned())
    );
    assert_eq!(world.mailer.calls(), 2 + LIMIT);
    let rows = world
        .sql(
            "SELECT o.dead_class, o.attempt_count, count(*), max(a.outcome) FROM outbox o
             JOIN attempts a ON a.outbox_id = o.id WHERE o.id = ?1 AND a.outcome = 'refused'",
            vec![ids[1].clone().into()],
        )
        .await;
    let limit = i64::try_from(LIMIT).unwrap();
    assert_eq!(
        rows,
        [vec!["recipient".into(), limit.into(), limit.into(), "refused".into()]]
    );
    assert_eq!(world.notes.count("dead_lettered"), 1);
    let opened = world
        .sql(
            "SELECT opened_at FROM attempts WHERE outbox_id = ?1 ORDER BY opened_at",
            vec![ids[1].clone().into()],
        )
        .await;
    let at: Vec<i64> = opened.iter().map(|row| integer(&row[0])).collect();
    let waits: Vec<i64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        waits[8] >= 20 * 60_000 && waits[0] < 180_000,
        "they back off: {waits:?}"
    );
    let seals = world.sql("SELECT count(*) FROM seals", vec![]).await;
    assert_eq!(integer(&seals[0][0]), 1, "what was frozen stays for a retry");
}

#[tokio::test]
async fn a_declined_mail_in_doubt_is_repeated_in_its_window_and_is_unknown_after_it() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    world.mailer.fault(FaultKind::SecurityError, -1);
    let queue = TestQueue::default();
    queue.run_for(&world, 22 * 3_600 * SECOND, 300 * SECOND).await;
    assert_eq!(world.status(&id).await, "retry");
    assert!(world.mailer.calls() > LIMIT, "its tries do not run out");
    queue.run_for(&world, 2 * 3_600 * SECOND, 300 * SECOND).await;
    assert_eq!(world.status(&id).await, "unknown", "{:?}", world.state(&id).await);
}

#[tokio::test]
async fn a_probe_that_is_declined_ends_the_pause_of_the_others() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    world
        .sql(
            "INSERT INTO pauses (scope, reason, until, created_at) SELECT '*', 'invalid_api_key', max(updated_at) - 1, 0
             FROM outbox",
            vec![],
        )
        .await;
    declines(&world, "n0@", 1);
    world.deliver_ids(&[&ids[0]]).await;
    assert_eq!(world.status(&ids[0]).await, "retry");
    assert!(world.sql("SELECT 1 FROM pauses", vec![]).await.is_empty());
}

#[tokio::test]
async fn a_retry_gives_a_budget_that_is_really_fresh_and_sends_the_frozen_bytes() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    declines(&world, "n0@", 2 * i64::try_from(LIMIT).unwrap());
    let queue = TestQueue::default();
    queue.run_for(&world, 6 * 3_600 * SECOND, 60 * SECOND).await;
    assert_eq!(world.status(&id).await, "dead_letter");
    world
        .sql("UPDATE outbox SET lone_deaths = 4, suspect = 1", vec![])
        .await;

    let answer = order(&world, RETRY, &json!({ "ids": [id], "note": "they say it is mended" })).await;
    assert_eq!(answer.status, 200);
    assert_eq!(results(&answer.body), [("retried", "retried_by_operator")]);
    assert_eq!(
        (&answer.body["items"][0]["id"], &answer.body["items"][0]["seq"]),
        (&json!(id), &json!(1))
    );
    let row = world
        .sql(
            "SELECT attempt_count, lone_deaths, suspect, last_error, dead_class IS NULL FROM outbox",
            vec![],
        )
        .await;
    assert_eq!(
        row,
        [vec![0.into(), 0.into(), 0.into(), "security_error".into(), 1.into()]]
    );

    queue.run_for(&world, 6 * 3_600 * SECOND, 60 * SECOND).await;
    assert_eq!(world.status(&id).await, "dead_letter");
    assert_eq!(world.mailer.calls(), 2 * LIMIT, "as many tries as the first time");
    order(&world, RETRY, &json!({ "ids": [id] })).await;
    world.clock.advance(SECOND);
    assert_eq!(world.tick().await.published, 1, "the relay's next tick brings it");
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
    let bodies = world.mailer.bodies_by_key();
    assert_eq!(bodies.len(), 1, "one key");
    assert!(bodies.values().all(|seen| seen.iter().all(|body| *body == seen[0])));
}

#[tokio::test]
async fn a_retry_says_of_each_row_what_it_did_and_why() {
    let mut world = TestWorld::new().await;
    let ids = unreadable(&mut world, 5).await;
    let late = world
        .intake(&[notice_with_key("late")])
        .await
        .expect("recorded")
        .receipts
        .remove(0)
        .id;
    order(&world, "/v1/suppressions", &json!({ "address": "N1@Example.com" })).await;
    world
        .sql(
            "UPDATE outbox SET not_after = updated_at WHERE id = ?1",
            vec![ids[2].clone().into()],
        )
        .await;
    world
        .sql(
            "UPDATE outbox SET family = 'of_tomorrow' WHERE id = ?1",
            vec![ids[3].clone().into()],
        )
        .await;
    world
        .sql(
            "UPDATE outbox SET not_before = updated_at + 3600000 WHERE id = ?1",
            vec![ids[4].clone().into()],
        )
        .await;
    let mut asked = ids.clone();
    asked.extend([late.clone(), "ntc_nobody1234".to_owned()]);
    let answer = order(&world, RETRY, &json!({ "ids": asked })).await;
    assert_eq!(
        results(&answer.body),
        [
            ("retried", "retried_by_operator"),
            ("suppressed", "recipient_suppressed"),
            ("expired", "window_missed"),
            ("still_unreadable", "outbox_id_unclaimed"),
            ("retried", "retried_by_operator"),
            ("not_dead", "enqueued"),
            ("not_found", "-"),
        ],
        "{}",
        answer.body
    );
    let mut states = Vec::new();
    for id in &ids {
        states.push(world.state(id).await);
    }
    let state = |status: &str, cause: &str| (status.to_owned(), cause.to_owned());
    assert_eq!(
        states,
        [
            state("retry", "retried_by_operator"),
            state("suppressed", "recipient_suppressed"),
            state("expired", "window_missed"),
            state("dead_letter", "outbox_id_unclaimed"),
            state("retry", "retried_by_operator"),
        ]
    );
    assert_eq!(world.mailer.calls(), 0, "nothing is sent from here");
    let lines = world
        .sql(
            "SELECT subject, result FROM operator_log WHERE action = 'dead_letter_retried' ORDER BY seq",
            vec![],
        )
        .await;
    assert_eq!(lines.len(), 6, "one line for each row that there is");
    let line = |id: &String| {
        let found = lines.iter().find(|line| text(&line[0]) == *id);
        text(&found.expect("a line")[1])
    };
    assert_eq!([line(&ids[1]), line(&late)], ["suppressed", "not_dead"]);

    // Not before its window opens, though the order came earlier.
    world.clock.advance(60 * SECOND);
    world.tick().await;
    world.deliver().await;
    assert_eq!(world.status(&ids[0]).await, "sent");
    assert_eq!(world.status(&ids[4]).await, "retry");
    assert_eq!(world.mailer.accepted(), 2, "the one and the late one");
    world.run_for(3_700 * SECOND, 60 * SECOND).await;
    assert_eq!(world.status(&ids[4]).await, "sent");
}

#[tokio::test]
async fn dead_letters_are_chosen_by_number_class_and_family_and_never_more_than_asked() {
    let mut world = TestWorld::new().await;
    let ids = unreadable(&mut world, 4).await;
    world
        .sql(
            "UPDATE outbox SET dead_class = 'recipient' WHERE id = ?1",
            vec![ids[3].clone().into()],
        )
        .await;
    let one = order(&world, RETRY, &json!({ "seq": 2 })).await.body;
    assert_eq!(one["items"][0]["id"], json!(ids[1]));
    let none = order(&world, RETRY, &json!({ "seq": 99 })).await.body;
    assert_eq!(
        none["items"],
        json!([{ "id": null, "seq": 99, "result": "not_found", "why": null }])
    );
    let none = order(&world, RETRY, &json!({ "family": "invitation" })).await.body;
    assert_eq!(none, json!({ "items": [], "next": null }));
    let first = order(
        &world,
        RETRY,
        &json!({ "class": "pipeline", "family": "notice", "limit": 1 }),
    )
    .await
    .body;
    assert_eq!(first["items"][0]["id"], json!(ids[0]), "the oldest first");
    assert_eq!(world.status(&ids[2]).await, "dead_letter");
    let rest = order(&world, RETRY, &json!({ "class": "recipient" })).await.body;
    assert_eq!(rest["items"][0]["id"], json!(ids[3]));
    assert_eq!(world.count("dead_letter").await, 1);
    order(&world, RETRY, &json!({ "limit": 100 })).await;
    assert_eq!(world.count("dead_letter").await, 0);
}

#[tokio::test]
async fn the_list_of_dead_letters_is_walked_by_pages_and_filtered() {
    let mut world = TestWorld::new().await;
    let ids = unreadable(&mut world, 5).await;
    world
        .sql(
            "UPDATE outbox SET dead_class = 'recipient', family = 'of_tomorrow' WHERE seq > 3",
            vec![],
        )
        .await;
    let all = all_pages(&world, DEAD, 2).await;
    let shown: Vec<_> = all
        .iter()
        .map(|letter| letter["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(shown, ids);
    let mut first = all[0].clone();
    first["since"] = Json::Null;
    assert_eq!(
        first,
        json!({ "id": ids[0], "seq": 1, "family": "notice", "class": "pipeline", "cause": "outbox_id_unclaimed",
            "lastError": "outbox_id_unclaimed", "attemptCount": 0, "since": null })
    );
    assert_eq!(all_pages(&world, &format!("{DEAD}?class=recipient"), 1).await.len(), 2);
    assert_eq!(all_pages(&world, &format!("{DEAD}?class=pipeline"), 2).await.len(), 3);
    assert_eq!(
        all_pages(&world, &format!("{DEAD}?family=of_tomorrow"), 5).await.len(),
        2
    );
    assert_eq!(all_pages(&world, &format!("{DEAD}?family=nobody"), 5).await.len(), 0);
    for wrong in ["?class=needle", "?after=needle", "?limit=needle"] {
        let answer = look(&world, &format!("{DEAD}{wrong}")).await;
        assert_eq!(refusal(&answer), (422, "query_invalid"), "{wrong}");
    }
    let shown = json!(all).to_string();
    assert!(!shown.contains("example.com") && !shown.contains("Ada"), "{shown}");
}

#[tokio::test]
async fn figures_tell_what_waits_and_where() {
    let mut world = TestWorld::new().await;
    let empty = look(&world, STATS).await.body;
    assert_eq!(
        empty,
        json!({ "ready": 0, "inFlight": 0, "delayed": 0, "dead": { "pipeline": 0, "recipient": 0 }, "unknown": 0,
            "parked": 0, "receiptsWaiting": 0, "suppressed": 0, "pendingAgeMs": null, "countedTo": 10_000, "more": false })
    );
    unreadable(&mut world, 3).await;
    world
        .sql("UPDATE outbox SET dead_class = 'recipient' WHERE seq = 1", vec![])
        .await;
    let mut later = notice_with_key("later");
    later["notBefore"] = "2026-01-02T00:00:00Z".into();
    let intents: Vec<Json> = (0..4)
        .map(|n| notice_with_key(&format!("w{n}")))
        .chain([later])
        .collect();
    world.intake(&intents).await.expect("recorded");
    world
        .sql(
            "UPDATE outbox SET status = 'processing', cause = 'claimed', claim_token = 'x', claim_expires_at = 1
             WHERE seq = 4",
            vec![],
        )
        .await;
    world
        .sql(
            "UPDATE outbox SET status = 'unknown', cause = 'x', relay_at = NULL WHERE seq = 5",
            vec![],
        )
        .await;
    world.deliver_bodies(&["what?".to_owned()]).await;
    world
        .sql(
            "INSERT INTO receipts (event_id, news, at, received_at, provider, provider_scope, message_id)
             VALUES ('e1', 'delivered', 1, 1, 'resend', 'main', 'm1')",
            vec![],
        )
        .await;
    order(&world, "/v1/suppressions", &json!({ "address": "a@example.com" })).await;
    order(
        &world,
        "/v1/suppressions",
        &json!({ "address": "a@example.com", "family": "notice" }),
    )
    .await;
    order(&world, "/v1/suppressions", &json!({ "address": "b@example.com" })).await;
    order(&world, "/v1/suppressions/lift", &json!({ "address": "b@example.com" })).await;
    world.clock.advance(90 * SECOND);
    let stats = look(&world, STATS).await.body;
    assert_eq!(
        stats,
        json!({ "ready": 2, "inFlight": 1, "delayed": 1, "dead": { "pipeline": 2, "recipient": 1 }, "unknown": 1,
            "parked": 4, "receiptsWaiting": 1, "suppressed": 1, "pendingAgeMs": 90_000, "countedTo": 10_000,
            "more": false })
    );
}

#[tokio::test]
async fn figures_stop_counting_where_they_say() {
    let world = TestWorld::new().await;
    world
        .sql(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10002)
             INSERT INTO parking (hash, source, reason, body, body_bytes, first_seen_at, last_seen_at)
             SELECT 'h' || i, 'queue', 'x', '', 0, 1, 1 FROM n",
            vec![],
        )
        .await;
    let stats = look(&world, STATS).await.body;
    assert_eq!((&stats["parked"], &stats["more"]), (&json!(10_001), &json!(true)));
}

#[tokio::test]
async fn orders_that_choose_nothing_or_too_much_are_refused() {
    let world = TestWorld::new().await;
    let many: Vec<String> = (0..101).map(|n| format!("ntc_{n:010}")).collect();
    for body in [
        json!({}),
        json!({ "note": "all of them" }),
        json!({ "ids": [] }),
        json!({ "ids": many }),
        json!({ "ids": ["needle@example.com"] }),
        json!({ "ids": ["ntc_0123456789"], "seq": 1 }),
        json!({ "seq": 1, "limit": 1 }),
        json!({ "limit": 0 }),
        json!({ "limit": 101 }),
    ] {
        let answer = order(&world, RETRY, &body).await;
        assert_eq!(refusal(&answer), (422, "selection_invalid"), "{body}");
        assert!(!answer.body.to_string().contains("needle"));
    }
    for body in [
        json!({ "class": "needle" }),
        json!({ "limit": -1 }),
        json!({ "all": true }),
    ] {
        assert_eq!(
            refusal(&order(&world, RETRY, &body).await),
            (422, "order_invalid"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn the_doors_open_to_operators_alone_and_for_one_queue() {
    let world = TestWorld::new().await;
    check_door(&world, "GET", STATS, "GET").await;
    check_door(&world, "GET", DEAD, "GET").await;
    check_door(&world, "POST", RETRY, "POST").await;
    for path in ["stats", "dead-letters"] {
        for name in ["outbox-dead", "Outbox", ""] {
            let answer = look(&world, &format!("/v1/queues/{name}/{path}")).await;
            assert_eq!(refusal(&answer), (404, "no_such_queue"), "{name}");
        }
    }
    let other = order(&world, "/v1/queues/outbox-dead/retry-dead", &json!({ "limit": 1 })).await;
    assert_eq!(refusal(&other), (404, "no_such_queue"));
    for path in ["/v1/queues", "/v1/queues/outbox", "/v1/queues/outbox/needle"] {
        assert_eq!(refusal(&look(&world, path).await), (404, "no_such_door"), "{path}");
    }
    let closed = TestWorld::with(config_with(&[("OPERATOR_TOKENS", "")])).await;
    assert_eq!(refusal(&look(&closed, STATS).await), (403, "door_closed"));
}
