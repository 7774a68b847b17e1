//! The rate limit: so many requests in a window of one second, for the whole account.

use super::answer::{ErrorName, Refusal, Reply};
use crate::outbox::time::Millis;

/// The window of Resend's policy header (`5;w=1`), in milliseconds.
const WINDOW_MS: i64 = 1_000;

/// A fixed window that opens with the first request after the last one closed.
#[derive(Debug)]
pub struct Rate {
    per_second: u32,
    opened: Millis,
    used: u32,
}

/// What the limit says to one request, and what its headers will say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Whether the request may go on.
    pub allowed: bool,
    limit: u32,
    remaining: u32,
    reset_s: i64,
}

impl Rate {
    /// A limit in requests a second; 0 switches it off.
    pub const fn new(per_second: u32) -> Self {
        Self {
            per_second,
            opened: Millis::new(i64::MIN),
            used: 0,
        }
    }

    /// Counts one request. Refused requests do not use up the window.
    pub fn pass(&mut self, now: Millis) -> Pass {
        let age = now.get().saturating_sub(self.opened.get());
        // A negative age means that the clock was moved back.
        if !(0..WINDOW_MS).contains(&age) {
            self.opened = now;
            self.used = 0;
        }
        let left_ms = WINDOW_MS.saturating_sub(now.get().saturating_sub(self.opened.get()));
        let allowed = self.per_second == 0 || self.used < self.per_second;
        if allowed {
            self.used = self.used.saturating_add(1);
        }
        Pass {
            allowed,
            limit: self.per_second,
            remaining: self.per_second.saturating_sub(self.used),
            reset_s: (left_ms.saturating_add(999) / 1_000).max(1),
        }
    }
}

impl Pass {
    /// For a request that never got as far as the pace.
    pub const fn none() -> Self {
        Self {
            allowed: false,
            limit: 0,
            remaining: 0,
            reset_s: 0,
        }
    }

    /// Adds the `ratelimit-*` headers; with the limit off there is nothing to say.
    #[must_use]
    pub fn mark(self, reply: Reply) -> Reply {
        if self.limit == 0 {
            return reply;
        }
        reply
            .with_header("ratelimit-limit", self.limit.to_string())
            .with_header("ratelimit-remaining", self.remaining.to_string())
            .with_header("ratelimit-reset", self.reset_s.to_string())
            .with_header("ratelimit-policy", format!("{};w=1", self.limit))
    }

    /// The 429 of this request, with `retry-after` in seconds.
    pub fn refusal(self) -> Reply {
        rate_limit_exceeded(self.limit)
            .reply()
            .with_header("retry-after", self.reset_s.to_string())
    }
}

/// 429 `rate_limit_exceeded`, as Resend words it.
pub fn rate_limit_exceeded(limit: u32) -> Refusal {
    Refusal::new(
        429,
        ErrorName::RateLimitExceeded,
        format!("Too many requests. You can only make {limit} requests per second."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(rate: &mut Rate, now_ms: i64) -> bool {
        rate.pass(Millis::new(now_ms)).allowed
    }

    #[test]
    fn the_window_refuses_beyond_the_limit_and_opens_again_after_a_second() {
        let mut rate = Rate::new(2);
        assert!(allowed(&mut rate, 500));
        assert!(allowed(&mut rate, 900));
        assert!(!allowed(&mut rate, 1_499));
        assert!(allowed(&mut rate, 1_500));
    }

    #[test]
    fn headers_tell_what_is_left() {
        let mut rate = Rate::new(2);
        rate.pass(Millis::new(0));
        let marked = rate.pass(Millis::new(10)).mark(Reply::empty(200));
        assert_eq!(marked.header("ratelimit-limit"), Some("2"));
        assert_eq!(marked.header("ratelimit-remaining"), Some("0"));
        assert_eq!(marked.header("ratelimit-reset"), Some("1"));
        assert_eq!(marked.header("ratelimit-policy"), Some("2;w=1"));
        let refused = rate.pass(Millis::new(20)).refusal();
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    }

    #[test]
    fn zero_switches_it_off_and_a_clock_moved_back_opens_a_window() {
        let mut off = Rate::new(0);
        assert!((0..1_000).all(|_| allowed(&mut off, 0)));
        assert!(off.pass(Millis::new(0)).mark(Reply::empty(200)).headers.is_empty());
        let mut rate = Rate::new(1);
        assert!(allowed(&mut rate, 10_000));
        assert!(allowed(&mut rate, 5_000));
    }
}
