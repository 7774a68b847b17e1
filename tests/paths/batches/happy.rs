use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::ports::Clock as _;

use super::{campaign, deliver, ids_are_right, mail, mails_to, number, requests, states, world, world_with};
use crate::support::{ONE_BY_ONE, notice_with_key};

#[tokio::test]
async fn a_hundred_mails_are_one_call_and_three_round_trips() {
    let world = world().await;
    let ids = campaign(&world, 100).await;
    world.transport.take_requests();
    let decisions = world.deliver().await;
    assert_eq!(world.transport.take_requests(), 3);
    assert_eq!(decisions, vec![Decision::Acknowledge; 100]);
    assert_eq!(states(&world, &ids).await, vec!["sent"; 100]);
    let seen = requests(&world);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].0, "/emails/batch");
    assert!(seen[0].1.starts_with("bat_"), "{}", seen[0].1);
    assert_eq!(world.mailer.accepted(), 100);
    ids_are_right(&world).await;
    assert_eq!(
        number(&world, "SELECT count(*) FROM batch_seals").await,
        0,
        "the bytes went with the last member"
    );
    assert_eq!(number(&world, "SELECT count(*) FROM seals").await, 0);
    assert_eq!(
        number(&world, "SELECT count(*) FROM outbox WHERE provider_scope = 'main'").await,
        100
    );
}

#[tokio::test]
async fn batches_and_single_mails_share_the_round_trips() {
    let world = world().await;
    let mut intents: Vec<_> = (0..30).map(|number| mail(&format!("c{number}"))).collect();
    intents.extend((0..5).map(|number| notice_with_key(&format!("n{number}"))));
    world.intake(&intents).await.expect("recorded");
    world.tick().await;
    world.transport.take_requests();
    world.deliver().await;
    assert_eq!(world.transport.take_requests(), 3);
    assert_eq!(world.count("sent").await, 35);
    let doors: Vec<String> = requests(&world).into_iter().map(|(path, _, _)| path).collect();
    assert_eq!(doors.iter().filter(|path| *path == "/emails/batch").count(), 1);
    assert_eq!(doors.len(), 6);
    ids_are_right(&world).await;
}

#[tokio::test]
async fn one_mail_alone_goes_out_by_itself() {
    let world = world().await;
    campaign(&world, 1).await;
    world.deliver().await;
    assert_eq!(world.count("sent").await, 1);
    assert_eq!(requests(&world)[0].0, "/emails");
    assert_eq!(number(&world, "SELECT count(*) FROM provider_batches").await, 0);
}

#[tokio::test]
async fn a_batch_takes_one_slot_of_the_pace() {
    let world = world_with(&[("PACE_PER_SECOND", "1")]).await;
    campaign(&world, 50).await;
    let before = world.clock.now();
    world.deliver().await;
    assert_eq!(world.count("sent").await, 50);
    let next = number(&world, "SELECT next_free_at FROM pace").await;
    assert_eq!(next - before.get(), 1_000);
}

/// Two batches are repeated in one claim, the first of them to a domain that has no room for a while: the second must
/// not go out before the mails of the first have drained from the buckets that both take from.
#[tokio::test]
async fn a_batch_keeps_its_distance_from_one_that_waits_for_its_domain() {
    let mut world = world_with(&[&[("PACE_PER_DOMAIN_PER_MINUTE", "600")], ONE_BY_ONE].concat()).await;
    world.config.policy = crate::support::policy_with(|family| {
        (family.quiet_hours, family.pace_per_minute) = (None, 60);
    });
    let mut ids = Vec::new();
    for domain in ["slow", "fast"] {
        let mails: Vec<_> = (0..5)
            .map(|number| {
                let mut mail = mail(&format!("{domain}{number}"));
                mail["to"] = serde_json::json!(format!("m{number}@{domain}.example"));
                mail
            })
            .collect();
        let accepted = world.intake(&mails).await.expect("recorded");
        let of_domain: Vec<String> = accepted.receipts.into_iter().map(|receipt| receipt.id).collect();
        world.mailer.fault(FaultKind::ServiceUnavailable, 1);
        deliver(&world, &of_domain).await;
        world.clock.advance(Duration::from_secs(10));
        ids.extend(of_domain);
    }
    assert_eq!(requests(&world).len(), 2, "two batches in doubt");
    world.clock.advance(Duration::from_secs(60));
    let free = world.clock.now().plus(Duration::from_secs(8)).get();
    world
        .sql(
            "UPDATE pace SET next_free_at = ?1 WHERE name = (SELECT 'domain:' || domain_hash FROM outbox ORDER BY seq LIMIT 1)",
            vec![free.into()],
        )
        .await;
    deliver(&world, &ids).await;
    assert_eq!(world.count("sent").await, 10);
    let model = world.mailer.model.borrow();
    let at: Vec<i64> = model.ledger().requests().iter().map(|seen| seen.at.get()).collect();
    assert!(
        at[3] - at[2] >= 5_000,
        "five mails of a family with one a second: {at:?}"
    );
}

#[tokio::test]
async fn on_the_smallest_plan_a_hundred_mails_still_go_out_at_once() {
    let world = world_with(&[("SUBREQUEST_BUDGET", "50")]).await;
    campaign(&world, 100).await;
    world.deliver().await;
    assert_eq!(world.count("sent").await, 100);
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn letters_that_are_too_long_together_are_several_batches() {
    let world = world().await;
    let long = "x".repeat(200_000);
    let mails: Vec<_> = (0..12)
        .map(|number| {
            let mut mail = mail(&format!("c{number}"));
            mail["content"]["text"] = serde_json::json!(long);
            mail
        })
        .collect();
    for chunk in mails.chunks(4) {
        world.intake(chunk).await.expect("recorded");
    }
    world.deliver().await;
    world.run_for(Duration::from_secs(300), Duration::from_secs(30)).await;
    assert_eq!(world.count("sent").await, 12);
    assert!(world.mailer.calls() >= 3, "{} calls", world.mailer.calls());
    assert_eq!(mails_to(&world, "c3"), 1);
}
