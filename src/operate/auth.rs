//! Who is at the door.

use super::http::{Answer, Request};
use crate::config::TokenList;
use crate::outbox::time::Millis;
use crate::store::operator_log::Order;

/// Lets a bearer token of the role pass (RFC 6750, section 2.1).
///
/// # Errors
/// The answer to give: 403 where the role has no token at all (the door is closed), 401 otherwise.
pub(super) fn require(role: &TokenList, request: &Request<'_>) -> Result<(), Answer> {
    if role.is_closed() {
        return Err(Answer::problem(
            403,
            "door_closed",
            "No token is configured for this role. Set its hash and deploy again.",
        ));
    }
    if bearer(request).is_some_and(|token| role.admits(token)) {
        return Ok(());
    }
    Err(Answer::problem(
        401,
        "token_required",
        "Send a valid token as Authorization: Bearer <token>.",
    )
    .with_header("www-authenticate", "Bearer"))
}

/// Who gives an order, as the operators' log names them.
pub(super) struct Operator {
    /// The beginning of the token's hash.
    pub(super) name: String,
}

impl Operator {
    /// An order of theirs that is given now.
    pub(super) fn order<'a>(&'a self, note: Option<&'a str>, now: Millis) -> Order<'a> {
        Order {
            operator: &self.name,
            note,
            now,
        }
    }
}

/// Lets an operator pass.
///
/// # Errors
/// As for [`require`].
pub(super) fn operator(role: &TokenList, request: &Request<'_>) -> Result<Operator, Answer> {
    require(role, request)?;
    let name = bearer(request)
        .and_then(|token| role.name_of(token))
        .unwrap_or_default();
    Ok(Operator { name })
}

pub(super) fn bearer<'a>(request: &Request<'a>) -> Option<&'a str> {
    let (scheme, token) = request.authorization?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
