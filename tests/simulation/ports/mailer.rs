//! The provider as a worker reaches it.

use std::rc::Rc;

use sealpost::devstack::provider::fault::{Fault, FaultKind, RetryAfter};
use sealpost::devstack::provider::list::Validation;
use sealpost::devstack::provider::model::{Call, Next, Ticket};
use sealpost::devstack::provider::read::PageQuery;
use sealpost::devstack::provider::{answer::Reply, effect::Wire};
use sealpost::outbox::time::Millis;
use sealpost::ports::{LookUp, MailAnswer, MailRequest, Mailer};

use crate::choices::Subject;
use crate::faults::OTHERS;
use crate::oracle::{CallId, Who};
use crate::script::Io;
use crate::setting::Profile;
use crate::sim::Sim;

/// The provider, through one account.
pub struct SimMailer {
    pub(super) sim: Rc<Sim>,
    pub(super) who: Who,
    pub(super) scope: String,
    pub(super) timeout: i64,
}

/// A send that the provider works on. It ends its work even when nobody waits for the answer any more.
struct Working {
    sim: Rc<Sim>,
    scope: String,
    call: CallId,
    ticket: Option<Ticket>,
    timeout: i64,
}

impl Working {
    fn finish(&mut self) -> Option<(Reply, Wire)> {
        let ticket = self.ticket.take()?;
        let sim = &self.sim;
        sim.mails.set(sim.mails.get() + 1);
        let id = format!("00000000-0000-4000-8000-{:012}", sim.mails.get());
        let now = Millis::new(sim.now());
        let (outcome, taken) = sim.with_provider(&self.scope, |model| {
            let before = model.ledger().sent().len();
            let outcome = model.finish(now, ticket, &id);
            let sent = model.ledger().sent();
            let taken: Vec<_> = sent
                .iter()
                .skip(before)
                .map(|sent| (sent.mail.to.clone(), sent.id.clone()))
                .collect();
            (outcome, taken)
        });
        for (to, id) in taken {
            sim.note(|| format!("the provider accepts {id}"));
            sim.oracle.accepted(self.call, &to, &id);
            crate::webhooks::follow(sim, &self.scope, &id, &to);
        }
        if outcome.wire == Wire::AfterRelease {
            // The provider's own business, whether or not anybody waits for it.
            let wait = self.timeout + i64::from(sim.choices.below(Subject::Provider, 60_000));
            let (later, scope) = (Rc::clone(sim), self.scope.clone());
            sim.kernel.spawn(0, async move {
                later.kernel.sleep(wait).await;
                later.with_provider(&scope, |model| model.released(ticket));
            });
        }
        Some((outcome.reply, outcome.wire))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.finish();
    }
}

impl SimMailer {
    fn fault(&self) -> Option<(Fault, &'static str)> {
        let mix = self.sim.mix()?;
        let choices = &self.sim.choices;
        if let Some((outage, (kind, name))) = mix.provider_outage
            && outage.covers(self.sim.now() - self.sim.setting.start_ms)
        {
            self.sim.counted(OTHERS[9]);
            return Some((Fault::once(kind), name));
        }
        if mix.provider.is_empty() || !choices.chance(Subject::Provider, mix.provider_permille) {
            return None;
        }
        let (kind, name) = choices.one(Subject::Provider, &mix.provider);
        let mut fault = Fault::once(kind);
        if mix.short_limits || choices.chance(Subject::Provider, 300) {
            fault.retry_after = Some(
                choices
                    .one(
                        Subject::Provider,
                        if mix.short_limits { &[1, 2, 2] } else { &[5, 90, 4_000] },
                    )
                    .into_retry_after(),
            );
        }
        Some((fault, name))
    }

    async fn call(&self, key: &str, body: &str, batch: bool) -> MailAnswer {
        let sim = &self.sim;
        let call = sim.oracle.call_begins(self.who, sim.now(), key, body, &self.scope);
        sim.note(|| format!("#{} calls with {} bytes", self.who.invocation, body.len()));
        let answer = self.exchange(call, key, body, batch).await;
        sim.note(|| match &answer {
            MailAnswer::Response { status, .. } => format!("#{} is answered {status}", self.who.invocation),
            MailAnswer::TimedOut => format!("#{} waits in vain", self.who.invocation),
            MailAnswer::Disconnected => format!("#{} is cut off", self.who.invocation),
        });
        sim.oracle.call_ends(call, &answer);
        answer
    }

