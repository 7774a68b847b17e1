//! The provider model in process, over the world's clock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use sealpost::devstack::provider::effect::Wire;
use sealpost::devstack::provider::fault::{Fault, FaultKind};
use sealpost::devstack::provider::model::{Call, Model, Next, Settings};
use sealpost::ports::{Clock as _, MailAnswer, MailRequest, Mailer};

use super::clock::HandClock;

pub struct ModelMailer {
    pub model: RefCell<Model>,
    clock: HandClock,
    ids: Cell<u64>,
    /// How long a call takes.
    pub latency: Cell<Duration>,
    /// The time limit of a call.
    pub timeout: Cell<Duration>,
    running: Cell<usize>,
    /// The most calls that ran side by side.
    pub most_at_once: Cell<usize>,
    /// Runs when a call has reached the provider and its answer has not come back yet.
    pub on_call: RefCell<Option<Box<dyn Fn()>>>,
}

impl ModelMailer {
    pub fn new(clock: HandClock) -> Self {
        Self {
            model: RefCell::new(Model::new(Settings {
                per_second: 0,
                example_domains_allowed: true,
            })),
            clock,
            ids: Cell::new(0),
            latency: Cell::new(Duration::from_millis(20)),
            timeout: Cell::new(Duration::from_secs(10)),
            running: Cell::new(0),
            most_at_once: Cell::new(0),
            on_call: RefCell::default(),
        }
    }

    /// The next `count` calls (-1: all) meet this fault.
    pub fn fault(&self, kind: FaultKind, count: i64) {
        let fault = Fault {
            count,
            ..Fault::once(kind)
        };
        self.model.borrow_mut().faults().add(vec![fault]).expect("a rule fits");
    }

    pub fn clear_faults(&self) {
        self.model.borrow_mut().faults().clear();
    }

    /// Mails that went out.
    pub fn accepted(&self) -> usize {
        self.model.borrow().ledger().sent().len()
    }

    /// Calls that were made.
    pub fn calls(&self) -> usize {
        self.model.borrow().ledger().requests().len()
    }

    /// For each key the hashes of the bodies that the provider saw under it.
    pub fn bodies_by_key(&self) -> BTreeMap<String, Vec<String>> {
        let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for request in self.model.borrow().ledger().requests() {
            let key = request.idempotency_key.clone().unwrap_or_default();
            let body = request
                .body_sha256
                .as_ref()
                .map(|hash| format!("{hash:?}"))
                .unwrap_or_default();
            seen.entry(key).or_default().push(body);
        }
        seen
    }

    async fn answer(&self, reply: sealpost::devstack::provider::answer::Reply, wire: Wire) -> MailAnswer {
        let retry_after = reply.header("retry-after").map(str::to_owned);
        match wire {
            Wire::Whole => MailAnswer::Response {
                status: reply.status,
                retry_after,
                body: Some(reply.body.clone().into_bytes()),
            },
            Wire::Cut => MailAnswer::Disconnected,
            Wire::Stall | Wire::AfterRelease => {
                self.clock.sleep(self.timeout.get()).await;
                MailAnswer::TimedOut
            }
            Wire::StallBody => {
                self.clock.sleep(self.timeout.get()).await;
                MailAnswer::Response {
                    status: reply.status,
                    retry_after,
                    body: None,
                }
            }
        }
    }

    async fn call(&self, request: MailRequest<'_>) -> MailAnswer {
        let call = Call {
            authorization: Some("Bearer re_test"),
            user_agent: Some("sealpost-tests"),
            idempotency_key: Some(request.idempotency_key),
            body: request.body.as_bytes(),
        };
        let arrival = self.model.borrow_mut().arrive(self.clock.now(), &call);
        self.clock.sleep(self.latency.get()).await;
        match arrival.next {
            Next::Answered(outcome) => self.answer(outcome.reply, outcome.wire).await,
            Next::Running { ticket, .. } => {
                self.ids.set(self.ids.get() + 1);
                let id = format!("00000000-0000-4000-8000-{:012}", self.ids.get());
                let outcome = self.model.borrow_mut().finish(self.clock.now(), ticket, &id);
                if let Some(hook) = self.on_call.borrow().as_ref() {
                    hook();
                }
                self.answer(outcome.reply, outcome.wire).await
            }
        }
    }
}

impl Mailer for ModelMailer {
    async fn send(&self, request: MailRequest<'_>) -> MailAnswer {
        self.running.set(self.running.get() + 1);
        self.most_at_once.set(self.most_at_once.get().max(self.running.get()));
        let answer = self.call(request).await;
        self.running.set(self.running.get() - 1);
        answer
    }
}
