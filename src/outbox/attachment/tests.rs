use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::outbox::problem::Pointer;

fn checked(attachments: &Value) -> Result<Vec<Attachment>, Vec<(String, &'static str)>> {
    let intent = json!({ "attachments": attachments });
    let mut problems = Problems::default();
    let fields = Fields::open(&intent, &Pointer::default(), |_| true, &mut problems).unwrap();
    let attachments = check(&fields, Some(true), &mut problems);
    match problems.into_result(422, "intents_invalid") {
        Ok(()) => Ok(attachments),
        Err(problem) => Err(problem
            .errors
            .into_iter()
            .map(|error| (error.path, error.code))
            .collect()),
    }
}

fn one(name: &str, value: Value) -> Value {
    let mut attachment = json!({ "filename": "report.pdf", "content": "QQ==" });
    attachment[name] = value;
    json!([attachment])
}

/// The code of the one thing that is wrong.
fn code(attachments: &Value) -> &'static str {
    let errors = checked(attachments).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].1
}

/// Base64 of this many bytes.
fn of_bytes(bytes: usize) -> String {
    let mut text = "AAAA".repeat(bytes / 3);
    text.push_str(["", "AA==", "AAA="][bytes % 3]);
    text
}

#[test]
fn files_are_taken_as_they_are() {
    let list = checked(&json!([
        { "filename": "R\u{e9}sum\u{e9} (1).tar.gz", "contentType": "application/gzip", "content": "QUJD" },
        { "filename": "exe", "content": "QQ==" },
        { "filename": "a.csv", "content": "+/8=", "contentType": "text/csv; charset=\"utf-8\"" },
    ]))
    .unwrap();
    assert_eq!(list.len(), 3);
    assert_eq!(list[0].content_type.as_deref(), Some("application/gzip"));
    assert_eq!((list[1].file_name.as_str(), &list[1].content_type), ("exe", &None));
    assert!(checked(&json!(vec![one("content", json!("QQ=="))[0].clone(); ATTACHMENTS_MAX])).is_ok());
}

#[test]
fn each_fault_has_its_code_and_its_place() {
    for list in [json!([]), json!({}), json!("QQ=="), json!(null)] {
        assert_eq!(code(&list), "attachments_expected", "{list}");
    }
    assert_eq!(
        code(&json!(vec![
            one("content", json!("QQ=="))[0].clone();
            ATTACHMENTS_MAX + 1
        ])),
        "attachments_expected"
    );
    assert_eq!(
        checked(&json!([{}, { "filename": "a", "content": "Q", "path": "https://x.example" }])).unwrap_err(),
        [
            ("/attachments/0/filename".to_owned(), "required"),
            ("/attachments/0/content".to_owned(), "required"),
            ("/attachments/1/path".to_owned(), "field_unknown"),
            ("/attachments/1/content".to_owned(), "base64_invalid"),
        ]
    );
    assert_eq!(code(&json!(["QQ=="])), "object_expected");
    assert_eq!(code(&one("content", json!(""))), "attachment_empty");
    assert_eq!(code(&one("content", json!([65]))), "string_expected");
}

#[test]
fn a_file_name_is_a_name_and_no_path() {
    for name in [
        "",
        " ",
        ".",
        "...",
        "a/b",
        "a\\b",
        "a\r\nb",
        "a\0",
        "a\u{2028}b",
        "fdp.\u{202e}exe",
    ] {
        assert_eq!(code(&one("filename", json!(name))), "file_name_invalid", "{name:?}");
    }
    assert!(checked(&one("filename", json!("\u{e4}".repeat(FILE_NAME_CHARS_MAX)))).is_ok());
    assert_eq!(
        code(&one("filename", json!("a".repeat(FILE_NAME_CHARS_MAX + 1)))),
        "file_name_invalid"
    );
    for name in [
        "a.exe",
        "A.EXE",
        "report.pdf.js",
        ".bat",
        "a.exe.",
        "a.vbs ",
        "a.exe\u{a0}",
    ] {
        assert_eq!(code(&one("filename", json!(name))), "file_type_refused", "{name:?}");
    }
    for name in ["a.json", "a.exe.pdf", "exe", ".pdf", "a.zip"] {
        assert!(checked(&one("filename", json!(name))).is_ok(), "{name:?}");
    }
}

