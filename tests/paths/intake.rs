//! Intake: recorded once or not at all, whatever the database does; and what is refused at the door.

use std::time::Duration;

use libsql::Value;
use sealpost::outbox::status::Status;
use sealpost::ports::{Clock as _, World as _};
use sealpost::store::intake::{NewIntent, NewKey, record};
use serde_json::{Value as Json, json};

use super::doors::{one_intent, post};
use crate::support::{TestWorld, Wire, integer, notice, notice_with_key, text};

async fn rows(world: &TestWorld) -> i64 {
    integer(&world.sql("SELECT count(*) FROM outbox", Vec::new()).await[0][0])
}

/// What every table of an intake holds, as one number.
async fn traces(world: &TestWorld) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM intent_keys)
      + (SELECT count(*) FROM letters) + (SELECT count(*) FROM events)";
    integer(&world.sql(sql, Vec::new()).await[0][0])
}

#[tokio::test]
async fn an_answer_lost_at_intake_and_a_repetition_make_one_row_under_one_id() {
    for wire in [Wire::LoseAnswer, Wire::GatewayAfterCommit, Wire::Truncate] {
        let world = TestWorld::new().await;
        world.transport.next(wire.clone());
        let first = post(&world, &one_intent()).await;
        assert_eq!(first.status, 202, "{wire:?}");
        assert_eq!(
            first.body["intents"][0]["duplicate"], false,
            "{wire:?}: its own row is no duplicate"
        );
        assert_eq!(first.to_publish.len(), 1);
        let second = post(&world, &one_intent()).await;
        assert_eq!(second.status, 202);
        assert_eq!(second.body["intents"][0]["id"], first.body["intents"][0]["id"]);
        assert_eq!(second.body["intents"][0]["duplicate"], true);
        assert!(second.to_publish.is_empty(), "only the first publishes");
        assert_eq!(rows(&world).await, 1);
    }
}

#[tokio::test]
async fn an_intake_that_nobody_can_answer_for_says_so_and_a_repetition_finds_it() {
    let world = TestWorld::new().await;
    world.transport.always(Some(Wire::LoseAnswer));
    let lost = post(&world, &one_intent()).await;
    world.transport.always(None);
    assert_eq!(
        (lost.status, lost.body["code"].as_str()),
        (503, Some("database_ambiguous"))
    );
    assert!(
        lost.body["detail"]
            .as_str()
            .unwrap()
            .contains("Repeat the very same request")
    );
    assert!(lost.headers.iter().any(|(name, _)| *name == "retry-after"));
    assert!(lost.to_publish.is_empty());
    assert_eq!(
        rows(&world).await,
        1,
        "recorded once, although it was sent several times"
    );

    let again = post(&world, &one_intent()).await;
    assert_eq!(
        (again.status, &again.body["intents"][0]["duplicate"]),
        (202, &json!(true))
    );
    // Nobody published it: the relay does.
    world.clock.advance(Duration::from_secs(31));
    assert_eq!(world.tick().await.published, 1);
    world.deliver().await;
    assert_eq!(world.mailer.accepted(), 1);
}

#[tokio::test]
async fn a_busy_database_is_asked_again_and_then_the_answer_says_that_nothing_was_written() {
    let world = TestWorld::new().await;
    world.transport.next(Wire::Instead(429, "too many".to_owned()));
    assert_eq!(post(&world, &one_intent()).await.status, 202);
    world.transport.always(Some(Wire::Instead(429, "too many".to_owned())));
    let busy = post(&world, &json!({ "intents": [notice_with_key("n1")] })).await;
    world.transport.always(None);
    assert_eq!((busy.status, busy.body["code"].as_str()), (503, Some("database_busy")));
    assert!(busy.body["detail"].as_str().unwrap().contains("Nothing was written"));
    assert_eq!(rows(&world).await, 1);
}

