//! `/v1/unsubscribe/{token}`: the recipient's own door.

use super::http::{Answer, Request};
use crate::config::Config;
use crate::ports::World;

/// Answers a recipient, or a mail program in their name.
pub(super) async fn answer<W: World>(_world: &W, _config: &Config, _request: &Request<'_>, _token: &str) -> Answer {
    Answer::problem(404, "no_such_door", "See the README for the doors there are.")
}