#[test]
fn a_content_type_is_one_line_of_a_media_type() {
    for text in [
        "",
        "pdf",
        "/",
        "a/",
        "/b",
        "a/b/c",
        "a b/c",
        "a/b\r\nX: 1",
        "a/\u{e9}",
        "a/b; \u{e9}",
    ] {
        assert_eq!(
            code(&one("contentType", json!(text))),
            "content_type_invalid",
            "{text:?}"
        );
    }
    let long = format!("a/{}", "b".repeat(CONTENT_TYPE_BYTES_MAX - 2));
    assert!(checked(&one("contentType", json!(long))).is_ok());
    assert_eq!(
        code(&one("contentType", json!(format!("{long}b")))),
        "content_type_invalid"
    );
}

#[test]
fn all_files_of_a_mail_together_have_a_limit() {
    let file = |bytes| json!({ "filename": "a.bin", "content": of_bytes(bytes) });
    let half = ATTACHMENT_BYTES_MAX / 2;
    assert!(checked(&json!([file(half), file(half)])).is_ok());
    assert_eq!(code(&json!([file(half), file(half + 1)])), "attachments_too_large");
    assert!(checked(&json!([file(ATTACHMENT_BYTES_MAX)])).is_ok());
    assert_eq!(code(&json!([file(ATTACHMENT_BYTES_MAX + 1)])), "attachments_too_large");
}

#[test]
fn there_is_one_way_to_write_a_file() {
    for (text, bytes) in [
        ("", 0),
        ("QQ==", 1),
        ("QUI=", 2),
        ("QUJD", 3),
        ("+/+/", 3),
        ("QUJDRA==", 4),
    ] {
        assert_eq!(decoded_bytes(text), Some(bytes), "{text}");
    }
    for text in [
        "Q",
        "QQ",
        "QQ=",
        "QQ===",
        "====",
        "=",
        "QR==",
        "QUJ=",
        "Q=Q=",
        "QQ==QQ==",
        "-_-_",
        "QU JD",
        "QUJD\n",
        "Q\u{e9}==",
    ] {
        assert_eq!(decoded_bytes(text), None, "{text:?}");
    }
}

#[test]
fn what_is_stored_comes_back_and_nothing_else_does() {
    let files = checked(&json!([
        { "filename": "\"a\".csv", "contentType": "text/csv", "content": "QUJD" }, { "filename": "b", "content": "QQ==" },
    ]))
    .unwrap();
    assert_eq!(
        files[0].to_json(),
        r#"{"content":"QUJD","contentType":"text/csv","filename":"\"a\".csv"}"#
    );
    let stored: Vec<String> = files.iter().map(Attachment::to_json).collect();
    assert_eq!(
        Attachment::list_from_json(&format!("[{}]", stored.join(","))),
        Ok(files)
    );
    for text in [
        "",
        "{}",
        "[1]",
        "[{}]",
        r#"[{"filename":"a"}]"#,
        r#"[{"filename":"a","content":1}]"#,
        r#"[{"filename":"a","content":"QQ==","contentId":"x"}]"#,
        r#"[{"filename":"a","content":"QQ==","contentType":null}]"#,
    ] {
        assert_eq!(Attachment::list_from_json(text), Err(Unreadable), "{text}");
    }
    assert_eq!(Attachment::list_from_json("[]"), Ok(Vec::new()));
}

#[test]
fn debug_shows_nothing_of_a_file() {
    let shown = format!("{:?}", checked(&one("filename", json!("ada.pdf"))).unwrap());
    assert_eq!(shown, "[Attachment(4 characters)]");
}

proptest! {
    #[test]
    fn base64_is_judged_as_a_decoder_judges_it(text in "[A-Za-c+/=]{0,12}") {
        use base64::Engine as _;
        let decoded = base64::engine::general_purpose::STANDARD.decode(&text).ok();
        prop_assert_eq!(decoded_bytes(&text), decoded.map(|bytes| bytes.len()));
    }
}
