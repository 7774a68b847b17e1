//! The main job: an intent goes in, one mail comes out, in the round trips that the budget allows.

use sealpost::consume::Decision;

use crate::support::TestWorld;

#[tokio::test]
async fn an_intent_goes_in_and_a_mail_comes_out() {
    let world = TestWorld::new().await;
    let ids = world.notices(1).await;
    assert_eq!(world.status(&ids[0]).await, "enqueued");
    assert_eq!(world.deliver().await, vec![Decision::Acknowledge]);
    assert_eq!(world.status(&ids[0]).await, "sent", "{}", world.notes.text());
    assert_eq!(world.mailer.accepted(), 1);
    assert!(world.notes.alarms().is_empty(), "{}", world.notes.text());
}

#[tokio::test]
async fn round_trips_do_not_grow_with_the_batch() {
    for count in [1, 10, 100] {
        let world = TestWorld::new().await;
        let intents: Vec<_> = (0..count)
            .map(|n| crate::support::notice_with_key(&format!("n{n}")))
            .collect();
        let body = serde_json::json!({ "intents": intents }).to_string();
        let accepted = sealpost::intake::record_intents(&world, &world.config, body.as_bytes())
            .await
            .expect("recorded");
        assert_eq!(world.transport.take_requests(), 1, "intake of {count}");
        sealpost::publish::publish_after_intake(&world, &world.broker, &world.config, &accepted.to_publish).await;
        assert_eq!(world.transport.take_requests(), 1, "mark of {count}");
        let decisions = world.deliver().await;
        assert_eq!(world.transport.take_requests(), 3, "consume of {count}");
        assert_eq!(decisions, vec![Decision::Acknowledge; count]);
        assert_eq!(world.mailer.accepted(), count);
    }
}

#[tokio::test]
async fn the_relay_carries_what_the_queue_refused() {
    let world = TestWorld::new().await;
    world.broker.refuse(true);
    let ids = world.notices(3).await;
    assert_eq!(world.count("pending").await, 3);
    world.broker.refuse(false);
    world.clock.advance(std::time::Duration::from_secs(31));
    let tick = world.tick().await;
    assert_eq!((tick.published, tick.stopped_by), (3, None), "{}", world.notes.text());
    world.deliver().await;
    assert_eq!(world.status(&ids[2]).await, "sent");
}
