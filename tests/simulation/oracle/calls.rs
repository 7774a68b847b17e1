//! Calls to the provider: when, under which claim and account, with which bytes, and what came of them.

use sha2::{Digest as _, Sha256};

use super::{Call, Learned, Oracle, State, Who};
use crate::report::Invariant;
use crate::times::is_quiet;
use sealpost::ports::MailAnswer;

/// Names a call.
pub type CallId = usize;

impl Oracle {
    /// A worker calls. `scope` is the account that it calls through.
    pub fn call_begins(&self, who: Who, now: i64, key: &str, body: &str, scope: &str) -> CallId {
        let mut state = self.inner.borrow_mut();
        let state = &mut *state;
        state.bytes(key, body);
        state.link_called(key, body);
        state.permitted(who, now, key, body, scope);
        state.paced(who, now, key);
        state.in_order(who, key);
        state.probes_once(who, key);
        state.calls.push(Call {
            key: key.to_owned(),
            at: now,
            learned: None,
            accepted: false,
        });
        state.calls.len() - 1
    }

    /// The provider took a mail: to whom, and under which id.
    pub fn accepted(&self, call: CallId, to: &[String], id: &str) {
        let mut state = self.inner.borrow_mut();
        let state = &mut *state;
        state.calls[call].accepted = true;
        let key = state.calls[call].key.clone();
        let fact = state
            .facts
            .iter()
            .find(|(_, truth)| to.iter().any(|one| one.contains(&truth.to)))
            .map(|(name, _)| name.clone());
        state.report.checked(Invariant::I2);
        let Some(fact) = fact else {
            state.broken(Invariant::I2, "a mail went out that nobody asked for".to_owned());
            return;
        };
        let row_id = state.row_under(&key, &fact);
        if let Some(row) = &row_id {
            state.mail_of.insert(id.to_owned(), row.clone());
        }
        let row = row_id.as_ref().and_then(|id| state.rows.get(id)).cloned();
        let owed = row.map_or_else(|| fact.clone(), |row| state.obligation(&row));
        let ids = state.accepted.entry(owed.clone()).or_default();
        ids.push(id.to_owned());
        if ids.len() > 1 {
            let what = format!("{owed} was accepted {} times", ids.len());
            state.broken(Invariant::I2, what);
        }
        if state.facts.get(&fact).is_some_and(|truth| truth.shadow) {
            state.broken(
                Invariant::I2,
                format!("{fact} was sent, and its family only runs in shadow"),
            );
        }
        if let Some(id) = row_id
            && let Some(row) = state.rows.get(&id)
            && [
                "failed",
                "expired",
                "canceled",
                "suppressed",
                "external",
                "shadowed",
                "dead_letter",
            ]
            .contains(&row.status.as_str())
        {
            let what = format!("{} is {} and went out all the same", row.id, row.status);
            state.broken(Invariant::I3, what);
        }
    }

    /// The worker read the answer.
    pub fn call_ends(&self, call: CallId, answer: &MailAnswer) {
        self.inner.borrow_mut().calls[call].learned = Some(learned(answer));
    }
}

impl State {
    fn bytes(&mut self, key: &str, body: &str) {
        self.report.checked(Invariant::I5);
        match self.bodies.get(key) {
            Some(first) if first != body => {
                self.broken(Invariant::I5, "two requests under one key differ".to_owned());
            }
            Some(_) => {}
            None => {
                self.bodies.insert(key.to_owned(), body.to_owned());
            }
        }
        let fact = self
            .facts
            .iter()
            .find(|(_, truth)| body.contains(&truth.to))
            .map(|(name, _)| name.clone())
            .unwrap_or_default();
        if let Some(truth) = self.facts.get(&fact).filter(|truth| !truth.files.is_empty()) {
            self.report.checked(Invariant::I1);
            if !truth.files.iter().all(|file| body.contains(file.as_str())) {
                self.broken(Invariant::I1, format!("{fact} goes out without all of its attachments"));
            }
        }
        self.under_one_key(key, body);
    }

    fn permitted(&mut self, who: Who, now: i64, key: &str, body: &str, scope: &str) {
        self.report.checked(Invariant::I6);
        let rows = self.rows_under(key);
        if rows.is_empty() {
            self.broken(Invariant::I6, "a call without a row".to_owned());
        }
        for row in rows {
            // What is sent already of a batch is not sent by it: its mail is out, and the key brings the same ids.
            if row.batch.is_some() && row.status == "sent" && self.outranked(who, &row).is_none() {
                self.report.event("batch: repeated with a mail that is sent");
                continue;
            }
            self.permitted_for(who, now, key, body, scope, &row);
        }
    }

