//! The bodies of replays, with everything that an intent may carry beside its meaning.

use proptest::prelude::*;
use sealpost::operate::{Request, answer};
use sealpost::outbox::intent::{
    BATCH_CHARS_MAX, REPLAY_INTENTS_MAX, Replayed, SECRET_BYTES_MAX, SECRET_NAME_BYTES_MAX, SECRETS_MAX,
    SEND_ID_BYTES_MAX, parse_intents, parse_replay,
};
use sealpost::outbox::letter::Letter;
use sealpost::outbox::problem::FIELD_ERRORS_MAX;
use sealpost::store::database::DatabaseError;
use serde_json::{Value, json};

use crate::document::{changed, changes};
use crate::doors::config;
use crate::hostile::MARK;
use crate::intents::families;
use crate::world::{FuzzWorld, Says, now};

const NAMES: &[&str] = &[
    "batch",
    "mode",
    "dryRun",
    "intents",
    "family",
    "key",
    "idempotencyKey",
    "revision",
    "to",
    "data",
    "id",
    "secret",
    "code",
    "link",
];

fn request(mode: &str) -> Value {
    json!({ "batch": "outage-7", "mode": mode, "dryRun": false, "intents": [
        {
            "family": "invitation", "key": { "inviteeId": "u9", "companyId": 7 }, "revision": 1,
            "to": "a@b.example", "data": { "name": "Ada" }, "id": "welcome-bo",
            "secret": { "code": "8127", "link": "https://example.com/c" },
        },
        { "family": "notice", "idempotencyKey": "order 7", "to": "b@b.example", "id": "~ ~", "content": { "subject": "s", "text": "t" } },
    ]})
}

proptest! {
    #[test]
    fn a_replay_is_taken_in_its_bounds_or_refused_without_a_word_of_it(
        mode in prop::sample::select(vec!["send", "backfill"]), changes in changes(NAMES),
    ) {
        let body = changed(&request(mode), &changes);
        match parse_replay(&body, &families()) {
            Ok(replay) => {
                let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
                prop_assert!((1..=BATCH_CHARS_MAX).contains(&replay.batch.len()) && replay.batch.bytes().all(legal));
                match replay.replayed {
                    Replayed::Facts(facts) => prop_assert!((1..=REPLAY_INTENTS_MAX).contains(&facts.len())),
                    Replayed::Intents(intents) => {
                        prop_assert!((1..=REPLAY_INTENTS_MAX).contains(&intents.len()));
                        for intent in &intents {
                            let id = intent.send_id.as_deref().unwrap_or("x");
                            prop_assert!((1..=SEND_ID_BYTES_MAX).contains(&id.len()));
                            let secret = &intent.letter.secret;
                            prop_assert!(secret.len() <= SECRETS_MAX);
                            prop_assert!(secret.iter().all(|(name, text)| name.len() <= SECRET_NAME_BYTES_MAX
                                && (1..=SECRET_BYTES_MAX).contains(&text.len())));
                            prop_assert!(Letter::from_json(&intent.letter.to_json()).as_ref() == Ok(&intent.letter));
                        }
                        // What the replay takes, the intake takes as well.
                        let whole: Value = serde_json::from_slice(&body).unwrap();
                        let alone = json!({ "intents": whole["intents"] }).to_string();
                        prop_assert!(parse_intents(alone.as_bytes(), &families()) == Ok(intents));
                    }
                }
            }
            Err(problem) => {
                prop_assert!([400, 422].contains(&problem.status) && problem.errors.len() <= FIELD_ERRORS_MAX);
                prop_assert!(problem.errors.iter().all(|error| !error.detail.contains(MARK) && !error.code.contains(MARK)));
            }
        }
    }

    #[test]
    fn every_replay_gets_an_answer_that_repeats_nothing(
        changes in changes(NAMES),
        error in prop::sample::select(vec![DatabaseError::Busy, DatabaseError::Ambiguous, DatabaseError::Constraint { statement: 1 }]),
    ) {
        let world = FuzzWorld::new(Says(Err(error)));
        let mut document = request("send");
        document["intents"][0] = json!({ "family": "notice", "idempotencyKey": "n0", "to": "a@b.example", "content": { "subject": "s", "text": "t" } });
        let body = changed(&document, &changes);
        let request = Request {
            method: "POST", path: "/v1/replays", authorization: Some("Bearer producer"), content_type: Some("application/json"),
            body: Some(&body), ..Request::default()
        };
        let answer = now(answer(&world, &config(), &request));
        prop_assert!([400, 422, 500, 503].contains(&answer.status), "{}", answer.status);
        prop_assert!(answer.to_publish.is_empty() && !world.notes.take().contains(MARK));
    }
}
