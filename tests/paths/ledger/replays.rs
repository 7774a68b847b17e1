//! A backlog is brought once more: what happened already does not happen again, and a dry run says so before.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::doors::{OPERATOR, PRODUCER, get, post};
use super::{batch, number, replay, tally};
use crate::support::{TestWorld, Wire, check_door, config_with, look, notice_with_key, order, refusal};

const K1: &str = "k1:MDEyMzQ1Njc4OWFiY2RlZg==";
const K2: &str = "k2:YWJjZGVmMDEyMzQ1Njc4OQ==";
const YEAR: Duration = Duration::from_secs(366 * 24 * 3_600);

fn changed(key: &str) -> Json {
    let mut intent = notice_with_key(key);
    intent["content"]["text"] = json!("Other words.");
    intent
}

fn notices(range: std::ops::Range<usize>) -> Vec<Json> {
    range.map(|number| notice_with_key(&format!("n{number}"))).collect()
}

#[tokio::test]
async fn a_replay_sends_what_is_new_and_nothing_twice() {
    let world = TestWorld::new().await;
    let known = world.notices(3).await;
    world.deliver().await;
    world.transport.take_requests();
    let answer = replay(&world, &batch("outage-2026.11.30_a", &notices(0..5))).await;
    assert_eq!(world.transport.take_requests(), 1, "one round trip");
    assert_eq!(answer.status, 202, "{}", answer.body);
    let counts = ["new", "known", "changed"].map(|name| answer.body[name].as_u64().unwrap());
    assert_eq!(counts, [2, 3, 0]);
    for (at, id) in known.iter().enumerate() {
        let item = &answer.body["intents"][at];
        assert_eq!(
            (&item["id"], &item["outcome"], &item["status"]),
            (&json!(id), &json!("known"), &json!("sent"))
        );
    }
    assert_eq!(answer.to_publish.len(), 2);
    let ids: Vec<&str> = (3..5)
        .map(|at| answer.body["intents"][at]["id"].as_str().unwrap())
        .collect();
    world.deliver_ids(&ids).await;
    assert_eq!(world.mailer.accepted(), 5);
    assert_eq!(tally(&world, "duplicate", "notice").await, 3);
    assert!(world.notes.text().contains("outage-2026.11.30_a"));

    let again = replay(&world, &batch("outage-2026.11.30_a", &notices(0..5))).await;
    assert_eq!((&again.body["new"], &again.body["known"]), (&json!(0), &json!(5)));
    assert!(again.to_publish.is_empty());
    let totals = look(&world, "/v1/replays/outage-2026.11.30_a").await;
    assert_eq!(totals.status, 200);
    let mode = &totals.body["modes"][0];
    assert_eq!(
        ["mode", "requests", "new", "known", "changed"].map(|name| mode[name].to_string()),
        ["\"send\"", "2", "2", "8", "0"].map(str::to_owned)
    );
}

#[tokio::test]
async fn the_name_of_a_replay_stands_in_the_story_and_in_no_key() {
    let world = TestWorld::new().await;
    let first = replay(&world, &batch("b1", &notices(0..1))).await;
    let again = replay(&world, &batch("b2", &notices(0..1))).await;
    let ordinary = post(&world, &json!({ "intents": notices(0..1) })).await;
    assert_eq!(again.body["known"], 1);
    assert_eq!(ordinary.body["intents"][0]["duplicate"], true);
    let id = first.body["intents"][0]["id"].as_str().unwrap();
    let story = get(&world, &format!("/v1/intents/{id}"), Some(PRODUCER)).await.body;
    assert_eq!(story["replayBatch"], "b1");
    assert_eq!(
        (&story["events"][0]["cause"], &story["events"][0]["replayBatch"]),
        (&json!("recorded"), &json!("b1"))
    );
    let twin = TestWorld::new().await;
    twin.intake(&notices(0..1)).await.expect("recorded");
    let keys = "SELECT key FROM intent_keys";
    assert_eq!(twin.sql(keys, vec![]).await, world.sql(keys, vec![]).await);
}

