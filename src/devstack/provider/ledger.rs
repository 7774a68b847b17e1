//! What the model remembers for the test that asks: every request it saw and every mail it accepted.

use std::collections::{BTreeMap, VecDeque};

use serde::{Serialize, Serializer};

use super::fault::FaultKind;
use super::keys::BodyHash;
use super::mail::{Attached, Mail};
use crate::outbox::time::Millis;

/// Entries kept of each list; older ones are dropped and counted, never in silence.
pub const ENTRIES_MAX: usize = 200_000;
/// Text kept of accepted mails together, in bytes; older ones are dropped and counted.
pub const MAIL_BYTES_MAX: usize = 512 * 1024 * 1024;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Still being worked on, or held.
    Running,
    /// A mail went out.
    Accepted,
    /// The key had been used with the same bytes: the first id, and no second mail.
    Replayed,
    /// The provider's own rules refused it.
    Refused,
    /// A fault answered it; no mail went out.
    Faulted,
    /// A read.
    Read,
}

/// One request as it was seen.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// Counts up from 1 and never starts again before a reset.
    pub n: u64,
    /// When it came in.
    #[serde(serialize_with = "rfc3339")]
    pub at: Millis,
    /// HTTP method.
    pub method: String,
    /// Path with its query.
    pub path: String,
    /// The key as received.
    pub idempotency_key: Option<String>,
    /// SHA-256 of the body in lower-case hexadecimal; `None` for a read.
    pub body_sha256: Option<BodyHash>,
    /// The status that went out; `None` while there is none, and where the answer was withheld.
    pub status: Option<u16>,
    /// The recipients.
    pub to: Vec<String>,
    /// What became of it.
    pub outcome: Fate,
    /// The rule that hit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultKind>,
    /// The mail it made, or the one it was a replay of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// One mail that went out.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The provider's message id.
    pub id: String,
    /// The key it went out under.
    pub idempotency_key: Option<String>,
    /// SHA-256 of the request body.
    pub body_sha256: BodyHash,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// Resend's `last_event`.
    pub last_event: String,
    /// What was sent.
    pub mail: Mail,
}

/// A mail in the list of accepted ones.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SentLine<'a> {
    id: &'a str,
    idempotency_key: Option<&'a str>,
    body_sha256: &'a str,
    to: &'a [String],
    subject: &'a str,
    headers: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "<[Attached]>::is_empty")]
    attachments: &'a [Attached],
    #[serde(serialize_with = "rfc3339")]
    accepted_at: Millis,
}

/// How full the lists are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Requests seen since the last reset.
    pub requests: u64,
    /// Mails accepted since the last reset.
    pub accepted: u64,
    /// Requests no longer listed.
    pub requests_dropped: u64,
    /// Mails no longer listed.
    pub accepted_dropped: u64,
}

/// Both lists, oldest first.
#[derive(Debug)]
pub struct Ledger {
    entries_max: usize,
    mail_bytes_max: usize,
    requests: VecDeque<Seen>,
    sent: VecDeque<Sent>,
    /// Position of each listed mail, counted from the first mail ever.
    position: BTreeMap<String, u64>,
    counts: Counts,
    sent_bytes: usize,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::with_limits(ENTRIES_MAX, MAIL_BYTES_MAX)
    }
}

impl Ledger {
    /// Empty lists that keep at most so many entries each, and so many bytes of mail.
    pub fn with_limits(entries_max: usize, mail_bytes_max: usize) -> Self {
        Self {
            entries_max,
            mail_bytes_max,
            requests: VecDeque::new(),
            sent: VecDeque::new(),
            position: BTreeMap::new(),
            counts: Counts::default(),
            sent_bytes: 0,
        }
    }

    /// Writes a request down; `seen.n` is set here and returned.
    pub fn open(&mut self, mut seen: Seen) -> u64 {
        self.counts.requests = self.counts.requests.saturating_add(1);
        seen.n = self.counts.requests;
        let n = seen.n;
        self.requests.push_back(seen);
        if self.requests.len() > self.entries_max {
            self.requests.pop_front();
            self.counts.requests_dropped = self.counts.requests_dropped.saturating_add(1);
        }
        n
    }

    /// Writes down what became of a request; one that is no longer listed stays so.
    pub fn close(&mut self, n: u64, outcome: Fate, status: Option<u16>, id: Option<&str>) {
        let first = self.counts.requests_dropped.saturating_add(1);
        let index = n.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(seen) = index.and_then(|index| self.requests.get_mut(index)) {
            seen.outcome = outcome;
            seen.status = status;
            seen.id = id.map(str::to_owned);
        }
    }

    /// Writes an accepted mail down.
    pub fn accept(&mut self, sent: Sent) {
        self.position.insert(sent.id.clone(), self.counts.accepted);
        self.counts.accepted = self.counts.accepted.saturating_add(1);
        self.sent_bytes = self.sent_bytes.saturating_add(weight(&sent));
        self.sent.push_back(sent);
        while self.sent.len() > self.entries_max || (self.sent_bytes > self.mail_bytes_max && self.sent.len() > 1) {
            let Some(oldest) = self.sent.pop_front() else { return };
            self.position.remove(&oldest.id);
            self.sent_bytes = self.sent_bytes.saturating_sub(weight(&oldest));
            self.counts.accepted_dropped = self.counts.accepted_dropped.saturating_add(1);
        }
    }

    /// Every listed request, oldest first.
    pub fn requests(&self) -> &VecDeque<Seen> {
        &self.requests
    }

    /// Every listed mail, oldest first.
    pub fn sent(&self) -> &VecDeque<Sent> {
        &self.sent
    }

    /// The place of a mail among the listed ones, oldest first.
    pub fn index_of(&self, id: &str) -> Option<usize> {
        let position = self.position.get(id)?.checked_sub(self.counts.accepted_dropped)?;
        usize::try_from(position).ok()
    }

    /// A mail by its id.
    pub fn find(&self, id: &str) -> Option<&Sent> {
        self.sent.get(self.index_of(id)?)
    }

    /// A mail by its id, to write down delivery news.
    pub fn find_mut(&mut self, id: &str) -> Option<&mut Sent> {
        let index = self.index_of(id)?;
        self.sent.get_mut(index)
    }

    /// How full the lists are.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The accepted mails as a JSON array, oldest first.
    pub fn accepted_json(&self) -> String {
        let lines: Vec<SentLine<'_>> = self.sent.iter().map(SentLine::of).collect();
        // Strings and numbers always serialise.
        serde_json::to_string(&lines).unwrap_or_default()
    }
}

impl<'a> SentLine<'a> {
    fn of(sent: &'a Sent) -> Self {
        Self {
            id: &sent.id,
            idempotency_key: sent.idempotency_key.as_deref(),
            body_sha256: &sent.body_sha256,
            to: &sent.mail.to,
            subject: &sent.mail.subject,
            headers: &sent.mail.headers,
            attachments: &sent.mail.attachments,
            accepted_at: sent.accepted_at,
        }
    }
}

/// The text that a kept mail holds, in bytes.
fn weight(sent: &Sent) -> usize {
    let html = sent.mail.html.as_ref().map_or(0, String::len);
    let text = sent.mail.text.as_ref().map_or(0, String::len);
    html.saturating_add(text).saturating_add(sent.mail.subject.len())
}

fn rfc3339<S: Serializer>(at: &Millis, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(at)
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
