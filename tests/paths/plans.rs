//! What the statements cost: no table that grows is ever walked, and a million settled rows cost no more than a few.

use std::collections::BTreeMap;
use std::time::Duration;

use libsql::Value;
use sealpost::devstack::provider::fault::FaultKind;
use sealpost::outbox::envelope::Envelope;
use sealpost::ports::Clock as _;
use serde_json::{Value as Json, json};

use super::doors::{get, one_intent, post};
use super::receipts::{message_ids, parked_and_understood, post_event};
use super::unsubscribe::click;
use crate::support::{TestWorld, config_with, look, notice_with_key, order, text};

/// Walking these is fine: lists that came with the statement, rows made on the way, and tables that stay small
/// (parking is only counted, and only up to a limit).
const SMALL: [&str; 19] = [
    "CONSTANT",
    "aside",
    "dead",
    "h",
    "j",
    "k",
    "open",
    "other",
    "p",
    "page",
    "parking",
    "pauses",
    "relay_health",
    "s",
    "schema",
    "schema_migrations",
    "stop",
    "suppressed",
    "taken",
];

/// Keeps every statement that the paths send, with the number of its variables.
struct Seen(BTreeMap<String, usize>);

impl Seen {
    fn keep(&mut self, world: &TestWorld) {
        for body in world.transport.bodies() {
            let body: Json = serde_json::from_str(&body).unwrap();
            for step in body["requests"][0]["batch"]["steps"].as_array().into_iter().flatten() {
                let sql = step["stmt"]["sql"].as_str().unwrap();
                if !["BEGIN", "COMMIT", "ROLLBACK"].iter().any(|word| sql.starts_with(word)) {
                    let variables = step["stmt"]["args"].as_array().map_or(0, Vec::len);
                    self.0.insert(sql.to_owned(), variables);
                }
            }
        }
        world.transport.take_requests();
    }
}

/// Every statement of the Worker, because every path was walked.
async fn every_statement(world: &TestWorld) -> BTreeMap<String, usize> {
    let mut seen = Seen(BTreeMap::new());
    world.transport.take_requests();
    let ids = world.notices(3).await;
    seen.keep(world);
    world.mailer.fault(FaultKind::InvalidKey, 1);
    world.deliver().await;
    seen.keep(world);
    world.mailer.clear_faults();
    world.clock.advance(Duration::from_secs(3_600));
    world.tick().await;
    seen.keep(world);
    world.deliver().await;
    seen.keep(world);
    let mut other = one_intent();
    other["intents"][0]["content"]["text"] = json!("Bad news.");
    assert_eq!(post(world, &other).await.status, 409);
    seen.keep(world);
    let bodies = [Envelope::to_row(&ids[0]).to_body(), "what?".to_owned()];
    world.deliver_dead(&bodies).await;
    seen.keep(world);
    get(world, &format!("/v1/intents/{}", ids[0]), Some(super::doors::PRODUCER)).await;
    get(world, "/health", None).await;
    let event = json!({ "type": "email.bounced", "created_at": "2026-01-01T00:00:00Z",
        "data": { "email_id": "m", "to": ["a@example.com"], "bounce": { "type": "Permanent" } } });
    post_event(world, "msg_1", &event.to_string()).await;
    seen.keep(world);
    click(world, &ids[0]).await;
    seen.keep(world);
    operators(world, &mut seen).await;
    quarantine(world, &mut seen).await;
    seen.0
}

