//! The lists keep their order and count what they drop.

use std::collections::BTreeMap;

use super::*;

fn seen() -> Seen {
    Seen {
        n: 0,
        at: Millis::new(0),
        method: "POST".into(),
        path: "/emails".into(),
        idempotency_key: None,
        body_sha256: None,
        status: None,
        to: Vec::new(),
        outcome: Fate::Running,
        fault: None,
        id: None,
    }
}

fn sent(id: &str, html: usize) -> Sent {
    let mail = Mail {
        from: "a@b.cc".into(),
        to: vec!["c@d.ee".into()],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: String::new(),
        html: Some("x".repeat(html)),
        text: None,
        headers: BTreeMap::new(),
        tags: Vec::new(),
        scheduled_at: None,
        attachments: Vec::new(),
    };
    Sent {
        id: id.into(),
        idempotency_key: Some("k".into()),
        body_sha256: "00".into(),
        accepted_at: Millis::new(1_500),
        last_event: "sent".into(),
        mail,
    }
}

#[test]
fn dropped_requests_are_counted_and_late_news_of_them_harms_nobody() {
    let mut ledger = Ledger::with_limits(3, 1_000);
    for _ in 0..5 {
        ledger.open(seen());
    }
    assert_eq!(ledger.counts().requests, 5);
    assert_eq!(ledger.counts().requests_dropped, 2);
    assert_eq!(ledger.requests().len(), 3);
    ledger.close(2, Fate::Accepted, Some(200), None);
    ledger.close(3, Fate::Refused, Some(422), Some("id-3"));
    assert_eq!(ledger.requests()[0].n, 3);
    assert_eq!(ledger.requests()[0].outcome, Fate::Refused);
    assert_eq!(ledger.requests()[1].outcome, Fate::Running);
}

#[test]
fn dropped_mails_are_counted_and_the_others_are_still_found() {
    for (entries_max, mail_bytes_max) in [(2, 1_000), (100, 20)] {
        let mut ledger = Ledger::with_limits(entries_max, mail_bytes_max);
        for n in 0..3 {
            ledger.accept(sent(&format!("id-{n}"), 10));
        }
        assert_eq!(ledger.counts().accepted_dropped, 1);
        assert!(ledger.find("id-0").is_none());
        assert_eq!(ledger.find("id-2").unwrap().id, "id-2");
        ledger.find_mut("id-1").unwrap().last_event = "bounced".into();
        assert_eq!(ledger.sent()[0].last_event, "bounced");
    }
}

#[test]
fn one_mail_larger_than_the_memory_is_kept_all_the_same() {
    let mut ledger = Ledger::with_limits(100, 20);
    ledger.accept(sent("id-0", 50));
    assert!(ledger.find("id-0").is_some());
}

#[test]
fn the_list_of_accepted_mails_has_the_agreed_shape() {
    let mut ledger = Ledger::default();
    ledger.accept(sent("id-1", 1));
    let list: serde_json::Value = serde_json::from_str(&ledger.accepted_json()).unwrap();
    assert_eq!(
        list,
        serde_json::json!([{
            "id": "id-1",
            "idempotencyKey": "k",
            "bodySha256": "00",
            "to": ["c@d.ee"],
            "subject": "",
            "headers": {},
            "acceptedAt": "1970-01-01T00:00:01.500Z",
        }])
    );
}
