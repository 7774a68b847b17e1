//! The table of answers, whole: each line is a status, a body, and what it must mean. A second test holds it against
//! the rules, so that a rule without a line here is a failure.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::provider::code::ProviderCode as Code;

/// What a line expects. Waits have tests of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Accepted,
    Refused(Code),
    Declined(Code),
    Throttled(ThrottleKind),
    Misconfigured(Code),
    InProgress,
    PayloadConflict,
    Ambiguous(Code),
}
use Want::{Accepted, Ambiguous, Declined, InProgress, Misconfigured, PayloadConflict, Refused, Throttled};

/// The body of a line.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// It never arrived whole.
    Lost,
    /// These bytes.
    Raw(&'static str),
    /// An error of the provider: name and message.
    Error(&'static str, &'static str),
}
use Body::{Error, Lost, Raw};

const HTML: Body = Raw("<html><body><h1>Bad Gateway</h1></body></html>");
const TESTING: &str = "You can only send testing emails to your own email address (ada@example.com). To send emails to \
    other recipients, please verify a domain, and change the `from` address to an email using this domain.";
const UNVERIFIED: &str = "The example.com domain is not verified. Please, add and verify your domain.";

#[rustfmt::skip]
const TABLE: &[(u16, Body, Want)] = &[
    // 2xx: only a usable id is an acceptance.
    (200, Raw(r#"{"id":"49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"}"#), Accepted),
    (201, Raw(r#"{"id":"e_1.x","more":[1]}"#), Accepted),
    (200, Raw("{}"),                         Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":null}"#),             Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":""}"#),               Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":7}"#),                Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":["a"]}"#),            Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":"a b"}"#),            Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":".."}"#),             Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":"ä"}"#),              Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":"a\nb"}"#),           Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"data":{"id":"a"}}"#),     Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"[{"id":"a"}]"#),            Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":"49a3999c-0ce1"#),    Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(r#"{"id":"a"} trailing"#),     Ambiguous(Code::AnswerWithoutId)),
    (200, Raw(""),                           Ambiguous(Code::AnswerWithoutId)),
    (200, HTML,                              Ambiguous(Code::AnswerWithoutId)),
    (200, Error("application_error", "x"),   Ambiguous(Code::AnswerWithoutId)),
    (200, Lost,                              Ambiguous(Code::AnswerWithoutId)),
    (204, Raw(""),                           Ambiguous(Code::AnswerWithoutId)),
    (202, HTML,                              Ambiguous(Code::AnswerWithoutId)),
    // 3xx.
    (301, HTML,                              Misconfigured(Code::EndpointWrong)),
    (304, Lost,                              Misconfigured(Code::EndpointWrong)),
    // 400.
    (400, Error("validation_error", "API key is invalid"),       Misconfigured(Code::InvalidApiKey)),
    (400, Error("invalid_api_key", ""),                          Misconfigured(Code::InvalidApiKey)),
    (400, Error("missing_api_key", ""),                          Misconfigured(Code::MissingApiKey)),
    (400, Error("invalid_idempotency_key", ""),                  Refused(Code::InvalidIdempotencyKey)),
    (400, Error("validation_error", "Invalid `to` field."),      Refused(Code::ValidationError)),
    (400, Error("something_new", ""),                            Refused(Code::BadRequest)),
    (400, Raw("{}"),                                             Refused(Code::BadRequest)),
    (400, HTML,                                                  Ambiguous(Code::AnswerUnreadable)),
    (400, Raw(r#"{"name":"validation_err"#),                     Ambiguous(Code::AnswerUnreadable)),
    (400, Raw("[]"),                                             Ambiguous(Code::AnswerUnreadable)),
    (400, Lost,                                                  Ambiguous(Code::AnswerUnreadable)),
    // 401 and 402.
    (401, Error("missing_api_key", ""),                          Misconfigured(Code::MissingApiKey)),
    (401, Error("restricted_api_key", ""),                       Misconfigured(Code::RestrictedApiKey)),
    (401, Error("invalid_api_key", ""),                          Misconfigured(Code::InvalidApiKey)),
    (401, Error("validation_error", "API key is invalid"),       Misconfigured(Code::InvalidApiKey)),
    (401, Error("validation_error", ""),                         Misconfigured(Code::Unauthorized)),
    (401, HTML,                                                  Misconfigured(Code::Unauthorized)),
    (401, Lost,                                                  Misconfigured(Code::Unauthorized)),
    (402, Lost,                                                  Misconfigured(Code::PaymentRequired)),
    // 403.
    (403, Error("validation_error", TESTING),                    Refused(Code::TestingRecipient)),
    (403, Error("invalid_api_key", ""),                          Misconfigured(Code::InvalidApiKey)),
    (403, Error("validation_error", "API key is invalid"),       Misconfigured(Code::InvalidApiKey)),
    (403, Error("restricted_api_key", ""),                       Misconfigured(Code::RestrictedApiKey)),
    (403, Error("suspended_api_key", ""),                        Misconfigured(Code::SuspendedApiKey)),
    (403, Error("validation_error", UNVERIFIED),                 Misconfigured(Code::DomainNotVerified)),
    (403, Error("validation_error", "Something else."),          Misconfigured(Code::Forbidden)),
    (403, Error("something_new", ""),                            Misconfigured(Code::Forbidden)),
    (403, Raw("error code: 1010"),                               Misconfigured(Code::Forbidden)),
    (403, Raw("{}"),                                             Misconfigured(Code::Forbidden)),
    (403, Lost,                                                  Misconfigured(Code::Forbidden)),
    // 404 to 408.
    (404, Error("not_found", ""),                                Misconfigured(Code::EndpointWrong)),
    (404, HTML,                                                  Misconfigured(Code::EndpointWrong)),
    (405, Error("method_not_allowed", ""),                       Misconfigured(Code::EndpointWrong)),
    (407, HTML,                                                  Misconfigured(Code::EndpointWrong)),
    (408, HTML,                                                  Ambiguous(Code::RequestInterrupted)),
    // 409: never "sent".
    (409, Error("concurrent_idempotent_requests", ""),           InProgress),
    (409, Error("invalid_idempotent_request", ""),               PayloadConflict),
    (409, Error("something_new", ""),                            Ambiguous(Code::ConflictUnknown)),
    (409, HTML,                                                  Ambiguous(Code::ConflictUnknown)),
    (409, Raw(""),                                               Ambiguous(Code::ConflictUnknown)),
    (409, Raw(r#"{"id":"e1"}"#),                                 Ambiguous(Code::ConflictUnknown)),
    (409, Lost,                                                  Ambiguous(Code::ConflictUnknown)),
    // 410 to 425.
    (410, HTML,                                                  Misconfigured(Code::EndpointWrong)),
    (413, HTML,                                                  Refused(Code::RequestTooLarge)),
    (413, Lost,                                                  Refused(Code::RequestTooLarge)),
    (421, HTML,                                                  Ambiguous(Code::RequestInterrupted)),
    (422, Error("invalid_attachment", ""),                       Refused(Code::InvalidAttachment)),
    (422, Error("invalid_from_address", ""),                     Refused(Code::InvalidFromAddress)),
    (422, Error("invalid_access", ""),                           Refused(Code::InvalidAccess)),
    (422, Error("invalid_parameter", ""),                        Refused(Code::InvalidParameter)),
    (422, Error("invalid_region", ""),                           Refused(Code::InvalidRegion)),
    (422, Error("missing_required_field", ""),                   Refused(Code::MissingRequiredField)),
    (422, Error("validation_error", "ada@example.com is bad"),   Refused(Code::ValidationError)),
    (422, Error("something_new", ""),                            Refused(Code::Unprocessable)),
    (422, Raw(r#"{"name":["a"]}"#),                              Refused(Code::Unprocessable)),
    (422, HTML,                                                  Refused(Code::Unprocessable)),
    (422, Lost,                                                  Refused(Code::Unprocessable)),
    (425, HTML,                                                  Ambiguous(Code::RequestInterrupted)),
    // 429.
    (429, Error("daily_quota_exceeded", ""),                     Throttled(ThrottleKind::Day)),
    (429, Error("monthly_quota_exceeded", ""),                   Throttled(ThrottleKind::Month)),
    (429, Error("rate_limit_exceeded", ""),                      Throttled(ThrottleKind::Rate)),
    (429, Error("something_new", ""),                            Throttled(ThrottleKind::Rate)),
    (429, HTML,                                                  Throttled(ThrottleKind::Rate)),
    (429, Lost,                                                  Throttled(ThrottleKind::Rate)),
    // The rest of 4xx.
    (451, Error("security_error", ""),                           Declined(Code::SecurityError)),
    (451, Lost,                                                  Declined(Code::SecurityError)),
    (499, HTML,                                                  Ambiguous(Code::RequestInterrupted)),
    (418, Error("something_new", ""),                            Refused(Code::RequestRefused)),
    (431, HTML,                                                  Ambiguous(Code::AnswerUnreadable)),
    (431, Lost,                                                  Ambiguous(Code::AnswerUnreadable)),
    // 5xx: the mail may have been taken.
    (500, Error("application_error", ""),                        Ambiguous(Code::ApplicationError)),
    (500, Error("internal_server_error", ""),                    Ambiguous(Code::InternalServerError)),
    (500, Error("service_unavailable", ""),                      Ambiguous(Code::ServiceUnavailable)),
    (500, Error("validation_error", ""),                         Ambiguous(Code::ServerError)),
    (500, Raw("internal error"),                                 Ambiguous(Code::ServerError)),
    (500, Raw(r#"{"id":"e1"}"#),                                 Ambiguous(Code::ServerError)),
    (502, HTML,                                                  Ambiguous(Code::GatewayError)),
    (503, Error("service_unavailable", ""),                      Ambiguous(Code::ServiceUnavailable)),
    (504, Lost,                                                  Ambiguous(Code::GatewayError)),
    (522, HTML,                                                  Ambiguous(Code::GatewayError)),
    (599, Lost,                                                  Ambiguous(Code::ServerError)),
    // No status of HTTP's five classes that ends an exchange.
    (0,   Lost,                                                  Ambiguous(Code::StatusUnexpected)),
    (101, Lost,                                                  Ambiguous(Code::StatusUnexpected)),
    (600, HTML,                                                  Ambiguous(Code::StatusUnexpected)),
    (999, Raw(r#"{"id":"e1"}"#),                                 Ambiguous(Code::StatusUnexpected)),
];

/// 21 October 2026, half an hour before midnight UTC.
fn late() -> Millis {
    Millis::parse_rfc3339("2026-10-21T23:30:00Z").unwrap()
}

fn bytes(body: Body) -> Option<Vec<u8>> {
    match body {
        Lost => None,
        Raw(text) => Some(text.as_bytes().to_vec()),
        Error(name, message) => Some(
            serde_json::json!({"statusCode": 0, "name": name, "message": message})
                .to_string()
                .into_bytes(),
        ),
    }
}

fn answer(status: u16, body: Body, retry_after: Option<&str>) -> Answer {
    let response = MailAnswer::Response {
        status,
        retry_after: retry_after.map(str::to_owned),
        body: bytes(body),
    };
    classify(&response, late())
}

fn shape(answer: &Answer) -> Want {
    match answer {
        Answer::Accepted { .. } => Accepted,
        Answer::Refused { code } => Refused(*code),
        Answer::Declined { code } => Declined(*code),
        Answer::Throttled { kind, .. } => Throttled(*kind),
        Answer::Misconfigured { code } => Misconfigured(*code),
        Answer::InProgress { .. } => InProgress,
        Answer::PayloadConflict => PayloadConflict,
        Answer::Ambiguous { code, .. } => Ambiguous(*code),
    }
}

#[test]
fn the_table_holds() {
    let wrong: Vec<String> = TABLE
        .iter()
        .filter(|(status, body, want)| shape(&answer(*status, *body, None)) != *want)
        .map(|(status, body, want)| format!("{status} {body:?}: {:?} and not {want:?}", answer(*status, *body, None)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_line_and_none_is_hidden_by_another() {
    let hit: BTreeSet<usize> = TABLE
        .iter()
        .filter(|(status, ..)| !(200..=299).contains(status))
        .filter_map(|(status, body, _)| {
            let json = bytes(*body).and_then(|bytes| serde_json::from_slice(&bytes).ok());
            first_rule(*status, &ErrorBody::read(json.as_ref())).map(|(number, _)| number)
        })
        .collect();
    let missed: Vec<&Rule> = RULES
        .iter()
        .enumerate()
        .filter(|(number, _)| !hit.contains(number))
        .map(|(_, rule)| rule)
        .collect();
    assert!(missed.is_empty(), "no line for {missed:?}");
}

#[test]
fn every_code_is_used() {
    let mut used: Vec<Code> = TABLE
        .iter()
        .filter_map(|(_, _, want)| match want {
            Refused(code) | Declined(code) | Misconfigured(code) | Ambiguous(code) => Some(*code),
            Accepted | Throttled(_) | InProgress | PayloadConflict => None,
        })
        .collect();
    used.extend([Code::TimedOut, Code::Disconnected]);
    let unused: Vec<&Code> = Code::ALL.iter().filter(|code| !used.contains(code)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn no_answer_at_all_is_a_doubt() {
    assert_eq!(
        shape(&classify(&MailAnswer::TimedOut, late())),
        Ambiguous(Code::TimedOut)
    );
    assert_eq!(
        shape(&classify(&MailAnswer::Disconnected, late())),
        Ambiguous(Code::Disconnected)
    );
}

#[test]
fn the_message_id_is_the_providers() {
    let id = "a".repeat(MESSAGE_ID_CHARS_MAX);
    let accept = |id: &str| {
        let body = Some(format!("{{\"id\":\"{id}\"}}").into_bytes());
        classify(
            &MailAnswer::Response {
                status: 200,
                retry_after: None,
                body,
            },
            late(),
        )
    };
    assert_eq!(accept(&id), Answer::Accepted { message_id: id.clone() });
    assert_eq!(shape(&accept(&format!("{id}a"))), Ambiguous(Code::AnswerWithoutId));
}

#[test]
fn messages_are_matched_in_any_case_and_within_reach() {
    let upper = answer(
        403,
        Error("validation_error", "ONLY SEND TESTING EMAILS TO YOUR OWN EMAIL ADDRESS"),
        None,
    );
    assert_eq!(shape(&upper), Refused(Code::TestingRecipient));
    let far = format!("{}{TESTING}", "é".repeat(MESSAGE_BYTES_MAX));
    let body = Some(
        serde_json::json!({"name": "validation_error", "message": far})
            .to_string()
            .into_bytes(),
    );
    let cut = classify(
        &MailAnswer::Response {
            status: 403,
            retry_after: None,
            body,
        },
        late(),
    );
    assert_eq!(shape(&cut), Misconfigured(Code::Forbidden));
}

fn wait_of(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Throttled { wait, .. } | Answer::InProgress { wait } => Some(wait.as_secs()),
        Answer::Ambiguous { wait, .. } => wait.map(|wait| wait.as_secs()),
        Answer::Accepted { .. }
        | Answer::Refused { .. }
        | Answer::Declined { .. }
        | Answer::Misconfigured { .. }
        | Answer::PayloadConflict => None,
    }
}

#[test]
fn waits() {
    const MINUTE: u64 = 60;
    const DAY: u64 = 86_400;
    let rate = Error("rate_limit_exceeded", "");
    let day = Error("daily_quota_exceeded", "");
    let month = Error("monthly_quota_exceeded", "");
    let running = Error("concurrent_idempotent_requests", "");
    // (status, body, Retry-After, seconds)
    let cases = [
        (429, rate, None, Some(1)),
        (429, rate, Some("17"), Some(17)),
        (429, rate, Some("0"), Some(1)),
        (429, rate, Some("99999999999999999999"), Some(DAY)),
        (429, rate, Some("-5"), Some(1)),
        (429, rate, Some("Wed, 21 Oct 2026 23:30:20 GMT"), Some(20)),
        // A quota: the provider's time, but not the rate limit's second; else just after midnight UTC.
        (429, day, None, Some(31 * MINUTE)),
        (429, day, Some("1"), Some(10 * MINUTE)),
        (429, day, Some("7200"), Some(7200)),
        (429, day, Some("soon"), Some(31 * MINUTE)),
        (429, month, None, Some(31 * MINUTE)),
        (429, month, Some("1000000"), Some(DAY)),
        (409, running, None, Some(5)),
        (409, running, Some("2"), Some(2)),
        (503, HTML, Some("120"), Some(120)),
        (503, HTML, None, None),
        (408, HTML, Some("3"), Some(3)),
        (400, HTML, Some("4"), Some(4)),
    ];
    for (status, body, header, seconds) in cases {
        assert_eq!(
            wait_of(&answer(status, body, header)),
            seconds,
            "{status} {body:?} {header:?}"
        );
    }
}

#[test]
fn midnight_is_never_more_than_a_day_away() {
    let day = Duration::from_secs(86_400);
    for now in [0, 1, 86_399_999, 86_400_000, -1, i64::MIN, i64::MAX] {
        let wait = until_midnight(Millis::new(now));
        assert!(wait > Duration::ZERO && wait <= day, "{now}: {wait:?}");
    }
    assert_eq!(until_midnight(Millis::new(86_399_999)), Duration::from_millis(1));
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic_or_wait_for_ever(
        status in prop_oneof![any::<u16>(), 100u16..600],
        retry_after in prop::option::of(".{0,80}"),
        body in prop::option::of(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "\\{\"(id|name|message)\":\"[^\"\\\\]{0,40}\"\\}".prop_map(String::into_bytes),
        ]),
        now in any::<i64>(),
    ) {
        let response = MailAnswer::Response { status, retry_after, body };
        let answer = classify(&response, Millis::new(now));
        if matches!(answer, Answer::Accepted { .. }) {
            prop_assert!((200..=299).contains(&status));
        }
        if let Some(seconds) = wait_of(&answer) {
            prop_assert!((1..=86_400).contains(&seconds));
        }
    }
}
