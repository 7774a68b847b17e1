//! Pauses by people and by faults: who waits, who probes, and who is woken.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::ports::Clock as _;
use serde_json::{Value as Json, json};

use crate::support::{
    ONE_BY_ONE, TestQueue, TestWorld, check_door, config_with, integer, look, notice_with_key, order, refusal, text,
};

const SECOND: Duration = Duration::from_secs(1);
const DOOR: &str = "/v1/pauses";

fn report(key: &str) -> Json {
    let mut intent = notice_with_key(key);
    intent["family"] = json!("report");
    intent
}

async fn pause(world: &TestWorld, scope: &str, seconds: u64) -> Json {
    let until = world.clock.now().plus(Duration::from_secs(seconds)).to_string();
    let body = json!({ "scope": scope, "until": until, "reason": "wrong_content", "note": "a test" });
    let answer = order(world, DOOR, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

async fn pauses(world: &TestWorld) -> Vec<Json> {
    look(world, DOOR).await.body["items"]
        .as_array()
        .expect("a list")
        .clone()
}

#[tokio::test]
async fn the_doors_of_pauses_refuse_what_they_should_and_say_what_is_paused() {
    let world = TestWorld::new().await;
    check_door(&world, "GET", DOOR, "GET, POST").await;
    check_door(&world, "POST", "/v1/pauses/notice/lift", "POST").await;
    let late = world.clock.now().plus(91 * 86_400 * SECOND).to_string();
    let soon = world.clock.now().plus(SECOND).to_string();
    let past = world.clock.now().to_string();
    for (scope, until, reason, code) in [
        ("nothing", &soon, "manual", "family_unknown"),
        ("notice", &late, "manual", "until_invalid"),
        ("notice", &past, "manual", "until_invalid"),
    ] {
        let body = json!({ "scope": scope, "until": until, "reason": reason });
        assert_eq!(refusal(&order(&world, DOOR, &body).await), (422, code));
    }
    let body = json!({ "scope": "notice", "until": soon, "reason": "because" });
    assert_eq!(order(&world, DOOR, &body).await.status, 422);
    for path in ["/v1/pauses/notice/lift", "/v1/pauses/*/lift", "/v1/pauses/a%40b/lift"] {
        assert_eq!(
            refusal(&order(&world, path, &json!({})).await),
            (404, "no_such_pause"),
            "{path}"
        );
    }

    let shown = pause(&world, "notice", 600).await;
    assert_eq!(
        (
            &shown["scope"],
            &shown["state"],
            &shown["reason"],
            &shown["setBy"],
            &shown["strikes"]
        ),
        (
            &json!("notice"),
            &json!("in_force"),
            &json!("wrong_content"),
            &json!("operator"),
            &json!(1)
        )
    );
    let shorter = pause(&world, "notice", 60).await;
    assert_eq!(shorter["until"], shown["until"], "what lasts longer stays");
    assert_eq!(pauses(&world).await, [shown]);
    let health = look(&world, "/health").await.body;
    assert_eq!(health["pauses"][0]["scope"], "notice", "{health}");
    let lines = world
        .sql(
            "SELECT action, subject, result, note FROM operator_log ORDER BY seq",
            vec![],
        )
        .await;
    let line: Vec<String> = lines.last().expect("a line").iter().map(text).collect();
    assert_eq!(line, ["pause_set", "notice", "wrong_content", "a test"]);
}

#[tokio::test]
async fn a_lifted_familys_pause_lets_one_probe_through_and_then_all_while_others_go_on() {
    let world = TestWorld::new().await;
    pause(&world, "notice", 3_600).await;
    let ids = world.notices(5).await;
    let reports: Vec<Json> = (0..5).map(|n| report(&format!("r{n}"))).collect();
    world.intake(&reports).await.expect("recorded");
    let queue = TestQueue::default();
    queue.deliver_all(&world).await;
    assert_eq!(
        (world.mailer.calls(), world.count("sent").await),
        (5, 5),
        "the reports alone"
    );
    assert_eq!(world.state(&ids[0]).await, ("retry".to_owned(), "paused".to_owned()));

    let lifted = order(&world, "/v1/pauses/notice/lift", &json!({ "note": "mended" }))
        .await
        .body;
    assert_eq!(
        (&lifted["woken"], &lifted["remaining"]),
        (&json!(5), &json!(0)),
        "{lifted}"
    );
    assert_eq!(lifted["pause"]["state"], "run_out");
    assert_eq!(
        world.state(&ids[0]).await,
        ("retry".to_owned(), "pause_lifted".to_owned())
    );
    let more: Vec<Json> = (5..8).map(|n| report(&format!("r{n}"))).collect();
    world.intake(&more).await.expect("recorded");
    world.tick().await;
    // One batch with the three reports and the five notices; the probe's call is held.
    world.mailer.hold_next.set(true);
    let all: Vec<String> = world
        .sql(
            "SELECT id FROM outbox WHERE status = 'enqueued' ORDER BY family",
            vec![],
        )
        .await
        .iter()
        .map(|row| text(&row[0]))
        .collect();
    assert_eq!(all.len(), 8);
    world.broker.take();
    let batch: Vec<&str> = all.iter().map(String::as_str).collect();
    let other = async {
        while world.mailer.calls() < 5 + 4 {
            tokio::task::yield_now().await;
        }
        let notices: Vec<&str> = ids.iter().map(String::as_str).collect();
        world.deliver_ids(&notices).await;
        assert_eq!(
            world.mailer.calls(),
            5 + 4,
            "one notice and the reports; the other notices wait for the probe"
        );
        assert_eq!(pauses(&world).await[0]["state"], "probing");
        let again = order(&world, "/v1/pauses/notice/lift", &json!({})).await.body;
        assert_eq!(
            again["pause"]["state"], "probing",
            "a probe that is under way is left alone: {again}"
        );
        world.deliver_ids(&notices).await;
        assert_eq!(world.mailer.calls(), 5 + 4);
        world.mailer.let_go.set(true);
    };
    futures_util::join!(world.deliver_ids(&batch), other);
    assert!(pauses(&world).await.is_empty(), "lifted by its own probe");
    let waiting = world
        .sql("SELECT count(*) FROM outbox WHERE cause = 'paused'", vec![])
        .await;
    assert_eq!(integer(&waiting[0][0]), 0, "the others are woken");
    world.tick().await;
    queue.deliver_all(&world).await;
    assert_eq!((world.count("sent").await, world.mailer.calls()), (13, 13));
}

#[tokio::test]
async fn a_probe_that_proves_nothing_lets_the_next_one_probe() {
    let world = TestWorld::new().await;
    pause(&world, "notice", 60).await;
    let ids = world.notices(3).await;
    world.broker.take();
    world.clock.advance(61 * SECOND);
    world.mailer.fault(FaultKind::ServiceUnavailable, 1);
    world.deliver_ids(&[&ids[0]]).await;
    assert_eq!(pauses(&world).await[0]["state"], "probing");
    world.deliver_ids(&[&ids[1]]).await;
    assert_eq!(world.mailer.calls(), 1, "until the probe's claim has ended");
    world.clock.advance(301 * SECOND);
    world.deliver_ids(&[&ids[1], &ids[2]]).await;
    assert_eq!(world.mailer.calls(), 2, "one again");
    assert!(pauses(&world).await.is_empty());
    TestQueue::default().run_for(&world, 900 * SECOND, 30 * SECOND).await;
    assert_eq!(world.count("sent").await, 3);
}

#[tokio::test]
async fn another_familys_success_lifts_nothing() {
    // One after the other, so that the fault meets the probe.
    let world = TestWorld::with(config_with(ONE_BY_ONE)).await;
    pause(&world, "notice", 60).await;
    world.clock.advance(61 * SECOND);
    let notice = world.notices(1).await.remove(0);
    world.intake(&[report("r1")]).await.expect("recorded");
    let report = text(&world.sql("SELECT id FROM outbox WHERE family = 'report'", vec![]).await[0][0]);
    // The probe's own mail fails, the other one of its claim succeeds.
    world.mailer.fault(FaultKind::ServiceUnavailable, 1);
    world.deliver_ids(&[&notice, &report]).await;
    assert_eq!(
        (
            world.status(&notice).await.as_str(),
            world.status(&report).await.as_str()
        ),
        ("retry", "sent")
    );
    assert_eq!(pauses(&world).await[0]["state"], "probing");
}

#[tokio::test]
async fn a_faults_pause_never_shortens_a_persons_and_follows_it_where_the_probe_fails() {
    let world = TestWorld::new().await;
    let ids = world.notices(2).await;
    world.mailer.fault(FaultKind::InvalidKey, 2);
    world.mailer.hold_next.set(true);
    let person = async {
        while world.mailer.calls() < 1 {
            tokio::task::yield_now().await;
        }
        let shown = pause(&world, "*", 7_200).await;
        world.mailer.let_go.set(true);
        shown
    };
    let batch = [&*ids[0]];
    let (_, shown) = futures_util::join!(world.deliver_ids(&batch), person);
    assert_eq!(pauses(&world).await, [shown], "as the person set it");
    world.clock.advance(7_201 * SECOND);
    world.deliver_ids(&[&ids[1]]).await;
    let now = &pauses(&world).await[0];
    assert_eq!(
        (&now["setBy"], &now["reason"], &now["state"]),
        (&json!("system"), &json!("invalid_api_key"), &json!("in_force")),
        "{now}"
    );
}

#[tokio::test]
async fn an_order_to_lift_wakes_a_thousand_and_says_how_many_remain() {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
      INSERT INTO outbox (id, family, fingerprint, fingerprint_version, fingerprint_secret_id, recipient_hash,
        idempotency_key, status, cause, next_attempt_at, relay_at, letter_bytes, created_at, updated_at)
      SELECT 'ntc_bulk' || i, iif(i <= 1100, 'notice', 'report'), 'f', 1, 'k1', 'h', 'key' || i, 'retry', 'paused',
        9000000000000, 9000000000000, 10, 1, 1 FROM n, outbox o WHERE o.id = ?1";
    world.sql(many, vec![id.into()]).await;
    pause(&world, "*", 600).await;
    pause(&world, "report", 600).await;
    let lift = async || {
        let body = order(&world, "/v1/pauses/*/lift", &json!({})).await.body;
        (body["woken"].as_i64(), body["remaining"].as_i64())
    };
    assert_eq!(lift().await, (Some(1_000), Some(200)));
    assert_eq!(
        lift().await,
        (Some(100), Some(100)),
        "the reports have a pause of their own"
    );
    assert_eq!(lift().await, (Some(0), Some(100)));
}
