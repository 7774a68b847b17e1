//! One-time codes and links: what went out once is what goes out in every later mail of the fact.

use std::time::Duration;

use sealpost::provider::template::{RenderError, render};
use serde_json::{Value as Json, json};

use super::super::doors::{OPERATOR, get, post};
use super::{mails, number, renewal, replay};
use crate::support::{TestWorld, Wire, config_with, notice_with_key, order, text};

const K1: &str = "k1:MDEyMzQ1Njc4OWFiY2RlZg==";
const K2: &str = "k2:YWJjZGVmMDEyMzQ1Njc4OQ==";
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

fn link(number: u32) -> String {
    format!("https://shop.example.com/cancel?t={number}")
}

/// Records one intent and returns what was said of it.
async fn send(world: &TestWorld, intent: &Json) -> Json {
    let answer = post(world, &json!({ "intents": [intent] })).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.body["intents"][0].clone()
}

async fn deliver(world: &TestWorld, intent: &Json) {
    world.deliver_ids(&[intent["id"].as_str().unwrap()]).await;
}

#[tokio::test]
async fn a_deliberate_resend_says_the_code_of_the_first_mail() {
    let world = TestWorld::new().await;
    let first = send(&world, &renewal("p1", 0, Some(&link(1)))).await;
    assert_eq!(first["secret"], "stored");
    deliver(&world, &first).await;
    world.transport.take_requests();
    let second = send(&world, &renewal("p1", 1, Some(&link(2)))).await;
    assert_eq!(world.transport.take_requests(), 1, "one round trip");
    assert_eq!(
        (&second["secret"], &second["duplicate"]),
        (&json!("reused"), &json!(false))
    );
    let third = send(&world, &renewal("p1", 2, None)).await;
    assert_eq!(third["secret"], "reused", "whatever the request carried");
    for intent in [&second, &third] {
        deliver(&world, intent).await;
    }
    let mails = mails(&world);
    assert_eq!(mails.len(), 3);
    for mail in mails {
        assert!(mail.contains(&link(1)), "{mail}");
    }
    let other = send(&world, &renewal("p2", 1, Some(&link(9)))).await;
    assert_eq!(other["secret"], "stored", "another fact");
}

#[tokio::test]
async fn a_replay_that_minted_another_code_is_a_duplicate_and_told_so() {
    let world = TestWorld::new().await;
    let first = send(&world, &renewal("p1", 0, Some(&link(1)))).await;
    let again = send(&world, &renewal("p1", 0, Some(&link(2)))).await;
    assert_eq!(
        (&again["id"], &again["duplicate"], &again["secret"]),
        (&first["id"], &json!(true), &json!("reused"))
    );
    let same = send(&world, &renewal("p1", 0, Some(&link(1)))).await;
    assert_eq!(same["secret"], "stored", "its own code is the one in the mail");
    let replayed = replay(&world, &super::batch("b", &[renewal("p1", 0, Some(&link(3)))])).await;
    assert_eq!(replayed.body["intents"][0]["outcome"], "known");
    assert_eq!(replayed.body["intents"][0]["secret"], "reused");
    deliver(&world, &first).await;
    assert!(mails(&world)[0].contains(&link(1)));
}

#[tokio::test]
async fn a_lost_answer_still_says_that_its_own_code_is_stored() {
    let world = TestWorld::new().await;
    world.transport.next(Wire::LoseAnswer);
    let first = send(&world, &renewal("p1", 0, Some(&link(1)))).await;
    assert_eq!(
        (&first["secret"], &first["duplicate"]),
        (&json!("stored"), &json!(false))
    );
    world.transport.next(Wire::LoseAnswer);
    let second = send(&world, &renewal("p1", 1, Some(&link(2)))).await;
    assert_eq!(second["secret"], "reused");
}

