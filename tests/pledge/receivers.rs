//! What stands behind the broker, and who watches.

use sealpost::operate::{Request, answer};
use sealpost::outbox::envelope::Envelope;

use crate::audit::Finding;
use crate::dual::send_receipt;
use crate::platform::{Design, Platform, TURN, pledge};
use crate::support::{integer, text};

/// A receiver that is wrong on purpose: it sends a receipt for each message, under a key of that message alone.
async fn receive_without_looking(platform: &Platform) {
    for (position, message) in platform.world.broker.take().iter().enumerate() {
        let id = Envelope::read(Some(&message.body)).unwrap().outbox_id;
        let data = "SELECT body ->> '$.data.reference', CAST(body ->> '$.data.amount' AS INTEGER)
            FROM letters WHERE outbox_id = ?1";
        let letter = platform.world.sql(data, vec![id.into()]).await;
        let key = format!("copy-{position}");
        send_receipt(platform, &text(&letter[0][0]), integer(&letter[0][1]), &key).await;
    }
}

/// A message that comes twice is what an outbox costs. The product's consumer asks the row, not the message; a receiver
/// that asks neither pays twice. The designs without a relay send at most one copy, so there such a receiver gets away
/// with it.
#[tokio::test]
async fn a_receiver_that_does_not_check_ids_matches_a_copy_again() {
    for careless in [true, false] {
        let platform = Platform::new(Design::Outbox).await;
        platform.pledge(&pledge(1)).await;
        assert!(platform.relay_dies(|| platform.ear.count() > 0).await);
        platform.relay_turn().await;
        platform.relay_turn().await;
        assert_eq!(platform.facts().await.messages, ["msg-1", "msg-1"]);
        if careless {
            receive_without_looking(&platform).await;
        } else {
            platform.deliver().await;
        }
        let facts = platform.facts().await;
        if careless {
            assert_eq!(facts.findings(), [Finding::MatchedAgain("p-1".to_owned())]);
            assert_eq!(facts.cents, 10_000);
        } else {
            assert_eq!((&facts.findings()[..], facts.cents), (&[][..], 5_000));
            // And a copy that comes when all is over.
            let late = platform.ear.heard().remove(0);
            platform.world.deliver_bodies(&[late]).await;
            assert_eq!(platform.facts().await.cents, 5_000);
        }
    }
    for design in [Design::SaveThenPublish, Design::PublishThenSave] {
        let platform = Platform::new(design).await;
        platform.pledge(&pledge(1)).await;
        for _ in 0..3 {
            // A receiver that remembers nothing.
            platform.handled.borrow_mut().clear();
            platform.relay_turn().await;
            platform.deliver().await;
        }
        let facts = platform.facts().await;
        assert_eq!((facts.messages.len(), facts.cents), (1, 5_000), "{design:?}");
    }
}

async fn troubles(platform: &Platform) -> Vec<String> {
    let request = Request {
        method: "GET",
        path: "/health",
        authorization: None,
        content_type: None,
        body: Some(&[]),
        ..Request::default()
    };
    let answer = answer(&platform.world, &platform.world.config, &request).await;
    let list = answer.body["troubles"].as_array().expect("a list");
    list.iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

/// The relay runs once and then stops. Pledges go on being recorded and nothing fails, so somebody has to look: the age
/// of what is due shows it, and the difference between pledges and announcements is what still waits, and no more.
#[tokio::test]
async fn a_relay_that_is_stuck_shows_in_the_age_of_what_waits_and_in_nothing_lost() {
    let platform = Platform::new(Design::Outbox).await;
    platform.pledge(&pledge(1)).await;
    platform.settle().await;
    assert!(troubles(&platform).await.is_empty());
    for number in 2..=3 {
        platform.pledge(&pledge(number)).await;
    }
    for _ in 0..12 {
        platform.world.clock.advance(TURN);
    }
    assert_eq!(troubles(&platform).await, ["relay_stopped", "rows_late"]);
    let waiting = "SELECT l.body ->> '$.data.reference' FROM outbox o JOIN letters l ON l.outbox_id = o.id
        WHERE o.status = 'pending' ORDER BY o.seq";
    let waiting = platform.world.sql(waiting, Vec::new()).await;
    let waiting: Vec<Finding> = waiting
        .iter()
        .map(|row| Finding::NeverAnnounced(text(&row[0])))
        .collect();
    assert_eq!(waiting.len(), 2);
    assert_eq!(platform.facts().await.findings(), waiting);
    platform.settle().await;
    assert!(troubles(&platform).await.is_empty());
    let facts = platform.facts().await;
    assert!(
        facts.all_told_once(&["p-1", "p-2", "p-3"].map(str::to_owned)),
        "{facts}"
    );
}
