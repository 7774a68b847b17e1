//! The provider model in process, over the world's clock.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sealpost::devstack::provider::effect::Wire;
use sealpost::devstack::provider::fault::{Fault, FaultKind};
use sealpost::devstack::provider::list::Validation;
use sealpost::devstack::provider::model::{Call, Model, Next, Outcome, Settings, Ticket};
use sealpost::devstack::provider::read::PageQuery;
use sealpost::ports::{Clock as _, LookUp, MailAnswer, MailRequest, Mailer};

use super::clock::HandClock;

pub struct ModelMailer {
    pub model: RefCell<Model>,
    clock: HandClock,
    ids: Cell<u64>,
    /// How long a call takes.
    pub latency: Cell<Duration>,
    /// The time limit of a call.
    pub timeout: Cell<Duration>,
    /// The message id of the next mail, instead of a fresh one: a provider that errs.
    pub next_id: RefCell<Option<String>>,
    /// The next call waits on its way back, until it is let go.
    pub hold_next: Cell<bool>,
    /// Lets the held call go.
    pub let_go: Cell<bool>,
    running: Cell<usize>,
    /// The most calls that ran side by side.
    pub most_at_once: Cell<usize>,
    /// The key that reads.
    pub reading_key: Cell<&'static str>,
    /// Answers to the next sends, instead of the model's, which takes them all the same.
    pub answers: RefCell<VecDeque<MailAnswer>>,
    /// Answers to the next look-ups, instead of the model's.
    pub look_up_answers: RefCell<VecDeque<MailAnswer>>,
    /// The look-ups that were made, with their times.
    pub looked_up: RefCell<Vec<(i64, String)>>,
    /// Changes what a look-up is answered with.
    pub rewrite_look_ups: Cell<fn(String) -> String>,
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
            next_id: RefCell::default(),
            hold_next: Cell::new(false),
            let_go: Cell::new(false),
            running: Cell::new(0),
            most_at_once: Cell::new(0),
            reading_key: Cell::new("Bearer re_full"),
            answers: RefCell::default(),
            look_up_answers: RefCell::default(),
            looked_up: RefCell::default(),
            rewrite_look_ups: Cell::new(|body| body),
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

    /// Sends that were called for.
    pub fn calls(&self) -> usize {
        let model = self.model.borrow();
        model
            .ledger()
            .requests()
            .iter()
            .filter(|seen| seen.method == "POST")
            .count()
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
            list: request.batch.then_some(Validation::Strict),
        };
        // The request is on its way; who dies here never reaches the provider.
        tokio::task::yield_now().await;
        let held = self.hold_next.take();
        let arrival = self.model.borrow_mut().arrive(self.clock.now(), &call);
        let work = match arrival.next {
            Next::Answered(outcome) => Ok(outcome),
            Next::Running { ticket, .. } => Err(Working {
                mailer: self,
                ticket: Some(ticket),
            }),
        };
        self.clock.sleep(self.latency.get()).await;
        let outcome = match work {
            Ok(outcome) => outcome,
            Err(mut working) => {
                let outcome = working.finish().expect("it is finished once");
                if let Some(hook) = self.on_call.borrow().as_ref() {
                    hook();
                }
                outcome
            }
        };
        // The answer is on its way; who dies here never reads it.
        tokio::task::yield_now().await;
        if held {
            while !self.let_go.get() {
                tokio::task::yield_now().await;
            }
        }
        if let Some(answer) = self.answers.borrow_mut().pop_front() {
            return answer;
        }
        self.answer(outcome.reply, outcome.wire).await
    }
}

/// A send that the provider works on. It ends its work even when nobody waits for the answer any more.
struct Working<'a> {
    mailer: &'a ModelMailer,
    ticket: Option<Ticket>,
}

impl Working<'_> {
    fn finish(&mut self) -> Option<Outcome> {
        let ticket = self.ticket.take()?;
        let mailer = self.mailer;
        mailer.ids.set(mailer.ids.get() + 1);
        let id = match mailer.next_id.take() {
            Some(id) => id,
            None => format!("00000000-0000-4000-8000-{:012}", mailer.ids.get()),
        };
        Some(mailer.model.borrow_mut().finish(mailer.clock.now(), ticket, &id))
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// One call in the count of those that run.
struct Running<'a>(&'a ModelMailer);

impl<'a> Running<'a> {
    fn new(mailer: &'a ModelMailer) -> Self {
        mailer.running.set(mailer.running.get() + 1);
        mailer
            .most_at_once
            .set(mailer.most_at_once.get().max(mailer.running.get()));
        Self(mailer)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

impl Mailer for ModelMailer {
    async fn send(&self, request: MailRequest<'_>) -> MailAnswer {
        let _running = Running::new(self);
        self.call(request).await
    }

    async fn look_up(&self, query: LookUp<'_>) -> MailAnswer {
        // The request is on its way.
        tokio::task::yield_now().await;
        let now = self.clock.now();
        self.looked_up.borrow_mut().push((now.get(), format!("{query:?}")));
        let call = Call {
            authorization: Some(self.reading_key.get()),
            user_agent: Some("sealpost-tests"),
            ..Call::default()
        };
        let reply = match query {
            LookUp::Mail(id) => self.model.borrow_mut().get(now, &call, id),
            LookUp::Page { after } => {
                let query = PageQuery {
                    limit: Some("100".to_owned()),
                    after: after.map(str::to_owned),
                    before: None,
                };
                self.model.borrow_mut().list(now, &call, &query)
            }
        };
        self.clock.sleep(self.latency.get()).await;
        if let Some(answer) = self.look_up_answers.borrow_mut().pop_front() {
            return answer;
        }
        MailAnswer::Response {
            status: reply.status,
            retry_after: reply.header("retry-after").map(str::to_owned),
            body: Some((self.rewrite_look_ups.get())(reply.body.clone()).into_bytes()),
        }
    }
}
