//! What a click ends, what it leaves, and the suppression that it leaves behind.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;

use super::{announcement, click, notice, owned, record, suppressions};
use crate::support::{TestWorld, die_when, integer, text};

const LEASE_AND_SKEW: Duration = Duration::from_secs(302);

#[tokio::test]
async fn only_this_family_and_this_person_are_ended() {
    let world = TestWorld::new().await;
    let intents = [
        announcement("1", "a"),
        announcement("2", "A"),
        announcement("1b", "b"),
        notice("n1", "a"),
    ];
    let ids = record(&world, &intents).await;
    click(&world, &ids[0]).await;
    assert_eq!(world.state(&ids[0]).await, owned("suppressed", "unsubscribed"));
    assert_eq!(world.state(&ids[1]).await, owned("suppressed", "unsubscribed"));
    world.deliver().await;
    assert_eq!(world.status(&ids[2]).await, "sent", "another person");
    assert_eq!(world.status(&ids[3]).await, "sent", "another family");
    assert_eq!(world.mailer.calls(), 2);

    // What is recorded later is found at its claim, without a call.
    let later = record(
        &world,
        &[announcement("3", "a"), announcement("3b", "b"), notice("n2", "a")],
    )
    .await;
    world.deliver().await;
    assert_eq!(
        world.state(&later[0]).await,
        owned("suppressed", "recipient_suppressed")
    );
    assert_eq!(world.status(&later[1]).await, "sent");
    assert_eq!(world.status(&later[2]).await, "sent");
    assert_eq!(world.mailer.calls(), 4);
}

