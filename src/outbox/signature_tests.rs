//! Published vectors, both directions of the clock, and everything that only looks like a signature.

use super::*;

/// A vector of Svix's own tests: its secret, its headers, its body.
struct Vector {
    secret: &'static str,
    id: &'static str,
    timestamp: &'static str,
    signature: &'static str,
    body: &'static [u8],
}

const RUST: Vector = Vector {
    secret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
    timestamp: "1649367553",
    signature: "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
    body: br#"{"email":"test@example.com","username":"test_user"}"#,
};
const JAVASCRIPT: Vector = Vector {
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
    timestamp: "1614265330",
    signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    body: br#"{"test": 2432232314}"#,
};
/// A signature of the right shape that fits neither.
const WRONG: &str = "v1,R3PTzyfHASBKHH98a7yexTwaJ4yNIcGhFQc1yuN+BPU=";

impl Vector {
    fn headers(&self) -> SignatureHeaders<'static> {
        SignatureHeaders {
            id: Some(self.id),
            timestamp: Some(self.timestamp),
            signature: Some(self.signature),
        }
    }

    fn at(&self) -> Millis {
        Millis::new(self.timestamp.parse::<i64>().unwrap() * 1_000)
    }
}

fn open(setting: &str) -> WebhookSecrets {
    let secrets = WebhookSecrets::parse(Some(setting));
    assert!(matches!(secrets, WebhookSecrets::Open(_)), "{setting}");
    secrets
}

/// The first vector with another signature header.
fn with_signature(signature: &str) -> Result<(), SignatureError> {
    let headers = SignatureHeaders {
        signature: Some(signature),
        ..RUST.headers()
    };
    verify(&open(RUST.secret), headers, RUST.body, RUST.at()).map(|_| ())
}

/// A body signed at one time and read at another.
fn signed_and_read(timestamp_s: i64, body: &[u8], now: Millis) -> Result<(), SignatureError> {
    let timestamp = timestamp_s.to_string();
    let signature = sign(RUST.secret, "msg_1", &timestamp, body);
    let headers = SignatureHeaders {
        id: Some("msg_1"),
        timestamp: Some(&timestamp),
        signature: Some(&signature),
    };
    verify(&open(RUST.secret), headers, body, now).map(|_| ())
}

/// The scheme, written down once more: any bytes, and a timestamp that need not be a number.
fn sign(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap_or(secret))
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[test]
fn the_published_vectors_are_believed() {
    for vector in [RUST, JAVASCRIPT] {
        let verified = verify(&open(vector.secret), vector.headers(), vector.body, vector.at()).unwrap();
        assert_eq!(verified.event_id(), vector.id);
        // The prefix of the secret is optional.
        let bare = vector.secret.strip_prefix("whsec_").unwrap();
        assert!(verify(&open(bare), vector.headers(), vector.body, vector.at()).is_ok());
    }
}

#[test]
fn another_secret_body_id_or_timestamp_is_not_believed() {
    let check = |secret: &str, headers, body: &[u8]| verify(&open(secret), headers, body, RUST.at()).map(|_| ());
    let invalid = Err(SignatureError::Invalid);
    assert_eq!(check(JAVASCRIPT.secret, RUST.headers(), RUST.body), invalid);
    // The same document, written differently.
    let spaced = br#"{"email": "test@example.com", "username": "test_user"}"#;
    assert_eq!(check(RUST.secret, RUST.headers(), spaced), invalid);
    assert_eq!(check(RUST.secret, RUST.headers(), b""), invalid);
    let other_id = SignatureHeaders {
        id: Some(JAVASCRIPT.id),
        ..RUST.headers()
    };
    assert_eq!(check(RUST.secret, other_id, RUST.body), invalid);
    // The same second in another spelling is another signed text.
    for timestamp in ["1649367554", "01649367553"] {
        let headers = SignatureHeaders {
            timestamp: Some(timestamp),
            ..RUST.headers()
        };
        assert_eq!(check(RUST.secret, headers, RUST.body), invalid, "{timestamp}");
    }
}

#[test]
fn a_timestamp_is_signed_as_it_was_written() {
    let signature = sign(RUST.secret, "msg_1", "01649367553", b"{}");
    let headers = SignatureHeaders {
        id: Some("msg_1"),
        timestamp: Some("01649367553"),
        signature: Some(&signature),
    };
    assert!(verify(&open(RUST.secret), headers, b"{}", RUST.at()).is_ok());
}

