//! `sealpost provider`: the provider model with its inbox page.

use std::io;
use std::net::SocketAddr;

use anyhow::Context as _;
use sealpost::devstack::provider::model::Settings;
use sealpost::devstack::provider::{Options as Provider, serve};
use tokio::net::TcpListener;

/// What the verb takes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8025", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Requests a second before it answers 429; 0 for no limit.
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    rate_per_second: u32,
    /// How long each request takes at least, in milliseconds.
    #[arg(long, default_value_t = 0, value_name = "MS", value_parser = clap::value_parser!(u64).range(..=600_000))]
    latency_ms: u64,
    /// Whether recipients at example.com and test.com are accepted; the real provider refuses them.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    allow_example_domains: bool,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let listener = bind(options.listen).await?;
    let address = listener
        .local_addr()
        .context("the listening address could not be read")?;
    println!("provider model: http://{address} (inbox page, API and faults under /_/)");
    let settings = Settings {
        per_second: options.rate_per_second,
        example_domains_allowed: options.allow_example_domains,
    };
    serve(
        listener,
        Provider {
            settings,
            latency_ms: options.latency_ms,
            webhook: None,
        },
    )
    .await
    .context("the provider model can no longer accept connections")
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            anyhow::bail!("{address} is in use by another program: end it, or give another address with --listen")
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on {address}")),
    }
}
