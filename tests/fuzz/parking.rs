//! What nobody understood, from both queues, kept by the real engine.

use libsql::Value as Sql;
use proptest::prelude::*;
use sealpost::consume::{Decision, Delivery, consume};
use sealpost::dead_letter::consume_dead_letters;
use sealpost::outbox::envelope::{Envelope, KIND};
use sealpost::store::database::{Database, DatabaseError, Statement, Transaction};
use serde_json::json;

use crate::document::{changed, changes};
use crate::doors::config;
use crate::hostile::{self, MARK};
use crate::world::{FuzzWorld, Says, engine, now};

/// What is kept of a body, in bytes.
const KEPT_BYTES_MAX: usize = 16 * 1024;

fn body() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        2 => changes(&["kind", "version", "outboxId"]).prop_map(|changes| {
            let envelope = json!({ "kind": KIND, "version": 1, "outboxId": "inv_0123456789" });
            Some(String::from_utf8_lossy(&changed(&envelope, &changes)).into_owned())
        }),
        4 => hostile::text().prop_map(Some),
        1 => (KEPT_BYTES_MAX - 5..KEPT_BYTES_MAX + 5, prop::sample::select(vec!["\u{1}", "\"", "\u{e9}", "\u{1f600}", "\0"]))
            .prop_map(|(length, piece)| Some(format!("x{}", piece.repeat(length / piece.len() + 1)))),
        1 => Just(None),
    ]
}

fn deliveries() -> impl Strategy<Value = Vec<Delivery>> {
    let delivery =
        (body(), prop_oneof![1_u32..5, any::<u32>()]).prop_map(|(body, attempts)| Delivery { body, attempts });
    prop::collection::vec(delivery, 0..6)
}

fn sql(database: &impl Database, sql: &'static str) -> Vec<Vec<Sql>> {
    let rows =
        now(database.run(Transaction::write(vec![Statement::new(sql, Vec::new())]))).expect("a test's statement runs");
    rows.into_iter().next().expect("one result").rows
}

fn kept(database: &impl Database) -> Vec<(String, usize)> {
    let rows = sql(database, "SELECT body, body_bytes FROM parking ORDER BY rowid");
    rows.into_iter()
        .map(|row| match (&row[0], &row[1]) {
            (Sql::Text(body), Sql::Integer(bytes)) => (body.clone(), usize::try_from(*bytes).unwrap()),
            other => panic!("not a parked body: {other:?}"),
        })
        .collect()
}

/// The longest beginning of a text that is kept.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(KEPT_BYTES_MAX)]
}

#[test]
fn every_message_is_decided_and_the_unreadable_is_kept_as_it_came() {
    let world = FuzzWorld::new(engine());
    let config = config();
    proptest!(|(deliveries in deliveries(), dead in any::<bool>())| {
        sql(&world.database, "DELETE FROM parking");
        let decisions = if dead {
            now(consume_dead_letters(&world, &config, &deliveries))
        } else {
            now(consume(&world, &config, &deliveries))
        };
        // No row exists, so all are parked, and only then acknowledged.
        prop_assert_eq!(decisions, vec![Decision::Acknowledge; deliveries.len()]);
        prop_assert!(!world.notes.take().contains(MARK));
        let kept = kept(&world.database);
        for (body, bytes) in &kept {
            prop_assert!(body.len() <= KEPT_BYTES_MAX && body.len() <= *bytes);
        }
        for delivery in &deliveries {
            let body = delivery.body.as_deref().unwrap_or_default();
            prop_assert!(kept.iter().any(|(text, bytes)| text == beginning(body) && *bytes == body.len()), "{body:?}");
        }
    });
}

#[test]
fn a_full_batch_of_the_longest_bodies_is_kept() {
    let world = FuzzWorld::new(engine());
    for (round, piece) in ["\u{1}", "\"", "\u{1f600}", "a"].into_iter().enumerate() {
        let deliveries: Vec<Delivery> = (0..100)
            .map(|number| Delivery {
                body: Some(format!("{round} {number} {}", piece.repeat(128_000 / piece.len()))),
                attempts: 1,
            })
            .collect();
        let decisions = now(consume(&world, &config(), &deliveries));
        assert_eq!(decisions, vec![Decision::Acknowledge; 100], "{piece:?}");
        assert_eq!(kept(&world.database).len(), 100 * (round + 1));
    }
}

proptest! {
    #[test]
    fn what_cannot_be_kept_comes_again(deliveries in deliveries(), dead in any::<bool>()) {
        let world = FuzzWorld::new(Says(Err(DatabaseError::Busy)));
        let config = config();
        let decisions = if dead {
            now(consume_dead_letters(&world, &config, &deliveries))
        } else {
            now(consume(&world, &config, &deliveries))
        };
        prop_assert_eq!(decisions.len(), deliveries.len());
        for decision in decisions {
            match decision {
                Decision::Retry { delay_seconds } => prop_assert!((1..=86_400).contains(&delay_seconds)),
                Decision::Acknowledge => prop_assert!(false, "acknowledged and forgotten"),
            }
        }
    }
}

#[test]
fn an_envelope_is_parked_only_where_its_row_is_nowhere() {
    let world = FuzzWorld::new(engine());
    let body = Envelope::to_row("inv_0123456789").to_body();
    let deliveries = [Delivery {
        body: Some(body.clone()),
        attempts: 1,
    }];
    assert_eq!(now(consume(&world, &config(), &deliveries)), [Decision::Acknowledge]);
    assert_eq!(kept(&world.database), [(body.clone(), body.len())]);
}
