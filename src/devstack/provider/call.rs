//! What goes into the model and what comes out of it.

use super::answer::Reply;
use super::effect::Wire;
use super::list::Validation;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests a second; 0 for no limit. Resend's default is 5.
    pub per_second: u32,
    /// Whether `@example.com` and `@test.com` may receive; Resend refuses them.
    pub example_domains_allowed: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            per_second: 5,
            example_domains_allowed: true,
        }
    }
}

/// The parts of a request that the rules look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// The `Authorization` header.
    pub authorization: Option<&'a str>,
    /// The `User-Agent` header.
    pub user_agent: Option<&'a str>,
    /// The `Idempotency-Key` header.
    pub idempotency_key: Option<&'a str>,
    /// The body, byte for byte.
    pub body: &'a [u8],
    /// Of a list of mails: what becomes of it where one is wrong. `None` for a single mail.
    pub list: Option<Validation>,
}

/// A send that runs. Numbers are never used twice, so one from before a reset finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// An answer and what the wire does with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The answer.
    pub reply: Reply,
    /// Whether and how it arrives.
    pub wire: Wire,
}

/// What a request that came in leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// How long a rule makes it wait first, in milliseconds.
    pub wait_ms: u64,
    /// What comes then.
    pub next: Next,
}

/// What comes after the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The answer stands; nothing goes out.
    Answered(Outcome),
    /// The send runs and its key is locked: call [`super::model::Model::finish`], after a release where it is held.
    Running {
        /// For [`super::model::Model::finish`].
        ticket: Ticket,
        /// Whether it waits for a release first.
        held: bool,
    },
}
