//! Method, path, headers and body at the doors.

use libsql::Value as Sql;
use proptest::prelude::*;
use sealpost::config::Config;
use sealpost::operate::{Answer, Request, answer, not_configured};
use sealpost::outbox::unsubscribe;
use sealpost::store::database::{DatabaseError, Rows};
use serde_json::json;

use crate::document::{changed, changes};
use crate::hostile::{self, MARK};
use crate::world::{FuzzWorld, Says, now};

const NAMES: &[&str] = &[
    "intents",
    "family",
    "idempotencyKey",
    "to",
    "content",
    "subject",
    "text",
];

pub const SETTINGS: &[(&str, &str)] = &[
    ("ENVIRONMENT", "test"),
    ("DATABASE_URL", "http://127.0.0.1:1"),
    ("PROVIDER_URL", "http://127.0.0.1:2"),
    ("PUBLIC_URL", "https://mail.example.com"),
    ("MAIL_FROM", "Sealpost <mail@example.com>"),
    ("QUEUE_NAME", "outbox"),
    ("DEAD_LETTER_QUEUE_NAME", "outbox-dead"),
    ("KEY_SECRETS", "k1:MDEyMzQ1Njc4OWFiY2RlZg=="),
    ("RECIPIENT_SECRET", "ZmVkY2JhOTg3NjU0MzIxMA=="),
    ("RESEND_API_KEY", "re_test"),
    // sha256("producer")
    (
        "PRODUCER_TOKENS",
        "d1990f97a1f4fe7b8e86da8c03c9dd3f7d536c14aa4a6f9eedab07f34cd961b0",
    ),
    ("WEBHOOK_SECRETS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
];

pub fn config() -> Config {
    let lookup = |name: &str| {
        SETTINGS
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| (*value).to_owned())
    };
    Config::read(&lookup).expect("the settings are right")
}

fn method() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["GET", "POST", "HEAD", "OPTIONS", "DELETE", "post", ""]).prop_map(str::to_owned),
        1 => hostile::text(),
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("/v1/intents".to_owned()),
        3 => prop_oneof![hostile::text(), "[a-z]{3}_[0-9a-z]{5,70}"].prop_map(|id| format!("/v1/intents/{id}")),
        1 => Just("/health".to_owned()),
        1 => Just(format!("/v1/{MARK}")),
        1 => prop::sample::select(vec!["/v1/intents/", "/v1//intents", "//v1/intents", "/V1/INTENTS", "/health/", "/v1/intents/a/b", "", "/", "*"]).prop_map(str::to_owned),
        1 => hostile::text(),
    ]
}

fn authorization() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        4 => Just(Some("Bearer producer".to_owned())),
        1 => Just(Some("bearer  producer ".to_owned())),
        1 => Just(Some(format!("Bearer {MARK}"))),
        1 => "(Bearer|Basic|bearer|)[ \t]{0,2}(producer|Producer|)[ ,]{0,2}".prop_map(Some),
        1 => hostile::text().prop_map(Some),
        1 => Just(None),
    ]
}

fn content_type() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        4 => Just(Some("application/json".to_owned())),
        1 => Just(Some(" Application/JSON ; charset=utf-8; x=\"".to_owned())),
        1 => Just(Some(format!("text/{MARK}"))),
        1 => hostile::text().prop_map(Some),
        1 => Just(None),
    ]
}

fn body() -> impl Strategy<Value = Option<Vec<u8>>> {
    let good = json!({ "intents": [{
        "family": "notice", "idempotencyKey": "n0", "to": { "email": "a@b.example" }, "content": { "subject": "s", "text": "t" },
    }]});
    prop_oneof![
        4 => changes(NAMES).prop_map(move |changes| Some(changed(&good, &changes))),
        1 => hostile::text().prop_map(|text| Some(text.into_bytes())),
        1 => Just(None),
    ]
}

/// What a database says that knows other tables, or that fails.
pub fn said() -> impl Strategy<Value = Says> {
    let cell = prop_oneof![
        Just(Sql::Null),
        any::<i64>().prop_map(Sql::Integer),
        any::<f64>().prop_map(Sql::Real),
        hostile::text().prop_map(Sql::Text),
        prop::sample::select(vec!["sent", "pending", "true", "invitation"]).prop_map(|text| Sql::Text(text.to_owned())),
        Just(Sql::Blob(vec![0, 255])),
    ];
    let names = prop::sample::select(vec![
        "id",
        "seq",
        "position",
        "status",
        "family",
        "revision",
        "cause",
        "at",
        "attempt_count",
        "created_at",
        "updated_at",
        "schema_version",
        "schema_serves_from",
        "last_tick_at",
        "oldest_due_at",
        "broker_error",
        "pause_reason",
        "parked",
    ]);
    let rows = (prop::collection::vec(names, 0..8), prop::collection::vec(cell, 0..16)).prop_map(|(columns, cells)| {
        let rows = cells
            .chunks_exact(columns.len().max(1))
            .map(<[Sql]>::to_vec)
            .take(3)
            .collect();
        Rows {
            columns: columns.into_iter().map(str::to_owned).collect(),
            rows,
            affected: 1,
        }
    });
    let errors = prop::sample::select(vec![
        DatabaseError::Busy,
        DatabaseError::Refused { status: 401 },
        DatabaseError::SchemaMismatch,
        DatabaseError::Constraint { statement: 0 },
        DatabaseError::Constraint { statement: 1 },
        DatabaseError::Failed { statement: 7 },
        DatabaseError::Ambiguous,
        DatabaseError::Shape,
    ]);
    prop_oneof![
        3 => prop::collection::vec(rows, 0..8).prop_map(|rows| Says(Ok(rows))),
        2 => errors.prop_map(|error| Says(Err(error))),
    ]
}