#[tokio::test]
async fn what_was_changed_keeps_back_nothing_else() {
    let world = TestWorld::new().await;
    let known = world.notices(2).await;
    let mut intents = notices(0..500);
    intents[1] = changed("n1");
    let answer = replay(&world, &batch("b", &intents)).await;
    assert_eq!(answer.status, 202, "{}", answer.body["errors"]);
    let counts = ["new", "known", "changed"].map(|name| answer.body[name].as_u64().unwrap());
    assert_eq!(counts, [498, 1, 1]);
    let item = &answer.body["intents"][1];
    assert_eq!((&item["outcome"], &item["id"]), (&json!("changed"), &json!(known[1])));
    assert_eq!(number(&world, "SELECT count(*) FROM outbox").await, 500);
    assert_eq!(
        number(&world, "SELECT changed * 1000 + known FROM replays").await,
        1_001
    );
    assert_eq!(
        tally(&world, "duplicate", "notice").await,
        1,
        "a changed one is no duplicate"
    );
    assert_eq!(answer.to_publish.len(), 498);
}

#[tokio::test]
async fn what_a_request_says_twice_and_what_it_contradicts_is_answered_for_itself() {
    let world = TestWorld::new().await;
    let intents = [
        notice_with_key("n0"),
        notice_with_key("n0"),
        changed("n0"),
        notice_with_key("n1"),
    ];
    let dry = json!({ "batch": "b", "dryRun": true, "intents": intents });
    let forecast = replay(&world, &dry).await.body["forecast"].clone();
    assert_eq!(
        ["new", "known", "changed"].map(|name| forecast[name]["count"].as_u64().unwrap()),
        [2, 1, 1]
    );
    let answer = replay(&world, &batch("b", &intents)).await;
    let said: Vec<&str> = (0..4)
        .map(|at| answer.body["intents"][at]["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["new", "known", "changed", "new"]);
    assert_eq!(number(&world, "SELECT count(*) FROM outbox").await, 2);
    assert_eq!(
        number(&world, "SELECT fresh * 100 + known * 10 + changed FROM replays").await,
        211
    );
}

#[tokio::test]
async fn a_dry_run_counts_and_writes_nothing() {
    let world = TestWorld::new().await;
    let known = world.notices(2).await;
    let who = json!({ "address": "late@example.com" });
    assert_eq!(order(&world, "/v1/suppressions", &who).await.status, 200);
    let mut intents = notices(0..1);
    intents.push(changed("n1"));
    let mut closed = notice_with_key("n10");
    closed["notAfter"] = json!("2025-01-01T00:00:00Z");
    let mut early = notice_with_key("n11");
    early["notBefore"] = json!("2027-01-01T00:00:00Z");
    let mut suppressed = notice_with_key("n12");
    suppressed["to"] = json!("late@example.com");
    intents.extend([closed, early, suppressed]);
    intents.extend(notices(20..40));
    let traces =
        "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM intent_keys) + (SELECT count(*) FROM events)
      + (SELECT count(*) FROM replays) + (SELECT count(*) FROM tallies)";
    let before = number(&world, traces).await;
    world.transport.take_requests();
    let answer = replay(&world, &json!({ "batch": "b", "dryRun": true, "intents": intents })).await;
    assert_eq!(world.transport.take_requests(), 1, "one round trip");
    assert_eq!(answer.status, 200);
    let forecast = &answer.body["forecast"];
    let counts = [
        "/new",
        "/known",
        "/changed",
        "/outsideWindow/closed",
        "/outsideWindow/notYetOpen",
        "/suppressed",
    ]
    .map(|path| forecast.pointer(path).unwrap()["count"].as_u64().unwrap());
    assert_eq!(counts, [23, 1, 1, 1, 1, 1]);
    assert_eq!(
        forecast["known"]["samples"],
        json!([{ "position": 0, "id": known[0], "status": "enqueued" }])
    );
    assert_eq!(forecast["changed"]["samples"][0]["id"], json!(known[1]));
    assert_eq!(forecast["suppressed"]["samples"], json!([{ "position": 4 }]));
    assert_eq!(forecast["new"]["samples"].as_array().unwrap().len(), 10);
    assert_eq!(number(&world, traces).await, before);
    assert!(answer.to_publish.is_empty());
    assert!(!answer.body.to_string().contains('@'), "nobody is named");
    let totals = look(&world, "/v1/replays/b").await;
    assert_eq!(refusal(&totals), (404, "no_such_replay"));
    // Then for real: what was foreseen is what happens.
    let real = replay(&world, &json!({ "batch": "b", "mode": "send", "intents": intents })).await;
    assert_eq!(
        ["new", "known", "changed"].map(|name| real.body[name].as_u64().unwrap()),
        [23, 1, 1]
    );
}

#[tokio::test]
async fn a_lost_answer_is_repeated_and_counted_once() {
    let world = TestWorld::new().await;
    world.notices(1).await;
    world.transport.next(Wire::LoseAnswer);
    let answer = replay(&world, &batch("b", &notices(0..3))).await;
    assert_eq!((&answer.body["new"], &answer.body["known"]), (&json!(2), &json!(1)));
    assert_eq!(number(&world, "SELECT count(*) FROM outbox").await, 3);
    assert_eq!(
        number(
            &world,
            "SELECT count(*) * 100 + sum(fresh) * 10 + sum(known) FROM replays"
        )
        .await,
        121
    );
    assert_eq!(tally(&world, "duplicate", "notice").await, 1);
}

/// Three versions of the program run at once while the minting secret changes; a year later the rows are tombstones.
#[tokio::test]
async fn a_replay_a_year_later_finds_what_any_version_recorded() {
    let between = format!("{K1},{K2}");
    let newer = format!("{K2},{K1}");
    let versions = [K1, between.as_str(), newer.as_str()];
    for (first, second, third) in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)] {
        let mut world = TestWorld::new().await;
        let mut ids = Vec::new();
        for version in [first, second, third] {
            world.config.keys = config_with(&[("KEY_SECRETS", versions[version])]).keys;
            ids.push(
                world.intake(&notices(0..1)).await.expect("recorded").receipts[0]
                    .id
                    .clone(),
            );
        }
        world.deliver().await;
        world.clock.advance(YEAR);
        world.tick().await;
        assert_eq!(
            number(&world, "SELECT count(*) FROM outbox WHERE pruned_at IS NOT NULL").await,
            1
        );
        for version in [third, first, second] {
            world.config.keys = config_with(&[("KEY_SECRETS", versions[version])]).keys;
            let mut again = notice_with_key("n0");
            again["id"] = json!(format!("send-{version}"));
            let answer = replay(&world, &batch(&format!("b{version}"), &[again])).await;
            let item = &answer.body["intents"][0];
            assert_eq!((&item["outcome"], &item["id"]), (&json!("known"), &json!(ids[0])));
        }
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(world.mailer.accepted(), 1);
    }
}

