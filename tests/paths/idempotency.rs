//! One fact, one row: repetitions, revisions, contradictions, and secrets that are rotated.

use serde_json::{Value as Json, json};

use super::doors::post;
use crate::support::{TestWorld, config_with, integer, notice_with_key};

const K1: &str = "k1:MDEyMzQ1Njc4OWFiY2RlZg==";
const K2: &str = "k2:YWJjZGVmMDEyMzQ1Njc4OQ==";

async fn rows(world: &TestWorld) -> i64 {
    integer(&world.sql("SELECT count(*) FROM outbox", Vec::new()).await[0][0])
}

async fn id(world: &TestWorld, intent: &Json) -> String {
    let mut accepted = world.intake(std::slice::from_ref(intent)).await.expect("recorded");
    accepted.receipts.remove(0).id
}

fn rotate(world: &mut TestWorld, secrets: &str) {
    world.config.keys = config_with(&[("KEY_SECRETS", secrets)]).keys;
}

#[tokio::test]
async fn rotating_the_key_secret_makes_no_second_row_in_any_order() {
    let both = format!("{K2},{K1}");
    let old_first = format!("{K1},{K2}");
    let orders: [&[&str]; 6] = [
        &[K1, &both, K2],
        &[K1, &old_first, &both, K2],
        &[K2, &both, K1],
        &[&both, K1, K2, &both],
        &[&both, K2, K1],
        &[K1, &both, K1, &both, K2, K1],
    ];
    for order in orders {
        let mut world = TestWorld::new().await;
        let mut ids = Vec::new();
        for secrets in order {
            rotate(&mut world, secrets);
            ids.push(id(&world, &notice_with_key("n0")).await);
        }
        assert!(ids.iter().all(|other| *other == ids[0]), "{order:?}: {ids:?}");
        assert_eq!(rows(&world).await, 1, "{order:?}");
        world.deliver().await;
        assert_eq!(world.mailer.accepted(), 1, "{order:?}");
    }
}

#[tokio::test]
async fn a_newly_accepted_secrets_key_is_added_to_the_known_row() {
    let mut world = TestWorld::new().await;
    rotate(&mut world, K1);
    let known = id(&world, &notice_with_key("n0")).await;
    rotate(&mut world, &format!("{K2},{K1}"));
    id(&world, &notice_with_key("n0")).await;
    let keys = world
        .sql(
            "SELECT secret_id FROM intent_keys WHERE outbox_id = ?1 ORDER BY 1",
            vec![known.into()],
        )
        .await;
    assert_eq!(keys, vec![vec!["k1".into()], vec!["k2".into()]]);
}

#[tokio::test]
async fn another_meaning_is_noticed_under_every_accepted_secret() {
    let mut world = TestWorld::new().await;
    rotate(&mut world, K1);
    id(&world, &notice_with_key("n0")).await;
    rotate(&mut world, &format!("{K2},{K1}"));
    let mut other = notice_with_key("n0");
    other["content"]["text"] = json!("Bad news.");
    let answer = post(&world, &json!({ "intents": [other] })).await;
    assert_eq!(answer.status, 409);
}

#[tokio::test]
async fn one_contradiction_among_a_hundred_writes_nothing_and_names_its_place() {
    let world = TestWorld::new().await;
    id(&world, &notice_with_key("n41")).await;
    let mut intents: Vec<Json> = (0..100).map(|n| notice_with_key(&format!("n{n}"))).collect();
    intents[41]["to"]["email"] = json!("somebody.else@example.com");
    let answer = post(&world, &json!({ "intents": intents })).await;
    assert_eq!(
        (answer.status, answer.body["code"].as_str()),
        (409, Some("key_known_with_other_meaning"))
    );
    let errors = answer.body["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0]["path"], "/intents/41");
    assert_eq!(rows(&world).await, 1, "the row that was there");
    assert!(answer.to_publish.is_empty());
    let events = world
        .sql("SELECT count(*) FROM events WHERE from_status IS NULL", Vec::new())
        .await;
    assert_eq!(integer(&events[0][0]), 1, "no trace of the ninety-nine others");
}

#[tokio::test]
async fn a_contradicted_fact_is_named_at_every_place_of_the_request() {
    let world = TestWorld::new().await;
    id(&world, &notice_with_key("n0")).await;
    let mut other = notice_with_key("n0");
    other["content"]["text"] = json!("Bad news.");
    let answer = post(&world, &json!({ "intents": [other, notice_with_key("n1"), other] })).await;
    let paths: Vec<_> = answer.body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].clone())
        .collect();
    assert_eq!(paths, ["/intents/0", "/intents/2"]);
}

