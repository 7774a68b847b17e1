//! What a case talks to: the engine in this process, the server over HTTP, or a server somewhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sealpost::devstack::database::clock::HandClock;
use sealpost::devstack::database::proto::Version;
use sealpost::devstack::database::{Options, Server, serve};
use sealpost::outbox::time::Millis;
use serde_json::{Value, json};

/// A server and the way to it.
pub(crate) struct Target {
    way: Way,
    /// Moved by hand; absent for a server that has its own.
    pub(crate) clock: Option<Arc<HandClock>>,
}

enum Way {
    Engine(Arc<Server>, tokio::runtime::Runtime),
    Http(String, Option<(Arc<Server>, tokio::runtime::Runtime)>),
}

/// Status and body. A body that is no JSON is a JSON string here.
pub(crate) type Reply = (u16, Value);

fn open(options: Options) -> (Arc<Server>, Arc<HandClock>, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let clock = Arc::new(HandClock::new(Millis::new(1_700_000_000_000)));
    let server = runtime
        .block_on(Server::open_at(options, Arc::clone(&clock) as Arc<_>))
        .unwrap();
    (server, clock, runtime)
}

/// The engine without HTTP, on a temporary file.
pub(crate) fn engine() -> Target {
    let (server, clock, runtime) = open(Options::default());
    Target {
        way: Way::Engine(server, runtime),
        clock: Some(clock),
    }
}

/// The development database over HTTP, on a temporary file.
pub(crate) fn http() -> Target {
    http_with(Options::default())
}

/// The development database over HTTP, set up by the caller.
pub(crate) fn http_with(options: Options) -> Target {
    let (server, clock, runtime) = open(options);
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    runtime.spawn(serve(listener, Arc::clone(&server)));
    Target {
        way: Way::Http(url, Some((server, runtime))),
        clock: Some(clock),
    }
}

/// The server at `SEALPOST_CONTRACT_URL`.
pub(crate) fn remote() -> Target {
    let url = std::env::var("SEALPOST_CONTRACT_URL").expect("SEALPOST_CONTRACT_URL names the server to test");
    Target {
        way: Way::Http(url.trim_end_matches('/').to_owned(), None),
        clock: None,
    }
}

/// An HTTP client that reports every status as it is.
pub(crate) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .new_agent()
}

fn body_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(bytes)))
}

impl Target {
    /// Sends a body to a path.
    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Reply {
        match &self.way {
            Way::Engine(server, _) => {
                let answer = match path {
                    "/v2/pipeline" => server.engine().pipeline(Version::Hrana2, body),
                    "/v3/pipeline" => server.engine().pipeline(Version::Hrana3, body),
                    "/v3/cursor" => server.engine().cursor(body),
                    other => panic!("no such path: {other}"),
                };
                (answer.status, body_of(&answer.body))
            }
            Way::Http(url, _) => {
                let mut answer = agent().post(format!("{url}{path}")).send(body).unwrap();
                let bytes = answer.body_mut().with_config().limit(u64::MAX).read_to_vec().unwrap();
                (answer.status().as_u16(), body_of(&bytes))
            }
        }
    }

    /// Sends a pipeline in version 3.
    pub(crate) fn pipeline(&self, baton: Option<&str>, requests: Value) -> Reply {
        let body = json!({ "baton": baton, "requests": requests });
        self.post("/v3/pipeline", body.to_string().as_bytes())
    }

    /// Sends requests on a stream of their own, closes it, and gives the results without that of `close`.
    pub(crate) fn once(&self, requests: &[Value]) -> Vec<Value> {
        let mut all = requests.to_vec();
        all.push(json!({ "type": "close" }));
        let (status, body) = self.pipeline(None, json!(all));
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["baton"], Value::Null);
        let mut results = body["results"].as_array().unwrap().clone();
        assert_eq!(results.len(), all.len());
        results.pop();
        results
    }

    /// Runs one statement on a stream of its own: its result or its error.
    pub(crate) fn run(&self, sql: &str) -> Value {
        self.run_with(sql, json!([]))
    }

    /// Runs one statement with arguments by position.
    pub(crate) fn run_with(&self, sql: &str, args: Value) -> Value {
        result(&self.once(&[execute(sql, args)])[0])
    }

    /// The first row of a query as bare values: integers and texts as strings.
    pub(crate) fn row(&self, sql: &str) -> Vec<String> {
        let result = self.run(sql);
        let row = result["rows"][0]
            .as_array()
            .unwrap_or_else(|| panic!("{sql}: {result}"));
        row.iter()
            .map(|value| value["value"].as_str().unwrap_or("null").to_owned())
            .collect()
    }

    /// Makes a table under a name that no other case uses.
    pub(crate) fn table(&self, columns: &str) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let made = self.once(&[
            execute(&format!("drop table if exists {name}"), json!([])),
            execute(&format!("create table {name}({columns})"), json!([])),
        ]);
        assert_eq!(made[1]["type"], "ok", "{}", made[1]);
        name
    }

    /// The server behind the target, where it is in this process.
    pub(crate) fn server(&self) -> &Arc<Server> {
        match &self.way {
            Way::Engine(server, _) | Way::Http(_, Some((server, _))) => server,
            Way::Http(_, None) => panic!("a remote server has no controls"),
        }
    }

    /// The runtime of a server in this process.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Runtime {
        match &self.way {
            Way::Engine(_, runtime) | Way::Http(_, Some((_, runtime))) => runtime,
            Way::Http(_, None) => panic!("a remote server has its own"),
        }
    }

    /// The address of a server over HTTP.
    pub(crate) fn url(&self) -> &str {
        match &self.way {
            Way::Http(url, _) => url,
            Way::Engine(..) => panic!("the engine has no address"),
        }
    }
}

/// An `execute` request.
pub(crate) fn execute(sql: &str, args: Value) -> Value {
    json!({ "type": "execute", "stmt": { "sql": sql, "args": args } })
}

/// A batch of (condition, SQL) steps.
pub(crate) fn batch(steps: &[(Value, &str)]) -> Value {
    let steps: Vec<_> = steps
        .iter()
        .map(|(condition, sql)| json!({ "condition": condition, "stmt": { "sql": sql } }))
        .collect();
    json!({ "type": "batch", "batch": { "steps": steps } })
}

/// The result in a stream's answer, or its error.
pub(crate) fn result(answer: &Value) -> Value {
    match answer["type"].as_str() {
        Some("ok") => answer["response"]["result"].clone(),
        _ => answer["error"].clone(),
    }
}

/// A condition on one earlier step.
pub(crate) fn ok(step: usize) -> Value {
    json!({ "type": "ok", "step": step })
}

/// The opposite of a condition.
pub(crate) fn not(condition: Value) -> Value {
    json!({ "type": "not", "cond": condition })
}

/// An integer argument.
pub(crate) fn integer(value: i64) -> Value {
    json!({ "type": "integer", "value": value.to_string() })
}

/// A text argument.
pub(crate) fn text(value: &str) -> Value {
    json!({ "type": "text", "value": value })
}