#[tokio::test]
async fn a_revision_is_the_only_way_to_send_again() {
    let world = TestWorld::new().await;
    world.notices(1).await;
    let mut again = notice_with_key("n0");
    again["revision"] = json!(1);
    let answer = replay(&world, &batch("b", &[notice_with_key("n0"), again])).await;
    assert_eq!((&answer.body["new"], &answer.body["known"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_request_that_is_no_replay_is_refused() {
    let world = TestWorld::new().await;
    let intents = notices(0..1);
    for (body, path, code) in [
        (json!({ "intents": intents }), "/batch", "required"),
        (
            json!({ "batch": "", "intents": intents }),
            "/batch",
            "replay_batch_invalid",
        ),
        (
            json!({ "batch": "a b", "intents": intents }),
            "/batch",
            "replay_batch_invalid",
        ),
        (
            json!({ "batch": "a@b.example", "intents": intents }),
            "/batch",
            "replay_batch_invalid",
        ),
        (
            json!({ "batch": "x".repeat(65), "intents": intents }),
            "/batch",
            "replay_batch_invalid",
        ),
        (
            json!({ "batch": "b", "mode": "both", "intents": intents }),
            "/mode",
            "replay_mode_invalid",
        ),
        (
            json!({ "batch": "b", "dryRun": 1, "intents": intents }),
            "/dryRun",
            "flag_expected",
        ),
        (
            json!({ "batch": "b", "intents": [] }),
            "/intents",
            "replay_intents_expected",
        ),
        (
            json!({ "batch": "b", "intents": notices(0..501) }),
            "/intents",
            "replay_intents_expected",
        ),
        (
            json!({ "batch": "b", "since": 1, "intents": intents }),
            "/since",
            "field_unknown",
        ),
        (json!({ "batch": "b" }), "/intents", "required"),
    ] {
        let answer = replay(&world, &body).await;
        let error = &answer.body["errors"][0];
        assert_eq!(
            (answer.status, error["path"].as_str(), error["code"].as_str()),
            (422, Some(path), Some(code))
        );
    }
    assert_eq!(number(&world, "SELECT count(*) FROM outbox").await, 0);
    check_door(&world, "GET", "/v1/replays/b", "GET").await;
    assert_eq!(
        order(&world, "/v1/replays", &batch("b", &intents)).await.status,
        401,
        "a producer's door"
    );
    assert_eq!(get(&world, "/v1/replays/b", Some(OPERATOR)).await.status, 404);
}
