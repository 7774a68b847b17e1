//! The command's own clock and its way to a database server.

use std::time::Duration;

use sealpost::outbox::time::Millis;
use sealpost::ports::Clock;
use sealpost::store::hrana::{Reply, Transport, TransportError};

/// One request to the database, its body included. A migration may take a while.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The machine's clock.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "the native command has the machine's clock and no other"
    )]
    fn now(&self) -> Millis {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Millis::new(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Hrana over HTTP(S).
pub(crate) struct HttpTransport {
    url: String,
    token: Option<String>,
    agent: ureq::Agent,
}

impl HttpTransport {
    /// `url` may begin with `libsql://`, which means HTTPS.
    pub(crate) fn new(url: &str, token: Option<String>) -> Self {
        let url = url
            .strip_prefix("libsql://")
            .map_or_else(|| url.to_owned(), |rest| format!("https://{rest}"));
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(DATABASE_TIMEOUT))
            .http_status_as_error(false)
            .build();
        Self {
            url: url.trim_end_matches('/').to_owned(),
            token,
            agent: config.into(),
        }
    }
}

impl Transport for HttpTransport {
    async fn post(&self, base_url: Option<&str>, path: &str, body: String) -> Result<Reply, TransportError> {
        let url = format!("{}{path}", base_url.unwrap_or(&self.url).trim_end_matches('/'));
        let mut request = self.agent.post(&url).header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        tokio::task::spawn_blocking(move || {
            let mut response = request.send(body).map_err(|error| {
                if matches!(error, ureq::Error::Timeout(_)) {
                    TransportError::TimedOut
                } else {
                    TransportError::Disconnected
                }
            })?;
            let status = response.status().as_u16();
            let body = response
                .body_mut()
                .with_config()
                .limit(ANSWER_BYTES_MAX)
                .read_to_vec()
                .map_err(|_| TransportError::Disconnected)?;
            Ok(Reply { status, body })
        })
        .await
        .map_err(|_| TransportError::Disconnected)?
    }
}
