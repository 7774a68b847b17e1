//! The database server in process: the same engine as the development database, without a socket.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use sealpost::devstack::database::clock::HandClock as EngineClock;
use sealpost::devstack::database::engine::Engine;
use sealpost::devstack::database::proto::Version;
use sealpost::store::hrana::{Reply, Transport, TransportError};

/// What the wire does to one request.
#[derive(Clone, Debug)]
pub enum Wire {
    /// Nothing.
    Pass,
    /// It never reaches the server.
    Refuse,
    /// The server does its work and the answer is lost.
    LoseAnswer,
    /// The server does its work and a gateway answers 502.
    GatewayAfterCommit,
    /// The server answers with this instead, and does nothing.
    Instead(u16, String),
    /// The server does its work and its answer is changed on the way.
    Rewrite(fn(String) -> String),
    /// The answer is cut in half.
    Truncate,
}

#[derive(Clone)]
pub struct EngineTransport(Rc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    plan: RefCell<VecDeque<(Option<&'static str>, Wire)>>,
    always: RefCell<Option<Wire>>,
    requests: Cell<usize>,
    executed: Cell<usize>,
    bodies: RefCell<Vec<String>>,
    largest: Cell<usize>,
}

impl EngineTransport {
    pub async fn new() -> Self {
        let clock = Arc::new(EngineClock::new(sealpost::outbox::time::Millis::new(1_767_225_600_000)));
        let engine = Engine::open(None, clock).await.expect("the embedded engine opens");
        Self(Rc::new(Inner {
            engine: Arc::new(engine),
            plan: RefCell::default(),
            always: RefCell::default(),
            requests: Cell::new(0),
            executed: Cell::new(0),
            bodies: RefCell::default(),
            largest: Cell::new(0),
        }))
    }

    /// The next request meets this; several calls queue up.
    pub fn next(&self, wire: Wire) {
        self.0.plan.borrow_mut().push_back((None, wire));
    }

    /// The next request whose body contains `part` meets this.
    pub fn next_with(&self, part: &'static str, wire: Wire) {
        self.0.plan.borrow_mut().push_back((Some(part), wire));
    }

    /// Every request meets this, until it is called with `None`.
    pub fn always(&self, wire: Option<Wire>) {
        self.0.always.replace(wire);
    }

    /// Requests so far; resets the count.
    pub fn take_requests(&self) -> usize {
        self.0.bodies.borrow_mut().clear();
        self.0.requests.replace(0)
    }

    /// Requests that the server has worked off since the start, whatever became of their answers.
    pub fn executed(&self) -> usize {
        self.0.executed.get()
    }

    /// The bodies of the requests since the last count.
    pub fn bodies(&self) -> Vec<String> {
        self.0.bodies.borrow().clone()
    }

    /// The bytes of the largest request with its answer so far; what follows is measured anew.
    pub fn take_largest(&self) -> usize {
        self.0.largest.replace(0)
    }

    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn wire_for(&self, body: &str) -> Wire {
        let mut plan = self.0.plan.borrow_mut();
        let at = plan
            .iter()
            .position(|(part, _)| part.is_none_or(|part| body.contains(part)));
        match at.and_then(|at| plan.remove(at)) {
            Some((_, wire)) => wire,
            None => self.0.always.borrow().clone().unwrap_or(Wire::Pass),
        }
    }
}

impl Transport for EngineTransport {
    async fn post(&self, _base_url: Option<&str>, path: &str, body: String) -> Result<Reply, TransportError> {
        assert_eq!(path, "/v3/pipeline");
        self.0.requests.set(self.0.requests.get() + 1);
        let wire = self.wire_for(&body);
        // The other futures of the same event run on while a request is under way.
        tokio::task::yield_now().await;
        let run = || {
            self.0.executed.set(self.0.executed.get() + 1);
            let answer = self.0.engine.pipeline(Version::Hrana3, body.as_bytes());
            let text = String::from_utf8_lossy(&answer.body);
            if let Some(at) = text.find(r#""message""#) {
                // Shown only where the test fails.
                println!("database: {}", text.chars().skip(at).take(300).collect::<String>());
            }
            let bytes = body.len() + answer.body.len();
            self.0.largest.set(self.0.largest.get().max(bytes));
            Reply {
                status: answer.status,
                body: answer.body,
            }
        };
        let reply = match wire {
            Wire::Refuse => Err(TransportError::Disconnected),
            Wire::Instead(status, text) => Ok(Reply {
                status,
                body: text.into_bytes(),
            }),
            Wire::Pass => Ok(run()),
            Wire::LoseAnswer => {
                run();
                Err(TransportError::Disconnected)
            }
            Wire::GatewayAfterCommit => {
                run();
                Ok(Reply {
                    status: 502,
                    body: b"<html>bad gateway</html>".to_vec(),
                })
            }
            Wire::Rewrite(change) => {
                let reply = run();
                let text = String::from_utf8(reply.body).expect("the engine answers in UTF-8");
                Ok(Reply {
                    status: reply.status,
                    body: change(text).into_bytes(),
                })
            }
            Wire::Truncate => {
                let mut reply = run();
                reply.body.truncate(reply.body.len() / 2);
                Ok(reply)
            }
        };
        self.0.bodies.borrow_mut().push(body);
        // The answer is on its way; who dies here never reads it.
        tokio::task::yield_now().await;
        reply
    }
}
