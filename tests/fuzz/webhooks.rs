//! What the provider says about mails: the signature that makes it believed, and the reading of it.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::sample::Index;
use sealpost::devstack::provider::model::{Call, Model, Next, Settings};
use sealpost::devstack::provider::webhook::sign;
use sealpost::outbox::address;
use sealpost::outbox::id::{is_message_id, is_outbox_id};
use sealpost::outbox::receipt::{Named, News, Reading, Receipt, read};
use sealpost::outbox::time::Millis;
use sealpost::receipts::{EVENT_ID_BYTES_MAX, SignatureError, SignatureHeaders, TOLERANCE_S, WebhookSecrets, verify};
use serde_json::{Map, Value, json};

use crate::document::{changed, changes};
use crate::hostile;

const NAMES: &[&str] = &[
    "type",
    "created_at",
    "data",
    "email_id",
    "to",
    "tags",
    "headers",
    "bounce",
    "complaint",
    "suppressed",
    "name",
    "value",
    "sealpost_env",
    "sealpost_id",
    "Message-ID",
];

const KINDS: &[(&str, News)] = &[
    ("email.scheduled", News::Scheduled),
    ("email.sent", News::Sent),
    ("email.delivery_delayed", News::Delayed),
    ("email.delivered", News::Delivered),
    ("email.opened", News::Opened),
    ("email.clicked", News::Clicked),
    ("email.failed", News::Failed),
    ("email.suppressed", News::Suppressed),
    ("email.bounced", News::Bounced),
    ("email.complained", News::Complained),
];

const ENVIRONMENT: &str = "production";
const OURS: &str = "inv_0123456789";
const MAIL: &str = "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794";

/// An event as the provider's model makes it, about a mail of ours to these recipients.
fn event(kind: &str, to: &[&str], extra: Map<String, Value>) -> Value {
    let mail = json!({
        "from": "a@acme.test", "to": to, "subject": "s", "text": "x",
        "tags": [{ "name": "sealpost_env", "value": ENVIRONMENT }, { "name": "sealpost_id", "value": OURS }],
        "headers": { "Message-ID": format!("<{OURS}@acme.test>") },
    });
    let mut model = Model::new(Settings::default());
    let body = mail.to_string();
    let call = Call {
        authorization: Some("Bearer re_a"),
        user_agent: Some("t/1"),
        idempotency_key: None,
        body: body.as_bytes(),
        list: None,
    };
    let Next::Running { ticket, .. } = model.arrive(Millis::new(0), &call).next else {
        panic!("a good mail was refused")
    };
    model.finish(Millis::new(0), ticket, MAIL);
    let event = model.event(Millis::new(1_000), MAIL, kind, extra).unwrap();
    serde_json::from_str(&event).unwrap()
}

fn kind() -> impl Strategy<Value = (&'static str, News)> {
    prop::sample::select(KINDS)
}

fn receipt(event: &Value) -> Receipt {
    match read(event.to_string().as_bytes(), ENVIRONMENT) {
        Reading::About(receipt) => receipt,
        other @ (Reading::OtherEnvironment | Reading::NotAboutAMail | Reading::NotUnderstood(_)) => {
            panic!("{event} is {other:?}")
        }
    }
}

/// Events that are nearly right, and what is none.
pub fn body() -> impl Strategy<Value = Vec<u8>> {
    let to = prop::sample::select(vec![
        json!(["a@acme.test"]),
        json!("A <a@acme.test>"),
        json!(["a@acme.test", "b@acme.test"]),
        json!(["a@acme.test", "A@ACME.test"]),
    ]);
    let detail = prop::sample::select(vec![
        json!({ "type": "Permanent", "message": "<a@acme.test>: no such user" }),
        json!({ "type": "Transient", "message": "ba@acme.test" }),
        json!({ "type": "Undetermined", "diagnosticCode": ["a@acme.test", "b@acme.test"] }),
    ]);
    let nearly = (kind(), to, detail, changes(NAMES)).prop_map(|((kind, _), to, detail, changes)| {
        let extra = json!({ "to": to, "bounce": detail, "complaint": detail });
        changed(
            &event(kind, &["a@acme.test"], extra.as_object().unwrap().clone()),
            &changes,
        )
    });
    prop_oneof![
        12 => nearly,
        1 => hostile::token().prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..80),
        1 => (130_usize..20_000).prop_map(|depth| format!("{}{}", r#"{"type":"#, "[".repeat(depth)).into_bytes()),
    ]
}

/// What a sender signs with, as it is set and as it is.
fn secret() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<u8>(), 16..80).prop_map(|bytes| format!("whsec_{}", STANDARD.encode(bytes)))
}

