//! What the door answers to whom, and what it never shows.

use std::time::Duration;

use sealpost::consume::Decision;
use sealpost::operate::{Request, answer};
use sealpost::outbox::unsubscribe::token;

use super::{ASK, DONE, all, announcement, ask, click, link, link_of, owned, page, record, suppressions};
use crate::support::{TestWorld, Wire, integer};

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
