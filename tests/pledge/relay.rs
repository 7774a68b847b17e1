//! The relay: it publishes and then marks, in the order of recording, and dies wherever it likes.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use libsql::Value;
use sealpost::outbox::envelope::Envelope;
use sealpost::ports::{Broker as _, Clock as _, QueueMessage};

use crate::audit::Finding;
use crate::platform::{AWAITS_MAX, Design, Platform, Pledge, Reply, TURN, awaits, pledge};
use crate::support::{die_when, text};

/// A platform with this many pledges recorded and none announced.
async fn with_pledges(count: usize) -> (Platform, Vec<String>) {
    let platform = Platform::new(Design::Outbox).await;
    let pledges: Vec<Pledge> = (1..=count).map(pledge).collect();
    platform.record(&pledges).await.expect("the pledges are recorded");
    (platform, pledges.into_iter().map(|pledge| pledge.id).collect())
}

#[tokio::test]
async fn a_relay_that_stops_before_the_mark_sends_twice_under_one_id_and_the_fund_matches_once() {
    let (platform, _) = with_pledges(1).await;
    assert!(platform.relay_dies(|| platform.ear.count() > 0).await);
    let row = platform.world.sql("SELECT id, status FROM outbox", Vec::new()).await;
    assert_eq!(text(&row[0][1]), "pending", "not marked");
    platform.relay_turn().await;
    platform.relay_turn().await;
    let heard = platform.ear.heard();
    assert_eq!(heard, [heard[0].clone(), heard[0].clone()], "two copies, byte for byte");
    assert_eq!(Envelope::read(Some(&heard[0])).unwrap().outbox_id, text(&row[0][0]));
    platform.settle().await;
    assert_eq!(
        platform.facts().await.to_string(),
        "pledges [p-1], messages [msg-1 msg-1], matched 5000 -> consistent"
    );
}

#[tokio::test]
async fn a_relay_that_stops_before_it_publishes_leaves_the_row_pending_and_sends_once_later() {
    let (platform, _) = with_pledges(1).await;
    let executed = platform.world.transport.executed();
    assert!(
        platform
            .relay_dies(|| platform.world.transport.executed() > executed)
            .await
    );
    let facts = platform.facts().await;
    assert_eq!(facts.findings(), [Finding::NeverAnnounced("p-1".to_owned())], "so far");
    platform.settle().await;
    assert_eq!(
        platform.facts().await.to_string(),
        "pledges [p-1], messages [msg-1], matched 5000 -> consistent"
    );
}

/// A relay that is wrong on purpose: it marks a row and then publishes it, and looks at marked rows no more.
async fn turn_that_marks_first(platform: &Platform) {
    platform.world.clock.advance(TURN);
    let pending = "SELECT id FROM outbox WHERE status = 'pending' ORDER BY seq";
    for row in platform.world.sql(pending, Vec::new()).await {
        let patience = platform.world.config.timing.enqueued_patience;
        let again = Value::Integer(platform.world.clock.now().plus(patience).get());
        let mark = "UPDATE outbox SET status = 'enqueued', cause = 'published', relay_at = ?2 WHERE id = ?1";
        platform.world.sql(mark, vec![row[0].clone(), again]).await;
        let body = Envelope::to_row(&text(&row[0])).to_body();
        let message = QueueMessage { body, delay_seconds: 0 };
        platform
            .broker()
            .send_batch(vec![message])
            .await
            .expect("the broker is up");
    }
}

/// It never sends twice, and for that it loses. The product's relay mends even this: a mark says that the queue took
/// the message, not that the mail is out, and a marked row that does not get on is published again.
#[tokio::test]
async fn a_relay_that_marks_first_loses_what_it_was_about_to_send() {
    let (platform, ids) = with_pledges(1).await;
    let executed = platform.world.transport.executed();
    // The list of pending rows is its first transaction, the mark its second.
    let marked = || platform.world.transport.executed() > executed + 1;
    assert_eq!(die_when(marked, turn_that_marks_first(&platform)).await, None);
    for _ in 0..30 {
        turn_that_marks_first(&platform).await;
        platform.deliver().await;
    }
    let facts = platform.facts().await;
    assert_eq!(facts.findings(), [Finding::NeverAnnounced("p-1".to_owned())]);
    assert_eq!(facts.cents, 0);

    platform.settle().await;
    let facts = platform.facts().await;
    assert!(facts.all_told_once(&ids), "{facts}");
}

/// The relay dies at each of its awaits in turn, with five pledges waiting.
#[tokio::test]
async fn pledges_that_wait_when_the_process_is_killed_are_all_announced_after_the_restart() {
    for at in 1..AWAITS_MAX {
        let (platform, ids) = with_pledges(5).await;
        let died = platform.relay_dies(awaits(at)).await;
        platform.settle().await;
        let facts = platform.facts().await;
        assert!(facts.all_told_once(&ids), "await {at}: {facts}");
        assert_eq!(facts.cents, 25_000, "await {at}");
        if !died {
            assert!(at > 5, "the relay has awaits to die at");
            return;
        }
    }
    panic!("a turn of more than {AWAITS_MAX} awaits");
}

/// Twenty requests side by side, and then a partner's list in one request: each pledge has one id of its own, and the
/// queue gets them in the order of recording. Ids are random, so an order by id would be nobody's order.
#[tokio::test]
async fn pledges_that_come_at_once_have_one_id_each_and_go_out_in_the_order_of_recording() {
    let platform = Platform::new(Design::Outbox).await;
    let donors: Vec<Pledge> = (1..=20).map(pledge).collect();
    let replies = join_all(donors.iter().map(|pledge| platform.pledge(pledge))).await;
    assert_eq!(replies, vec![Reply::Recorded; 20]);
    let list: Vec<Pledge> = (21..=25).map(pledge).collect();
    platform
        .record(&list)
        .await
        .expect("a list is recorded as one request is");
    platform.relay_turn().await;
    let facts = platform.facts().await;
    assert_eq!(facts.announced, facts.pledges);
    let ids: Vec<String> = platform
        .ear
        .heard()
        .iter()
        .map(|body| Envelope::read(Some(body)).unwrap().outbox_id)
        .collect();
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (25, 25));
    assert!(!ids.is_sorted(), "an order by id would be another one: {ids:?}");
    platform.settle().await;
    let expected: Vec<String> = (1..=25).map(|number| pledge(number).id).collect();
    let facts = platform.facts().await;
    assert!(facts.all_told_once(&expected), "{facts}");
}