#[tokio::test]
async fn rows_that_wait_in_any_state_are_ended() {
    let world = TestWorld::new().await;
    world.mailer.fault(FaultKind::RateLimit, 1);
    let retry = record(&world, &[announcement("1", "a")]).await.remove(0);
    world.deliver().await;
    world.broker.refuse(true);
    let pending = record(&world, &[announcement("2", "a")]).await.remove(0);
    world.broker.refuse(false);
    let enqueued = record(&world, &[announcement("3", "a")]).await.remove(0);
    for (id, status) in [(&retry, "retry"), (&pending, "pending"), (&enqueued, "enqueued")] {
        assert_eq!(world.status(id).await, status);
    }
    click(&world, &retry).await;
    for id in [&retry, &pending, &enqueued] {
        assert_eq!(world.state(id).await, owned("suppressed", "unsubscribed"));
    }
    let rows = world.sql("SELECT count(*) FROM seals", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 0, "what will never be sent is not kept");
    world.run_for(Duration::from_secs(7_200), Duration::from_secs(60)).await;
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn a_row_in_doubt_becomes_unknown_and_is_not_sent_again() {
    let world = TestWorld::new().await;
    world.mailer.fault(FaultKind::AcceptThenDrop, 1);
    let id = record(&world, &[announcement("1", "a")]).await.remove(0);
    world.deliver().await;
    assert_eq!(world.status(&id).await, "retry");
    click(&world, &id).await;
    assert_eq!(world.state(&id).await, owned("unknown", "unsubscribed"));
    let rows = world.sql("SELECT count(*) FROM seals", vec![]).await;
    assert_eq!(integer(&rows[0][0]), 1, "a person may need it");
    world.run_for(Duration::from_secs(7_200), Duration::from_secs(60)).await;
    assert_eq!(world.status(&id).await, "unknown");
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn what_a_living_claim_holds_is_left_to_it() {
    let world = TestWorld::new().await;
    let id = record(&world, &[announcement("1", "a")]).await.remove(0);
    let before = world.transport.executed();
    let died = die_when(|| world.transport.executed() > before, world.deliver()).await;
    assert_eq!(died, None);
    assert_eq!(world.status(&id).await, "processing");
    click(&world, &id).await;
    assert_eq!(world.state(&id).await, owned("processing", "claimed"));

    // The claim ends without a word: now nobody holds it, and the next click ends it.
    world.clock.advance(LEASE_AND_SKEW);
    click(&world, &id).await;
    assert_eq!(world.state(&id).await, owned("suppressed", "unsubscribed"));
    assert_eq!(world.mailer.calls(), 0);
}

#[tokio::test]
async fn a_mail_that_is_being_sent_is_settled_by_its_worker() {
    let world = TestWorld::new().await;
    let id = record(&world, &[announcement("1", "a")]).await.remove(0);
    world.mailer.hold_next.set(true);
    let (decisions, ()) = futures_util::join!(world.deliver(), async {
        while world.mailer.calls() == 0 {
            tokio::task::yield_now().await;
        }
        click(&world, &id).await;
        assert_eq!(world.status(&id).await, "processing");
        world.mailer.let_go.set(true);
    });
    assert_eq!(decisions, [Decision::Acknowledge]);
    assert_eq!(world.status(&id).await, "sent");
}

#[tokio::test]
async fn an_answer_that_comes_after_its_claim_ended_and_the_click_is_still_proof() {
    let world = TestWorld::new().await;
    let id = record(&world, &[announcement("1", "a")]).await.remove(0);
    world.mailer.hold_next.set(true);
    futures_util::join!(world.deliver(), async {
        while world.mailer.accepted() == 0 {
            tokio::task::yield_now().await;
        }
        world.clock.advance(LEASE_AND_SKEW);
        click(&world, &id).await;
        assert_eq!(world.state(&id).await, owned("unknown", "unsubscribed"));
        world.mailer.let_go.set(true);
    });
    assert_eq!(world.state(&id).await, owned("sent", "accepted"));
}

#[tokio::test]
async fn a_click_after_the_suppression_was_lifted_is_a_fresh_wish() {
    let world = TestWorld::new().await;
    let id = record(&world, &[announcement("1", "a")]).await.remove(0);
    click(&world, &id).await;
    world.clock.advance(Duration::from_secs(60));
    world
        .sql(
            "UPDATE suppressions SET lifted_at = ?1",
            vec![1_767_225_660_000_i64.into()],
        )
        .await;
    let wanted = record(&world, &[announcement("2", "a")]).await.remove(0);
    world.deliver().await;
    assert_eq!(world.status(&wanted).await, "sent", "it was lifted");

    world.clock.advance(Duration::from_secs(60));
    click(&world, &id).await;
    assert_eq!(suppressions(&world).await, ["announcement unsubscribed"]);
    let unwanted = record(&world, &[announcement("3", "a")]).await.remove(0);
    world.deliver().await;
    assert_eq!(
        world.state(&unwanted).await,
        owned("suppressed", "recipient_suppressed")
    );
    // The mail in between took 20 ms.
    let history = world
        .sql(
            "SELECT group_concat(change || ' ' || (at - 1767225600000), ', ') FROM suppression_history",
            vec![],
        )
        .await;
    assert_eq!(text(&history[0][0]), "suppressed 0, lifted 60000, suppressed 120020");
}

#[tokio::test]
async fn a_click_weakens_no_suppression_and_outlives_one_that_ends() {
    for (family, reason, until, after) in [
        // Every family: it stays, beside the wish for this one.
        (
            "*",
            "complained",
            None,
            vec!["* complained", "announcement unsubscribed"],
        ),
        ("announcement", "bounced", None, vec!["announcement bounced"]),
        (
            "announcement",
            "manual",
            Some(1_767_225_700_000_i64),
            vec!["announcement unsubscribed"],
        ),
    ] {
        let world = TestWorld::new().await;
        let id = record(&world, &[announcement("1", "a")]).await.remove(0);
        world
            .sql(
                "INSERT INTO suppressions (recipient_hash, family, reason, until, created_at)
                 SELECT recipient_hash, ?1, ?2, ?3, 0 FROM outbox",
                vec![
                    family.into(),
                    reason.into(),
                    until.map_or(libsql::Value::Null, libsql::Value::Integer),
                ],
            )
            .await;
        click(&world, &id).await;
        assert_eq!(suppressions(&world).await, after);
    }
}

#[tokio::test]
async fn one_click_ends_a_bounded_number_and_the_claim_stops_the_rest() {
    let world = TestWorld::new().await;
    let first = record(&world, &[announcement("1", "a")]).await.remove(0);
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1005)
      INSERT INTO outbox (id, family, fingerprint, fingerprint_version, fingerprint_secret_id, recipient_hash,
        idempotency_key, status, cause, relay_at, letter_bytes, created_at, updated_at)
      SELECT 'ann_bulk' || i, 'announcement', 'f', 1, 'k1', o.recipient_hash, 'key' || i, 'pending', 'recorded', 1, 10, 1, 1
      FROM n, outbox o";
    world.sql(many, vec![]).await;
    click(&world, &first).await;
    assert_eq!(world.count("suppressed").await, 1_000);
    assert_eq!(world.count("pending").await, 6);
    assert_eq!(
        world.deliver_ids(&["ann_bulk1004"]).await,
        [Decision::Acknowledge],
        "left over"
    );
    assert_eq!(
        world.state("ann_bulk1004").await,
        owned("suppressed", "recipient_suppressed")
    );
    assert_eq!(world.mailer.calls(), 0);
}