#[tokio::test]
async fn nothing_of_an_intake_is_visible_when_one_of_its_statements_fails() {
    for failure in [
        "CREATE TRIGGER spoil BEFORE INSERT ON letters BEGIN SELECT RAISE(ABORT, 'x'); END",
        "CREATE TRIGGER spoil BEFORE INSERT ON letters BEGIN SELECT RAISE(ROLLBACK, 'x'); END",
        "CREATE TRIGGER spoil AFTER INSERT ON letters BEGIN SELECT RAISE(FAIL, 'x'); END",
        "CREATE TRIGGER spoil AFTER INSERT ON intent_keys BEGIN INSERT INTO guards VALUES ('x'); END",
    ] {
        let world = TestWorld::new().await;
        world.sql(failure, Vec::new()).await;
        let answer = post(
            &world,
            &json!({ "intents": [notice_with_key("n0"), notice_with_key("n1")] }),
        )
        .await;
        assert_eq!(answer.status, 500, "{failure}");
        assert_eq!(answer.body["code"], "database_constraint", "{failure}");
        assert_eq!(traces(&world).await, 0, "{failure}");
        world.sql("DROP TRIGGER spoil", Vec::new()).await;
        assert_eq!(post(&world, &one_intent()).await.status, 202, "the lock is free again");
    }
}

#[tokio::test]
async fn the_number_of_affected_rows_decides_nothing() {
    fn nothing(answer: String) -> String {
        change(&answer, json!(0))
    }
    fn many(answer: String) -> String {
        change(&answer, json!(7))
    }
    fn change(answer: &str, to: Json) -> String {
        let mut answer: Json = serde_json::from_str(answer).unwrap();
        if let Some(steps) = answer.pointer_mut("/results/0/response/result/step_results") {
            for step in steps.as_array_mut().unwrap().iter_mut().filter(|step| step.is_object()) {
                step["affected_row_count"] = to.clone();
            }
        }
        answer.to_string()
    }
    for wire in [Wire::Rewrite(nothing), Wire::Rewrite(many)] {
        let world = TestWorld::new().await;
        let id = world.notices(1).await.remove(0);
        world.transport.always(Some(wire.clone()));
        world.deliver().await;
        world.transport.always(None);
        assert_eq!(
            world.status(&id).await,
            "sent",
            "a row that came back is claimed, whatever is counted"
        );
        // Nothing to claim any more: no call, however many rows the server says it changed.
        world.transport.always(Some(wire));
        world.deliver_ids(&[&id]).await;
        world.transport.always(None);
        assert_eq!(world.mailer.calls(), 1);
    }
}

#[tokio::test]
async fn a_mail_for_later_stays_pending_until_the_relay_publishes_it_when_due() {
    let world = TestWorld::new().await;
    let mut later = notice();
    later["notBefore"] = json!("2026-01-03T00:00:00Z");
    let accepted = world.intake(&[later]).await.expect("recorded");
    let id = accepted.receipts[0].id.clone();
    assert_eq!(world.broker.len(), 0, "not published two days ahead");
    world.clock.advance(Duration::from_secs(2 * 86_400 - 60));
    assert_eq!(world.tick().await.published, 0, "a minute before");
    assert_eq!(world.status(&id).await, "pending");
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.tick().await.published, 1, "when due");
    world.deliver().await;
    assert_eq!(world.status(&id).await, "sent");
}

#[tokio::test]
async fn a_mail_due_within_a_tick_waits_in_the_queue() {
    let world = TestWorld::new().await;
    let mut soon = notice();
    soon["notBefore"] = json!("2026-01-01T00:00:40Z");
    world.intake(&[soon]).await.expect("recorded");
    let messages = world.broker.take();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].delay_seconds, 40);
}

#[tokio::test]
async fn a_window_that_has_closed_is_recorded_and_expires_without_a_call() {
    let world = TestWorld::new().await;
    let mut late = notice();
    late["notAfter"] = json!("2025-12-31T23:59:00Z");
    let id = world.intake(&[late]).await.expect("recorded, not refused").receipts[0]
        .id
        .clone();
    world.deliver().await;
    assert_eq!(
        world.state(&id).await,
        ("expired".to_owned(), "window_missed".to_owned())
    );
    assert_eq!(world.mailer.calls(), 0);
}