#[tokio::test]
async fn revisions_of_one_request_share_the_first_ones_code() {
    let world = TestWorld::new().await;
    let intents = [
        renewal("p1", 3, None),
        renewal("p1", 0, Some(&link(1))),
        renewal("p1", 1, Some(&link(2))),
    ];
    let answer = post(&world, &json!({ "intents": intents })).await;
    let said: Vec<&Json> = (0..3).map(|at| &answer.body["intents"][at]["secret"]).collect();
    assert_eq!(said, [&json!("reused"), &json!("stored"), &json!("reused")]);
    let letters = world
        .sql("SELECT DISTINCT body -> '$.secret' FROM letters", vec![])
        .await;
    assert_eq!(letters.len(), 1);
}

#[tokio::test]
async fn the_code_is_found_while_key_secrets_are_rotated() {
    let mut world = TestWorld::new().await;
    let ring = |secrets: &str| config_with(&[("KEY_SECRETS", secrets)]).keys;
    for (revision, secrets) in [K1.to_owned(), format!("{K1},{K2}"), format!("{K2},{K1}"), K2.to_owned()]
        .iter()
        .enumerate()
    {
        world.config.keys = ring(secrets);
        let revision = u32::try_from(revision).unwrap();
        send(&world, &renewal("p1", revision, Some(&link(revision)))).await;
    }
    let letters = world
        .sql("SELECT DISTINCT body -> '$.secret' FROM letters", vec![])
        .await;
    assert_eq!(letters.len(), 1);
    assert!(text(&letters[0][0]).contains(&link(0)));
}

#[tokio::test]
async fn a_code_goes_with_its_letter_and_a_new_one_is_stored_then() {
    let world = TestWorld::new().await;
    let first = send(&world, &renewal("p1", 0, Some(&link(1)))).await;
    deliver(&world, &first).await;
    let second = send(&world, &renewal("p1", 1, None)).await;
    world.clock.advance(WEEK);
    world.tick().await;
    assert_eq!(
        number(&world, "SELECT count(*) FROM letters").await,
        1,
        "the second one waits"
    );
    // The second letter still has it, so the third mail does.
    let third = send(&world, &renewal("p1", 2, Some(&link(2)))).await;
    assert_eq!(third["secret"], "reused");
    for intent in [&second, &third] {
        deliver(&world, intent).await;
    }
    assert!(mails(&world).iter().all(|mail| mail.contains(&link(1))));
    world.clock.advance(WEEK);
    world.tick().await;
    assert_eq!(number(&world, "SELECT count(*) FROM letter_secrets").await, 0);
    let fourth = send(&world, &renewal("p1", 3, Some(&link(4)))).await;
    assert_eq!(fourth["secret"], "stored");
    let again = send(&world, &renewal("p1", 0, Some(&link(5)))).await;
    assert_eq!(
        (&again["id"], again.get("secret")),
        (&first["id"], None),
        "its letter is gone"
    );
}

#[tokio::test]
async fn what_a_person_has_sent_again_says_the_same_code() {
    let world = TestWorld::new().await;
    let first = send(&world, &renewal("p1", 0, Some(&link(1)))).await;
    deliver(&world, &first).await;
    world
        .sql(
            "UPDATE outbox SET status = 'unknown', cause = 'x', settled_at = NULL, provider_message_id = NULL",
            vec![],
        )
        .await;
    let path = format!("/v1/unknown/{}/resolve", first["id"].as_str().unwrap());
    let resent = order(&world, &path, &json!({ "verdict": "send_again", "note": "asked for" })).await;
    assert_eq!(resent.status, 202, "{}", resent.body);
    deliver(&world, &resent.body).await;
    assert_eq!(mails(&world).len(), 2);
    assert!(mails(&world).iter().all(|mail| mail.contains(&link(1))));
    // Its letter alone still finds the code for a later revision.
    world
        .sql(
            "DELETE FROM letters WHERE outbox_id = ?1",
            vec![first["id"].as_str().unwrap().into()],
        )
        .await;
    assert_eq!(
        send(&world, &renewal("p1", 1, Some(&link(2)))).await["secret"],
        "reused"
    );
}

