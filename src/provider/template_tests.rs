//! Every shipped template with full and with bare data, and everything that must not get into a letter.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::{outbox::family::families, provider::filters::LINK_BYTES_MAX};

/// For each template: only what it must have, and what it may have besides.
fn samples() -> Vec<(&'static str, Json, Json)> {
    vec![
        (
            "invitation",
            json!({"company": "Northwind", "inviterName": "Grace Hopper", "programme": "Mentoring 2027",
                "acceptUrl": "https://app.example.com/i?t=1&u=2"}),
            json!({"recipientName": "Ada", "note": "See you there.\nGrace", "expiresOn": "30 November 2026"}),
        ),
        (
            "application_decision",
            json!({"company": "Northwind", "applicantName": "Ada Lovelace", "programme": "Mentoring 2027",
                "decision": "accepted"}),
            json!({"message": "Well done.", "nextStepUrl": "https://app.example.com/next"}),
        ),
        (
            "demo_request_visitor",
            json!({"company": "Northwind", "name": "Ada", "replyWithin": "one working day"}),
            json!({"message": "Does it do graphs?"}),
        ),
        (
            "demo_request_team",
            json!({"company": "Northwind", "name": "Ada", "email": "ada@example.com",
                "submittedAt": "21 October 2026, 12:00 UTC"}),
            json!({"organisation": "Analytical Engines", "phone": "+44 20 7946 0000", "message": "Graphs?",
                "leadUrl": "https://crm.example.com/7"}),
        ),
        (
            "pledge_receipt",
            json!({"company": "Northwind", "donorName": "Ada Lovelace", "amount": "EUR 50.00",
                "beneficiary": "the Library Fund", "reference": "P-1001", "pledgedOn": "21 October 2026"}),
            json!({"matchedBy": "Analytical Engines"}),
        ),
        (
            "renewal_notice",
            json!({"company": "Northwind", "customerName": "Ada", "plan": "Tea Box Monthly", "amount": "EUR 19.00",
                "renewsOn": "1 November 2026", "manageUrl": "https://shop.example.com/subscription"}),
            json!({"cancelBy": "31 October 2026", "paymentMethod": "card ending in 4242"}),
        ),
    ]
}

fn with(base: &Json, more: &Json) -> Json {
    let mut merged = base.clone();
    for (name, value) in more.as_object().unwrap() {
        merged[name] = value.clone();
    }
    merged
}

fn invitation(more: Json) -> Result<Rendered, RenderError> {
    render("invitation", &with(&samples()[0].1, &more))
}

#[test]
fn every_family_with_a_template_has_a_sample_and_a_version() {
    let wanted: BTreeSet<&str> = families().iter().filter_map(|family| family.template).collect();
    let sampled: BTreeSet<&str> = samples().iter().map(|(name, ..)| *name).collect();
    assert_eq!(wanted, sampled);
    let versions: BTreeSet<&str> = wanted.iter().map(|name| version_of(name).unwrap()).collect();
    assert_eq!(versions.len(), wanted.len());
    assert!(
        versions
            .iter()
            .all(|version| version.len() == 16 && version.bytes().all(|b| b.is_ascii_hexdigit()))
    );
    assert_eq!(version_of("notice"), None);
}

#[test]
fn every_value_of_every_template_reaches_the_letter() {
    for (name, needed, optional) in samples() {
        let data = with(
            &needed,
            &with(&optional, &json!({"companyAddress": "1 Quay Street, Bergen"})),
        );
        let letter = render(name, &data).unwrap();
        for (field, value) in data.as_object().unwrap() {
            if field == "decision" {
                continue;
            }
            let value = value.as_str().unwrap().lines().next().unwrap();
            let in_html = value.replace('&', "&amp;");
            assert!(letter.text.contains(value), "{name}.{field} in text:\n{}", letter.text);
            assert!(
                letter.html.contains(&in_html),
                "{name}.{field} in html:\n{}",
                letter.html
            );
        }
        for part in [&letter.subject, &letter.html, &letter.text] {
            assert!(!part.contains("{{") && !part.contains("{%"), "{part}");
        }
        assert!(
            !letter.text.contains("\n\n\n"),
            "{name}: a hole in the text:\n{}",
            letter.text
        );
    }
}