#[test]
fn the_bytes_count_and_not_what_they_mean() {
    let now = Millis::new(1_700_000_000_000);
    for body in [
        r#"{"a":"\u00e9\ud83d\ude00"}"#.as_bytes(),
        r#"{"a":"é"}"#.as_bytes(),
        br#"{"b":1.0,  "a":1}"#,
        b"{\"a\":\"\xff\xfe\"}",
        b"\xef\xbb\xbf{}",
        b"",
        b"a.b.c",
    ] {
        assert_eq!(signed_and_read(1_700_000_000, body, now), Ok(()));
    }
}

#[test]
fn a_good_signature_counts_wherever_it_stands() {
    let good = RUST.signature;
    for header in [
        format!("{WRONG} {good}"),
        format!("{good} {WRONG}"),
        format!("{WRONG} {good} {WRONG}"),
        format!("v2,x {good}"),
        format!("v1a,x  {good}"),
        format!(" {WRONG}   {good} "),
        format!("v1, {good}"),
        format!("nonsense {good}"),
        format!("{}{good}", "v1,x ".repeat(SIGNATURES_MAX - 1)),
    ] {
        assert_eq!(with_signature(&header), Ok(()), "{header}");
    }
}

#[test]
fn what_only_looks_like_the_signature_is_none() {
    let value = RUST.signature.strip_prefix("v1,").unwrap();
    for header in [
        WRONG.to_owned(),
        "v1,".to_owned(),
        "v1, v1,".to_owned(),
        format!("v1a,{value}"),
        format!("v2,{value}"),
        format!("V1,{value}"),
        format!(",{value}"),
        format!("v1,{}", value.trim_end_matches('=')),
        format!("v1,{}", value.get(..value.len() / 2).unwrap()),
        format!("v1,{value}="),
        format!("v1,v1,{value}"),
        format!("v1,{}", value.to_lowercase()),
        // The last character's spare bits: the same 32 bytes to a reader that decodes carelessly.
        format!("v1,{}", value.replace("w=", "x=")),
        // More than anybody sends: the rest is not looked at.
        format!("{}{}", "v1,x ".repeat(SIGNATURES_MAX), RUST.signature),
    ] {
        assert_eq!(with_signature(&header), Err(SignatureError::Invalid), "{header}");
    }
    for header in [
        String::new(),
        " ".to_owned(),
        "v1".to_owned(),
        value.to_owned(),
        format!("{} {}", RUST.signature, "x".repeat(SIGNATURE_HEADER_BYTES_MAX)),
    ] {
        assert_eq!(with_signature(&header), Err(SignatureError::Malformed), "{header}");
    }
}

#[test]
fn five_minutes_pass_in_both_directions_and_no_second_more() {
    let now_s = 1_700_000_000;
    for (offset_s, expected) in [
        (0, Ok(())),
        (-299, Ok(())),
        (-300, Ok(())),
        (-301, Err(SignatureError::Expired)),
        (299, Ok(())),
        (300, Ok(())),
        (301, Err(SignatureError::Expired)),
        (-86_400, Err(SignatureError::Expired)),
        (86_400, Err(SignatureError::Expired)),
    ] {
        for fraction_ms in [0, 999] {
            let now = Millis::new(now_s * 1_000 + fraction_ms);
            assert_eq!(signed_and_read(now_s + offset_s, b"{}", now), expected, "{offset_s}");
        }
    }
    // Milliseconds where seconds belong lie fifty thousand years ahead.
    let now = Millis::new(now_s * 1_000);
    assert_eq!(signed_and_read(now_s * 1_000, b"{}", now), Err(SignatureError::Expired));
    // Clocks at the end of their range wrap nowhere.
    for now in [i64::MIN, i64::MAX] {
        assert_eq!(
            signed_and_read(now_s, b"{}", Millis::new(now)),
            Err(SignatureError::Expired)
        );
    }
}

#[test]
fn an_absurd_timestamp_is_refused_although_it_is_signed() {
    for timestamp in [
        "",
        "-1",
        "+1649367553",
        "abc",
        "99999999999999999999",
        "9223372036854775808",
        "1649367553.0",
        "1e9",
        " 1649367553",
        "１６４９３６７５５３",
        "00000000001649367553",
    ] {
        let signature = sign(RUST.secret, RUST.id, timestamp, RUST.body);
        let headers = SignatureHeaders {
            timestamp: Some(timestamp),
            signature: Some(&signature),
            ..RUST.headers()
        };
        let read = verify(&open(RUST.secret), headers, RUST.body, RUST.at());
        assert_eq!(read, Err(SignatureError::Malformed), "{timestamp}");
    }
}

