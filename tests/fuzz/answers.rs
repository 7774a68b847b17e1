//! What the provider answers, or what stands between it and us.

use core::time::Duration;

use proptest::prelude::*;
use sealpost::outbox::time::Millis;
use sealpost::ports::MailAnswer;
use sealpost::provider::classify::{Answer, MESSAGE_ID_CHARS_MAX, classify};
use sealpost::provider::code::ProviderCode;
use sealpost::provider::retry_after::{RETRY_AFTER_CAP, RETRY_AFTER_FLOOR};
use serde_json::{Value, json};

use crate::document::{changed, changes};
use crate::hostile;

const NAMES: &[&str] = &["id", "name", "message", "statusCode", "error", "data", "object"];

const ERROR_NAMES: &[&str] = &[
    "validation_error",
    "invalid_api_key",
    "missing_api_key",
    "restricted_api_key",
    "invalid_idempotency_key",
    "concurrent_idempotent_requests",
    "invalid_idempotent_request",
    "daily_quota_exceeded",
    "monthly_quota_exceeded",
    "rate_limit_exceeded",
    "application_error",
    "internal_server_error",
    "invalid_attachment",
    "not_found",
];

const MESSAGES: &[&str] = &[
    "API key is invalid",
    "You can only send testing emails to your own email address (a@b.example).",
    "The b.example domain is not verified.",
    "Too many requests.",
    "",
];

fn document() -> impl Strategy<Value = Value> {
    let id = prop_oneof![
        12 => Just("49a3999c-0ce1-4ea6-ab68-afcd6dc2e794".to_owned()),
        1 => "[a-zA-Z0-9._-]{0,140}",
        1 => hostile::text(),
    ];
    let error = (
        prop::sample::select(ERROR_NAMES),
        prop::sample::select(MESSAGES),
        400_u16..600,
    )
        .prop_map(|(name, message, status)| json!({ "statusCode": status, "name": name, "message": message }));
    prop_oneof![
        8 => id.prop_map(|id| json!({ "id": id })),
        3 => error,
        1 => Just(json!({ "data": { "id": "49a3999c" }, "error": null })),
        1 => Just(json!([{ "id": "49a3999c" }])),
        1 => Just(json!("49a3999c")),
    ]
}

fn body() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        8 => (document(), changes(NAMES)).prop_map(|(document, changes)| Some(changed(&document, &changes))),
        1 => hostile::text().prop_map(|text| Some(text.into_bytes())),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Some),
        1 => Just(Some(b"<html><body>502 Bad Gateway</body></html>".to_vec())),
        1 => (130_usize..20_000).prop_map(|depth| Some("[".repeat(depth).into_bytes())),
        1 => Just(None),
    ]
}

pub fn response() -> impl Strategy<Value = (u16, Option<String>, Option<Vec<u8>>)> {
    let status = prop_oneof![3 => Just(200_u16), 1 => 200_u16..300, 2 => prop::sample::select(vec![400_u16, 403, 409, 413, 422, 429]), 4 => 300_u16..600, 1 => any::<u16>()];
    let retry_after = prop::option::of(prop_oneof!["[0-9]{1,30}", hostile::text()]);
    let fitting = (document(), status.clone(), changes(NAMES)).prop_map(|(document, status, changes)| {
        let status = if document.get("id").is_some() { 200 } else { status };
        (status, Some(changed(&document, &changes)))
    });
    let any = (status, body());
    (prop_oneof![2 => fitting, 1 => any], retry_after)
        .prop_map(|((status, body), retry_after)| (status, retry_after, body))
}

/// What the documents of the provider call an acceptance: an object with one `id` that can be used.
fn has_usable_id(body: Option<&[u8]>) -> bool {
    let json: Option<Value> = body.and_then(|body| serde_json::from_slice(body).ok());
    json.as_ref()
        .and_then(Value::as_object)
        .and_then(|members| members.get("id"))
        .and_then(Value::as_str)
        .is_some_and(|id| {
            (1..=MESSAGE_ID_CHARS_MAX).contains(&id.len())
                && id
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
                && id.chars().any(|c| c.is_ascii_alphanumeric())
        })
}

fn is_wait(wait: Duration) -> bool {
    (RETRY_AFTER_FLOOR..=RETRY_AFTER_CAP).contains(&wait)
}

proptest! {
    #[test]
    fn only_a_2xx_with_a_usable_id_is_an_acceptance((status, retry_after, body) in response(), now in any::<i64>()) {
        let accepts = (200..=299).contains(&status) && has_usable_id(body.as_deref());
        let response = MailAnswer::Response { status, retry_after, body: body.clone() };
        let answer = classify(&response, Millis::new(now));
        prop_assert_eq!(matches!(answer, Answer::Accepted { .. }), accepts, "{:?}", answer);
        match &answer {
            Answer::Accepted { message_id } => {
                prop_assert!(String::from_utf8(body.unwrap()).unwrap().contains(message_id.as_str())
                    || response_has_escapes(&response));
            }
            // A refusal is for good. It comes from a status that refuses, and never from one that leaves doubt.
            Answer::Refused { .. } | Answer::Misconfigured { .. } => prop_assert!((300..=499).contains(&status)),
            Answer::Declined { .. } => prop_assert_eq!(status, 451),
            Answer::Throttled { wait, .. } => prop_assert!(status == 429 && is_wait(*wait)),
            Answer::InProgress { wait } => prop_assert!(status == 409 && is_wait(*wait)),
            Answer::PayloadConflict => prop_assert_eq!(status, 409),
            Answer::Ambiguous { wait, .. } => prop_assert!(wait.is_none_or(is_wait)),
        }
        // A 5xx or a 2xx without an id may have been accepted, whatever is in it.
        if !(300..=499).contains(&status) && !accepts {
            let ambiguous = matches!(answer, Answer::Ambiguous { .. });
            prop_assert!(ambiguous);
        }
        if !accepts {
            prop_assert!(hostile::debug_is_quiet(&answer));
        }
    }

    #[test]
    fn a_refusal_for_good_has_proof((status, retry_after, body) in response()) {
        let is_object = body.as_deref().is_some_and(|body| {
            serde_json::from_slice::<Value>(body).is_ok_and(|json| json.is_object())
        });
        let answer = classify(&MailAnswer::Response { status, retry_after, body }, Millis::new(0));
        if let Answer::Refused { code } = answer {
            prop_assert!(is_object || status == 413 || status == 422, "{status} {code:?}");
            prop_assert!(ProviderCode::ALL.contains(&code));
        }
    }
}

/// An id that was written with escapes stands in the body in other characters.
fn response_has_escapes(response: &MailAnswer) -> bool {
    match response {
        MailAnswer::Response { body, .. } => body.as_deref().is_some_and(|body| body.contains(&b'\\')),
        MailAnswer::TimedOut | MailAnswer::Disconnected => false,
    }
}
