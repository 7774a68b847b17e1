//! The model itself: Resend's sending rules as a pure state machine.
//!
//! It has no clock, no randomness and no IO: the caller brings the time and the id of the mail that may go out. A send
//! has two steps, because a real one takes time and other requests come in between: [`Model::arrive`] judges it and
//! locks its key, [`Model::finish`] accepts the mail. The server puts its waiting between them, a simulation its own.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::access::{Purpose, admit};
use super::answer::{ErrorName, Refusal, Reply};
pub use super::call::{Arrival, Call, Next, Outcome, Settings, Ticket};
use super::courier::Courier;
use super::effect::{self, Wire};
use super::fault::{Fault, FaultKind, Faults};
use super::keys::{BodyHash, KEY_CHARS_MAX, KEYS_MAX, Keys, Known};
use super::ledger::{Fate, Ledger, Seen, Sent};
use super::list::{self, MailList};
use super::mail;
use super::rate::{Pass, Rate};
use crate::outbox::time::Millis;

/// A send between its two steps.
#[derive(Debug)]
struct Running {
    n: u64,
    key: Option<String>,
    body: BodyHash,
    fault: Option<Fault>,
    pass: Pass,
    work: Work,
    /// Whether a list came.
    is_list: bool,
}

/// What finishing a send means.
#[derive(Debug)]
enum Work {
    /// Mails go out; one, unless a list came.
    Accept(MailList),
    /// The key has been used with these bytes: the id of then, or the whole answer to a list.
    Replay(String),
    /// All is done, and the answer waits for a release.
    Answer(Waiting),
}

/// An answer that waits for a release.
#[derive(Debug)]
struct Waiting {
    id: String,
    status: u16,
    /// When the mail went out; `None` for a replay, which sends nothing and leaves its key alone.
    accepted: Option<Millis>,
}

/// The provider.
#[derive(Debug)]
pub struct Model {
    pub(super) settings: Settings,
    pub(super) rate: Rate,
    pub(super) ledger: Ledger,
    pub(super) courier: Courier,
    keys: Keys,
    faults: Faults,
    running: BTreeMap<Ticket, Running>,
    tickets: u64,
}

impl Model {
    /// A provider that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            rate: Rate::new(settings.per_second),
            ledger: Ledger::default(),
            courier: Courier::default(),
            keys: Keys::default(),
            faults: Faults::default(),
            running: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// Forgets everything but its settings; sends that run will find that they were forgotten.
    pub fn reset(&mut self) {
        *self = Self {
            tickets: self.tickets,
            courier: self.courier.forgotten(),
            ..Self::new(self.settings)
        };
    }

    /// Changes the pace, in requests a second (0 for none); the window starts anew.
    pub fn set_pace(&mut self, per_second: u32) {
        self.settings.per_second = per_second;
        self.rate = Rate::new(per_second);
    }