/// Everything of an answer but the paths of refused fields, which may name what the request named.
fn said_by_us(answer: &Answer) -> String {
    let mut body = answer.body.clone();
    for error in body
        .get_mut("errors")
        .and_then(|errors| errors.as_array_mut())
        .into_iter()
        .flatten()
    {
        error["path"] = json!("");
    }
    format!("{body} {:?} {}", answer.headers, answer.content_type)
}

proptest! {
    #[test]
    fn every_request_gets_an_answer_that_repeats_nothing(
        method in method(), path in path(), authorization in authorization(), content_type in content_type(), body in body(),
        error in prop::sample::select(vec![DatabaseError::Busy, DatabaseError::Ambiguous, DatabaseError::Failed { statement: 0 }, DatabaseError::Shape]),
    ) {
        let world = FuzzWorld::new(Says(Err(error)));
        let request = Request {
            method: &method, path: &path, authorization: authorization.as_deref(), content_type: content_type.as_deref(), body: body.as_deref(),
            ..Request::default()
        };
        let answer = now(answer(&world, &config(), &request));
        prop_assert!([400, 401, 404, 405, 413, 415, 422, 500, 503].contains(&answer.status), "{}", answer.status);
        prop_assert!(!said_by_us(&answer).contains(MARK) && !world.notes.take().contains(MARK));
        prop_assert!(answer.to_publish.is_empty());
        if path != "/health" {
            prop_assert_eq!(answer.content_type, "application/problem+json");
            prop_assert_eq!(&answer.body["status"], answer.status);
        }
        // Nobody without a token learns more than that there is a door.
        let known = authorization.as_deref().and_then(|header| header.split_once(' '))
            .is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token.trim() == "producer");
        if !known && path != "/health" {
            prop_assert!([401, 404, 405].contains(&answer.status), "{}", answer.status);
        }
    }

    #[test]
    fn a_recipients_door_shows_constant_pages_and_asks_nobody_about_foreign_tokens(
        method in method(), token in prop_oneof![hostile::text(), "[a-z]{3}_[0-9a-z]{5,70}\\.[A-Za-z0-9_=-]{0,30}", Just(format!("{MARK}.{MARK}"))],
        content_type in content_type(), body in body(), said in said(),
    ) {
        let (world, config) = (FuzzWorld::new(said), config());
        let foreign = format!("/v1/unsubscribe/{token}");
        let ours = format!("/v1/unsubscribe/{}", unsubscribe::token(&config.recipient_secret, "ann_0123456789"));
        for path in [&foreign, &ours] {
            let request = Request {
                method: &method, path, content_type: content_type.as_deref(), body: body.as_deref(),
                ..Request::default()
            };
            let answer = now(answer(&world, &config, &request));
            let page = answer.page.as_deref().unwrap_or_default();
            prop_assert!(!page.contains(MARK) && !said_by_us(&answer).contains(MARK) && !world.notes.take().contains(MARK));
            if token.contains('/') && path == &foreign {
                prop_assert_eq!(answer.status, 404);
            } else if method != "GET" && method != "POST" {
                prop_assert_eq!(answer.status, 405);
            } else {
                prop_assert_eq!(answer.content_type, "text/html; charset=utf-8");
                let expected: &[u16] = match (path == &ours, method.as_str()) {
                    (false, _) => &[404],
                    (true, "GET") => &[200],
                    (true, _) => &[200, 404, 503],
                };
                prop_assert!(expected.contains(&answer.status), "{} {}", method, answer.status);
            }
        }
    }

    #[test]
    fn whatever_the_database_says_is_an_answer(said in said(), path in path(), body in body()) {
        let world = FuzzWorld::new(said);
        for method in ["GET", "POST"] {
            let request = Request {
                method, path: &path, authorization: Some("Bearer producer"), content_type: Some("application/json"), body: body.as_deref(),
                ..Request::default()
            };
            let answer = now(answer(&world, &config(), &request));
            prop_assert!((200..600).contains(&answer.status));
            // Only rows of the right shape make a success.
            if answer.status == 202 {
                prop_assert!(world.database.0.is_ok());
            }
        }
    }

    #[test]
    fn an_unconfigured_worker_names_the_setting_alone(path in path(), name in prop::sample::select(SETTINGS), value in hostile::text()) {
        let lookup = |asked: &str| {
            let found = SETTINGS.iter().find(|(other, _)| *other == asked).map(|(_, value)| (*value).to_owned());
            if asked == name.0 { Some(format!("{MARK}\u{1}{value}")) } else { found }
        };
        if let Err(error) = Config::read(&lookup) {
            let request = Request { method: "GET", path: &path, authorization: None, content_type: None, body: None, ..Request::default() };
            let answer = not_configured(&error, &request);
            prop_assert_eq!(answer.status, 503);
            prop_assert!(!said_by_us(&answer).contains(MARK));
        }
    }
}
