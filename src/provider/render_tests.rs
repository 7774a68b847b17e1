//! The bytes of a request: exact, the same every time, and nothing in them that the draft does not say.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::outbox::attachment::ATTACHMENT_BYTES_MAX;

fn sender() -> Sender {
    Sender {
        from: "Northwind <post@example.com>".to_owned(),
        reply_to: None,
        environment: "staging".to_owned(),
        message_id: true,
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
            unsubscribe: None,
            attachments: &[],
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
        unsubscribe: None,
        attachments: &[],
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
        r#"{"from":"Northwind <post@example.com>","to":"ada@example.com","subject":"Hello","text":"Hi \"Ada\"","headers":{"Message-ID":"<ntc_01.staging@example.com>","X-First":"1","X-Second":"2"},"tags":[{"name":"sealpost_env","value":"staging"},{"name":"sealpost_id","value":"ntc_01"},{"name":"plan","value":"v1--2e2"},{"name":"user","value":"ada--40example--2ecom"}]}"#
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
        unsubscribe: None,
        attachments: &[],
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
    assert_eq!(json["headers"], json!({ "Message-ID": "<drv_01.staging@example.com>" }));
    assert_eq!(build_request(&sender(), &draft).unwrap(), body);
}

#[test]
fn our_own_headers_stand_between_the_callers_by_name() {
    let draft = |headers, unsubscribe| Draft {
        to: "a@example.com",
        from: Some("\"a@b <c>\" <news@news.example.net>"),
        reply_to: None,
        headers,
        tags: headers,
        outbox_id: "ann_01",
        unsubscribe,
        attachments: &[],
        body: DraftBody::Content {
            subject: "Hi",
            html: None,
            text: Some("x"),
        },
    };
    let headers = |body: String| {
        let (_, rest) = body.split_once("\"headers\":").unwrap();
        rest.split_once(",\"tags\"").unwrap().0.to_owned()
    };
    let (own, link) = (
        map(&[("A", "1"), ("X", "2")]),
        "https://mail.example.com/v1/unsubscribe/ann_01.x",
    );
    let body = build_request(&sender(), &draft(&own, Some(link))).unwrap();
    assert_eq!(
        headers(body),
        r#"{"A":"1","List-Unsubscribe":"<https://mail.example.com/v1/unsubscribe/ann_01.x>","List-Unsubscribe-Post":"List-Unsubscribe=One-Click","Message-ID":"<ann_01.staging@news.example.net>","X":"2"}"#
    );
    let quiet = Sender {
        message_id: false,
        ..sender()
    };
    let body = build_request(&quiet, &draft(&own, None)).unwrap();
    assert_eq!(headers(body), r#"{"A":"1","X":"2"}"#);
    let none = BTreeMap::new();
    let body = build_request(&quiet, &draft(&none, None)).unwrap();
    assert!(!body.contains("\"headers\""), "{body}");
    assert_eq!(
        build_request(&sender(), &draft(&none, Some("https://a\r\nBcc: z@example.com"))),
        Err(RenderError::HeaderInvalid)
    );
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
        unsubscribe: None,
        attachments: &[],
        body,
    };
    assert!(
        build_request(&sender, &draft)
            .unwrap()
            .contains(r#""reply_to":"desk@example.com","subject":"Hi","html":"<p>Hi</p>","headers""#)
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
        unsubscribe: None,
        attachments: &[],
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

#[test]
fn attachments_come_last_and_their_content_has_a_limit_of_its_own() {
    let none = BTreeMap::new();
    let text = |bytes: usize| "\"".repeat(bytes / 2);
    let file = |file_name: &str, content_type: Option<&str>, content: String| Attachment {
        file_name: file_name.to_owned(),
        content_type: content_type.map(str::to_owned),
        content,
    };
    let build = |attachments: &[Attachment], text: &str| {
        let draft = Draft {
            to: "a@example.com",
            from: None,
            reply_to: None,
            headers: &none,
            tags: &none,
            outbox_id: "rpt_01",
            unsubscribe: None,
            body: DraftBody::Content {
                subject: "Hi",
                html: None,
                text: Some(text),
            },
            attachments,
        };
        build_request(&sender(), &draft)
    };
    let two = [
        file("a \"1\".pdf", Some("application/pdf"), "QQ==".to_owned()),
        file("b", None, "QUI=".to_owned()),
    ];
    let body = build(&two, "x").unwrap();
    let (_, end) = body.split_once("}],\"attachments\":").unwrap();
    assert_eq!(
        end,
        r#"[{"filename":"a \"1\".pdf","content_type":"application/pdf","content":"QQ=="},{"filename":"b","content":"QUI="}]}"#
    );
    assert!(!build(&[], "x").unwrap().contains("attachments"));
    for (name, content_type) in [("", None), ("a\r\nb", None), ("a", Some("a/b\r\nX: 1"))] {
        let broken = [file(name, content_type, "QQ==".to_owned())];
        assert_eq!(build(&broken, "x"), Err(RenderError::HeaderInvalid));
    }
    let largest = [file("a", None, "A".repeat(ATTACHMENT_BYTES_MAX.div_ceil(3) * 4))];
    let frozen = build(&largest, &text(990_000)).unwrap();
    // As it travels to the database: a text in a list in JSON.
    assert!(serde_json::json!([frozen]).to_string().len() < 5_000_000);
    assert_eq!(build(&largest, &text(1_000_000)), Err(RenderError::LetterTooLarge));
    assert!(build(&[], &text(1_000_000)).is_ok());
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
            unsubscribe: None,
            attachments: &[],
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