#[test]
fn an_id_that_could_be_read_in_two_ways_is_refused() {
    let longest = "i".repeat(EVENT_ID_BYTES_MAX);
    let too_long = "i".repeat(EVENT_ID_BYTES_MAX + 1);
    let read = |id: &str| {
        let signature = sign(RUST.secret, id, RUST.timestamp, RUST.body);
        let headers = SignatureHeaders {
            id: Some(id),
            signature: Some(&signature),
            ..RUST.headers()
        };
        verify(&open(RUST.secret), headers, RUST.body, RUST.at()).map(|_| ())
    };
    assert_eq!(read(&longest), Ok(()));
    for id in ["", "a.b", "a b", "a\tb", "é", "a\u{7f}", &too_long] {
        assert_eq!(read(id), Err(SignatureError::Malformed), "{id}");
    }
}

#[test]
fn a_header_that_is_not_there_is_missing() {
    let whole = RUST.headers();
    for headers in [
        SignatureHeaders { id: None, ..whole },
        SignatureHeaders {
            timestamp: None,
            ..whole
        },
        SignatureHeaders {
            signature: None,
            ..whole
        },
        SignatureHeaders::default(),
    ] {
        let read = verify(&open(RUST.secret), headers, RUST.body, RUST.at());
        assert_eq!(read, Err(SignatureError::Missing));
    }
}

#[test]
fn every_secret_is_tried_while_they_are_rotated() {
    for setting in [
        format!("{},{}", RUST.secret, JAVASCRIPT.secret),
        format!(" {} ,\n{} ", JAVASCRIPT.secret, RUST.secret),
    ] {
        let secrets = open(&setting);
        for vector in [RUST, JAVASCRIPT] {
            assert!(verify(&secrets, vector.headers(), vector.body, vector.at()).is_ok());
        }
    }
}

#[test]
fn a_setting_that_is_missing_or_wrong_closes_the_door() {
    let closed = WebhookSecrets::parse(None);
    let read = |secrets: &WebhookSecrets| verify(secrets, RUST.headers(), RUST.body, RUST.at()).map(|_| ());
    assert_eq!(read(&closed), Err(SignatureError::DoorClosed));
    assert_eq!(read(&WebhookSecrets::default()), Err(SignatureError::DoorClosed));
    let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
    let many = |count: usize| vec![RUST.secret; count].join(",");
    for setting in [
        String::new(),
        ",".to_owned(),
        format!("{},", RUST.secret),
        format!("{},,{}", RUST.secret, JAVASCRIPT.secret),
        format!("{},whsec_", RUST.secret),
        "whsec_".to_owned(),
        "whsec_***".to_owned(),
        format!("whsec_{}", RUST.secret),
        RUST.secret.replace('+', "-"),
        of(WEBHOOK_SECRET_BYTES_MIN - 1),
        of(WEBHOOK_SECRET_BYTES_MAX + 1),
        of(WEBHOOK_SECRET_BYTES_MIN).trim_end_matches('=').to_owned(),
        many(WEBHOOK_SECRETS_MAX + 1),
    ] {
        let secrets = WebhookSecrets::parse(Some(&setting));
        assert_eq!(read(&secrets), Err(SignatureError::SecretInvalid), "{setting}");
    }
    for setting in [
        of(WEBHOOK_SECRET_BYTES_MIN),
        of(WEBHOOK_SECRET_BYTES_MAX),
        many(WEBHOOK_SECRETS_MAX),
    ] {
        assert!(read(&open(&setting)) != Err(SignatureError::SecretInvalid), "{setting}");
    }
}

#[test]
fn debug_shows_no_secret() {
    let shown = format!("{:?}", open(RUST.secret));
    assert_eq!(shown, "Open(SigningKeys(1))");
}

#[test]
fn the_text_of_an_error_is_its_code_and_says_who_must_act() {
    for (error, code, ours) in [
        (SignatureError::DoorClosed, "receipt_door_closed", true),
        (SignatureError::SecretInvalid, "receipt_secret_invalid", true),
        (SignatureError::Missing, "signature_missing", false),
        (SignatureError::Malformed, "signature_malformed", false),
        (SignatureError::Expired, "signature_expired", false),
        (SignatureError::Invalid, "signature_invalid", false),
    ] {
        assert_eq!((error.to_string().as_str(), error.is_ours()), (code, ours));
        assert_eq!(error.code(), code);
    }
}
