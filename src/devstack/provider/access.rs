//! Who may ask, and how often: the checks in front of every door.

use super::answer::{ErrorName, Refusal, Reply};
use super::model::Call;
use super::rate::{Pass, Rate};
use crate::outbox::time::Millis;

/// What a request wants; keys that may only send open one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `POST /emails`.
    Send,
    /// Every other door.
    Read,
}

/// The beginning of every key.
const KEY_PREFIX: &str = "re_";
/// Keys with this beginning may only send.
const SENDING_PREFIX: &str = "re_sending_";
/// Keys with this beginning are wrong: a test takes one to see how a wrong key is answered.
const INVALID_PREFIX: &str = "re_invalid";

/// Lets a request in, and counts it where it got as far as the pace.
///
/// # Errors
/// The answer, with the pace headers where the pace was asked.
pub fn admit(rate: &mut Rate, now: Millis, call: &Call<'_>, purpose: Purpose) -> Result<Pass, (Pass, Reply)> {
    if call.user_agent.is_none_or(|agent| agent.trim().is_empty()) {
        // Given by the network in front of the provider, which knows neither its JSON nor its error names.
        return Err((Pass::none(), Reply::text(403, "error code: 1010")));
    }
    if let Err(refusal) = key_opens(call.authorization, purpose) {
        return Err((Pass::none(), refusal.reply()));
    }
    let pass = rate.pass(now);
    if pass.allowed {
        Ok(pass)
    } else {
        Err((pass, pass.mark(pass.refusal())))
    }
}

fn key_opens(authorization: Option<&str>, purpose: Purpose) -> Result<(), Refusal> {
    let Some(authorization) = authorization.filter(|value| !value.trim().is_empty()) else {
        let text = "Missing API key in the authorization header. Include the following header in your request: \
                    `Authorization: Bearer YOUR_API_KEY`.";
        return Err(Refusal::new(401, ErrorName::MissingApiKey, text));
    };
    let key = authorization
        .split_once(' ')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map_or("", |(_, key)| key.trim());
    if !key.starts_with(KEY_PREFIX) || key.len() == KEY_PREFIX.len() || key.starts_with(INVALID_PREFIX) {
        // Resend's newest page: 401 where mail is sent, 400 elsewhere, the same name for both.
        let status = match purpose {
            Purpose::Send => 401,
            Purpose::Read => 400,
        };
        return Err(Refusal::new(status, ErrorName::ValidationError, "API key is invalid"));
    }
    if purpose == Purpose::Read && key.starts_with(SENDING_PREFIX) {
        let text = "This API key is restricted to only send emails";
        return Err(Refusal::new(401, ErrorName::RestrictedApiKey, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(authorization: Option<&str>, user_agent: Option<&str>, purpose: Purpose) -> (u16, String) {
        let call = Call {
            authorization,
            user_agent,
            ..Call::default()
        };
        match admit(&mut Rate::new(0), Millis::new(0), &call, purpose) {
            Ok(_) => (200, String::new()),
            Err((_, reply)) => (reply.status, reply.body),
        }
    }

    #[test]
    fn keys_open_the_doors_that_they_are_for() {
        let cases = [
            (None, Purpose::Send, 401, "missing_api_key"),
            (Some("Bearer re_live"), Purpose::Send, 200, ""),
            (Some("bearer re_live"), Purpose::Read, 200, ""),
            (Some("re_live"), Purpose::Send, 401, "API key is invalid"),
            (Some("Bearer sk_live"), Purpose::Send, 401, "API key is invalid"),
            (Some("Bearer re_"), Purpose::Send, 401, "API key is invalid"),
            (Some("Bearer re_invalid_1"), Purpose::Send, 401, "API key is invalid"),
            (Some("Bearer re_invalid_1"), Purpose::Read, 400, "API key is invalid"),
            (Some("Bearer re_sending_1"), Purpose::Send, 200, ""),
            (Some("Bearer re_sending_1"), Purpose::Read, 401, "restricted_api_key"),
        ];
        for (authorization, purpose, status, part) in cases {
            let (found, body) = refusal(authorization, Some("agent/1"), purpose);
            assert_eq!(found, status, "{authorization:?}");
            assert!(body.contains(part), "{authorization:?}: {body}");
        }
    }

    #[test]
    fn a_request_without_a_user_agent_is_turned_away_before_its_key_is_read() {
        assert_eq!(refusal(None, None, Purpose::Send), (403, "error code: 1010".into()));
        assert_eq!(refusal(Some("Bearer re_a"), Some(" "), Purpose::Send).0, 403);
    }
}