#[tokio::test]
async fn a_shadowed_row_is_settled_at_once_and_never_sent() {
    let world = TestWorld::new().await;
    let letter =
        json!({ "v": 1, "to": { "email": "a@example.com" }, "content": { "subject": "s", "text": "t" } }).to_string();
    let shadowed = NewIntent {
        domain_hash: "d".to_owned(),
        priority: 5,
        bulk: 0,
        id: "ntc_shadowed00".to_owned(),
        family: "notice".to_owned(),
        template: None,
        revision: 0,
        fingerprint: "f".to_owned(),
        fingerprint_version: 1,
        fingerprint_secret_id: "k1".to_owned(),
        recipient_hash: "h".to_owned(),
        idempotency_key: "sealpost-shadowed-0".to_owned(),
        status: Status::Shadowed,
        cause: "shadow_mode",
        relay_at: None,
        publish_count: 0,
        not_before: None,
        not_after: None,
        letter_bytes: letter.len(),
        letter,
        attachments: Default::default(),
        keys: vec![NewKey {
            key: "shadowed".to_owned(),
            secret_id: "k1".to_owned(),
            fingerprint: "f".to_owned(),
        }],
        send_id: None,
        facts: Vec::new(),
        secret: None,
        copies: 0,
    };
    record(world.database(), &[shadowed], world.clock.now())
        .await
        .expect("recorded");
    world
        .run_for(Duration::from_secs(3_600), Duration::from_secs(600))
        .await;
    world.deliver_ids(&["ntc_shadowed00"]).await;
    assert_eq!(
        world.state("ntc_shadowed00").await,
        ("shadowed".to_owned(), "shadow_mode".to_owned())
    );
    let settled = world
        .sql("SELECT settled_at = created_at FROM outbox", Vec::new())
        .await;
    assert_eq!(integer(&settled[0][0]), 1);
    assert_eq!((world.mailer.calls(), world.broker.batches.get()), (0, 0));
}

/// What the intake answers for an intent with this change: 202, or the codes of the fields.
async fn refusal(world: &TestWorld, intent: &Json) -> Vec<String> {
    let answer = post(world, &json!({ "intents": [intent] })).await;
    match answer.body["errors"].as_array() {
        Some(errors) => errors
            .iter()
            .map(|error| error["code"].as_str().unwrap().to_owned())
            .collect(),
        None => vec![answer.status.to_string()],
    }
}

/// The request that the provider accepted last.
fn last_mail(world: &TestWorld) -> sealpost::devstack::provider::mail::Mail {
    world
        .mailer
        .model
        .borrow()
        .ledger()
        .sent()
        .back()
        .expect("a mail")
        .mail
        .clone()
}

