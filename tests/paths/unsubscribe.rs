//! The recipient's own door: a link that ends one kind of mail for one person, and nothing else.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::operate::{Answer, Request, answer};
use sealpost::outbox::unsubscribe::token;
use serde_json::{Value as Json, json};

use crate::support::{TestQueue, TestWorld, Wire, config_with, die_when, integer, notice_with_key, text};

const ASK: &str = "<h1>Stop these mails?</h1>";
const DONE: &str = "You will get no more mails of this kind.</p>\n<p class=";
const LEASE_AND_SKEW: Duration = Duration::from_secs(302);

fn announcement(reference: &str, to: &str) -> Json {
    json!({
        "family": "announcement",
        "key": { "reference": reference },
        "to": { "email": format!("{to}@example.com"), "name": "Ada" },
        "content": { "subject": format!("News {reference}"), "text": "Good news." },
    })
}

fn notice(key: &str, to: &str) -> Json {
    let mut notice = notice_with_key(key);
    notice["to"]["email"] = format!("{to}@example.com").into();
    notice
}

async fn record(world: &TestWorld, intents: &[Json]) -> Vec<String> {
    let accepted = world.intake(intents).await.expect("recorded");
    accepted.receipts.into_iter().map(|receipt| receipt.id).collect()
}

/// The path of the link in the mail that went out last.
fn link(world: &TestWorld) -> String {
    let model = world.mailer.model.borrow();
    let headers = &model.ledger().sent().back().expect("a mail went out").mail.headers;
    assert_eq!(headers["List-Unsubscribe-Post"], "List-Unsubscribe=One-Click");
    let link = &headers["List-Unsubscribe"];
    let path = link.strip_prefix("<https://mail.example.com").expect("where we are");
    path.strip_suffix('>').expect("one address").to_owned()
}

/// The path of a row's link.
fn link_of(world: &TestWorld, id: &str) -> String {
    format!("/v1/unsubscribe/{}", token(&world.config.recipient_secret, id))
}

async fn ask(world: &TestWorld, method: &str, path: &str) -> Answer {
    let request = Request {
        method,
        path,
        content_type: Some("application/x-www-form-urlencoded"),
        body: Some(b"List-Unsubscribe=One-Click"),
        ..Request::default()
    };
    answer(world, &world.config, &request).await
}

pub(crate) async fn click(world: &TestWorld, id: &str) {
    let answer = ask(world, "POST", &link_of(world, id)).await;
    assert_eq!(answer.status, 200);
    assert!(page(&answer).contains(DONE), "{}", page(&answer));
}

fn page(answer: &Answer) -> &str {
    answer.page.as_deref().expect("a page")
}

/// Everything that a click could change, as one text.
async fn all(world: &TestWorld) -> String {
    let rows = world
        .sql(
            "SELECT (SELECT group_concat(id || status || cause || updated_at || coalesce(relay_at, 0)) FROM outbox)
               || (SELECT count(*) FROM suppressions) || '/' || (SELECT count(*) FROM suppression_history)
               || '/' || (SELECT count(*) FROM events)",
            vec![],
        )
        .await;
    text(&rows[0][0])
}

/// Reason, lifting, end and source of the suppressions that there are, by family.
async fn suppressions(world: &TestWorld) -> Vec<String> {
    let rows = world
        .sql(
            "SELECT family || ' ' || reason || coalesce(' lifted ' || lifted_at, '') || coalesce(' until ' || until, '')
             FROM suppressions ORDER BY recipient_hash, family",
            vec![],
        )
        .await;
    rows.iter().map(|row| text(&row[0])).collect()
}

fn owned(status: &str, cause: &str) -> (String, String) {
    (status.to_owned(), cause.to_owned())
}

#[tokio::test]
async fn the_link_of_a_mail_works_and_looking_at_it_changes_nothing() {
    let world = TestWorld::new().await;
    let sent = record(&world, &[announcement("1", "a")]).await.remove(0);
    world.deliver().await;
    assert_eq!(world.status(&sent).await, "sent");
    let path = link(&world);
    let waiting = record(&world, &[announcement("2", "a")]).await.remove(0);

    let before = all(&world).await;
    for _ in 0..2 {
        let answer = ask(&world, "GET", &path).await;
        assert_eq!((answer.status, answer.content_type), (200, "text/html; charset=utf-8"));
        assert!(page(&answer).contains(ASK));
    }
    assert_eq!(world.transport.take_requests(), 0, "nobody was asked");
    assert_eq!(all(&world).await, before);
    assert_eq!(world.status(&waiting).await, "enqueued");

    for _ in 0..2 {
        let answer = ask(&world, "POST", &path).await;
        assert_eq!(answer.status, 200);
        assert!(page(&answer).contains(DONE));
        assert_eq!(world.transport.take_requests(), 1, "one transaction");
        world.clock.advance(Duration::from_secs(5));
    }
    assert_eq!(world.state(&waiting).await, owned("suppressed", "unsubscribed"));
    assert_eq!(world.status(&sent).await, "sent", "what went out, went out");
    assert_eq!(suppressions(&world).await, ["announcement unsubscribed"]);
    let history = world.sql("SELECT count(*) FROM suppression_history", vec![]).await;
    assert_eq!(integer(&history[0][0]), 1, "the second click is no news");
    assert_eq!(world.deliver().await, [Decision::Acknowledge]);
    assert_eq!(world.mailer.calls(), 1);
}