    async fn exchange(&self, call: CallId, key: &str, body: &str, batch: bool) -> MailAnswer {
        let sim = &self.sim;
        let began = sim.now();
        let scripted = sim.script.next(self.who, Io::Provider);
        let fault = scripted.provider().or_else(|| self.fault());
        let slow = fault.as_ref().is_some_and(|(fault, _)| fault.kind == FaultKind::Slow);
        let (there, back) = (sim.latency(), sim.latency());
        // The request is on its way; who dies here never reaches the provider.
        sim.kernel.sleep(there).await;
        scripted.before(sim).await;
        if let Some((_, name)) = &fault {
            sim.counted(name);
            sim.note(|| format!("#{} {name}", self.who.invocation));
        }
        let arrival = sim.with_provider(&self.scope, |model| {
            if let Some((fault, _)) = &fault {
                model.faults().add(vec![fault.clone()]).expect("a rule fits");
            }
            let request = Call {
                authorization: Some("Bearer re_test"),
                user_agent: Some("sealpost-simulation"),
                // A provider without a window keeps no keys: it takes whatever comes for a new mail.
                idempotency_key: (sim.setting.profile != Profile::WindowZero).then_some(key),
                body: body.as_bytes(),
                list: batch.then_some(Validation::Strict),
            };
            let arrival = model.arrive(Millis::new(sim.now()), &request);
            model.faults().clear();
            arrival
        });
        let (reply, wire) = match arrival.next {
            Next::Answered(outcome) => (outcome.reply, outcome.wire),
            Next::Running { ticket, .. } => {
                let mut working = Working {
                    sim: Rc::clone(sim),
                    scope: self.scope.clone(),
                    call,
                    ticket: Some(ticket),
                    timeout: self.timeout,
                };
                if slow {
                    // It works on when its client has gone.
                    let drawn = || i64::from(sim.choices.below(Subject::Provider, 30_000));
                    let wait = self.timeout + scripted.late_by().unwrap_or_else(drawn);
                    let later = Rc::clone(sim);
                    sim.kernel.spawn(0, async move {
                        later.kernel.sleep(wait).await;
                        drop(working);
                    });
                    sim.kernel.sleep_until(began + self.timeout).await;
                    return MailAnswer::TimedOut;
                }
                sim.kernel.sleep(sim.latency()).await;
                match working.finish() {
                    Some((reply, wire)) => (reply, wire),
                    None => return MailAnswer::Disconnected,
                }
            }
        };
        scripted.after(sim).await;
        let retry_after = reply.header("retry-after").map(str::to_owned);
        match wire {
            // The answer is on its way; who dies here never reads it.
            Wire::Whole => {
                sim.way_back(back).await;
                MailAnswer::Response {
                    status: reply.status,
                    retry_after,
                    body: Some(reply.body.into_bytes()),
                }
            }
            Wire::Cut => {
                sim.way_back(back).await;
                MailAnswer::Disconnected
            }
            Wire::Stall | Wire::AfterRelease => {
                sim.kernel.sleep_until(began + self.timeout).await;
                MailAnswer::TimedOut
            }
            Wire::StallBody => {
                sim.kernel.sleep_until(began + self.timeout).await;
                MailAnswer::Response {
                    status: reply.status,
                    retry_after,
                    body: None,
                }
            }
        }
    }
}

trait IntoRetryAfter {
    fn into_retry_after(self) -> RetryAfter;
}

impl IntoRetryAfter for u64 {
    fn into_retry_after(self) -> RetryAfter {
        RetryAfter::Seconds(self)
    }
}

impl Mailer for SimMailer {
    async fn send(&self, request: MailRequest<'_>) -> MailAnswer {
        let sim = &self.sim;
        let (key, body) = (sim.planted.request)(request.idempotency_key, request.body, self.who.invocation);
        let poison = sim.setting.poison.as_ref();
        if poison.is_some_and(|poison| poison.by_call && body.contains(&poison.to)) {
            sim.die_of_it(self.who).await;
        }
        let mut answer = self.call(&key, &body, request.batch).await;
        if sim.planted.calls_again && matches!(answer, MailAnswer::Disconnected | MailAnswer::TimedOut) {
            answer = self.call(&key, &body, request.batch).await;
        }
        (sim.planted.answer)(answer)
    }
    async fn look_up(&self, query: LookUp<'_>) -> MailAnswer {
        let sim = &self.sim;
        let began = sim.now();
        let (there, back) = (sim.latency(), sim.latency());
        // The request is on its way; who dies here never reaches the provider.
        sim.kernel.sleep(there).await;
        sim.note(|| format!("#{} looks up {query:?}", self.who.invocation));
        sim.oracle.looks_up(self.who, began);
        let now = Millis::new(sim.now());
        let call = Call {
            authorization: Some("Bearer re_test"),
            user_agent: Some("sealpost-simulation"),
            ..Call::default()
        };
        let reply = sim.with_provider(&self.scope, |model| match query {
            LookUp::Mail(id) => model.get(now, &call, id),
            LookUp::Page { after } => {
                let query = PageQuery {
                    limit: Some("100".to_owned()),
                    after: after.map(str::to_owned),
                    before: None,
                };
                model.list(now, &call, &query)
            }
        });
        // The answer is on its way; who dies here never reads it.
        sim.way_back(back).await;
        MailAnswer::Response {
            status: reply.status,
            retry_after: reply.header("retry-after").map(str::to_owned),
            body: Some(reply.body.into_bytes()),
        }
    }
}