#[test]
fn the_text_part_is_laid_out_in_paragraphs() {
    assert_eq!(
        invitation(json!({})).unwrap().text,
        "Hello,\n\n\
         Grace Hopper from Northwind invites you to take part in Mentoring 2027.\n\n\
         To accept the invitation, open this address:\n\
         https://app.example.com/i?t=1&u=2\n\n\
         -- \n\
         You received this mail because Grace Hopper entered your address. If you do not know them, you can ignore it.\n\
         Northwind"
    );
    let (_, needed, optional) = &samples()[3];
    assert_eq!(
        render("demo_request_team", &with(needed, optional)).unwrap().text,
        "New demo request\n\n\
         Name: Ada\n\
         Organisation: Analytical Engines\n\
         Email: ada@example.com\n\
         Phone: +44 20 7946 0000\n\
         Received: 21 October 2026, 12:00 UTC\n\n\
         Message:\n\n\
         Graphs?\n\n\
         Open the request:\n\
         https://crm.example.com/7\n\n\
         -- \n\
         You received this mail because you handle demo requests at Northwind.\n\
         Northwind"
    );
    for (name, needed, optional) in samples() {
        for data in [needed.clone(), with(&needed, &optional)] {
            let text = render(name, &data).unwrap().text;
            let (letter, foot) = text.split_once("\n\n-- \n").unwrap();
            assert!(!letter.ends_with('\n') && !letter.starts_with('\n'), "{name}:\n{text}");
            let foot: Vec<&str> = foot.lines().collect();
            assert!(
                foot[0].starts_with("You received this mail because ") && foot[1..] == ["Northwind"],
                "{name}:\n{text}"
            );
            for word in [
                "Kind regards,",
                "Manage your subscription:",
                "Paid with:",
                "See your next steps:",
                "You wrote:",
            ] {
                let glued = letter
                    .lines()
                    .any(|line| line.contains(word) && !line.starts_with(word));
                assert!(!glued, "{name}: {word}\n{text}");
            }
        }
    }
}

#[test]
fn bare_data_is_enough_and_each_needed_value_is_needed() {
    for (name, needed, _) in samples() {
        let letter = render(name, &needed).unwrap();
        assert!(
            !letter.text.contains("\n\n\n"),
            "{name}: a hole in the text:\n{}",
            letter.text
        );
        for field in needed.as_object().unwrap().keys() {
            let mut lacking = needed.clone();
            lacking.as_object_mut().unwrap().remove(field);
            assert_eq!(
                render(name, &lacking).err(),
                Some(RenderError::DataIncomplete),
                "{name}.{field}"
            );
            let null = with(&needed, &json!({ field: null }));
            let refused = render(name, &null).err();
            // A decision of null is no decision that the template has words for.
            let code = if field == "decision" {
                RenderError::DataInvalid
            } else {
                RenderError::DataIncomplete
            };
            assert_eq!(refused, Some(code), "{name}.{field} null");
        }
    }
}

#[test]
fn an_optional_null_is_as_good_as_absent() {
    assert!(
        invitation(json!({"note": null, "recipientName": null, "expiresOn": null})).unwrap()
            == invitation(json!({})).unwrap()
    );
}

#[test]
fn the_html_is_plain_and_self_contained() {
    for (name, needed, optional) in samples() {
        let html = render(name, &with(&needed, &optional)).unwrap().html;
        assert!(
            html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"),
            "{name}: {html}"
        );
        assert_eq!(html.matches("<h1").count(), 1, "{name}");
        let title = html.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
        assert!(!title.trim().is_empty(), "{name} has an empty title");
        for asset in ["<img", "<script", "<link", "<style", "url(", "src=", "@import"] {
            assert!(!html.contains(asset), "{name} has {asset}");
        }
        for tag in ["table", "tr", "td", "th", "p", "h1", "a", "blockquote", "div"] {
            let opened = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{name}: <{tag}>");
        }
    }
}

#[test]
fn markup_in_data_is_text() {
    let attack = "<script>alert('x')</script><a href=\"//evil.example\">&";
    for (name, needed, optional) in samples() {
        for field in with(&needed, &optional).as_object().unwrap().keys() {
            if field.ends_with("Url") || field == "decision" {
                continue;
            }
            let data = with(&with(&needed, &optional), &json!({ field: attack }));
            let letter = render(name, &data).unwrap();
            assert!(!letter.html.contains("<script"), "{name}.{field}");
            assert!(!letter.html.contains("<a href=\"//evil"), "{name}.{field}");
            assert!(letter.html.contains("&lt;script&gt;"), "{name}.{field}");
            assert!(
                letter.text.contains(attack) || letter.subject.contains(attack),
                "{name}.{field}"
            );
        }
    }
}