    /// The fault rules.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// What it remembers.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// First step of a send: judges it, writes it down, locks its key.
    pub fn arrive(&mut self, now: Millis, call: &Call<'_>) -> Arrival {
        let parsed = serde_json::from_slice::<Value>(call.body).ok();
        let to = match call.list {
            None => mail::recipients(parsed.as_ref()),
            Some(_) => list::recipients(parsed.as_ref()),
        };
        let body = hash(call.body);
        let fault = self.faults.take(call.idempotency_key, &to);
        if let Some(fault) = fault.as_ref().filter(|fault| !fault.lets_through()) {
            let (reply, wire) = effect::answer(fault, None, &to, self.settings.per_second);
            let n = self.write_down(now, call, &body, to, Some(fault.kind));
            self.ledger.close(n, Fate::Faulted, status_seen(&reply, wire), None);
            return Arrival {
                wait_ms: fault.ms,
                next: Next::Answered(Outcome { reply, wire }),
            };
        }
        let (pass, judged) = self.judge(now, call, parsed.as_ref(), &body);
        match judged {
            Err(reply) => {
                // A fault that lets mail through has nothing to do where none goes through: it waits for the next one.
                if let Some(fault) = &fault {
                    self.faults.give_back(fault);
                }
                let n = self.write_down(now, call, &body, to, None);
                self.ledger.close(n, Fate::Refused, Some(reply.status), None);
                let wire = Wire::Whole;
                Arrival {
                    wait_ms: 0,
                    next: Next::Answered(Outcome { reply, wire }),
                }
            }
            Ok(work) => {
                let kind = fault.as_ref().map(|fault| fault.kind);
                let n = self.write_down(now, call, &body, to, kind);
                let key = call.idempotency_key.map(str::to_owned);
                // A replay leaves its key as it is: nothing can change any more.
                if let (Some(key), Work::Accept(_)) = (&key, &work) {
                    self.keys.lock(key);
                }
                self.tickets = self.tickets.saturating_add(1);
                let ticket = Ticket(self.tickets);
                let wait_ms = fault.as_ref().map_or(0, |fault| fault.ms);
                let run = Running {
                    n,
                    key,
                    body,
                    fault,
                    pass,
                    work,
                    is_list: call.list.is_some(),
                };
                self.running.insert(ticket, run);
                let held = kind == Some(FaultKind::Hold);
                Arrival {
                    wait_ms,
                    next: Next::Running { ticket, held },
                }
            }
        }
    }

    /// Opens the line of a send in the ledger.
    fn write_down(
        &mut self,
        now: Millis,
        call: &Call<'_>,
        body: &str,
        to: Vec<String>,
        fault: Option<FaultKind>,
    ) -> u64 {
        self.ledger.open(Seen {
            n: 0,
            at: now,
            method: "POST".to_owned(),
            path: match call.list {
                None => "/emails".to_owned(),
                Some(_) => "/emails/batch".to_owned(),
            },
            idempotency_key: call.idempotency_key.map(str::to_owned),
            body_sha256: Some(body.to_owned()),
            status: None,
            to,
            outcome: Fate::Running,
            fault,
            id: None,
        })
    }

    /// Second step of a send: the mail goes out under `id` (the mails of a list under [`list::id_at`]), unless this was a
    /// replay. An outcome that arrives
    /// [`Wire::AfterRelease`] is still running until [`Model::released`].
    pub fn finish(&mut self, now: Millis, ticket: Ticket, id: &str) -> Outcome {
        let first = id;
        let Some(run) = self.running.remove(&ticket) else {
            return Outcome {
                reply: Reply::empty(503),
                wire: Wire::Cut,
            };
        };
        let (id, fate, accepted) = match &run.work {
            Work::Accept(list) if run.is_list => {
                let ids: Vec<String> = (0..list.mails.len()).map(|place| list::id_at(id, place)).collect();
                (list.answer(&ids), Fate::Accepted, Some(now))
            }
            Work::Accept(_) => (id.to_owned(), Fate::Accepted, Some(now)),
            Work::Replay(first) => (first.clone(), Fate::Replayed, None),
            Work::Answer(waiting) => (waiting.id.clone(), Fate::Replayed, None),
        };
        let honest = run.pass.mark(if run.is_list {
            Reply::json(200, id.clone())
        } else {
            Reply::accepted(&id)
        });
        let (reply, wire) = match &run.fault {
            Some(fault) => effect::answer(fault, Some(honest), &[], self.settings.per_second),
            None => (honest, Wire::Whole),
        };
        self.ledger.close(run.n, fate, status_seen(&reply, wire), Some(&id));
        if let Work::Accept(list) = run.work {
            for (place, mail) in list.mails.into_iter().enumerate() {
                self.ledger.accept(Sent {
                    id: list::id_at(first, place),
                    idempotency_key: run.key.clone(),
                    body_sha256: run.body.clone(),
                    accepted_at: now,
                    last_event: if mail.scheduled_at.is_some() {
                        "scheduled"
                    } else {
                        "sent"
                    }
                    .to_owned(),
                    mail,
                });
            }
        }
        if wire == Wire::AfterRelease {
            // A key that was locked stays locked: to everybody else the first request still runs.
            let work = Work::Answer(Waiting {
                id,
                status: reply.status,
                accepted,
            });
            self.running.insert(
                ticket,
                Running {
                    n: run.n,
                    key: run.key,
                    body: run.body,
                    fault: run.fault,
                    pass: run.pass,
                    work,
                    is_list: run.is_list,
                },
            );
        } else if let (Some(key), Some(at)) = (&run.key, accepted) {
            self.keys.complete(at, key, &run.body, &id);
        }
        Outcome { reply, wire }
    }

