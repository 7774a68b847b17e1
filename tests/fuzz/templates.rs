//! Template data.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sealpost::outbox::family::families;
use sealpost::outbox::json;
use sealpost::provider::filters::LINK_BYTES_MAX;
use sealpost::provider::render::{Draft, DraftBody, REQUEST_BYTES_MAX, RenderError, Sender, build_request};
use sealpost::provider::template::{LETTER_BYTES_MAX, SUBJECT_BYTES_MAX, render};
use serde_json::{Value, json};

use crate::document::{changed, changes};
use crate::hostile;

pub const NAMES: &[&str] = &[
    "company",
    "companyAddress",
    "inviterName",
    "programme",
    "acceptUrl",
    "recipientName",
    "note",
    "expiresOn",
    "applicantName",
    "decision",
    "message",
    "nextStepUrl",
    "name",
    "email",
    "submittedAt",
    "organisation",
    "phone",
    "leadUrl",
    "replyWithin",
    "donorName",
    "amount",
    "beneficiary",
    "reference",
    "pledgedOn",
    "matchedBy",
    "customerName",
    "plan",
    "renewsOn",
    "manageUrl",
    "cancelBy",
    "paymentMethod",
];

/// Data that fills every template.
pub fn full() -> Value {
    let mut data = serde_json::Map::new();
    for name in NAMES {
        let value = match *name {
            "decision" => "accepted".to_owned(),
            url if url.ends_with("Url") => format!("https://b.example/{url}?a=1&b=2"),
            other => format!("The {other}"),
        };
        data.insert((*name).to_owned(), Value::from(value));
    }
    Value::Object(data)
}

pub fn template() -> impl Strategy<Value = &'static str> {
    let names: Vec<&str> = families().iter().filter_map(|family| family.template).collect();
    prop::sample::select(names)
}

/// Markup of ours has these; a value must never add one.
fn markup(html: &str) -> (usize, usize) {
    (html.matches('<').count(), html.matches('>').count())
}

proptest! {
    #[test]
    fn whatever_the_data_a_letter_is_whole_and_bounded(template in template(), changes in changes(NAMES)) {
        let Ok(data) = json::read(&changed(&full(), &changes)) else { return Ok(()) };
        match render(template, &data) {
            Ok(letter) => {
                prop_assert!(letter.subject.len() + letter.html.len() + letter.text.len() <= LETTER_BYTES_MAX);
                prop_assert!(letter.subject.len() <= SUBJECT_BYTES_MAX && !letter.subject.trim().is_empty());
                prop_assert!(hostile::is_one_line(&letter.subject));
                // Not as program text, and not as a hole.
                for part in [&letter.html, &letter.text] {
                    prop_assert!(!part.contains("undefined") && !part.contains("{{") || changes_hold(&data, "{{"));
                }
                prop_assert!(render(template, &data) == Ok(letter), "rendered twice, it is the same");
            }
            Err(error) => {
                prop_assert!(hostile::is_quiet(&error));
                // The templates themselves are right, whatever comes into them.
                prop_assert!(error != RenderError::TemplateFailed && error != RenderError::TemplateMissing, "{error}");
            }
        }
    }

    #[test]
    fn a_value_is_text_and_never_markup(template in template(), name in prop::sample::select(NAMES), value in hostile::text()) {
        let mut plain = full();
        let mut data = full();
        // As many lines as the value has, so that both have the same breaks.
        plain[name] = json!(value.replace(['<', '>', '&', '"', '\''], "x"));
        data[name] = json!(value);
        if let (Ok(plain), Ok(letter)) = (render(template, &plain), render(template, &data)) {
            prop_assert_eq!(markup(&letter.html), markup(&plain.html));
            prop_assert_eq!(letter.html.matches('"').count(), plain.html.matches('"').count());
        }
    }

    #[test]
    fn only_a_web_address_becomes_a_link(value in prop_oneof![
        hostile::text(),
        "(https?|HTTPS|javascript|data|ftp|//)://[a-z0-9 \"'<>`\\\\@:%\u{e9}.]{0,30}",
        "https://[a-z]{1,5}[ -~]{0,30}",
        (2_000_usize..2_100).prop_map(|length| format!("https://{}", "a".repeat(length))),
    ]) {
        let mut data = full();
        data["acceptUrl"] = json!(value);
        match render("invitation", &data) {
            Ok(letter) => {
                prop_assert!(value.len() <= LINK_BYTES_MAX && (value.starts_with("https://") || value.starts_with("http://")));
                prop_assert!(value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'<>\\`".contains(&byte)));
                let href = format!("href=\"{}\"", value.replace('&', "&amp;"));
                prop_assert_eq!(letter.html.matches(&href).count(), 2);
                prop_assert!(letter.text.contains(&value));
            }
            Err(error) => prop_assert_eq!(error, RenderError::DataInvalid),
        }
    }

    #[test]
    fn a_request_is_bounded_and_holds_one_recipient(
        template in template(), changes in changes(NAMES), to in hostile::text(), subject in hostile::text(),
        headers in prop::collection::btree_map(hostile::text(), hostile::text(), 0..3),
        tags in prop::collection::btree_map(hostile::text(), hostile::text(), 0..3),
        ready in any::<bool>(),
    ) {
        let Ok(data) = json::read(&changed(&full(), &changes)) else { return Ok(()) };
        let (headers, tags): (BTreeMap<String, String>, BTreeMap<String, String>) = (headers, tags);
        let sender = Sender { from: "Us <us@b.example>".to_owned(), reply_to: None, environment: "test".to_owned(), message_id: true };
        let body = if ready {
            DraftBody::Content { subject: &subject, html: None, text: Some("Hi") }
        } else {
            DraftBody::Template { name: template, data: &data }
        };
        let draft = Draft { to: &to, from: None, reply_to: None, headers: &headers, tags: &tags, outbox_id: "ntc_01234567", unsubscribe: None, body, attachments: &[] };
        match build_request(&sender, &draft) {
            Ok(request) => {
                prop_assert!(request.len() <= REQUEST_BYTES_MAX);
                let request: Value = serde_json::from_str(&request).unwrap();
                prop_assert_eq!(request["to"].as_str(), Some(to.as_str()));
                let lines = [request["to"].as_str(), request["subject"].as_str()];
                let named = headers.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
                for line in lines.into_iter().flatten().chain(named) {
                    prop_assert!(hostile::is_one_line(line));
                }
            }
            Err(error) => prop_assert!(hostile::is_quiet(&error)),
        }
    }
}

/// Whether the data itself holds the text, so that a letter may show it.
fn changes_hold(data: &Value, text: &str) -> bool {
    data.to_string().contains(text) || data.to_string().contains("undefined")
}

#[test]
fn every_template_is_filled_by_the_full_data() {
    for family in families() {
        let Some(template) = family.template else { continue };
        assert!(render(template, &full()).is_ok(), "{template}");
    }
}
