//! A letter becomes the body of `POST /emails`: final bytes, ready to be sealed.
//!
//! The provider compares whole bodies under one idempotency key. So the fields have a fixed order, maps are ordered,
//! and nothing of the process (time, randomness, hash order) gets in: the same draft gives the same bytes anywhere.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    outbox::tags,
    provider::template::{self, LETTER_BYTES_MAX, breaks_line},
};

pub use crate::provider::template::{RenderError, Rendered};

/// Longest request body, in bytes: JSON may spell one byte of a letter with two, and headers and tags come on top.
pub const REQUEST_BYTES_MAX: usize = 1_200_000;

/// What this deployment adds to every mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The mailbox that mails come from, such as `Northwind <post@example.com>`.
    pub from: String,
    /// Where answers go; `None` leaves the field out.
    pub reply_to: Option<String>,
    /// The environment's name, such as `production`; becomes the tag `sealpost_env`.
    pub environment: String,
}

/// One letter with all that its request needs. Every mailbox is already rendered, quoted and checked.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// Exactly one mailbox.
    pub to: &'a str,
    /// Takes the place of [`Sender::from`].
    pub from: Option<&'a str>,
    /// Takes the place of [`Sender::reply_to`].
    pub reply_to: Option<&'a str>,
    /// Extra headers; reserved names were refused at the intake.
    pub headers: &'a BTreeMap<String, String>,
    /// The caller's tags, not yet cleaned.
    pub tags: &'a BTreeMap<String, String>,
    /// Becomes the tag `sealpost_id`.
    pub outbox_id: &'a str,
    /// What the mail says.
    pub body: DraftBody<'a>,
}

/// What a mail says: a template with data, or words that the caller brought.
#[derive(Clone, Copy, Debug)]
pub enum DraftBody<'a> {
    /// A built-in template.
    Template {
        /// The template's name.
        name: &'a str,
        /// A JSON object.
        data: &'a Json,
    },
    /// Ready content.
    Content {
        /// One line.
        subject: &'a str,
        /// A whole HTML document.
        html: Option<&'a str>,
        /// Plain text.
        text: Option<&'a str>,
    },
}

/// The request, in the order in which its fields are written.
#[derive(Serialize)]
struct Request<'a> {
    from: &'a str,
    to: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: &'a BTreeMap<String, String>,
    tags: Vec<RequestTag<'a>>,
}

/// One tag of the request.
#[derive(Serialize)]
struct RequestTag<'a> {
    name: &'a str,
    value: &'a str,
}

/// The final JSON body of the request for one letter.
///
/// # Errors
/// [`RenderError`]; none of them can be cured by trying the same draft again with the same templates.
pub fn build_request(sender: &Sender, draft: &Draft<'_>) -> Result<String, RenderError> {
    let rendered;
    let (subject, html, text) = match draft.body {
        DraftBody::Template { name, data } => {
            rendered = template::render(name, data)?;
            (
                rendered.subject.as_str(),
                Some(rendered.html.as_str()),
                Some(rendered.text.as_str()),
            )
        }
        DraftBody::Content { subject, html, text } => {
            check_content(subject, html, text)?;
            (subject, html, text)
        }
    };
    let from = draft.from.unwrap_or(&sender.from);
    let reply_to = draft.reply_to.or(sender.reply_to.as_deref());
    check_headers(from, draft.to, reply_to, draft.headers)?;
    let tags =
        tags::assemble(&sender.environment, draft.outbox_id, draft.tags).map_err(|_| RenderError::TagsInvalid)?;
    let request = Request {
        from,
        to: draft.to,
        reply_to,
        subject,
        html,
        text,
        headers: draft.headers,
        tags: tags
            .iter()
            .map(|tag| RequestTag {
                name: &tag.name,
                value: &tag.value,
            })
            .collect(),
    };
    // Strings, and maps with string keys: JSON has a form for all of them, so this cannot fail on any draft.
    let body = serde_json::to_string(&request).map_err(|_| RenderError::TemplateFailed)?;
    if body.len() > REQUEST_BYTES_MAX {
        return Err(RenderError::LetterTooLarge);
    }
    Ok(body)
}

