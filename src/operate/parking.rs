//! Parking: what nobody understood, until somebody decides.

use super::auth::Operator;
use super::http::{Answer, Request};
use crate::config::Config;
use crate::ports::World;
use crate::store::database::DatabaseError;

/// The doors of this room.
pub(super) enum Door<'a> {
    Entry(&'a str),
}

impl<'a> Door<'a> {
    /// The door behind the rest of the path.
    pub(super) fn of(rest: &[&'a str]) -> Option<Self> {
        let _ = rest;
        None
    }

    pub(super) const fn methods(&self) -> &'static [&'static str] {
        &["GET"]
    }
}

/// Answers an operator.
///
/// # Errors
/// [`DatabaseError`].
pub(super) async fn answer<W: World>(
    _world: &W,
    _config: &Config,
    _request: &Request<'_>,
    _operator: &Operator,
    _door: Door<'_>,
) -> Result<Answer, DatabaseError> {
    Ok(Answer::problem(
        404,
        "no_such_door",
        "See the README for the doors there are.",
    ))
}
