//! Brings delivery news to their receiver: one that was ordered, or those that follow mails by themselves.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::courier::Errand;
use super::http::fresh_id;
use super::shared::{Shared, wall_ms};
use super::webhook::sign;

/// How long a receiver of delivery news may take, in milliseconds: Svix's limit.
const WEBHOOK_MS_MAX: u64 = 15_000;
/// Events on their way at once: enough that a slow one holds the others up little, few enough for a Worker on the same
/// small machine.
const POSTS_AT_ONCE_MAX: usize = 4;
/// How long the round rests where nothing waits, in milliseconds. New events and a moved clock end the rest at once.
const REST_MS_MAX: i64 = 60_000;

/// One signed event on its way.
pub(super) struct News {
    pub(super) url: String,
    pub(super) svix_id: String,
    pub(super) timestamp_s: i64,
    pub(super) signature: String,
    pub(super) body: String,
}

impl News {
    /// Posts it once and gives the receiver's status.
    pub(super) fn post(self) -> Result<u16, String> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_millis(WEBHOOK_MS_MAX)))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .into();
        let sent = agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header("user-agent", "Svix-Webhooks/1 (provider model)")
            .header("svix-id", &self.svix_id)
            .header("svix-timestamp", self.timestamp_s.to_string())
            .header("svix-signature", &self.signature)
            .send(&self.body);
        sent.map(|response| response.status().as_u16())
            .map_err(|error| format!("the receiver did not answer: {error}"))
    }
}

/// The id of a new event.
pub(super) fn fresh_event_id() -> Option<String> {
    let id = fresh_id().ok()?;
    Some(format!("msg_{}", id.replace('-', "")))
}

/// The machine's time in Unix seconds, whatever the provider's own clock says: the receiver compares it with its own.
pub(super) fn signing_time_s() -> i64 {
    wall_ms().div_euclid(1_000)
}

/// Posts the events that are due, again and again, for as long as the server lives.
pub(super) async fn rounds(shared: Arc<Shared>) -> Infallible {
    // Ends with this future, and its posts with it.
    let mut posts = JoinSet::new();
    loop {
        while posts.len() < POSTS_AT_ONCE_MAX {
            let Some(errand) = shared.model().next_news(shared.now()) else {
                break;
            };
            posts.spawn(run(Arc::clone(&shared), errand));
        }
        let is_full = posts.len() >= POSTS_AT_ONCE_MAX;
        let rest = rest(&shared);
        tokio::select! {
            Some(_) = posts.join_next() => {}
            () = shared.news_stirred() => {}
            () = tokio::time::sleep(rest), if !is_full => {}
        }
    }
}

/// How long until the next event is due.
fn rest(shared: &Shared) -> Duration {
    let due = shared.model().next_news_at();
    let ms = due.map_or(REST_MS_MAX, |at| at.get().saturating_sub(shared.now().get()));
    Duration::from_millis(u64::try_from(ms.clamp(0, REST_MS_MAX)).unwrap_or_default())
}

/// One try of one event. A secret that does not sign, or no receiver, is no answer.
async fn run(shared: Arc<Shared>, errand: Errand) {
    let number = errand.number;
    let status = match news_of(&shared, errand) {
        Some(news) => tokio::task::spawn_blocking(move || news.post().ok())
            .await
            .ok()
            .flatten(),
        None => None,
    };
    shared.model().news_answered(shared.now(), number, status);
}

fn news_of(shared: &Shared, errand: Errand) -> Option<News> {
    let target = shared.webhook()?;
    let timestamp_s = signing_time_s();
    let signature = sign(&target.secret, &errand.svix_id, timestamp_s, &errand.body).ok()?;
    Some(News {
        url: target.url,
        svix_id: errand.svix_id,
        timestamp_s,
        signature,
        body: errand.body,
    })
}