/// Every door of the operators, with something behind it.
async fn operators(world: &TestWorld, seen: &mut Seen) {
    let who = json!({ "address": "ada@example.com" });
    for path in ["/v1/suppressions", "/v1/suppressions/look-up", "/v1/suppressions/lift"] {
        assert_eq!(order(world, path, &who).await.status, 200);
    }
    for path in [
        "/v1/suppressions",
        "/v1/queues/outbox/stats",
        "/v1/queues/outbox/dead-letters",
        "/v1/pauses",
        "/v1/parking",
        "/v1/parking?state=discarded",
    ] {
        assert_eq!(look(world, path).await.status, 200);
    }
    seen.keep(world);
    let until = world.clock.now().plus(Duration::from_secs(60)).to_string();
    let pause = json!({ "scope": "announcement", "until": until, "reason": "manual" });
    assert_eq!(order(world, "/v1/pauses", &pause).await.status, 200);
    assert_eq!(
        order(world, "/v1/pauses/announcement/lift", &json!({})).await.status,
        200
    );
    seen.keep(world);
    world.sql("DELETE FROM pauses", Vec::new()).await;
    order(world, "/v1/queues/outbox/retry-dead", &json!({ "limit": 1 })).await;
    seen.keep(world);
    // What nobody understood, and an envelope without a row.
    let orphan = Envelope::to_row("ntc_nobody123").to_body();
    world.deliver_bodies(&["what else?".to_owned(), orphan]).await;
    seen.keep(world);
    let mail = message_ids(world).remove(0);
    parked_and_understood(world, &mail).await;
    let many = json!({ "source": "dead_letter_queue", "note": "a test" });
    assert_eq!(order(world, "/v1/parking/discard", &many).await.status, 200);
    let list = look(world, "/v1/parking").await.body;
    for entry in list["items"].as_array().expect("a list") {
        let path = format!("/v1/parking/{}", entry["hash"].as_str().expect("a hash"));
        assert_eq!(look(world, &path).await.status, 200);
        let replayed = order(world, &format!("{path}/replay"), &json!({})).await.status;
        let discarded = order(world, &format!("{path}/discard"), &json!({ "note": "a test" }))
            .await
            .status;
        assert_eq!(discarded, if replayed == 200 { 409 } else { 200 });
    }
    seen.keep(world);
}

/// What is asked about unknown outcomes: the list, each verdict, look-ups by a person and by the relay.
async fn quarantine(world: &TestWorld, seen: &mut Seen) {
    let intents: Vec<Json> = (0..4).map(|number| notice_with_key(&format!("u{number}"))).collect();
    let accepted = world.intake(&intents).await.expect("recorded");
    let ids: Vec<String> = accepted.receipts.into_iter().map(|receipt| receipt.id).collect();
    let list: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.mailer.fault(FaultKind::AcceptThenDrop, -1);
    world.deliver().await;
    world.mailer.clear_faults();
    world.clock.advance(Duration::from_secs(90_000));
    world.deliver_ids(&list).await;
    seen.keep(world);
    get(world, "/v1/unknown", Some(super::doors::OPERATOR)).await;
    for (id, order) in ids.iter().zip([
        json!({ "verdict": "sent", "messageId": "m1", "note": "n" }),
        json!({ "verdict": "not_sent", "note": "n" }),
        json!({ "verdict": "send_again", "note": "n" }),
    ]) {
        let path = format!("/v1/unknown/{id}/resolve");
        super::unknown::order(world, &path, &order).await;
        super::unknown::order(world, &path, &order).await;
    }
    super::unknown::order(world, &format!("/v1/unknown/{}/look-up", ids[3]), &json!({})).await;
    world.tick().await;
    seen.keep(world);
}

/// How many statements the store is made of, as its source has them.
fn statements_in_source() -> usize {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store");
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .filter(|path| !path.ends_with("migrations.rs"))
        .map(|path| {
            std::fs::read_to_string(path)
                .unwrap()
                .matches("Statement::new(")
                .count()
        })
        .sum()
}