#[tokio::test]
async fn every_part_of_the_meaning_counts() {
    let world = TestWorld::new().await;
    id(&world, &notice_with_key("n0")).await;
    let changes: [fn(&mut Json); 6] = [
        |intent| intent["to"]["email"] = json!("other@example.com"),
        |intent| intent["to"]["name"] = json!("Bob"),
        |intent| intent["content"]["subject"] = json!("Another subject"),
        |intent| intent["content"]["html"] = json!("<p>Good news.</p>"),
        |intent| intent["tags"] = json!({ "a": "b" }),
        |intent| intent["notAfter"] = json!("2027-01-01T00:00:00Z"),
    ];
    for change in changes {
        let mut intent = notice_with_key("n0");
        change(&mut intent);
        let answer = post(&world, &json!({ "intents": [intent] })).await;
        assert_eq!(answer.status, 409, "{intent}");
    }
    assert_eq!(rows(&world).await, 1);
}

#[tokio::test]
async fn the_same_recipient_in_other_letters_is_the_same_meaning() {
    let world = TestWorld::new().await;
    let first = id(&world, &notice_with_key("n0")).await;
    let mut again = notice_with_key("n0");
    again["to"]["email"] = json!(" N0@EXAMPLE.com ");
    assert_eq!(id(&world, &again).await, first);
}

#[tokio::test]
async fn one_fact_twice_in_a_request_is_one_row() {
    let world = TestWorld::new().await;
    let answer = post(
        &world,
        &json!({ "intents": [notice_with_key("n0"), notice_with_key("n1"), notice_with_key("n0")] }),
    )
    .await;
    assert_eq!(answer.status, 202);
    let intents = answer.body["intents"].as_array().unwrap();
    assert_eq!(intents[0]["id"], intents[2]["id"]);
    let duplicates: Vec<_> = intents.iter().map(|one| one["duplicate"].as_bool().unwrap()).collect();
    assert_eq!(duplicates, [false, false, true]);
    assert_eq!(answer.to_publish.len(), 2);
    assert_eq!(rows(&world).await, 2);

    let mut other = notice_with_key("n5");
    other["content"]["text"] = json!("Bad news.");
    let answer = post(&world, &json!({ "intents": [notice_with_key("n5"), other] })).await;
    assert_eq!(answer.status, 409, "one fact with two meanings in one request");
    assert_eq!(answer.body["errors"][0]["path"], "/intents/1");
    assert_eq!(rows(&world).await, 2);
}

#[tokio::test]
async fn a_higher_revision_is_a_mail_of_its_own() {
    let world = TestWorld::new().await;
    let first = id(&world, &notice_with_key("n0")).await;
    let mut second = notice_with_key("n0");
    second["revision"] = json!(1);
    second["content"]["text"] = json!("Better news.");
    let revised = id(&world, &second).await;
    assert_ne!(first, revised);
    assert_eq!(id(&world, &second).await, revised);
    world.deliver().await;
    assert_eq!(world.mailer.accepted(), 2);
}

#[tokio::test]
async fn a_callers_key_and_a_familys_tuple_never_meet() {
    let world = TestWorld::new().await;
    let invitation = |identity: (&str, Json)| json!({ "family": "invitation", identity.0: identity.1, "to": "ada@example.com", "data": {} });
    let tuple = id(&world, &invitation(("key", json!({ "invitationId": "n0" })))).await;
    let caller = id(&world, &invitation(("idempotencyKey", json!("n0")))).await;
    let other_family = id(&world, &notice_with_key("n0")).await;
    assert!(tuple != caller && caller != other_family);
    assert_eq!(
        id(&world, &invitation(("key", json!({ "invitationId": "n0" })))).await,
        tuple
    );
    // A number and the text of the same digits are two facts.
    let number = id(&world, &invitation(("key", json!({ "invitationId": 7 })))).await;
    let digits = id(&world, &invitation(("key", json!({ "invitationId": "7" })))).await;
    assert_ne!(number, digits);
}