#[tokio::test]
async fn any_body_will_do_because_the_token_is_the_proof() {
    let form = "--b\r\ncontent-disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n";
    for (content_type, body) in [
        (
            Some("application/x-www-form-urlencoded"),
            Some("List-Unsubscribe=One-Click"),
        ),
        (Some("multipart/form-data; boundary=b"), Some(form)),
        (Some("application/x-www-form-urlencoded"), Some("")),
        (None, None),
    ] {
        let world = TestWorld::new().await;
        let id = record(&world, &[announcement("1", "a")]).await.remove(0);
        let path = link_of(&world, &id);
        let request = Request {
            method: "POST",
            path: &path,
            content_type,
            body: body.map(str::as_bytes),
            ..Request::default()
        };
        let answer = answer(&world, &world.config, &request).await;
        assert_eq!(answer.status, 200, "{content_type:?}");
        assert_eq!(world.state(&id).await, owned("suppressed", "unsubscribed"));
    }
}

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
async fn a_row_in_doubt_becomes_unknown_and_late_proof_still_lifts_it() {
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
async fn a_link_that_is_not_ours_changes_nothing() {
    let world = TestWorld::new().await;
    let ids = record(&world, &[announcement("1", "a"), announcement("2", "b")]).await;
    let good = token(&world.config.recipient_secret, &ids[0]);
    let (_, proof) = good.split_once('.').unwrap();
    let before = all(&world).await;
    let wrong = [
        good[..good.len() - 1].to_owned(),
        ids[0].clone(),
        format!("{}.{proof}", ids[1]),
        format!("{good}="),
        format!("{}.{}", ids[0], "A".repeat(22)),
        "%00".to_owned(),
        "' OR 1=1 --".to_owned(),
        String::new(),
        // Signed by us, and there is no such row.
        token(&world.config.recipient_secret, "ann_000000000000000000000000"),
    ];
    world.transport.take_requests();
    for (asked, token) in wrong.iter().enumerate() {
        let answer = ask(&world, "POST", &format!("/v1/unsubscribe/{token}")).await;
        assert_eq!(answer.status, 404, "{token}");
        assert!(page(&answer).contains("This link does not work"));
        assert!(
            world.transport.take_requests() == usize::from(asked + 1 == wrong.len()),
            "{token}"
        );
    }
    assert_eq!(all(&world).await, before);
    for method in ["PUT", "DELETE", "HEAD"] {
        assert_eq!(
            ask(&world, method, &format!("/v1/unsubscribe/{good}")).await.status,
            405
        );
    }
    world.deliver().await;
    assert_eq!(world.count("sent").await, 2);
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

#[tokio::test]
async fn a_database_that_cannot_take_it_asks_to_try_again() {
    for (wire, error) in [
        (Wire::Refuse, "database_ambiguous"),
        (Wire::LoseAnswer, "database_ambiguous"),
    ] {
        let world = TestWorld::new().await;
        let id = record(&world, &[announcement("1", "a")]).await.remove(0);
        world.transport.always(Some(wire.clone()));
        let answer = ask(&world, "POST", &link_of(&world, &id)).await;
        world.transport.always(None);
        assert_eq!(answer.status, 503, "{wire:?}");
        assert!(page(&answer).contains("try again in a minute"));
        assert!(answer.headers.contains(&("retry-after", "60".to_owned())));
        assert_eq!(world.notes.count("database_failed"), 1);
        assert!(world.notes.text().contains(error), "{}", world.notes.text());
        click(&world, &id).await;
        assert_eq!(suppressions(&world).await, ["announcement unsubscribed"]);
        assert_eq!(world.state(&id).await, owned("suppressed", "unsubscribed"));
    }
}

#[tokio::test]
async fn an_answer_lost_on_the_way_is_asked_for_again_and_does_no_harm() {
    let world = TestWorld::new().await;
    let id = record(&world, &[announcement("1", "a")]).await.remove(0);
    world.transport.next(Wire::LoseAnswer);
    click(&world, &id).await;
    let events = world
        .sql(
            "SELECT count(*) FROM events WHERE cause = 'unsubscribed' UNION ALL SELECT count(*) FROM suppression_history",
            vec![],
        )
        .await;
    assert_eq!([integer(&events[0][0]), integer(&events[1][0])], [1, 1]);
}

#[tokio::test]
async fn the_bytes_with_the_link_stay_the_same_on_a_retry() {
    let mut world = TestWorld::new().await;
    let id = record(&world, &[announcement("1", "a")]).await.remove(0);
    world.mailer.fault(FaultKind::ServiceUnavailable, 2);
    let queue = TestQueue::default();
    queue.deliver(&world).await;
    world.config = config_with(&[
        ("PUBLIC_URL", "https://elsewhere.example"),
        ("MESSAGE_ID_HEADER", "off"),
    ]);
    queue
        .run_for(&world, Duration::from_secs(120), Duration::from_secs(1))
        .await;
    assert_eq!(world.status(&id).await, "sent");
    let seen = world.mailer.bodies_by_key();
    let bodies: Vec<&Vec<String>> = seen.values().collect();
    assert_eq!((bodies.len(), bodies[0].len()), (1, 3));
    assert!(bodies[0].iter().all(|body| *body == bodies[0][0]));
    assert_eq!(link(&world), link_of(&world, &id), "the first address and its link");
}

#[tokio::test]
async fn every_mail_names_its_row_and_only_some_carry_a_link() {
    let mut world = TestWorld::new().await;
    let mut own = notice("n2", "b");
    own["content"]["from"] = "News <news@news.example.org>".into();
    let ids = record(&world, &[announcement("1", "a"), notice("n1", "a"), own]).await;
    world.deliver().await;
    world.config = config_with(&[("MESSAGE_ID_HEADER", "off")]);
    record(&world, &[notice("n3", "c")]).await;
    world.deliver().await;
    let model = world.mailer.model.borrow();
    let mut seen: Vec<(Option<String>, bool)> = model
        .ledger()
        .sent()
        .iter()
        .map(|sent| {
            let headers = &sent.mail.headers;
            (
                headers.get("Message-ID").cloned(),
                headers.contains_key("List-Unsubscribe"),
            )
        })
        .collect();
    let mut wanted = vec![
        (Some(format!("<{}@example.com>", ids[0])), true),
        (Some(format!("<{}@example.com>", ids[1])), false),
        (Some(format!("<{}@news.example.org>", ids[2])), false),
        (None, false),
    ];
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn a_mail_that_should_have_a_link_never_goes_out_without_one() {
    let mut world = TestWorld::new().await;
    let id = record(&world, &[announcement("1", "a")]).await.remove(0);
    world.config.public_url = None;
    world.deliver().await;
    assert_eq!(world.state(&id).await, owned("dead_letter", "public_url_missing"));
    assert_eq!(world.mailer.calls(), 0);
}

#[tokio::test]
async fn nothing_at_this_door_names_anybody() {
    let world = TestWorld::new().await;
    let mut personal = announcement("1", "needle");
    personal["to"]["name"] = "Needle".into();
    personal["content"]["subject"] = "The needle".into();
    let id = record(&world, &[personal]).await.remove(0);
    let path = link_of(&world, &id);
    let mut shown = path.clone();
    for method in ["GET", "POST", "POST"] {
        let answer = ask(&world, method, &path).await;
        for (name, value) in [
            (
                "content-security-policy",
                "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            ),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("x-robots-tag", "noindex"),
        ] {
            assert!(answer.headers.contains(&(name, value.to_owned())), "{name}");
        }
        assert!(!page(&answer).contains(&id), "a page is the same for everybody");
        shown += &format!("{answer:?}");
    }
    world.transport.always(Some(Wire::Refuse));
    shown += &format!("{:?}", ask(&world, "POST", &path).await);
    world.transport.always(None);
    shown += &world.notes.text();
    assert!(shown.contains("recipient_unsubscribed") && shown.contains("database_failed"));
    assert!(!shown.to_lowercase().contains("needle"), "{shown}");
    let rows = world
        .sql(
            "SELECT count(*) FROM suppressions s, suppression_history h
             WHERE lower(s.reason || s.recipient_hash || s.outbox_id || h.reason || h.outbox_id) LIKE '%needle%'",
            vec![],
        )
        .await;
    assert_eq!(integer(&rows[0][0]), 0);
}