#[tokio::test]
async fn a_secret_stands_in_no_answer_and_no_note() {
    let world = TestWorld::new().await;
    let mut intent = renewal("p1", 0, None);
    intent["secret"] = json!({ "cancelUrl": "https://shop.example.com/leak-8127" });
    let first = send(&world, &intent).await;
    deliver(&world, &first).await;
    intent["revision"] = json!(1);
    let replayed = replay(&world, &super::batch("b", &[intent.clone()])).await;
    let story = get(
        &world,
        &format!("/v1/intents/{}", first["id"].as_str().unwrap()),
        Some(super::PRODUCER),
    )
    .await;
    let metrics = get(&world, "/metrics", Some(OPERATOR)).await;
    let said = [
        first.to_string(),
        replayed.body.to_string(),
        story.body.to_string(),
        String::from_utf8(metrics.bytes()).unwrap(),
        world.notes.text(),
    ]
    .concat();
    assert!(!said.contains("leak-8127") && !said.contains("cancelUrl"), "{said}");
    let tables = "SELECT count(*) FROM events e, outbox o, intent_keys k, letter_secrets s
      WHERE e.cause || o.cause || k.key || s.fact LIKE '%8127%'";
    assert_eq!(number(&world, tables).await, 0);
}

#[tokio::test]
async fn a_secret_that_no_template_can_say_is_refused() {
    let world = TestWorld::new().await;
    let mut content = notice_with_key("n0");
    content["secret"] = json!({ "code": "1" });
    let mut both = renewal("p1", 0, Some(&link(1)));
    both["data"]["secret"] = json!("x");
    let many: Json = (0..9)
        .map(|n| (format!("c{n}"), json!("1")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let with = |secret: Json| {
        let mut intent = renewal("p1", 0, None);
        intent["secret"] = secret;
        intent
    };
    for (intent, code) in [
        (content, "secret_needs_template"),
        (both, "secret_in_data"),
        (with(json!({})), "secrets_count"),
        (with(many), "secrets_count"),
        (with(json!({ "code": "" })), "secret_invalid"),
        (with(json!({ "code": "x".repeat(513) })), "secret_invalid"),
        (with(json!({ "code": "1\n2" })), "secret_invalid"),
        (with(json!({ "Code": "1" })), "secret_name_invalid"),
        (with(json!({ "a-b": "1" })), "secret_name_invalid"),
        (with(json!({ "c".repeat(41): "1" })), "secret_name_invalid"),
        (with(json!({ "code": 1 })), "string_expected"),
        (with(json!("1")), "object_expected"),
    ] {
        let answer = post(&world, &json!({ "intents": [intent] })).await;
        assert_eq!(
            (answer.status, answer.body["errors"][0]["code"].as_str()),
            (422, Some(code)),
            "{}",
            answer.body
        );
    }
    let widest: Json = (0..8)
        .map(|n| (format!("c{n}{}", "x".repeat(38)), json!("\u{1F4A1}".repeat(128))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(send(&world, &with(widest)).await["secret"], "stored");
}

#[test]
fn a_secret_reaches_the_letter_and_one_that_is_missing_leaves_no_hole() {
    let needed = renewal("p1", 0, None)["data"].clone();
    let plain = render("renewal_notice", &needed).expect("no secret is needed");
    assert!(!plain.text.contains("for you alone"));
    let with = |link: &str| {
        let mut data = needed.clone();
        data["secret"] = json!({ "cancelUrl": link });
        render("renewal_notice", &data)
    };
    let letter = with(&link(8_127)).expect("a link");
    assert!(letter.text.contains(&link(8_127)) && letter.html.contains(&link(8_127)));
    assert_eq!(with("javascript:alert(1)").err(), Some(RenderError::DataInvalid));
}
