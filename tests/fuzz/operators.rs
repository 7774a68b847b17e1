//! Queries, names and orders at the doors of operators.

use proptest::prelude::*;
use sealpost::config::Config;
use sealpost::operate::{Request, answer};
use sealpost::store::database::DatabaseError;
use serde_json::json;

use crate::document::{changed, changes};
use crate::doors::{SETTINGS, said};
use crate::hostile::{self, MARK};
use crate::world::{FuzzWorld, Says, now};

const NAMES: &[&str] = &[
    "address",
    "recipientHash",
    "family",
    "reason",
    "until",
    "note",
    "seq",
    "ids",
    "class",
    "limit",
    "after",
    "source",
    "createdAt",
];

fn config() -> Config {
    let lookup = |name: &str| match name {
        // sha256("operator")
        "OPERATOR_TOKENS" => Some("06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23".to_owned()),
        _ => SETTINGS
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| (*value).to_owned()),
    };
    Config::read(&lookup).expect("the settings are right")
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        hostile::text(),
        Just("outbox".to_owned()),
        Just(MARK.to_owned()),
        "(row-)?[a-z0-9_]{8,64}",
        "[0-9a-f]{64}"
    ];
    prop_oneof![
        prop::sample::select(vec![
            "/v1/suppressions",
            "/v1/suppressions/lift",
            "/v1/suppressions/look-up",
            "/v1/parking",
            "/v1/parking/discard",
            "/metrics",
            "/v1/queues/outbox/stats",
            "/v1/queues/outbox/dead-letters",
            "/v1/queues/outbox/retry-dead",
        ])
        .prop_map(str::to_owned),
        (
            name,
            prop::sample::select(vec![
                "/v1/suppressions/@",
                "/v1/parking/@",
                "/v1/parking/@/discard",
                "/v1/parking/@/replay",
                "/v1/queues/@/stats",
                "/v1/replays/@",
                "/v1/queues/outbox/@",
            ])
        )
            .prop_map(|(name, shape)| shape.replace('@', &name)),
    ]
}

fn query() -> impl Strategy<Value = Option<String>> {
    let value = prop_oneof![
        hostile::text(),
        Just(MARK.to_owned()),
        "[0-9]{0,20}",
        "[0-9]{0,20}\\.[0-9a-z*]{0,70}"
    ];
    let parameter = (
        prop::sample::select(vec!["after", "limit", "all", "state", "class", "family"]),
        value,
    )
        .prop_map(|(name, value)| format!("{name}={value}"));
    prop_oneof![
        1 => Just(None),
        3 => prop::collection::vec(parameter, 0..4).prop_map(|list| Some(list.join("&"))),
        1 => hostile::text().prop_map(Some),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let good = prop::sample::select(vec![
        json!({ "address": "a@b.example", "family": "*", "reason": "manual", "until": "2027-01-01T00:00:00Z", "note": "n" }),
        json!({ "recipientHash": "0".repeat(64) }),
        json!({ "note": "n" }),
        json!({ "seq": 1 }),
        json!({ "ids": ["ntc_0123456789"], "note": "n" }),
        json!({ "class": "pipeline", "family": "notice", "limit": 3, "after": 2, "note": "n" }),
        json!({ "source": "receipts", "reason": "receipt_unreadable", "limit": 3, "note": "n" }),
        json!({ "address": "a@b.example", "createdAt": "2026-01-01T00:00:00Z" }),
    ]);
    prop_oneof![
        1 => good.clone().prop_map(|good| good.to_string().into_bytes()),
        4 => (good, changes(NAMES)).prop_map(|(good, changes)| changed(&good, &changes)),
        1 => hostile::text().prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn every_order_gets_an_answer_that_repeats_nothing(
        path in path(), query in query(), body in body(), post in any::<bool>(),
        error in prop::sample::select(vec![DatabaseError::Busy, DatabaseError::Ambiguous, DatabaseError::Failed { statement: 0 }, DatabaseError::Shape]),
    ) {
        let world = FuzzWorld::new(Says(Err(error)));
        let request = Request {
            method: if post { "POST" } else { "GET" }, path: &path, query: query.as_deref(),
            authorization: Some("Bearer operator"), content_type: Some("application/json"), body: Some(&body),
            ..Request::default()
        };
        let answer = now(answer(&world, &config(), &request));
        prop_assert!([404, 405, 422, 500, 503].contains(&answer.status), "{}", answer.status);
        prop_assert_eq!(answer.content_type, "application/problem+json");
        prop_assert!(!answer.body.to_string().contains(MARK) && !world.notes.take().contains(MARK));
    }

    #[test]
    fn whatever_the_database_says_to_an_order_is_an_answer(said in said(), path in path(), query in query(), body in body()) {
        let world = FuzzWorld::new(said);
        for method in ["GET", "POST"] {
            let request = Request {
                method, path: &path, query: query.as_deref(), authorization: Some("Bearer operator"),
                content_type: Some("application/json"), body: Some(&body),
                ..Request::default()
            };
            let answer = now(answer(&world, &config(), &request));
            prop_assert!((200..600).contains(&answer.status));
            prop_assert!(answer.status != 200 || world.database.0.is_ok());
        }
    }
}
