//! Requests to the doors, from whoever makes them: the provider, operators, recipients.

use std::cell::RefCell;
use std::rc::Rc;

use sealpost::operate::{Request, answer};
use sealpost::publish::publish_after_intake;
use sealpost::receipts::SignatureHeaders;
use serde_json::Value as Json;

use super::choices::Subject;
use super::faults::OTHERS;
use super::oracle::Role;
use super::ports::Worker;
use super::sim::Sim;

/// The longest that anybody waits for an answer, in ms.
const WAIT_MS: i64 = 15_000;
/// They look for the answer this often, in ms.
const LOOK_MS: i64 = 500;
/// Awaits of a request at which its instance may die.
const AWAITS: u32 = 5;

/// One request.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub method: &'static str,
    pub path: String,
    pub body: String,
    pub authorization: Option<&'static str>,
    /// Id, timestamp and signature of an event.
    pub signature: Option<[String; 3]>,
}

/// What came back; `None` where no answer came.
pub type Answered = Option<(u16, Json)>;

/// Makes a request to some instance, and waits for its answer.
pub async fn ask(sim: &Rc<Sim>, role: Role, what: &Ask) -> Answered {
    let (_, instance) = sim.any_instance();
    let worker = Worker::new(sim, role, instance);
    let invocation = worker.who.invocation;
    sim.note(|| format!("{} to #{invocation} ({})", what.path, instance.program.name()));
    let answered: Rc<RefCell<Option<Answered>>> = Rc::default();
    let dies_in = sim.mix().and_then(|mix| {
        sim.choices
            .chance(Subject::News, mix.death_permille)
            .then(|| sim.choices.below(Subject::News, AWAITS) + 1)
    });
    let (cut, world) = (Rc::clone(&answered), Rc::clone(sim));
    let on_death: Box<dyn FnOnce()> = Box::new(move || {
        world.counted(OTHERS[0]);
        world.note(|| format!("#{invocation} dies"));
        cut.borrow_mut().get_or_insert(None);
    });
    let (what, told) = (what.clone(), Rc::clone(&answered));
    let handler = async move {
        // On the way in; who dies here has done nothing.
        worker.sim.kernel.sleep(1).await;
        handle(&worker, &what, &told).await;
    };
    sim.kernel
        .spawn_mortal(instance.group, dies_in, Some(on_death), handler);
    let until = sim.now() + WAIT_MS;
    loop {
        sim.kernel.sleep(LOOK_MS).await;
        if let Some(answered) = answered.borrow().clone() {
            return answered;
        }
        if sim.now() >= until {
            return None;
        }
    }
}

/// The handler: answers, and publishes after the answer.
async fn handle(worker: &Worker, what: &Ask, told: &RefCell<Option<Answered>>) {
    let config = worker.config();
    let [id, timestamp, signature] = match &what.signature {
        Some(headers) => headers.each_ref().map(|header| Some(header.as_str())),
        None => [None; 3],
    };
    let request = Request {
        method: what.method,
        path: &what.path,
        authorization: what.authorization,
        content_type: Some("application/json"),
        signature: SignatureHeaders {
            id,
            timestamp,
            signature,
        },
        body: Some(what.body.as_bytes()),
        ..Request::default()
    };
    let answer = answer(worker, &config, &request).await;
    let invocation = worker.who.invocation;
    let said = answer.body["result"]
        .as_str()
        .or(answer.body["code"].as_str())
        .unwrap_or_default();
    worker
        .sim
        .note(|| format!("#{invocation} answers {} {said}", answer.status));
    worker.sim.oracle.public_text("an answer", &answer.body.to_string());
    told.replace(Some(Some((answer.status, answer.body))));
    publish_after_intake(worker, &worker.broker(), &config, &answer.to_publish).await;
}
