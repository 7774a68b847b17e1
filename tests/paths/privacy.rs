//! Personal data stands in the letter, the seal and the parked body, and nowhere else, whatever goes wrong.

use std::time::Duration;

use sealpost::devstack::provider::fault::FaultKind;
use sealpost::operate::{Request, answer};
use serde_json::{Value as Json, json};

use super::doors::{PRODUCER, get, post};
use crate::support::{TestWorld, Wire, look, order, text};

/// Stands in the address, its international domain, the name, the subject and the text of every mail here.
const NEEDLE: &str = "needle";
/// "Needle" as the content of an attachment.
const NEEDLE_IN_BASE64: &str = "TmVlZGxl";

fn personal(key: &str) -> Json {
    json!({
        "family": "notice",
        "idempotencyKey": key,
        "to": { "email": format!("{key}.needle@b\u{fc}cher.needle.example"), "name": "Ada Needle" },
        "content": { "subject": "The Needle in the stack", "text": "Dear Needle, good news." },
        "tags": { "subject": "needle@example.com" },
    })
}

/// The same with attachments.
fn with_files(key: &str) -> Json {
    let mut intent = personal(key);
    let members = intent.as_object_mut().unwrap();
    members.remove("idempotencyKey");
    members.insert("family".to_owned(), json!("report"));
    members.insert(
        "key".to_owned(),
        json!({ "reportId": "r", "period": key, "readerId": "ada" }),
    );
    // The second content is the needle in base64.
    let files = json!([
        { "filename": "needle.pdf", "contentType": "application/x-needle", "content": "QQ==" },
        { "filename": "b.txt", "content": NEEDLE_IN_BASE64 },
    ]);
    members.insert("attachments".to_owned(), files);
    intent
}

/// The database's error with the bound values in its text, for a batch of any size.
fn talkative_error() -> Wire {
    let body = json!({ "baton": null, "results": [{ "type": "error", "error": {
        "message": "near needle@example.com: UNIQUE failed for 'Ada Needle'", "code": "SQLITE_ERROR" } }] });
    Wire::Instead(200, body.to_string())
}

/// Everything that the outside and the operators get to see.
#[derive(Default)]
struct Shown(String);

impl Shown {
    fn add(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    fn messages(&mut self, world: &TestWorld) -> Vec<String> {
        let bodies: Vec<String> = world.broker.take().into_iter().map(|message| message.body).collect();
        self.add(bodies.join("\n"));
        bodies
    }
}

/// Where the needle stands in the database, as `table.column`.
async fn places(world: &TestWorld) -> Vec<String> {
    let columns = world
        .sql(
            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND c.type = 'TEXT'
             ORDER BY 1, 2",
            Vec::new(),
        )
        .await;
    let questions: Vec<String> = columns
        .iter()
        .map(|column| {
            let (table, name) = (text(&column[0]), text(&column[1]));
            format!(
                "SELECT '{table}.{name}' WHERE EXISTS (SELECT 1 FROM {table}
                   WHERE lower({name}) LIKE ?1 OR instr({name}, '{NEEDLE_IN_BASE64}'))"
            )
        })
        .collect();
    assert!(questions.len() > 30, "{} text columns", questions.len());
    let sql: &'static str = questions.join(" UNION ALL ").leak();
    let found = world.sql(sql, vec![format!("%{NEEDLE}%").into()]).await;
    found.iter().map(|row| text(&row[0])).collect()
}

async fn check(world: &TestWorld, mut shown: Shown, why: &str) {
    let ids = world.sql("SELECT id FROM outbox", Vec::new()).await;
    for row in &ids {
        shown.add(
            get(world, &format!("/v1/intents/{}", text(&row[0])), Some(PRODUCER))
                .await
                .body
                .to_string(),
        );
    }
    for list in [
        "/health",
        "/v1/parking",
        "/v1/queues/outbox/stats",
        "/v1/queues/outbox/dead-letters",
        "/v1/suppressions?all=true",
    ] {
        shown.add(look(world, list).await.body.to_string());
    }
    shown.add(world.notes.text());
    let tells = |line: &str| line.to_lowercase().contains(NEEDLE) || line.contains(NEEDLE_IN_BASE64);
    let line = shown.0.lines().find(|line| tells(line));
    assert_eq!(line, None, "{why}");
    for place in places(world).await {
        assert!(
            [
                "attachments.body",
                "letters.body",
                "seals.body",
                "batch_seals.body",
                "parking.body"
            ]
            .contains(&place.as_str()),
            "{why}: {place}"
        );
    }
}

