//! The news of a mail, with answers and time moved by hand.

use serde_json::{Value, json};

use super::*;
use crate::devstack::provider::model::{Call, Next, Settings};

/// A model that has accepted a mail to each of these, as `id-0`, `id-1`, ..., and lets news follow.
fn model(recipients: &[&str]) -> Model {
    let mut model = Model::new(Settings {
        per_second: 0,
        ..Settings::default()
    });
    for (n, to) in recipients.iter().enumerate() {
        accept(&mut model, to, &format!("id-{n}"));
    }
    model
}

fn accept(model: &mut Model, to: &str, id: &str) {
    let body = json!({ "from": "a@acme.test", "to": to, "subject": "s", "text": "t" }).to_string();
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
    model.finish(Millis::new(0), ticket, id);
    let mut n = 0;
    // The first try is due at 0.
    model.follow(Millis::new(-FIRST_WAIT_MS), id, || {
        n += 1;
        Some(format!("msg_{id}_{n}"))
    });
}

/// Type of the event and the mail it is about.
fn about(errand: &Errand) -> (String, String) {
    let event: Value = serde_json::from_str(&errand.body).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&event["type"]), text(&event["data"]["email_id"]))
}

/// Takes what is due and has each answered at once; the types in their order.
fn post_all(model: &mut Model, now: i64, status: Option<u16>) -> Vec<String> {
    let mut types = Vec::new();
    while let Some(errand) = model.next_news(Millis::new(now)) {
        types.push(about(&errand).0);
        model.news_answered(Millis::new(now), errand.number, status);
    }
    types
}

#[test]
fn a_test_address_asks_for_its_events_and_every_other_address_is_delivered_to() {
    let delivered = ["email.sent", "email.delivered"];
    let cases: [(&str, &[&str]); 9] = [
        ("ada@example.com", &delivered),
        ("bounced@example.com", &delivered),
        ("delivered@resend.dev", &delivered),
        ("delivered+one@resend.dev", &delivered),
        ("bounced@resend.dev", &["email.sent", "email.bounced"]),
        ("Bo <Bounced+a.b+c@Resend.dev>", &["email.sent", "email.bounced"]),
        (
            "complained+x@resend.dev",
            &["email.sent", "email.delivered", "email.complained"],
        ),
        ("suppressed@resend.dev", &["email.sent", "email.suppressed"]),
        ("nobody", &delivered),
    ];
    for (address, events) in cases {
        assert_eq!(events_for(address), events, "{address}");
    }
}

#[test]
fn the_news_of_a_mail_go_out_in_their_order_and_each_shows_as_its_last_event() {
    let mut model = model(&["complained@resend.dev"]);
    let mut last = Vec::new();
    while let Some(errand) = model.next_news(Millis::new(5)) {
        assert_eq!(model.next_news(Millis::new(5)), None, "one at a time");
        last.push(model.ledger().find("id-0").unwrap().last_event.clone());
        model.news_answered(Millis::new(5), errand.number, Some(204));
    }
    assert_eq!(last, ["sent", "delivered", "complained"]);
    let counts = NewsCounts {
        sent: 3,
        ..NewsCounts::default()
    };
    assert_eq!(model.news_counts(), counts);
}

#[test]
fn the_first_event_leaves_time_for_the_answer() {
    let mut model = model(&[]);
    accept(&mut model, "a@acme.test", "id-1");
    assert_eq!(model.next_news_at(), Some(Millis::new(0)));
    assert_eq!(model.next_news(Millis::new(-1)), None);
    assert!(model.next_news(Millis::new(0)).is_some());
}

#[test]
fn a_bounce_says_that_it_is_permanent() {
    let mut model = model(&["bounced@resend.dev"]);
    let first = model.next_news(Millis::new(0)).unwrap();
    model.news_answered(Millis::new(0), first.number, Some(200));
    let second = model.next_news(Millis::new(0)).unwrap();
    let event: Value = serde_json::from_str(&second.body).unwrap();
    assert_eq!(event["data"]["bounce"]["type"], "Permanent");
}

#[test]
fn the_news_of_one_mail_do_not_wait_for_those_of_another() {
    let mut model = model(&["a@acme.test", "b@acme.test"]);
    let taken: Vec<_> = std::iter::from_fn(|| model.next_news(Millis::new(0))).collect();
    let about: Vec<_> = taken.iter().map(about).collect();
    let sent = |id: &str| ("email.sent".to_owned(), id.to_owned());
    assert_eq!(about, [sent("id-0"), sent("id-1")]);
}

#[test]
fn a_refused_event_comes_again_with_its_id_and_its_bytes_and_is_given_up_in_the_end() {
    let mut model = model(&["a@acme.test"]);
    let first = model.next_news(Millis::new(0)).unwrap();
    model.news_answered(Millis::new(0), first.number, Some(500));
    // The other event of the mail is not held back by it.
    assert_eq!(post_all(&mut model, 0, Some(200)), ["email.delivered"]);
    let mut now = 0;
    for (wait_ms, status) in RETRY_WAITS_MS
        .into_iter()
        .zip([None, Some(302), Some(404), Some(503), None])
    {
        assert_eq!(model.next_news_at(), Some(Millis::new(now + wait_ms)));
        assert_eq!(model.next_news(Millis::new(now + wait_ms - 1)), None);
        now += wait_ms;
        let again = model.next_news(Millis::new(now)).unwrap();
        assert_eq!((&again.svix_id, &again.body), (&first.svix_id, &first.body));
        model.news_answered(Millis::new(now), again.number, status);
    }
    assert_eq!(now, 31_000);
    assert_eq!(
        (model.next_news(Millis::new(i64::MAX)), model.next_news_at()),
        (None, None)
    );
    let counts = NewsCounts {
        sent: 1,
        refused: 6,
        given_up: 1,
        waiting: 0,
    };
    assert_eq!(model.news_counts(), counts);
}

#[test]
fn a_mail_that_was_refused_or_forgotten_has_no_news() {
    let mut model = model(&[]);
    model.follow(Millis::new(0), "id-9", || Some("msg_1".to_owned()));
    assert_eq!(model.news_counts(), NewsCounts::default());
    accept(&mut model, "a@acme.test", "id-1");
    let before = model.next_news(Millis::new(0)).unwrap();
    model.reset();
    accept(&mut model, "b@acme.test", "id-2");
    // The answer of before the reset belongs to nothing that is there now.
    model.news_answered(Millis::new(0), before.number, Some(200));
    assert_eq!(model.news_counts().waiting, 2);
    assert_eq!(post_all(&mut model, 0, Some(200)).len(), 2);
}

#[test]
fn what_waits_is_limited_and_the_rest_is_counted() {
    let mut model = model(&["a@acme.test"]);
    for _ in 0..WAITING_MAX / 2 {
        model.follow(Millis::new(0), "id-0", || Some("msg_1".to_owned()));
    }
    let counts = model.news_counts();
    assert_eq!((counts.waiting, counts.given_up), (20_000, 2));
}
