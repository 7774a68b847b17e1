//! The door for lists: one JSON array of mails in, one list of ids out.

use serde_json::Value as Json;

use crate::outbox::id::is_message_id;
use crate::outbox::time::Millis;
use crate::ports::MailAnswer;
use crate::provider::classify::{Answer, classify};
use crate::provider::code::ProviderCode;

/// Mails that one call carries at most: the provider's limit.
pub const MAILS_MAX: usize = 100;
/// Longest request body of a list, in bytes: a seal has to fit into one value of the database several times over.
pub const LIST_BYTES_MAX: usize = 1_000_000;

/// The bytes that a list has around and between so many mails.
pub fn frame_bytes(mails: usize) -> usize {
    mails.saturating_add(1)
}

/// The body of the call: the mails' own bodies, as they are, in their order.
pub fn list_of<'a>(bodies: impl Iterator<Item = &'a str>) -> String {
    let mut list = String::from("[");
    for (position, body) in bodies.enumerate() {
        if position > 0 {
            list.push(',');
        }
        list.push_str(body);
    }
    list.push(']');
    list
}

/// What an answer to a list means for each of its mails, in their order.
///
/// An error is about the whole list, because the provider takes all or nothing. A success names one id for each mail, in
/// the order of the list. Where the list of ids has another length nobody can say whose they are: none is believed. A
/// place without a usable id leaves that one mail in doubt.
pub fn classify_list(answer: &MailAnswer, mails: usize, now: Millis) -> Vec<Answer> {
    if let MailAnswer::Response { status, body, .. } = answer
        && (200..=299).contains(status)
    {
        let json = body
            .as_deref()
            .and_then(|bytes| serde_json::from_slice::<Json>(bytes).ok());
        let ids = json
            .as_ref()
            .and_then(|json| json.as_object()?.get("data")?.as_array())
            .filter(|ids| ids.len() == mails);
        return (0..mails)
            .map(|place| {
                let id = ids.and_then(|ids| ids.get(place)?.as_object()?.get("id")?.as_str());
                match id.filter(|id| is_message_id(id)) {
                    Some(id) => Answer::Accepted {
                        message_id: id.to_owned(),
                    },
                    None => Answer::Ambiguous {
                        code: ProviderCode::AnswerWithoutId,
                        wait: None,
                    },
                }
            })
            .collect();
    }
    vec![classify(answer, now); mails]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> MailAnswer {
        MailAnswer::Response {
            status,
            retry_after: None,
            body: Some(body.as_bytes().to_vec()),
        }
    }

    /// The ids that the mails got, `-` for a doubt, `?` for anything else.
    fn read(status: u16, body: &str, mails: usize) -> Vec<String> {
        classify_list(&answered(status, body), mails, Millis::new(0))
            .into_iter()
            .map(|answer| match answer {
                Answer::Accepted { message_id } => message_id,
                Answer::Ambiguous { .. } => "-".to_owned(),
                Answer::Refused { .. }
                | Answer::Declined { .. }
                | Answer::Throttled { .. }
                | Answer::Misconfigured { .. }
                | Answer::InProgress { .. }
                | Answer::PayloadConflict => "?".to_owned(),
            })
            .collect()
    }

    #[test]
    fn a_list_is_the_mails_own_bytes() {
        assert_eq!(list_of(["{\"a\":1}", "{}"].into_iter()), "[{\"a\":1},{}]");
        assert_eq!(list_of(["{}"; 3].into_iter()).len(), 3 * 2 + frame_bytes(3));
    }

    #[test]
    fn ids_are_given_in_their_order() {
        assert_eq!(read(200, r#"{"data":[{"id":"a"},{"id":"b"}]}"#, 2), ["a", "b"]);
    }

    #[test]
    fn a_list_of_another_length_names_nobody() {
        for body in [
            r#"{"data":[{"id":"a"}]}"#,
            r#"{"data":[{"id":"a"},{"id":"b"},{"id":"c"}]}"#,
            r#"{"data":[]}"#,
            r#"{"id":"a"}"#,
            r#"[{"id":"a"},{"id":"b"}]"#,
            r#"{"data":{"id":"a"}}"#,
            "",
            "<html>",
        ] {
            assert_eq!(read(200, body, 2), ["-", "-"], "{body}");
        }
        assert_eq!(
            classify_list(
                &MailAnswer::Response {
                    status: 200,
                    retry_after: None,
                    body: None
                },
                2,
                Millis::new(0)
            )
            .len(),
            2
        );
    }

    #[test]
    fn a_place_without_an_id_leaves_that_mail_in_doubt() {
        let body = r#"{"data":[{"id":"a"},{"id":null},{},{"id":"b c"},{"id":""},"e",null,{"id":"g"}]}"#;
        assert_eq!(read(200, body, 8), ["a", "-", "-", "-", "-", "-", "-", "g"]);
    }

    #[test]
    fn an_error_is_about_all_of_them() {
        assert_eq!(read(422, r#"{"name":"validation_error"}"#, 2), ["?", "?"]);
        assert_eq!(read(500, r#"{"data":[{"id":"a"},{"id":"b"}]}"#, 2), ["-", "-"]);
        let all = classify_list(&MailAnswer::TimedOut, 3, Millis::new(0));
        assert_eq!(all, vec![classify(&MailAnswer::TimedOut, Millis::new(0)); 3]);
    }
}