#[test]
fn data_is_never_read_as_a_template() {
    let letter = invitation(json!({"programme": "{{ company }}{% if %}"})).unwrap();
    assert_eq!(letter.subject, "Grace Hopper invites you to {{ company }}{% if %}");
}

#[test]
fn typed_lines_keep_their_breaks() {
    let letter = invitation(json!({"note": "One\r\nTwo & <b>"})).unwrap();
    assert!(letter.html.contains("One<br>\nTwo &amp; &lt;b&gt;"), "{}", letter.html);
    assert!(letter.text.contains("One\nTwo & <b>"), "{}", letter.text);
}

#[test]
fn a_link_is_a_web_address_or_nothing() {
    let letter = invitation(json!({})).unwrap();
    assert!(
        letter.html.contains("href=\"https://app.example.com/i?t=1&amp;u=2\""),
        "{}",
        letter.html
    );
    assert!(
        letter.text.contains("\nhttps://app.example.com/i?t=1&u=2\n"),
        "{}",
        letter.text
    );
    let long = format!("https://example.com/{}", "a".repeat(LINK_BYTES_MAX));
    for url in [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "/path",
        "",
        "https://",
        "https:///x",
        "https://a.example/\" onclick=\"x",
        "https://a.example/<b>",
        "https://a.example/a b",
        "https://a.example/\r\nX",
        "https://ä.example",
        "HTTPS ://x",
        &long,
    ] {
        assert_eq!(
            invitation(json!({"acceptUrl": url})).err(),
            Some(RenderError::DataInvalid),
            "{url}"
        );
    }
    assert_eq!(
        invitation(json!({"acceptUrl": 7})).err(),
        Some(RenderError::DataInvalid)
    );
}

#[test]
fn lists_and_objects_are_not_text() {
    for value in [json!([1, 2]), json!({"a": 1}), json!([])] {
        assert_eq!(
            invitation(json!({"programme": value})).err(),
            Some(RenderError::DataInvalid)
        );
    }
    assert!(
        invitation(json!({"programme": 2027}))
            .unwrap()
            .subject
            .ends_with("2027")
    );
}

#[test]
fn a_decision_without_words_is_refused() {
    let data = &samples()[1].1;
    let decide = |decision: &str| render("application_decision", &with(data, &json!({"decision": decision})));
    assert!(decide("accepted").unwrap().subject.contains("was accepted"));
    assert!(decide("declined").unwrap().text.contains("cannot offer"));
    assert!(decide("waitlisted").unwrap().html.contains("waiting list"));
    assert_eq!(decide("Accepted").err(), Some(RenderError::DataInvalid));
}

#[test]
fn a_subject_is_one_line() {
    for bad in [
        "a\r\nBcc: z@example.com",
        "a\n",
        "a\u{2028}b",
        "a\u{2029}b",
        "a\u{85}b",
        "a\u{0}b",
        "a\tb",
    ] {
        assert_eq!(
            invitation(json!({"programme": bad})).err(),
            Some(RenderError::SubjectInvalid),
            "{bad:?}"
        );
    }
    let long = "a".repeat(SUBJECT_BYTES_MAX);
    assert_eq!(
        invitation(json!({"programme": long})).err(),
        Some(RenderError::SubjectInvalid)
    );
    assert_eq!(check_subject(""), Err(RenderError::SubjectInvalid));
    assert_eq!(check_subject(" "), Err(RenderError::SubjectInvalid));
    assert_eq!(check_subject(&long), Ok(()));
    assert_eq!(check_subject("Grüße, 山田"), Ok(()));
}

#[test]
fn a_letter_has_a_size() {
    // 200 kB of text fits once in each part; escaped to five times its size it does not.
    assert!(invitation(json!({"note": "a".repeat(200_000)})).is_ok());
    assert_eq!(
        invitation(json!({"note": "&".repeat(200_000)})).err(),
        Some(RenderError::LetterTooLarge)
    );
    assert_eq!(
        invitation(json!({"note": "a".repeat(300_000)})).err(),
        Some(RenderError::LetterTooLarge)
    );
}

#[test]
fn what_is_not_there_is_missing() {
    assert_eq!(render("notice", &json!({})).err(), Some(RenderError::TemplateMissing));
    assert_eq!(
        render("../layout", &json!({})).err(),
        Some(RenderError::TemplateMissing)
    );
    for data in [json!(null), json!([]), json!("x"), json!(1)] {
        assert_eq!(render("invitation", &data).err(), Some(RenderError::DataIncomplete));
    }
}
