//! The broker: down, slow, or holding a message while the process dies.

use std::time::Duration;

use sealpost::ports::Clock as _;
use sealpost::publish::publish_after_intake;

use crate::audit::Finding;
use crate::platform::{AWAITS_MAX, DESIGNS, Design, Platform, Reply, awaits, pledge};
use crate::support::die_when;

/// A request that does not publish cannot fail with the broker. The other two fail, and only one of them is right to
/// say so: the design that saved first has the pledge all the same.
#[tokio::test]
async fn a_broker_that_is_down_fails_only_the_requests_that_publish() {
    for (design, reply, recorded) in [
        (Design::SaveThenPublish, Reply::Failed, 1),
        (Design::PublishThenSave, Reply::Failed, 0),
        (Design::Outbox, Reply::Recorded, 1),
    ] {
        let platform = Platform::new(design).await;
        platform.world.broker.refuse(true);
        assert_eq!(platform.pledge(&pledge(1)).await, reply, "{design:?}");
        let facts = platform.facts().await;
        assert_eq!((facts.pledges.len(), facts.messages.len()), (recorded, 0), "{design:?}");
        let asked = platform.world.broker.batches.get();
        assert_eq!(asked, usize::from(design != Design::Outbox), "{design:?}");
    }
}

/// The broker is back, later pledges are announced, hours pass: nobody remembers the one that was refused. The outbox
/// remembers, and needs no new pledge for it.
#[tokio::test]
async fn a_pledge_that_was_saved_while_the_broker_was_down_is_never_announced() {
    let platform = Platform::new(Design::SaveThenPublish).await;
    platform.world.broker.refuse(true);
    platform.pledge(&pledge(1)).await;
    platform.world.broker.refuse(false);
    assert_eq!(platform.pledge(&pledge(2)).await, Reply::Recorded);
    for _ in 0..200 {
        platform.relay_turn().await;
        platform.deliver().await;
    }
    let facts = platform.facts().await;
    assert_eq!(facts.findings(), [Finding::NeverAnnounced("p-1".to_owned())]);
    assert_eq!(facts.announced, ["p-2"]);

    let platform = Platform::new(Design::Outbox).await;
    platform.world.broker.refuse(true);
    platform.pledge(&pledge(1)).await;
    platform.relay_turn().await;
    platform.world.broker.refuse(false);
    platform.settle().await;
    assert_eq!(
        platform.facts().await.to_string(),
        "pledges [p-1], messages [msg-1], matched 5000 -> consistent"
    );
}

/// An outage is the one thing that the design that publishes first survives: it refuses, the donor comes again, and all
/// is well. A donor of the outbox has no reason to come again, and who does is told of the same pledge.
#[tokio::test]
async fn a_donor_who_was_refused_while_the_broker_was_down_tries_again() {
    for (design, reply, meanwhile) in [
        (
            Design::PublishThenSave,
            Reply::Failed,
            "pledges [], messages [], matched 0 -> consistent",
        ),
        (
            Design::Outbox,
            Reply::Recorded,
            "pledges [p-1], messages [], matched 0 -> never-announced:p-1",
        ),
    ] {
        let platform = Platform::new(design).await;
        platform.world.broker.refuse(true);
        assert_eq!(platform.pledge(&pledge(1)).await, reply, "{design:?}");
        assert_eq!(platform.facts().await.to_string(), meanwhile);
        platform.world.broker.refuse(false);
        assert_eq!(platform.pledge(&pledge(1)).await, Reply::Recorded, "{design:?}");
        platform.settle().await;
        assert_eq!(
            platform.facts().await.to_string(),
            "pledges [p-1], messages [msg-1], matched 5000 -> consistent",
            "{design:?}"
        );
    }
}

/// Pledges come in all through an outage of hours. None fails, none is sent while it lasts, and each is sent once after.
#[tokio::test]
async fn the_outbox_waits_out_an_outage_and_then_announces_every_pledge_once() {
    let platform = Platform::new(Design::Outbox).await;
    platform.world.broker.refuse(true);
    let mut pledges = Vec::new();
    for number in 1..=5 {
        assert_eq!(platform.pledge(&pledge(number)).await, Reply::Recorded);
        pledges.push(pledge(number).id);
        platform.world.clock.advance(Duration::from_secs(3_600));
        for _ in 0..5 {
            let turn = platform.relay_turn().await.expect("this design has a relay");
            assert_eq!(turn.published, 0);
        }
    }
    assert!(platform.facts().await.messages.is_empty());
    assert!(platform.world.broker.batches.get() > 5, "the relay kept asking");
    platform.world.broker.refuse(false);
    platform.settle().await;
    let facts = platform.facts().await;
    assert!(facts.all_told_once(&pledges), "{facts}");
    assert_eq!((facts.messages.len(), facts.cents), (5, 25_000));
}

/// A broker that answers after eight seconds is waited for by whoever publishes: by the donor in two designs, by the
/// relay in the third, and there with one copy of each message.
#[tokio::test]
async fn a_slow_broker_slows_only_the_requests_that_publish() {
    let slowness = Duration::from_secs(8);
    for design in DESIGNS {
        let platform = Platform::new(design).await;
        platform.ear.slowness.set(slowness);
        let asked_at = platform.world.clock.now();
        assert_eq!(platform.pledge(&pledge(1)).await, Reply::Recorded, "{design:?}");
        let waited = platform.world.clock.now().since(asked_at);
        let expected = match design {
            Design::SaveThenPublish | Design::PublishThenSave => slowness,
            Design::Outbox => Duration::ZERO,
        };
        assert_eq!(waited, expected, "{design:?}");
        platform.settle().await;
        assert_eq!(
            platform.facts().await.to_string(),
            "pledges [p-1], messages [msg-1], matched 5000 -> consistent",
            "{design:?}"
        );
    }
}

/// The product publishes a fresh row by itself, after its answer. The process dies at each await of that in turn, so
/// also while the broker holds the message, whether it keeps it or not. What it kept comes again under the same id.
#[tokio::test]
async fn a_process_killed_while_the_broker_holds_a_message_sends_it_again_under_the_same_id() {
    let mut copies = Vec::new();
    for at in 1..AWAITS_MAX {
        let platform = Platform::new(Design::Outbox).await;
        let accepted = platform.record(&[pledge(1)]).await.expect("the answer is 202");
        let (world, broker) = (&platform.world, platform.broker());
        let publication = publish_after_intake(world, &broker, &world.config, &accepted.to_publish);
        let died = die_when(awaits(at), publication).await.is_none();
        platform.settle().await;
        let facts = platform.facts().await;
        assert_eq!((&facts.findings()[..], facts.cents), (&[][..], 5_000), "await {at}");
        assert!(
            facts.messages.iter().all(|message| message == "msg-1"),
            "await {at}: {facts}"
        );
        copies.push(facts.messages.len());
        if !died {
            break;
        }
    }
    assert_eq!(copies.first(), Some(&1), "dead before the broker had it");
    assert_eq!(copies.last(), Some(&1), "undisturbed");
    assert!(copies.contains(&2), "dead after the broker had it: {copies:?}");
    assert!(copies.iter().all(|count| *count <= 2), "{copies:?}");
}