/// One event on its way: secret, id, timestamp, body, signature header.
#[derive(Clone, Debug)]
struct Signed {
    secret: String,
    id: String,
    timestamp: String,
    body: Vec<u8>,
    signature: String,
}

fn signed() -> impl Strategy<Value = Signed> {
    let text =
        prop_oneof![2 => hostile::text(), 1 => Just(event("email.sent", &["a@acme.test"], Map::new()).to_string())];
    let at_s = prop_oneof![3 => 1_500_000_000_i64..2_500_000_000, 1 => 0_i64..9_000_000_000_000_000];
    (secret(), "[!-\\-/-~]{1,60}", at_s, text).prop_map(|(secret, id, at_s, text)| Signed {
        signature: sign(&secret, &id, at_s, &text).unwrap(),
        timestamp: at_s.to_string(),
        body: text.into_bytes(),
        secret,
        id,
    })
}

impl Signed {
    fn verify(&self, setting: &str, now_ms: i64) -> Result<&str, SignatureError> {
        let headers = SignatureHeaders {
            id: Some(&self.id),
            timestamp: Some(&self.timestamp),
            signature: Some(&self.signature),
        };
        let secrets = WebhookSecrets::parse(Some(setting));
        verify(&secrets, headers, &self.body, Millis::new(now_ms)).map(|verified| verified.event_id())
    }

    fn at_ms(&self) -> i64 {
        self.timestamp.parse::<i64>().unwrap() * 1_000
    }
}

