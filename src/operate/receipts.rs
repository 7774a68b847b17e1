//! `POST /v1/receipts/resend`: what the provider has to say about mails it took.

use super::http::{Answer, Request};
use crate::config::Config;
use crate::ports::World;

/// Answers the provider.
pub(super) async fn answer<W: World>(_world: &W, _config: &Config, _request: &Request<'_>) -> Answer {
    Answer::problem(404, "no_such_door", "See the README for the doors there are.")
}
