//! What the server's doors share: the model behind a lock, the clock that can be moved, and the requests that wait.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use super::model::{Model, Settings};
use super::postman::fresh_event_id;
use crate::outbox::time::Millis;

/// The longest that a request is held or stalled, in milliseconds: no client waits so long, and none is kept for ever.
const WAIT_MS_MAX: u64 = 600_000;

/// How the server starts, and what a reset brings back.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The provider's own settings.
    pub settings: Settings,
    /// How long each request takes at least, in milliseconds.
    pub latency_ms: u64,
    /// Where delivery news go, if anywhere.
    pub webhook: Option<Webhook>,
}

/// Where delivery news go, and with which secret they are signed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// An `http` or `https` address.
    pub url: String,
    /// As Svix writes it: `whsec_` and base64.
    pub secret: String,
    /// Whether news follow every accepted mail by themselves; otherwise each is ordered.
    #[serde(default)]
    pub auto: bool,
}

/// What waiting requests listen for; both only count up.
#[derive(Clone, Copy, Debug, Default)]
struct Signals {
    releases: u64,
    resets: u64,
}

/// Requests that wait now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Waiting {
    /// For a release.
    pub(super) held: u64,
    /// For nothing: they never get an answer.
    pub(super) stalled: u64,
}

/// The state of a running server.
#[derive(Debug)]
pub(super) struct Shared {
    options: Options,
    model: Mutex<Model>,
    webhook: Mutex<Option<Webhook>>,
    clock_offset_ms: AtomicI64,
    latency_ms: AtomicU64,
    signals: watch::Sender<Signals>,
    /// Wakes the postman: new events, or another time.
    news: Notify,
    held: AtomicU64,
    stalled: AtomicU64,
}

/// Counts a waiting request for as long as it exists.
struct Counted<F: Fn(&Shared) -> &AtomicU64> {
    shared: Arc<Shared>,
    counter: F,
}

impl<F: Fn(&Shared) -> &AtomicU64> Counted<F> {
    fn new(shared: Arc<Shared>, counter: F) -> Self {
        counter(&shared).fetch_add(1, Ordering::SeqCst);
        Self { shared, counter }
    }
}

impl<F: Fn(&Shared) -> &AtomicU64> Drop for Counted<F> {
    fn drop(&mut self) {
        (self.counter)(&self.shared).fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    pub(super) fn new(options: Options) -> Arc<Self> {
        Arc::new(Self {
            model: Mutex::new(Model::new(options.settings)),
            webhook: Mutex::new(options.webhook.clone()),
            clock_offset_ms: AtomicI64::new(0),
            latency_ms: AtomicU64::new(options.latency_ms),
            signals: watch::Sender::new(Signals::default()),
            news: Notify::new(),
            held: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            options,
        })
    }

    /// The model. A poisoned lock is taken all the same: its rules leave no half-made state behind.
    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The provider's time.
    pub(super) fn now(&self) -> Millis {
        Millis::new(wall_ms().saturating_add(self.clock_offset_ms.load(Ordering::SeqCst)))
    }

    /// Moves the provider's clock forward, or back.
    pub(super) fn advance_clock(&self, by_ms: i64) {
        let add = |offset: i64| Some(offset.saturating_add(by_ms));
        // The closure always gives a value, so there is no failure to look at.
        let _ = self
            .clock_offset_ms
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
        self.news.notify_one();
    }

    /// Sets the provider's clock; it runs on from there.
    pub(super) fn set_clock(&self, now_ms: i64) {
        self.clock_offset_ms
            .store(now_ms.saturating_sub(wall_ms()), Ordering::SeqCst);
        self.news.notify_one();
    }

    pub(super) fn latency_ms(&self) -> u64 {
        self.latency_ms.load(Ordering::SeqCst)
    }

    pub(super) fn set_latency(&self, ms: u64) {
        self.latency_ms.store(ms, Ordering::SeqCst);
    }

    /// A request's time on its way: the latency and what a rule adds.
    pub(super) async fn travel(&self, extra_ms: u64) {
        let ms = self.latency_ms().saturating_add(extra_ms);
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    pub(super) fn webhook(&self) -> Option<Webhook> {
        self.webhook.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_webhook(&self, webhook: Option<Webhook>) {
        *self.webhook.lock().unwrap_or_else(PoisonError::into_inner) = webhook;
    }

    /// Lets news follow the mail that went out under this id, where they do so by themselves. Nothing where none did.
    pub(super) fn follow(&self, id: &str) {
        if self.webhook().is_some_and(|webhook| webhook.auto) {
            self.model().follow(self.now(), id, fresh_event_id);
            self.news.notify_one();
        }
    }

    /// Waits until there are new events, or another time.
    pub(super) async fn news_stirred(&self) {
        self.news.notified().await;
    }

    pub(super) fn waiting(&self) -> Waiting {
        Waiting {
            held: self.held.load(Ordering::SeqCst),
            stalled: self.stalled.load(Ordering::SeqCst),
        }
    }

    /// Lets every request go on that is counted as held now.
    pub(super) fn release(&self) -> u64 {
        let held = self.waiting().held;
        self.signals
            .send_modify(|signals| signals.releases = signals.releases.saturating_add(1));
        held
    }

    /// As it was at the start; requests that wait are cut.
    pub(super) fn reset(&self) {
        let mut model = self.model();
        model.set_pace(self.options.settings.per_second);
        model.reset();
        drop(model);
        self.clock_offset_ms.store(0, Ordering::SeqCst);
        self.set_latency(self.options.latency_ms);
        self.set_webhook(self.options.webhook.clone());
        self.signals
            .send_modify(|signals| signals.resets = signals.resets.saturating_add(1));
    }

    /// Waits for a release, a reset or the longest wait.
    pub(super) async fn hold(self: &Arc<Self>) {
        // Listens before it is counted: who sees it counted can release it.
        let listener = self.signals.subscribe();
        let _counted = Counted::new(Arc::clone(self), |shared: &Self| &shared.held);
        let start = *listener.borrow();
        wait(listener, move |now| {
            now.releases != start.releases || now.resets != start.resets
        })
        .await;
    }

    /// Waits for a reset or the longest wait; counts from this call on, whenever the future runs.
    pub(super) fn stall(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let listener = self.signals.subscribe();
        let counted = Counted::new(Arc::clone(self), |shared: &Self| &shared.stalled);
        let start = listener.borrow().resets;
        async move {
            let _counted = counted;
            wait(listener, move |now| now.resets != start).await;
        }
    }
}

async fn wait(mut listener: watch::Receiver<Signals>, done: impl Fn(&Signals) -> bool) {
    // Neither the end of the server nor the longest wait is an error: the caller goes on in the same way.
    let _ = tokio::time::timeout(Duration::from_millis(WAIT_MS_MAX), listener.wait_for(|now| done(now))).await;
}

/// The machine's time in Unix milliseconds.
pub(super) fn wall_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