/// The plan's lines that walk a table that grows.
async fn walks(world: &TestWorld, sql: &str, variables: usize) -> Vec<String> {
    let explain: &'static str = format!("EXPLAIN QUERY PLAN {sql}").leak();
    let plan = world.sql(explain, vec![Value::Null; variables]).await;
    assert!(!plan.is_empty() || sql.contains("VALUES"), "a plan for {sql}");
    let details: Vec<String> = plan.iter().map(|row| text(row.last().unwrap())).collect();
    // A list that the statement makes itself; what it is made from has lines of its own.
    let made: Vec<String> = details
        .iter()
        .filter_map(|detail| {
            detail
                .strip_prefix("CO-ROUTINE ")
                .or_else(|| detail.strip_prefix("MATERIALIZE "))
        })
        .map(str::to_owned)
        .collect();
    details
        .into_iter()
        .filter(|detail| detail.starts_with("SCAN") && detail != "SCAN CONSTANT ROW")
        // The check that a new row is nobody's missing parent. The engine skips it while no key waits for one, as the
        // rows read by an intake show below.
        .filter(|detail| !(sql.starts_with("INSERT INTO outbox") && detail == "SCAN intent_keys"))
        .filter(|detail| !(sql.starts_with("INSERT INTO outbox") && detail == "SCAN letter_secrets"))
        .filter(|detail| {
            let name = detail.split_whitespace().nth(1).unwrap_or_default();
            let is_list =
                detail.contains("VIRTUAL TABLE") || name.starts_with('(') || made.iter().any(|one| one == name);
            !is_list && !SMALL.contains(&name)
        })
        .collect()
}