/// The text with one visible character changed into another.
fn one_changed(text: &str, at: Index, by: u8) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = at.index(bytes.len());
    let old = bytes[at];
    // Visible ASCII is a ring of 94.
    bytes[at] = b'!' + (old - b'!' + by) % 94;
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #[test]
    fn what_the_provider_signs_is_believed_while_it_is_fresh(
        signed in signed(),
        other in secret(),
        first in any::<bool>(),
        offset_s in -1_000_i64..1_000,
        fraction_ms in 0_i64..1_000,
    ) {
        let both = if first {
            format!("{},{other}", signed.secret)
        } else {
            format!("{other},{}", signed.secret)
        };
        let now = signed.at_ms() + offset_s * 1_000 + fraction_ms;
        let expected = if offset_s.unsigned_abs() <= TOLERANCE_S { Ok(signed.id.as_str()) } else { Err(SignatureError::Expired) };
        prop_assert_eq!(signed.verify(&both, now), expected);
        prop_assert_eq!(signed.verify(&signed.secret, now), expected);
        if other != signed.secret && expected.is_ok() {
            prop_assert_eq!(signed.verify(&other, now), Err(SignatureError::Invalid));
        }
    }

    #[test]
    fn one_changed_byte_ends_the_belief(signed in signed(), at in any::<Index>(), by in 1_u8..94, bits in 1_u8..=255) {
        let now = signed.at_ms();
        let refused = |changed: &Signed| changed.verify(&signed.secret, now).is_err();
        let mut changed = signed.clone();
        changed.id = one_changed(&signed.id, at, by);
        prop_assert!(refused(&changed), "{:?}", changed.id);
        let mut changed = signed.clone();
        changed.timestamp = one_changed(&signed.timestamp, at, by);
        prop_assert!(refused(&changed), "{}", changed.timestamp);
        let mut changed = signed.clone();
        changed.signature = one_changed(&signed.signature, at, by);
        prop_assert!(refused(&changed), "{}", changed.signature);
        let mut changed = signed.clone();
        if changed.body.is_empty() {
            changed.body.push(bits);
        } else {
            let at = at.index(changed.body.len());
            changed.body[at] ^= bits;
        }
        prop_assert!(refused(&changed), "{:?}", changed.body);
        // Neither may a byte move from one part into the next.
        let mut changed = signed.clone();
        let last = changed.timestamp.pop().unwrap();
        changed.body.splice(0..0, [b'.', u8::try_from(last).unwrap()]);
        prop_assert!(refused(&changed));
    }

    #[test]
    fn headers_of_any_kind_are_judged_and_not_believed(
        id in prop::option::of(prop_oneof!["[!-~]{1,300}", hostile::text()]),
        timestamp in prop::option::of(prop_oneof!["[-+]?[0-9]{1,25}", hostile::text()]),
        signature in prop::option::of(prop_oneof!["(v1a?,[A-Za-z0-9+/=]{0,50} {0,2}){0,40}", hostile::text()]),
        setting in prop_oneof![3 => secret(), 1 => hostile::text()],
        body in prop::collection::vec(any::<u8>(), 0..40),
        now in any::<i64>(),
    ) {
        let headers = SignatureHeaders { id: id.as_deref(), timestamp: timestamp.as_deref(), signature: signature.as_deref() };
        let secrets = WebhookSecrets::parse(Some(&setting));
        prop_assert!(hostile::debug_is_quiet(&secrets));
        let error = verify(&secrets, headers, &body, Millis::new(now)).unwrap_err();
        prop_assert!(hostile::is_quiet(&error));
        match error {
            SignatureError::DoorClosed => prop_assert!(false, "something is set"),
            SignatureError::SecretInvalid => prop_assert!(matches!(secrets, WebhookSecrets::Malformed)),
            SignatureError::Missing => prop_assert!(id.is_none() || timestamp.is_none() || signature.is_none()),
            SignatureError::Expired | SignatureError::Invalid => {
                let id = id.unwrap();
                prop_assert!(id.len() <= EVENT_ID_BYTES_MAX && !id.contains(['.', ' ']));
                prop_assert!(timestamp.unwrap().bytes().all(|byte| byte.is_ascii_digit()));
            }
            SignatureError::Malformed => {}
        }
    }

    #[test]
    fn an_event_of_the_provider_is_about_its_mail((kind, news) in kind(), several in any::<bool>()) {
        let to: &[&str] = if several { &["A@acme.test", "b@acme.test"] } else { &["A@acme.test"] };
        let receipt = receipt(&event(kind, to, Map::new()));
        prop_assert_eq!(receipt.news, news);
        prop_assert_eq!(receipt.bounce.is_some(), news == News::Bounced);
        prop_assert_eq!(receipt.at, Millis::new(1_000));
        prop_assert_eq!(receipt.message_id.as_str(), MAIL);
        prop_assert_eq!(receipt.tagged_id.as_deref(), Some(OURS));
        let named = match receipt.named {
            Named::One(address) => Some(address.email),
            Named::Several => None,
            Named::Nobody => panic!("somebody is on it"),
        };
        prop_assert_eq!(named, (!several).then(|| "A@acme.test".to_owned()));
    }

    #[test]
    fn members_that_nobody_asked_for_change_nothing(
        (kind, _) in kind(),
        members in prop::collection::vec((0_usize..3, hostile::text(), hostile::token()), 0..6),
    ) {
        let plain = event(kind, &["a@acme.test"], Map::new());
        let expected = receipt(&plain);
        let mut around = plain;
        for (place, name, token) in members {
            // What is no JSON, or nearly too deep, is no member.
            let depth = token.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
            let Ok(value) = serde_json::from_str::<Value>(&token) else { continue };
            if depth > 100 {
                continue;
            }
            // Whatever it is called, no name of ours begins so.
            let name = format!("x{name}");
            match place {
                0 => around[name] = value,
                1 => around["data"][name] = value,
                _ => around["data"]["tags"][name] = value,
            }
        }
        for name in ["broadcast_id", "template_id", "subject", "from"] {
            around["data"][name] = Value::Null;
        }
        prop_assert_eq!(receipt(&around), expected);
    }

    #[test]
    fn what_is_read_can_be_kept_and_names_nobody_by_a_guess(body in body()) {
        match read(&body, ENVIRONMENT) {
            Reading::About(receipt) => {
                                prop_assert!(is_message_id(&receipt.message_id));
                prop_assert!(receipt.tagged_id.as_deref().is_none_or(is_outbox_id));
                prop_assert!(receipt.at.get() >= 0);
                prop_assert_eq!(receipt.bounce.is_some(), receipt.news == News::Bounced);
                if let Named::One(one) = receipt.named {
                    let event: Value = serde_json::from_slice(&body).unwrap();
                    let data = &event["data"];
                    let entries = match &data["to"] {
                        Value::Array(entries) => entries.clone(),
                        entry @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => vec![entry.clone()],
                    };
                    let people: BTreeSet<Option<String>> = entries
                        .iter()
                        .filter(|entry| !entry.is_null())
                        .map(|entry| Some(address::parse(entry.as_str()?).ok()?.hash_input()))
                        .collect();
                    prop_assert!(people.contains(&Some(one.hash_input())));
                    let details = format!("{} {} {}", data["bounce"], data["complaint"], data["suppressed"]);
                    prop_assert!(people.len() == 1 || details.to_lowercase().contains(&one.hash_input()));
                }
            }
            Reading::NotUnderstood(code) => prop_assert!(code.starts_with("receipt_")),
            Reading::OtherEnvironment | Reading::NotAboutAMail => {}
        }
    }
}