#[tokio::test]
async fn the_search_itself_finds_a_personal_value() {
    let world = TestWorld::new().await;
    world.intake(&[personal("a")]).await.expect("recorded");
    assert_eq!(places(&world).await, ["letters.body"]);
    world
        .sql(
            "UPDATE outbox SET last_error = 'refused: A.NEEDLE@example.com'",
            Vec::new(),
        )
        .await;
    assert_eq!(places(&world).await, ["letters.body", "outbox.last_error"]);
    world.intake(&[with_files("c")]).await.expect("recorded");
    let files = "UPDATE attachments SET body = replace(body, 'needle', 'x')";
    world.sql(files, Vec::new()).await;
    assert_eq!(
        places(&world).await,
        ["attachments.body", "letters.body", "outbox.last_error"]
    );
}

#[tokio::test]
async fn no_personal_data_leaves_its_tables_whatever_the_provider_answers() {
    for kind in [
        FaultKind::Slow,
        FaultKind::Refuse,
        FaultKind::TestingAddress,
        FaultKind::SecurityError,
        FaultKind::UnverifiedDomain,
        FaultKind::InvalidKey,
        FaultKind::Conflict,
        FaultKind::InProgress,
        FaultKind::RateLimit,
        FaultKind::MonthlyQuota,
        FaultKind::OkHtml,
        FaultKind::OkNullId,
        FaultKind::TruncatedJson,
        FaultKind::BadGatewayHtml,
        FaultKind::AcceptThenDrop,
        FaultKind::StallBodyAccepted,
    ] {
        let world = TestWorld::new().await;
        let mut shown = Shown::default();
        let intents = [personal("a"), personal("b"), with_files("c")];
        world.intake(&intents).await.expect("recorded");
        world.mailer.fault(kind, -1);
        for _ in 0..3 {
            let bodies = shown.messages(&world);
            world.deliver_bodies(&bodies).await;
            world.clock.advance(Duration::from_secs(3_700));
            world.tick().await;
        }
        assert!(world.mailer.calls() > 0, "{kind:?}");
        check(&world, shown, &format!("{kind:?}")).await;
    }
}

#[tokio::test]
async fn no_personal_data_leaves_its_tables_when_the_database_talks() {
    for part in [
        "INSERT INTO outbox",
        "claim_count = claim_count",
        "INSERT INTO attempts",
        "UPDATE attempts SET",
        "publish_count + 1",
    ] {
        for wire in [
            talkative_error(),
            Wire::Instead(500, "panicked at needle@example.com".to_owned()),
            Wire::Instead(400, "Cannot read 'Ada Needle'".to_owned()),
            Wire::LoseAnswer,
        ] {
            let world = TestWorld::new().await;
            let mut shown = Shown::default();
            for _ in 0..3 {
                world.transport.next_with(part, wire.clone());
            }
            shown.add(
                post(&world, &json!({ "intents": [personal("a")] }))
                    .await
                    .body
                    .to_string(),
            );
            let _ = world.intake(&[personal("a"), personal("b"), with_files("c")]).await;
            for _ in 0..2 {
                let bodies = shown.messages(&world);
                world.deliver_bodies(&bodies).await;
                world.clock.advance(Duration::from_secs(700));
                world.tick().await;
            }
            check(&world, shown, part).await;
        }
    }
}

