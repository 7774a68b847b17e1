use serde_json::{Value, json};

use super::super::answer::ErrorName;
use super::super::model::{Call, Model, Next, Settings};
use super::*;
use crate::outbox::time::Millis;

fn mail(to: &str) -> Value {
    json!({ "from": "a@example.com", "to": [to], "subject": "Hello", "text": "Hi",
        "tags": [{ "name": "sealpost_id", "value": to.replace(['@', '.'], "_") }] })
}

fn settings() -> Settings {
    Settings {
        per_second: 0,
        example_domains_allowed: true,
    }
}

/// What the model answers to this list under this key, and how many mails it has sent by then.
fn send(model: &mut Model, key: &str, body: &str, validation: Validation) -> (u16, Value, usize) {
    let call = Call {
        authorization: Some("Bearer re_live"),
        user_agent: Some("test/1"),
        idempotency_key: Some(key),
        body: body.as_bytes(),
        list: Some(validation),
    };
    let first = format!("{key:0>8}-0000-4000-8000-000000000000");
    let outcome = match model.arrive(Millis::new(0), &call).next {
        Next::Running { ticket, .. } => model.finish(Millis::new(0), ticket, &first),
        Next::Answered(outcome) => outcome,
    };
    let body = serde_json::from_str(&outcome.reply.body).unwrap();
    (outcome.reply.status, body, model.ledger().sent().len())
}

fn list(mails: &[Value]) -> String {
    Value::Array(mails.to_vec()).to_string()
}

#[test]
fn each_mail_gets_an_id_of_its_own_in_the_order_of_the_list() {
    let mut model = Model::new(settings());
    let body = list(&[mail("a@example.com"), mail("b@example.com")]);
    let (status, answer, sent) = send(&mut model, "k", &body, Validation::Strict);
    assert_eq!((status, sent), (200, 2));
    let ids: Vec<&str> = model.ledger().sent().iter().map(|sent| sent.id.as_str()).collect();
    assert_eq!(answer, json!({ "data": [{ "id": ids[0] }, { "id": ids[1] }] }));
    assert_ne!(ids[0], ids[1]);
    assert_eq!(model.ledger().sent()[1].mail.to, ["b@example.com"]);
    assert_eq!(model.ledger().requests()[0].to, ["a@example.com", "b@example.com"]);
}

#[test]
fn one_key_covers_the_whole_list() {
    let mut model = Model::new(settings());
    let body = list(&[mail("a@example.com"), mail("b@example.com")]);
    let first = send(&mut model, "k", &body, Validation::Strict);
    assert_eq!(send(&mut model, "k", &body, Validation::Strict), first);
    let other = list(&[mail("a@example.com")]);
    let (status, answer, sent) = send(&mut model, "k", &other, Validation::Strict);
    assert_eq!((status, sent), (409, 2));
    assert_eq!(answer["name"], ErrorName::InvalidIdempotentRequest.as_str());
}

#[test]
fn strict_takes_all_or_nothing_and_permissive_names_the_wrong_ones() {
    let mut model = Model::new(settings());
    let body = list(&[mail("a@example.com"), mail("nobody"), mail("c@example.com")]);
    let (status, _, sent) = send(&mut model, "k", &body, Validation::Strict);
    assert_eq!((status, sent), (422, 0));
    let (status, answer, sent) = send(&mut model, "k", &body, Validation::Permissive);
    assert_eq!((status, sent), (200, 2));
    assert_eq!(answer["data"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer["errors"][0]["index"], 1);
    let again = send(&mut model, "k", &body, Validation::Permissive);
    assert_eq!((again.1, again.2), (answer, 2));
}

#[test]
fn a_list_has_its_limits_and_no_attachments() {
    let mut attached = mail("a@example.com");
    attached["attachments"] = json!([{ "filename": "a.txt", "content": "aGk=" }]);
    for (body, status) in [
        ("{}".to_owned(), 400),
        ("[]".to_owned(), 422),
        ("[1]".to_owned(), 400),
        (list(&vec![mail("a@example.com"); MAILS_MAX]), 200),
        (list(&vec![mail("a@example.com"); MAILS_MAX + 1]), 422),
        (list(&[mail("b@example.com"), attached]), 422),
    ] {
        let mut model = Model::new(settings());
        let (seen, answer, _) = send(&mut model, "k", &body, Validation::Strict);
        assert_eq!(seen, status, "{answer}");
    }
}

#[test]
fn the_header_is_permissive_by_that_word_alone() {
    assert_eq!(Validation::of(None), Validation::Strict);
    assert_eq!(Validation::of(Some("strict")), Validation::Strict);
    assert_eq!(Validation::of(Some(" Permissive ")), Validation::Permissive);
}

#[test]
fn ids_of_a_list_are_uuids_as_the_first_is() {
    let first = "89abcdef-0000-4000-8000-000000000001";
    assert_eq!(id_at(first, 0), first);
    assert_eq!(id_at(first, 99), "00000063-0000-4000-8000-000000000001");
    assert_eq!(id_at("short", 2), "short-2");
}