    /// The answer that waited for a release goes out now. `false` when it was forgotten meanwhile.
    pub fn released(&mut self, ticket: Ticket) -> bool {
        match self.running.remove(&ticket) {
            Some(Running {
                n,
                key,
                body,
                work: Work::Answer(waiting),
                ..
            }) => {
                if let (Some(key), Some(at)) = (&key, waiting.accepted) {
                    self.keys.complete(at, key, &body, &waiting.id);
                }
                let fate = if waiting.accepted.is_some() {
                    Fate::Accepted
                } else {
                    Fate::Replayed
                };
                self.ledger.close(n, fate, Some(waiting.status), Some(&waiting.id));
                true
            }
            Some(other) => {
                // Not accepted yet: it stays as it was.
                self.running.insert(ticket, other);
                false
            }
            None => false,
        }
    }

    /// The rules in the order in which they are asked: caller, pace, key, body.
    fn judge(
        &mut self,
        now: Millis,
        call: &Call<'_>,
        parsed: Option<&Value>,
        body: &str,
    ) -> (Pass, Result<Work, Reply>) {
        let pass = match admit(&mut self.rate, now, call, Purpose::Send) {
            Ok(pass) => pass,
            Err((pass, reply)) => return (pass, Err(reply)),
        };
        let judged = self
            .judge_key(now, call.idempotency_key, body)
            .and_then(|replay| match replay {
                Some(first) => Ok(Work::Replay(first)),
                None => match call.list {
                    None => mail::check(parsed, self.settings.example_domains_allowed).map(|mail| MailList {
                        mails: vec![mail],
                        errors: None,
                    }),
                    Some(validation) => list::check(parsed, validation, self.settings.example_domains_allowed),
                }
                .map(Work::Accept),
            });
        (pass, judged.map_err(|refusal| pass.mark(refusal.reply())))
    }

    /// The id of the mail that went out under this key with these bytes, if there is one.
    fn judge_key(&self, now: Millis, key: Option<&str>, body: &str) -> Result<Option<String>, Refusal> {
        let Some(key) = key else { return Ok(None) };
        if !(1..=KEY_CHARS_MAX).contains(&key.chars().count()) {
            let text = "The idempotency key must be between 1 and 256 characters.";
            return Err(Refusal::new(400, ErrorName::InvalidIdempotencyKey, text));
        }
        match self.keys.look_up(now, key, body) {
            Known::Free if self.keys.is_full() => Err(Refusal::new(
                503,
                ErrorName::ServiceUnavailable,
                format!("The provider model is full: it keeps {KEYS_MAX} keys. POST /_/reset makes it forget them."),
            )),
            Known::Free => Ok(None),
            Known::Same(id) => Ok(Some(id)),
            Known::Running => Err(effect::concurrent()),
            Known::Other => Err(effect::other_payload()),
        }
    }
}

/// The status that reaches the client, if one does.
fn status_seen(reply: &Reply, wire: Wire) -> Option<u16> {
    match wire {
        Wire::Whole | Wire::StallBody => Some(reply.status),
        Wire::Cut | Wire::Stall | Wire::AfterRelease => None,
    }
}

/// SHA-256 in lower-case hexadecimal.
fn hash(bytes: &[u8]) -> BodyHash {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