    fn permitted_for(&mut self, who: Who, now: i64, key: &str, body: &str, scope: &str, row: &crate::store::OutboxRow) {
        let mut wrong = Vec::new();
        let token = row.token.clone().or_else(|| self.outranked(who, row));
        let own = token
            .as_ref()
            .and_then(|token| self.tokens.get(token))
            .filter(|(owner, _)| *owner == who.invocation)
            .copied();
        if own.is_none() {
            wrong.push("without its claim");
        }
        let local = now + who.skew;
        let end = token.as_ref().and_then(|token| self.claim_ends.get(token)).copied();
        if end.is_some_and(|end| local + self.call_ms > end) {
            wrong.push("that outlasts its claim");
        }
        if row.scope.as_deref() != Some(scope) {
            wrong.push("through another account than the seal's");
        }
        let sha256: String = Sha256::digest(body.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if row.sha256.as_deref() != Some(sha256.as_str()) {
            self.broken(
                Invariant::I5,
                format!("{} is called with bytes that were not sealed", row.id),
            );
        }
        if row.not_before.is_some_and(|at| now + self.skew_ms < at) {
            wrong.push("before its time");
        }
        if row.not_after.is_some_and(|at| now - self.skew_ms >= at) {
            wrong.push("after its time");
        }
        wrong.extend(self.out_of_its_times(&row.id, local));
        let doubtful = self
            .calls
            .iter()
            .filter(|call| call.key == key && matches!(call.learned, None | Some(Learned::Doubt)))
            .map(|call| call.at)
            .min();
        // Where there is no window, not even at once: the clocks have nothing to do with it.
        let allowed = if self.window_ms == 0 {
            -1
        } else {
            self.window_ms + self.skew_ms
        };
        if doubtful.is_some_and(|first| now - first > allowed) {
            wrong.push("after the window of an attempt in doubt");
        }
        if let Some(first) = row.resend_of.as_ref().and_then(|of| self.rows.get(of))
            && first.status == "sent"
            && own.is_some_and(|(_, claimed)| self.sent_at.get(&first.id).is_some_and(|at| *at < claimed))
        {
            self.report.checked(Invariant::I2);
            let what = format!("a call for {}, whose first mail was proved before its claim", row.id);
            self.broken(Invariant::I2, what);
        }
        for what in wrong {
            self.broken(Invariant::I6, format!("a call for {} {what}", row.id));
        }
        let since = ["*", row.family.as_str()].into_iter().filter_map(|family| {
            let of = (row.recipient_hash.clone(), family.to_owned());
            self.suppressed.get(&of).copied()
        });
        if let Some(since) = since.min() {
            self.report.checked(Invariant::I7);
            if own.is_some_and(|(_, claimed)| since < claimed) {
                self.broken(
                    Invariant::I7,
                    format!("a call for {} whose recipient was suppressed", row.id),
                );
            }
        }
    }
}

impl State {
    /// What the fact behind a row says of its times, whatever stands in the row, by the clock of the worker that calls.
    fn out_of_its_times(&self, id: &str, now: i64) -> Vec<&'static str> {
        let Some(truth) = self.fact_of.get(id).and_then(|fact| self.facts.get(fact)) else {
            return Vec::new();
        };
        let times = &truth.times;
        let mut wrong = Vec::new();
        if times.opens.is_some_and(|at| now < at) {
            wrong.push("before its window opens");
        }
        if times.closes.is_some_and(|at| now >= at) {
            wrong.push("after its window closed");
        }
        if times.quiet.is_some_and(|hours| is_quiet(hours, now)) {
            wrong.push("in its quiet hours");
        }
        wrong
    }

    /// The claim under which this invocation opened the attempt that it calls for, where the proof of an earlier call
    /// arrived in between: proof outranks every claim, and nobody can know of it without another look at the database.
    /// The call repeats the same bytes under the same key, and all that its claim was good for is still so.
    fn outranked(&self, who: Who, row: &crate::store::OutboxRow) -> Option<String> {
        let mut open = self
            .attempts
            .values()
            .filter(|attempt| row.status == "sent" && attempt.outbox_id == row.id && attempt.outcome.is_none())
            .map(|attempt| &attempt.token);
        open.find(|token| {
            self.tokens
                .get(*token)
                .is_some_and(|(owner, _)| *owner == who.invocation)
        })
        .cloned()
    }
}

/// The oracle's own reading of an answer, on purpose a coarse one.
fn learned(answer: &MailAnswer) -> Learned {
    match answer {
        MailAnswer::TimedOut | MailAnswer::Disconnected => Learned::Doubt,
        MailAnswer::Response { status, body, .. } => {
            let json = body
                .as_ref()
                .and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
            let is_id = |json: &serde_json::Value| json["id"].as_str().is_some_and(|id| !id.is_empty());
            let is_list = |json: &serde_json::Value| {
                let list = json["data"].as_array();
                list.is_some_and(|list| !list.is_empty() && list.iter().all(is_id))
            };
            let id = json.as_ref().is_some_and(|json| is_id(json) || is_list(json));
            match status {
                200..=299 if id => Learned::Accepted,
                200..=299 | 408 | 409 | 421 | 425 | 500..=599 => Learned::Doubt,
                400 if json.is_none() => Learned::Doubt,
                _ => Learned::NotAccepted,
            }
        }
    }
}