#[tokio::test]
async fn an_address_is_the_same_value_in_the_letter_the_hash_and_the_mail() {
    for (given, normal) in [
        ("a+b@example.com", "a+b@example.com"),
        ("o'brien@example.com", "o'brien@example.com"),
        ("a@b.photography", "a@b.photography"),
        ("a@sub.x-y.example", "a@sub.x-y.example"),
        ("  a@example.com ", "a@example.com"),
        ("Ada@EXAMPLE.Com", "Ada@example.com"),
        ("a@b\u{fc}cher.example", "a@xn--bcher-kva.example"),
    ] {
        let world = TestWorld::new().await;
        let mut intent = notice();
        intent["to"] = json!(given);
        let id = world.intake(&[intent]).await.expect(given).receipts[0].id.clone();
        let letter = world.sql("SELECT body FROM letters", Vec::new()).await;
        let letter: Json = serde_json::from_str(&text(&letter[0][0])).unwrap();
        assert_eq!(letter["to"]["email"], normal);
        let mut same = notice_with_key("n1");
        same["to"] = json!(normal.to_uppercase());
        world.intake(&[same]).await.expect(given);
        let hashes = world
            .sql("SELECT count(DISTINCT recipient_hash) FROM outbox", Vec::new())
            .await;
        assert_eq!(integer(&hashes[0][0]), 1, "{given}: one person, one hash");
        world.deliver_ids(&[&id]).await;
        assert_eq!(last_mail(&world).to, [normal], "{given}");
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_mailed_is_refused_at_the_door() {
    let world = TestWorld::new().await;
    let long = format!("{}@example.com", "a".repeat(65));
    let cases = [
        (json!("\u{200b}a@example.com"), "address_invisible_character"),
        (json!("a@example.com,"), "address_several"),
        (json!("a@example.com, b@example.com"), "address_several"),
        (json!(["a@example.com", "b@example.com"]), "address_several"),
        (json!("a@@example.com"), "address_at_repeated"),
        (json!("a..b@example.com"), "address_local_dots"),
        (json!("\"a b\"@example.com"), "address_local_quoted"),
        (json!("a@localhost"), "address_domain_without_dot"),
        (json!("a@exa mple.com"), "address_space"),
        (json!("a@127.0.0.1"), "address_domain_invalid"),
        (json!("\u{fc}@example.com"), "address_local_not_ascii"),
        (json!(long), "address_local_too_long"),
        (json!(""), "address_empty"),
        (json!([]), "address_several"),
        (Json::Null, "address_expected"),
        (json!("a@example.com\nBcc: z@example.com"), "address_control_character"),
    ];
    for (to, code) in cases {
        let mut intent = notice();
        intent["to"] = to.clone();
        assert_eq!(refusal(&world, &intent).await, [code], "{to}");
    }
    assert_eq!(traces(&world).await, 0);
}

#[tokio::test]
async fn a_display_name_makes_one_mailbox_whatever_stands_in_it() {
    for (name, mailbox) in [
        ("Ada, VP of Ops", r#""Ada, VP of Ops" <a@example.com>"#),
        (r#"A "B" \ C"#, r#""A \"B\" \\ C" <a@example.com>"#),
        ("Support (Billing)", r#""Support (Billing)" <a@example.com>"#),
        ("x@y.example", r#""x@y.example" <a@example.com>"#),
        ("a> <b@example.com", r#""a> <b@example.com" <a@example.com>"#),
        ("Bj\u{f6}rn", "\"Bj\u{f6}rn\" <a@example.com>"),
        ("", "a@example.com"),
    ] {
        let world = TestWorld::new().await;
        let mut intent = notice();
        let person = json!({ "email": "a@example.com", "name": name });
        intent["to"] = person.clone();
        intent["content"]["replyTo"] = person.clone();
        intent["content"]["from"] = person;
        let id = world.intake(&[intent]).await.expect(name).receipts[0].id.clone();
        world.deliver().await;
        assert_eq!(world.status(&id).await, "sent", "{name}: {}", world.notes.text());
        let mail = last_mail(&world);
        assert_eq!(mail.to, [mailbox], "the recipient");
        assert_eq!(mail.reply_to, [mailbox], "where answers go");
        assert_eq!(mail.from, mailbox, "the sender");
    }
}

#[tokio::test]
async fn nothing_of_an_intent_can_start_a_header_line() {
    let world = TestWorld::new().await;
    let breaks = [
        "a\r\nBcc: z@example.com",
        "a\nb",
        "a\rb",
        "a\u{2028}b",
        "a\u{85}b",
        "a\u{0}b",
    ];
    for text in breaks {
        let changes: [(&str, Json); 6] = [
            ("/to/name", json!(text)),
            ("/content/subject", json!(text)),
            ("/content/from", json!({ "email": "a@example.com", "name": text })),
            ("/content/replyTo", json!({ "email": "a@example.com", "name": text })),
            ("/content/headers", json!({ "X-A": text })),
            ("/content/headers", json!({ text: "x" })),
        ];
        for (place, value) in changes {
            let mut intent = notice();
            let (parent, name) = place.rsplit_once('/').unwrap();
            intent.pointer_mut(parent).unwrap()[name] = value;
            let codes = refusal(&world, &intent).await;
            assert!(
                codes.len() == 1 && (codes[0].ends_with("_control_character") || codes[0] == "header_name_invalid"),
                "{place} {text:?}: {codes:?}"
            );
        }
    }
    for name in [
        "Bcc",
        "bCC",
        "From",
        "Subject",
        "To",
        "Reply-To",
        "Sender",
        "Content-Type",
        "Message-ID",
        "X-SES-A",
    ] {
        let mut intent = notice();
        intent["content"]["headers"] = json!({ name: "x" });
        assert_eq!(refusal(&world, &intent).await, ["header_reserved"], "{name}");
    }
    let mut several = notice();
    several["content"]["replyTo"] = json!("a@example.com, b@example.com");
    assert_eq!(refusal(&world, &several).await, ["address_several"]);
    assert_eq!(traces(&world).await, 0);
}

#[tokio::test]
async fn a_tag_is_refused_at_the_door_or_reaches_the_provider_in_its_own_letters() {
    let legal = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    let world = TestWorld::new().await;
    let mut seen = std::collections::BTreeSet::new();
    let values = [
        "user@example.com",
        "user_example_com",
        "v1.2",
        "v1_2",
        "a b",
        "\u{e4}",
        "order:17",
        "a--b",
        "user--40example--2ecom",
    ];
    for (at, value) in values.iter().enumerate() {
        let mut intent = notice_with_key(&format!("n{at}"));
        intent["tags"] = json!({ "subject": value });
        let id = world.intake(&[intent]).await.expect(value).receipts[0].id.clone();
        world.deliver().await;
        assert_eq!(world.status(&id).await, "sent", "{value}: {}", world.notes.text());
        let tags = last_mail(&world).tags;
        assert!(tags.iter().all(|tag| legal(&tag.name) && legal(&tag.value)), "{value}");
        assert!(
            tags.iter().any(|tag| tag.name == "sealpost_id" && tag.value == id),
            "ours finds the row again"
        );
        assert!(tags.iter().any(|tag| tag.name == "sealpost_env" && tag.value == "test"));
        let own = tags.iter().find(|tag| tag.name == "subject").expect("the caller's own");
        assert!(seen.insert(own.value.clone()), "{value} collides");
    }
    let many: serde_json::Map<String, Json> = (0..76).map(|n| (format!("t{n}"), json!("v"))).collect();
    for (tags, code) in [
        (json!({ "a": "" }), "tag_invalid"),
        (json!({ "a": "x".repeat(257) }), "tag_invalid"),
        (json!({ "a": "\u{e4}".repeat(40) }), "tag_too_long"),
        (json!({ "sealpost_id": "x" }), "tag_reserved"),
        (json!({ "SEALPOST_ENV": "x" }), "tag_reserved"),
        (Json::Object(many), "tags_too_many"),
    ] {
        let mut intent = notice_with_key("refused");
        intent["tags"] = tags;
        assert_eq!(refusal(&world, &intent).await, [code]);
    }
    let twice = br#"{"intents":[{"family":"notice","idempotencyKey":"x","to":"a@example.com",
        "content":{"subject":"s","text":"t"},"tags":{"a":"1","a":"2"}}]}"#;
    let problem = sealpost::intake::record_intents(&world, &world.config, twice).await;
    assert!(
        matches!(problem, Err(sealpost::intake::IntakeError::Request(problem)) if problem.errors[0].code == "name_twice")
    );
}

/// Every time is an integer in milliseconds, whoever wrote it.
#[tokio::test]
async fn every_time_column_holds_unix_milliseconds() {
    let world = TestWorld::new().await;
    world.broker.refuse(true);
    let mut windows = notice_with_key("windows");
    windows["notBefore"] = json!("2026-01-01T00:00:01+00:00");
    windows["notAfter"] = json!("2026-01-02T00:00:00.5-01:00");
    world.intake(&[windows]).await.expect("recorded");
    world.broker.refuse(false);
    let ids = world.notices(3).await;
    world
        .mailer
        .fault(sealpost::devstack::provider::fault::FaultKind::ServiceUnavailable, 1);
    world
        .mailer
        .fault(sealpost::devstack::provider::fault::FaultKind::InvalidKey, 1);
    world.deliver().await;
    let dead = sealpost::outbox::envelope::Envelope::to_row(&ids[2]).to_body();
    world.deliver_dead(&[dead, "what is this".to_owned()]).await;
    world.clock.advance(Duration::from_secs(40));
    world.tick().await;

    let columns = world
        .sql(
            "SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_info(t.name) c
             WHERE t.type = 'table' AND (c.name LIKE '%!_at' ESCAPE '!' OR c.name IN ('at', 'until', 'not_before', 'not_after'))",
            Vec::new(),
        )
        .await;
    assert!(columns.len() > 20, "{} time columns", columns.len());
    let mut filled = 0;
    for column in &columns {
        let (table, name) = (text(&column[0]), text(&column[1]));
        assert_eq!(text(&column[2]), "INTEGER", "{table}.{name}");
        let sql: &'static str = format!(
            "SELECT count({name}), coalesce(sum(typeof({name}) = 'integer' AND {name} BETWEEN 1700000000000 AND 1900000000000), 0)
             FROM {table}"
        )
        .leak();
        let counts = world.sql(sql, Vec::new()).await;
        assert_eq!(
            counts[0][0], counts[0][1],
            "{table}.{name} holds something else than milliseconds"
        );
        filled += i64::from(counts[0][0] != Value::Integer(0));
    }
    assert!(
        filled >= 18,
        "only {filled} of {} time columns were written here",
        columns.len()
    );
}