/// Ready content obeys the rules of a rendered letter.
fn check_content(subject: &str, html: Option<&str>, text: Option<&str>) -> Result<(), RenderError> {
    template::check_subject(subject)?;
    let (html, text) = (html.unwrap_or_default(), text.unwrap_or_default());
    if html.is_empty() && text.is_empty() {
        return Err(RenderError::LetterEmpty);
    }
    let bytes = subject.len().saturating_add(html.len()).saturating_add(text.len());
    if bytes > LETTER_BYTES_MAX {
        return Err(RenderError::LetterTooLarge);
    }
    Ok(())
}

/// The last look before the bytes are final. The intake refuses these with the field's path; here it only must not pass.
fn check_headers(
    from: &str,
    to: &str,
    reply_to: Option<&str>,
    headers: &BTreeMap<String, String>,
) -> Result<(), RenderError> {
    let named = headers.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    let broken = [from, to]
        .into_iter()
        .chain(reply_to)
        .chain(named)
        .any(|line| line.contains(breaks_line));
    // A header's name ends at its colon: one inside would make the rest of the name its value.
    if broken || from.is_empty() || to.is_empty() || headers.keys().any(|name| name.is_empty() || name.contains(':')) {
        return Err(RenderError::HeaderInvalid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn sender() -> Sender {
        Sender {
            from: "Northwind <post@example.com>".to_owned(),
            reply_to: None,
            environment: "staging".to_owned(),
        }
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Builds a request with ready content and these headers and tags.
    fn build(headers: &BTreeMap<String, String>, tags: &BTreeMap<String, String>) -> Result<String, RenderError> {
        build_request(
            &sender(),
            &Draft {
                to: "ada@example.com",
                from: None,
                reply_to: None,
                headers,
                tags,
                outbox_id: "ntc_01",
                body: DraftBody::Content {
                    subject: "Hello",
                    html: None,
                    text: Some("Hi \"Ada\""),
                },
            },
        )
    }

    fn content(subject: &str, html: Option<&str>, text: Option<&str>) -> Result<String, RenderError> {
        let none = BTreeMap::new();
        let body = DraftBody::Content { subject, html, text };
        let draft = Draft {
            to: "a@example.com",
            from: None,
            reply_to: None,
            headers: &none,
            tags: &none,
            outbox_id: "ntc_01",
            body,
        };
        build_request(&sender(), &draft)
    }

    #[test]
    fn the_bytes_are_exactly_these() {
        let body = build(
            &map(&[("X-Second", "2"), ("X-First", "1")]),
            &map(&[("user", "ada@example.com"), ("plan", "v1.2")]),
        );
        assert_eq!(
            body.unwrap(),
            r#"{"from":"Northwind <post@example.com>","to":"ada@example.com","subject":"Hello","text":"Hi \"Ada\"","headers":{"X-First":"1","X-Second":"2"},"tags":[{"name":"sealpost_env","value":"staging"},{"name":"sealpost_id","value":"ntc_01"},{"name":"plan","value":"v1--2e2"},{"name":"user","value":"ada--40example--2ecom"}]}"#
        );
    }

    #[test]
    fn a_template_fills_subject_html_and_text() {
        let none = BTreeMap::new();
        let data = json!({"company": "Northwind", "name": "Ada", "replyWithin": "one working day"});
        let draft = Draft {
            to: "\"Lovelace, Ada\" <ada@example.com>",
            from: Some("Sales <sales@example.com>"),
            reply_to: Some("help@example.com"),
            headers: &none,
            tags: &none,
            outbox_id: "drv_01",
            body: DraftBody::Template {
                name: "demo_request_visitor",
                data: &data,
            },
        };
        let body = build_request(&sender(), &draft).unwrap();
        let json: Json = serde_json::from_str(&body).unwrap();
        let letter = template::render("demo_request_visitor", &data).unwrap();
        assert_eq!(json["from"], "Sales <sales@example.com>");
        assert_eq!(json["to"], "\"Lovelace, Ada\" <ada@example.com>");
        assert_eq!(json["reply_to"], "help@example.com");
        assert_eq!(json["subject"], letter.subject);
        assert_eq!(json["html"], letter.html);
        assert_eq!(json["text"], letter.text);
        assert_eq!(json.get("headers"), None);
        assert_eq!(build_request(&sender(), &draft).unwrap(), body);
    }

    #[test]
    fn the_senders_reply_address_is_the_default() {
        let sender = Sender {
            reply_to: Some("desk@example.com".to_owned()),
            ..sender()
        };
        let none = BTreeMap::new();
        let body = DraftBody::Content {
            subject: "Hi",
            html: Some("<p>Hi</p>"),
            text: None,
        };
        let draft = Draft {
            to: "a@example.com",
            from: None,
            reply_to: None,
            headers: &none,
            tags: &none,
            outbox_id: "ntc_01",
            body,
        };
        assert!(
            build_request(&sender, &draft)
                .unwrap()
                .contains(r#""reply_to":"desk@example.com","subject":"Hi","html":"<p>Hi</p>","tags""#)
        );
    }

    #[test]
    fn ready_content_obeys_the_rules_of_a_letter() {
        assert_eq!(
            content("a\r\nBcc: z@example.com", None, Some("x")),
            Err(RenderError::SubjectInvalid)
        );
        assert_eq!(content("Hi", None, None), Err(RenderError::LetterEmpty));
        assert_eq!(content("Hi", Some(""), Some("")), Err(RenderError::LetterEmpty));
        let half = "a".repeat(LETTER_BYTES_MAX / 2);
        assert_eq!(
            content("Hi", Some(&half), Some(&half)),
            Err(RenderError::LetterTooLarge)
        );
        // Within the letter's limit, but JSON spells each of these bytes with six.
        let escaped = "\u{1}".repeat(LETTER_BYTES_MAX / 2);
        assert_eq!(content("Hi", None, Some(&escaped)), Err(RenderError::LetterTooLarge));
        let none = BTreeMap::new();
        let draft = |to| Draft {
            to,
            from: None,
            reply_to: None,
            headers: &none,
            tags: &none,
            outbox_id: "ntc_01",
            body: DraftBody::Content {
                subject: "Hi",
                html: None,
                text: Some("x"),
            },
        };
        for to in ["", "a@example.com\r\nBcc: z@example.com"] {
            assert_eq!(build_request(&sender(), &draft(to)), Err(RenderError::HeaderInvalid));
        }
    }

    #[test]
    fn a_header_cannot_start_another() {
        for (name, value) in [
            ("X-A\r\nBcc", "z@example.com"),
            ("X-A", "ok\r\nBcc: z@example.com"),
            ("X-A", "ok\nBcc: z@example.com"),
            ("X-A: x", "ok"),
            ("", "ok"),
        ] {
            assert_eq!(
                build(&map(&[(name, value)]), &BTreeMap::new()),
                Err(RenderError::HeaderInvalid),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_bad_tag_is_an_error_and_not_a_changed_tag() {
        for (name, value) in [("sealpost_id", "x"), ("a", ""), ("a", &"x".repeat(257))] {
            assert_eq!(
                build(&BTreeMap::new(), &map(&[(name, value)])),
                Err(RenderError::TagsInvalid),
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_body_says_what_the_draft_says(
            subject in "[^\\p{C}\\p{Z}]{1,40}",
            text in ".{1,80}",
            tags in prop::collection::btree_map("[a-z.-]{1,9}", "\\PC{1,20}", 0..6),
            headers in prop::collection::btree_map("X-[A-Za-z]{1,9}", "[ -~]{0,20}", 0..6),
        ) {
            let draft = Draft {
                to: "ada@example.com",
                from: None,
                reply_to: None,
                headers: &headers,
                tags: &tags,
                outbox_id: "ntc_01",
                body: DraftBody::Content { subject: &subject, html: None, text: Some(&text) },
            };
            let body = build_request(&sender(), &draft).unwrap();
            let json: Json = serde_json::from_str(&body).unwrap();
            prop_assert_eq!(json["subject"].as_str(), Some(subject.as_str()));
            prop_assert_eq!(json["text"].as_str(), Some(text.as_str()));
            let sent: BTreeMap<String, String> = json["tags"].as_array().unwrap().iter().skip(2)
                .map(|tag| (
                    tags::restore(tag["name"].as_str().unwrap()).unwrap(),
                    tags::restore(tag["value"].as_str().unwrap()).unwrap(),
                ))
                .collect();
            prop_assert_eq!(sent, tags);
        }
    }
}
