//! The encodings, fixed by values that another program computed, and what must and must not change a key.

use serde_json::json;

use super::*;
use crate::outbox::address::{from_parts, parse};
use crate::outbox::attachment::Attachment;
use crate::outbox::intent::Window;
use crate::outbox::letter::{Body, Letter};

/// 16 bytes of `a`.
fn secret() -> Secret {
    Secret::parse("a:YWFhYWFhYWFhYWFhYWFhYQ==").unwrap()
}

fn tuple(parts: &[(&str, KeyValue)]) -> Identity {
    let parts = parts.iter();
    Identity::Tuple(parts.map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn text(value: &str) -> KeyValue {
    KeyValue::Text(value.to_owned())
}

fn key(identity: &Identity) -> String {
    business_key(&secret(), "invitation", identity, 0)
}

fn file(name: &str, content_type: Option<&str>, content: &str) -> Attachment {
    Attachment {
        file_name: name.to_owned(),
        content_type: content_type.map(str::to_owned),
        content: content.to_owned(),
    }
}

fn intent() -> Intent {
    let to = from_parts("Ada@b\u{fc}cher.example", Some("Ada, VP")).unwrap();
    let data = json!({"z": [1, 1.5], "a": "\u{e9}"});
    Intent {
        family: "invitation".to_owned(),
        prefix: "inv".to_owned(),
        identity: tuple(&[("companyId", text("c1")), ("seat", KeyValue::Integer(-9))]),
        revision: 2,
        letter: Letter {
            to: to.clone(),
            body: Body::Data(data.as_object().unwrap().clone()),
            tags: [("plan".to_owned(), "pro".to_owned())].into(),
            time_zone: None,
            secret: std::collections::BTreeMap::new(),
            attachments: 0,
        },
        attachments: Vec::new(),
        to,
        send_id: None,
        not_before: Some(Millis::new(1_800_000_000_000)),
        not_after: None,
        window: Window::default(),
        delay: None,
    }
}

// The expected values below come from these lines of Python, and from no run of this program:
//
//     import hmac, struct
//     t = lambda s: b't' + struct.pack('>I', len(s.encode())) + s.encode()
//     i = lambda n: b'i' + struct.pack('>q', n)
//     n = lambda c: b'n' + struct.pack('>I', c)
//     h = lambda *parts: hmac.new(b'a' * 16, b''.join(parts), 'sha256').hexdigest()
//     h(t('sealpost/key/tuple/1'), t('invitation'), i(2), n(2), t('companyId'), t('c1'), t('seat'), i(-9))
//     h(t('sealpost/key/caller/1'), t('invitation'), i(2), t('order-7'))
//     h(t('sealpost/fingerprint/1'), t('ada@xn--bcher-kva.example'), t('Ada, VP'), t('data'),
//       t('{"a":"\u00e9","z":[1,1.5]}'), n(1), t('plan'), t('pro'), i(1800000000000), b'-')
//     ... and with attachments, after the last part: t('attachments'), n(2), t('a.pdf'), t('application/pdf'), t('QQ=='),
//       t('b'), b'-', t('QUI='))
//     h(t('sealpost/recipient/1'), t('ada@xn--bcher-kva.example'))
//     h(t('sealpost/fact/tuple/1'), t('invitation'), n(2), t('companyId'), t('c1'), t('seat'), i(-9))
//     h(t('sealpost/fact/caller/1'), t('invitation'), t('order-7'))
//     h(t('sealpost/send-id/1'), t('invitation'), t('welcome-bo'))

#[test]
fn the_encoding_of_a_tuple_is_fixed() {
    let intent = intent();
    assert_eq!(
        business_key(&secret(), &intent.family, &intent.identity, intent.revision),
        "e5ac27a04e2100c12dde0a279ee88d1e5c9fe254cec99fa037666d2d1a21d50c"
    );
}

#[test]
fn the_encoding_of_a_callers_key_is_fixed() {
    assert_eq!(
        business_key(&secret(), "invitation", &Identity::Caller("order-7".to_owned()), 2),
        "895c7ce67eb88416d6e28d07b7b5426b877e6cdf83d5eabb345f8c00ecb22195"
    );
}

#[test]
fn the_encoding_of_a_fingerprint_is_fixed() {
    assert_eq!(FINGERPRINT_VERSION, 1);
    assert_eq!(
        fingerprint(&secret(), &intent()),
        "8ceb123bba3b35babf9443fdc5fcf5f31555fd90be46035973cf0b75184090a7"
    );
}

#[test]
fn the_encoding_of_attachments_is_fixed() {
    let mut intent = intent();
    intent.attachments = vec![file("a.pdf", Some("application/pdf"), "QQ=="), file("b", None, "QUI=")];
    assert_eq!(
        fingerprint(&secret(), &intent),
        "b49e0477a4aef8ff5302e6891de9df14a3c7216e60eb1ebfbd724c0366de99aa"
    );
}

#[test]
fn the_encoding_of_a_recipient_is_fixed() {
    assert_eq!(
        recipient_hash(&secret(), &intent().to),
        "ee5ed1d26b4a9c50af9b73fcf36e77abc6db2596f18a037bb0fa0a8526fbd243"
    );
}

#[test]
fn no_two_facts_share_a_key() {
    let facts = [
        tuple(&[("a", text("1")), ("b", text("2"))]),
        tuple(&[("a", text("2")), ("b", text("1"))]),
        tuple(&[("b", text("1")), ("a", text("2"))]),
        tuple(&[("a", text("1b")), ("b", text("2"))]),
        tuple(&[("a", text("1")), ("b", KeyValue::Integer(2))]),
        tuple(&[("a", text("1"))]),
        tuple(&[("a", KeyValue::Integer(1))]),
        tuple(&[("a1", text("")), ("b", text("2"))]),
        Identity::Caller("1".to_owned()),
        Identity::Caller("a1b2".to_owned()),
    ];
    let keys: std::collections::BTreeSet<String> = facts.iter().map(key).collect();
    assert_eq!(keys.len(), facts.len());
}

#[test]
fn family_revision_and_secret_make_other_keys() {
    let identity = tuple(&[("a", text("1"))]);
    let first = key(&identity);
    let other = Secret::parse("b:YmJiYmJiYmJiYmJiYmJiYg==").unwrap();
    assert_ne!(first, business_key(&secret(), "invitatio", &identity, 0));
    assert_ne!(first, business_key(&secret(), "invitation", &identity, 1));
    assert_ne!(first, business_key(&other, "invitation", &identity, 0));
}

#[test]
fn every_part_of_the_meaning_changes_the_fingerprint() {
    let changes: [fn(&mut Intent); 13] = [
        |intent| intent.letter.to = parse("\"Ada, VP\" <eve@b\u{fc}cher.example>").unwrap(),
        |intent| intent.letter.to.name = None,
        |intent| intent.letter.body = Body::Data(json!({"z": [1, 1.5]}).as_object().unwrap().clone()),
        |intent| {
            let content = json!({"subject": "s", "text": "t"});
            intent.letter.body = Body::Content(serde_json::from_value(content).unwrap());
        },
        |intent| intent.letter.tags.clear(),
        |intent| intent.letter.tags = [("planp".to_owned(), "ro".to_owned())].into(),
        |intent| intent.not_before = None,
        |intent| intent.not_after = Some(Millis::new(1_900_000_000_000)),
        |intent| core::mem::swap(&mut intent.not_before, &mut intent.not_after),
        |intent| intent.attachments = vec![file("a", None, "QQ==")],
        |intent| intent.attachments = vec![file("b", None, "QQ==")],
        |intent| intent.attachments = vec![file("a", Some("b"), "QQ==")],
        |intent| intent.attachments = vec![file("a", None, "QQ=="), file("a", None, "QQ==")],
    ];
    let mut seen = std::collections::BTreeSet::from([fingerprint(&secret(), &intent())]);
    for (index, change) in changes.iter().enumerate() {
        let mut changed = intent();
        change(&mut changed);
        assert!(seen.insert(fingerprint(&secret(), &changed)), "change {index}");
    }
}

#[test]
fn which_fact_it_is_has_no_part_in_the_meaning() {
    let mut other = intent();
    other.revision = 3;
    other.identity = Identity::Caller("x".to_owned());
    other.letter.to = parse("\"Ada, VP\" <ADA@B\u{fc}cher.example>").unwrap();
    assert_eq!(fingerprint(&secret(), &other), fingerprint(&secret(), &intent()));
}

#[test]
fn spellings_of_one_recipient_have_one_hash_and_a_tag_has_its_own() {
    let hash = |text: &str| recipient_hash(&secret(), &parse(text).unwrap());
    assert_eq!(hash("Reader@Example.com"), hash(" reader@example.com "));
    assert_eq!(hash("a@b\u{fc}cher.example"), hash("A@xn--bcher-kva.example"));
    assert_ne!(hash("reader@example.com"), hash("reader+x@example.com"));
}

#[test]
fn an_intent_has_keys_under_every_accepted_secret() {
    let ring = KeyRing::parse("b:YmJiYmJiYmJiYmJiYmJiYg==,a:YWFhYWFhYWFhYWFhYWFhYQ==").unwrap();
    let keys = keys_for(&ring, &intent());
    assert_eq!(
        keys.iter().map(|keys| keys.secret_id.as_str()).collect::<Vec<_>>(),
        ["b", "a"]
    );
    assert_ne!(keys[0].key, keys[1].key);
    assert_ne!(keys[0].fingerprint, keys[1].fingerprint);
    let alone = keys_for(&KeyRing::parse("a:YWFhYWFhYWFhYWFhYWFhYQ==").unwrap(), &intent());
    assert_eq!(keys[1], alone[0]);
}

#[test]
fn the_encoding_of_a_fact_is_fixed_and_knows_no_revision() {
    let ring = KeyRing::parse("a:YWFhYWFhYWFhYWFhYWFhYQ==,b:YmJiYmJiYmJiYmJiYmJiYg==").unwrap();
    let facts = facts_for(&ring, "invitation", &intent().identity);
    assert_eq!(facts.len(), 2, "one for each accepted secret");
    assert_eq!(
        facts[0],
        "c1e41579f52fa990d7c6cd65a211a61fd37b86c38b3e38a3eb2c47ced7d3e215"
    );
    let caller = Identity::Caller("order-7".to_owned());
    assert_eq!(
        facts_for(&ring, "invitation", &caller)[0],
        "26e6c269a75de4a19b023f93979b140c6eb1aae981619d926795d77aace96b92"
    );
    assert_ne!(facts[0], facts[1]);
}

#[test]
fn the_encoding_of_a_send_id_is_fixed_and_belongs_to_the_family() {
    assert_eq!(
        send_id_hash(&secret(), "invitation", "welcome-bo"),
        "16176c65178b679ebf578a5e266351ccc43999c011ee553f445ea68533b4a988"
    );
    assert_ne!(
        send_id_hash(&secret(), "notice", "welcome-bo"),
        send_id_hash(&secret(), "invitation", "welcome-bo")
    );
}

/// Whatever a send carries beside its fact: the key of a replay a year later is the first one's.
#[test]
fn nothing_of_the_attempt_enters_the_key() {
    let ring = KeyRing::parse("a:YWFhYWFhYWFhYWFhYWFhYQ==").unwrap();
    let first = intent();
    let mut again = intent();
    again.send_id = Some("welcome-bo".to_owned());
    again.letter.secret = [("code".to_owned(), "8127".to_owned())].into();
    assert_eq!(
        keys_for(&ring, &again),
        keys_for(&ring, &first),
        "neither key nor meaning"
    );
    again.not_before = None;
    again.not_after = Some(Millis::new(1_900_000_000_000));
    again.letter.tags.clear();
    assert_eq!(keys_for(&ring, &again)[0].key, keys_for(&ring, &first)[0].key);
    again.revision = 3;
    assert_ne!(keys_for(&ring, &again)[0].key, keys_for(&ring, &first)[0].key);
}
