//! What the mails themselves carry.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;

use super::{announcement, link, link_of, notice, owned, record};
use crate::support::{TestQueue, TestWorld, config_with};

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
        (Some(format!("<{}.test@example.com>", ids[0])), true),
        (Some(format!("<{}.test@example.com>", ids[1])), false),
        (Some(format!("<{}.test@news.example.org>", ids[2])), false),
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