#[tokio::test]
async fn no_statement_walks_a_table_that_grows() {
    let world = TestWorld::with(config_with(&[("RESEND_READ_KEY", "re_full")])).await;
    let statements = every_statement(&world).await;
    for (sql, variables) in &statements {
        let walks = walks(&world, sql, *variables).await;
        assert!(walks.is_empty(), "{walks:?}\nin {sql}");
    }
    assert_eq!(
        statements.len(),
        statements_in_source(),
        "every statement of the store was seen: {:#?}",
        statements
            .keys()
            .map(|sql| sql.chars().take(60).collect::<String>())
            .collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn what_operators_ask_for_is_found_by_its_own_index() {
    let world = TestWorld::with(config_with(&[("RESEND_READ_KEY", "re_full")])).await;
    let statements = every_statement(&world).await;
    for (piece, index) in [
        ("SELECT dead.id, dead.seq", "outbox_dead"),
        (
            "(SELECT count(*) FROM (SELECT 1 FROM outbox WHERE status = 'unknown'",
            "outbox_unknown",
        ),
        ("state = ?4 AND (closed_at, hash)", "parking_closed"),
        ("DELETE FROM parking", "parking_closed"),
        ("closed_at = ?4, body = ''", "parking_open"),
        ("'parking_discarded', page.hash", "parking_open"),
    ] {
        let found: Vec<_> = statements.iter().filter(|(sql, _)| sql.contains(piece)).collect();
        assert!(!found.is_empty(), "{piece}");
        for (sql, variables) in found {
            let explain: &'static str = format!("EXPLAIN QUERY PLAN {sql}").leak();
            let plan = world.sql(explain, vec![Value::Null; *variables]).await;
            let uses = |row: &Vec<Value>| text(row.last().unwrap()).contains(&format!("USING INDEX {index}"));
            assert!(plan.iter().any(uses), "{index}: {plan:?}\nin {sql}");
        }
    }
}

#[tokio::test]
async fn the_check_of_the_plans_sees_a_walk() {
    let world = TestWorld::new().await;
    for sql in [
        "SELECT count(*) FROM outbox WHERE status = ?1",
        "SELECT o.id FROM outbox o WHERE o.family = ?1",
        "UPDATE attempts SET closed_at = ?1 WHERE claim_token = ?1",
    ] {
        assert_eq!(walks(&world, sql, 1).await.len(), 1, "{sql}");
    }
}

/// Rows that the engine visited for an intake of one mail, for its batch, and for one tick that publishes one row.
async fn cost(world: &TestWorld, settled: i64) -> [u64; 3] {
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
      INSERT INTO outbox (id, family, fingerprint, fingerprint_version, fingerprint_secret_id, recipient_hash,
        idempotency_key, status, cause, provider, provider_scope, provider_message_id, letter_bytes,
        created_at, updated_at, settled_at)
      SELECT 'ntc_bulk' || i, 'notice', 'f', 1, 'k1', 'h', 'key' || i, 'sent', 'accepted', 'resend', 'main', 'm' || i,
        10, 1, 1, 1 FROM n";
    world.sql(many, vec![settled.into()]).await;
    let attempts = "INSERT INTO attempts (id, outbox_id, claim_token, opened_at, planned_at, closed_at, outcome)
      SELECT 'att' || seq, id, 'clm', 1, 1, 1, 'accepted' FROM outbox WHERE id LIKE 'ntc_bulk%' LIMIT ?1";
    world.sql(attempts, vec![settled.into()]).await;
    let keys = "INSERT INTO intent_keys (key, secret_id, outbox_id)
      SELECT 'k' || seq, 'k1', id FROM outbox WHERE id LIKE 'ntc_bulk%' LIMIT ?1";
    world.sql(keys, vec![settled.into()]).await;
    let read = || world.transport.engine().rows().read;

    world.intake(&[notice_with_key("warm")]).await.expect("recorded");
    world.deliver().await;
    let before = read();
    world.intake(&[notice_with_key("one")]).await.expect("recorded");
    let recorded = read() - before;
    let before = read();
    world.deliver().await;
    let consumed = read() - before;

    world.broker.refuse(true);
    world.intake(&[notice_with_key("two")]).await.expect("recorded");
    world.broker.refuse(false);
    world.clock.advance(Duration::from_secs(31));
    let before = read();
    assert_eq!(world.tick().await.published, 1);
    [recorded, consumed, read() - before]
}

#[tokio::test]
async fn settled_rows_make_neither_an_intake_nor_a_batch_nor_a_tick_dearer() {
    let few = cost(&TestWorld::new().await, 1_000).await;
    let many = cost(&TestWorld::new().await, 50_000).await;
    for ((few, many), what) in few.into_iter().zip(many).zip(["intake", "batch", "tick"]) {
        assert!(few > 0 && many * 10 <= few * 11, "{what}: {few} became {many}");
    }
}

/// Rows that the engine visited for a click, where this many mails of the family and of the person are settled.
async fn cost_of_a_click(settled: i64) -> u64 {
    let world = TestWorld::new().await;
    let id = world.notices(1).await.remove(0);
    let others = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
      INSERT INTO outbox (id, family, fingerprint, fingerprint_version, fingerprint_secret_id, recipient_hash,
        idempotency_key, status, cause, provider, provider_scope, provider_message_id, letter_bytes,
        created_at, updated_at, settled_at)
      SELECT 'ntc_bulk' || i, o.family, 'f', 1, 'k1', iif(i % 2, 'other', o.recipient_hash), 'key' || i, 'sent',
        'accepted', 'resend', 'main', 'm' || i, 10, 1, 1, 1 FROM n, outbox o WHERE o.id = ?2";
    world.sql(others, vec![settled.into(), id.clone().into()]).await;
    let waiting = "UPDATE outbox SET status = 'pending', provider_message_id = NULL, settled_at = NULL, relay_at = 1
      WHERE recipient_hash = 'other'";
    world.sql(waiting, Vec::new()).await;
    let before = world.transport.engine().rows().read;
    click(&world, &id).await;
    world.transport.engine().rows().read - before
}

#[tokio::test]
async fn neither_a_persons_settled_mails_nor_other_peoples_waiting_ones_make_a_click_dearer() {
    let (few, many) = (cost_of_a_click(100).await, cost_of_a_click(20_000).await);
    assert!(few > 0 && many * 10 <= few * 11, "{few} became {many}");
}