#[tokio::test]
async fn no_answer_repeats_what_a_refused_request_said() {
    let world = TestWorld::new().await;
    let mut shown = Shown::default();
    world.intake(&[personal("a")]).await.expect("recorded");
    let mut contradiction = personal("a");
    contradiction["content"]["subject"] = json!("Another needle");
    shown.add(
        post(&world, &json!({ "intents": [contradiction] }))
            .await
            .body
            .to_string(),
    );
    for (place, value) in [
        ("/to/email", json!("needle@@example.com")),
        ("/to/email", json!("\"needle\"@b\u{fc}cher.example")),
        ("/to/name", json!("Needle\r\n")),
        ("/content/subject", json!("Needle\n")),
        ("/content/replyTo", json!("needle")),
        ("/content/headers", json!({ "Bcc": "needle@example.com" })),
        ("/tags", json!({ "a": "needle".repeat(50) })),
        ("/notBefore", json!("needle")),
        ("/family", json!("needle")),
        ("/revision", json!("needle")),
        ("/idempotencyKey", json!("needle\n")),
        ("/attachments", json!("needle")),
    ] {
        let mut intent = personal("b");
        let (parent, name) = place.rsplit_once('/').unwrap();
        intent.pointer_mut(parent).unwrap()[name] = value;
        let answer = post(&world, &json!({ "intents": [intent] })).await;
        assert_eq!(answer.status, 422, "{place}");
        shown.add(answer.body.to_string());
    }
    for attachment in [
        json!({ "filename": "needle.exe", "content": "QQ==" }),
        json!({ "filename": "needle/", "content": "QQ==" }),
        json!({ "filename": "a", "content": "needle" }),
        json!({ "filename": "a", "content": format!("{NEEDLE_IN_BASE64}=") }),
        json!({ "filename": "a", "content": "QQ==", "contentType": "needle" }),
        json!({ "filename": "a", "content": ["needle"] }),
    ] {
        let mut intent = with_files("b");
        intent["attachments"] = json!([attachment]);
        let answer = post(&world, &json!({ "intents": [intent] })).await;
        assert_eq!(answer.status, 422, "{attachment}");
        shown.add(answer.body.to_string());
    }
    for body in [
        r#"{"intents": [{"to": "needle@example.com", }]}"#,
        r#""needle@example.com"#,
        r#"{"intents":"needle"}"#,
    ] {
        let request = Request {
            method: "POST",
            path: "/v1/intents",
            authorization: Some(PRODUCER),
            content_type: Some("application/json"),
            body: Some(body.as_bytes()),
            ..Request::default()
        };
        shown.add(answer(&world, &world.config, &request).await.body.to_string());
    }
    for path in ["/v1/intents/needle@example.com", "/v1/intents/needle_1234", "/needle"] {
        shown.add(get(&world, path, Some(PRODUCER)).await.body.to_string());
    }
    check(&world, shown, "refused requests").await;
}

#[tokio::test]
async fn input_that_nobody_understands_is_kept_in_the_parked_body_alone() {
    let world = TestWorld::new().await;
    let batch = [
        r#"{"to":"needle@example.com"}"#.to_owned(),
        "needle".to_owned(),
        r#"{"kind":"sealpost-outbox","version":1,"outboxId":"needle@example.com"}"#.to_owned(),
        r#"{"kind":"sealpost-outbox","version":1,"outboxId":"ntc_0000000000","note":"Needle"}"#.to_owned(),
    ];
    world.deliver_bodies(&batch).await;
    world.deliver_dead(&batch).await;
    assert_eq!(places(&world).await, ["parking.body"]);
    check(&world, Shown::default(), "parked").await;
}

#[tokio::test]
async fn a_letter_that_cannot_be_read_is_not_quoted() {
    for spoil in [
        "UPDATE letters SET body = '{\"v\":1,\"to\":\"needle'",
        "UPDATE letters SET body = '{\"v\":1,\"to\":{\"email\":\"needle@example.com\"},\"needle\":1}'",
        "UPDATE outbox SET family = 'invitation', template = 'invitation'",
        "DELETE FROM letters",
        "UPDATE attachments SET body = '{\"filename\":\"needle'",
    ] {
        let world = TestWorld::new().await;
        let accepted = world.intake(&[with_files("a")]).await.expect("recorded");
        world.sql(spoil, Vec::new()).await;
        world.deliver().await;
        assert_eq!(world.status(&accepted.receipts[0].id).await, "dead_letter", "{spoil}");
        check(&world, Shown::default(), spoil).await;
    }
}

#[tokio::test]
async fn an_address_in_an_order_goes_no_further_than_its_hash() {
    let world = TestWorld::new().await;
    let address = json!({ "address": "Ada Needle <needle@example.com>" });
    let mut shown = Shown::default();
    for path in ["/v1/suppressions", "/v1/suppressions/look-up", "/v1/suppressions/lift"] {
        shown.add(order(&world, path, &address).await.body.to_string());
    }
    for wrong in [
        json!({ "address": "needle" }),
        json!({ "address": "n@example.com", "needle": "needle" }),
    ] {
        shown.add(order(&world, "/v1/suppressions", &wrong).await.body.to_string());
    }
    world.transport.always(Some(talkative_error()));
    shown.add(order(&world, "/v1/suppressions", &address).await.body.to_string());
    world.transport.always(None);
    assert!(places(&world).await.is_empty());
    check(&world, shown, "orders").await;
}
