//! The memory of idempotency keys.
//!
//! What Resend documents: a key lives 24 hours; the same key with the same payload gives the same answer and sends
//! nothing; another payload is refused; while the first request runs, a second one is refused for the moment.
//! What it does not document, this model decides in the way that forgives least: the payload is the same only when it
//! is byte-identical, and a request that was refused leaves its key free.

use std::collections::{BTreeMap, VecDeque};

use crate::outbox::time::Millis;

/// How long Resend keeps a key, in milliseconds, counted from the acceptance.
pub const KEY_LIFE_MS: i64 = 24 * 60 * 60 * 1_000;
/// Keys kept at once. Forgetting one would make the model lie, so beyond this it refuses new ones loudly.
pub const KEYS_MAX: usize = 1_000_000;
/// Resend's limit on a key, in characters.
pub const KEY_CHARS_MAX: usize = 256;

/// SHA-256 of a request body, in lower-case hexadecimal.
pub type BodyHash = String;

/// What the provider knows of a key when a request comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Never seen, or longer ago than a key lives.
    Free,
    /// The first request under it still runs.
    Running,
    /// Used with the same bytes: the id of the mail that went out then.
    Same(String),
    /// Used with other bytes.
    Other,
}

#[derive(Debug)]
enum Entry {
    Running,
    Done { body: BodyHash, id: String, at: Millis },
}

/// All keys that are alive.
#[derive(Debug, Default)]
pub struct Keys {
    entries: BTreeMap<String, Entry>,
    /// Keys in the order of their acceptance, so that expiry reads the oldest only.
    by_age: VecDeque<(Millis, String)>,
}

impl Keys {
    /// What is known of this key at this time.
    pub fn look_up(&self, now: Millis, key: &str, body: &str) -> Known {
        match self.entries.get(key) {
            None => Known::Free,
            Some(Entry::Running) => Known::Running,
            Some(Entry::Done { at, .. }) if is_over(now, *at) => Known::Free,
            Some(Entry::Done { body: used, id, .. }) if used == body => Known::Same(id.clone()),
            Some(Entry::Done { .. }) => Known::Other,
        }
    }

    /// Whether there is no room for one more key.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= KEYS_MAX
    }

    /// Marks a key as running, until [`Keys::complete`] or [`Keys::free`].
    pub fn lock(&mut self, key: &str) {
        self.entries.insert(key.to_owned(), Entry::Running);
    }

    /// Records the mail that went out under a key.
    pub fn complete(&mut self, now: Millis, key: &str, body: &str, id: &str) {
        self.forget_old(now);
        self.entries.insert(
            key.to_owned(),
            Entry::Done {
                body: body.to_owned(),
                id: id.to_owned(),
                at: now,
            },
        );
        self.by_age.push_back((now, key.to_owned()));
    }

    /// Gives a key back under which nothing went out.
    pub fn free(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Drops keys whose life is over. A clock that was moved back only delays this; look-ups judge for themselves.
    fn forget_old(&mut self, now: Millis) {
        while let Some((at, key)) = self.by_age.front() {
            if !is_over(now, *at) {
                return;
            }
            // The key may have been used again since: then its entry is younger and stays.
            if matches!(self.entries.get(key), Some(Entry::Done { at: kept, .. }) if kept == at) {
                self.entries.remove(key);
            }
            self.by_age.pop_front();
        }
    }
}

fn is_over(now: Millis, at: Millis) -> bool {
    now.get().saturating_sub(at.get()) >= KEY_LIFE_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lives_24_hours_to_the_millisecond() {
        let mut keys = Keys::default();
        keys.lock("k");
        assert_eq!(keys.look_up(Millis::new(0), "k", "a"), Known::Running);
        keys.complete(Millis::new(0), "k", "a", "id-1");
        let last = Millis::new(KEY_LIFE_MS - 1);
        assert_eq!(keys.look_up(last, "k", "a"), Known::Same("id-1".into()));
        assert_eq!(keys.look_up(last, "k", "b"), Known::Other);
        assert_eq!(keys.look_up(Millis::new(KEY_LIFE_MS), "k", "a"), Known::Free);
    }

    #[test]
    fn a_key_used_again_after_its_life_is_not_forgotten_with_the_old_use() {
        let mut keys = Keys::default();
        keys.complete(Millis::new(0), "k", "a", "id-1");
        keys.complete(Millis::new(KEY_LIFE_MS), "k", "b", "id-2");
        keys.complete(Millis::new(KEY_LIFE_MS + 1), "other", "c", "id-3");
        assert_eq!(
            keys.look_up(Millis::new(KEY_LIFE_MS + 1), "k", "b"),
            Known::Same("id-2".into())
        );
        assert_eq!(keys.entries.len(), 2);
        assert_eq!(keys.by_age.len(), 2);
    }

    #[test]
    fn a_freed_key_may_carry_another_body() {
        let mut keys = Keys::default();
        keys.lock("k");
        keys.free("k");
        assert_eq!(keys.look_up(Millis::new(0), "k", "b"), Known::Free);
    }
}
