//! `sealpost database`: the development database as a process of its own.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use sealpost::devstack::database::{Options as Setup, Server, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The database file; it is made where it does not exist. Without it, a temporary one.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How long every request waits first, in milliseconds: the way to a database far away.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// The bearer token that clients must send; without it, anybody may ask.
    #[arg(long, env = "SEALPOST_DB_AUTH_TOKEN", hide_env_values = true)]
    auth_token: Option<String>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let listener = match TcpListener::bind(options.listen).await {
        Ok(listener) => listener,
        Err(error) if error.kind() == ErrorKind::AddrInUse => anyhow::bail!(
            "{} is in use by another program; stop it or choose another address with --listen",
            options.listen
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot listen on {}", options.listen)),
    };
    let place = options
        .file
        .as_ref()
        .map_or_else(|| "a temporary file".to_owned(), |file| file.display().to_string());
    let server = Server::open(Setup {
        file: options.file,
        latency_ms: options.latency_ms,
        auth_token: options.auth_token,
    })
    .await
    .with_context(|| format!("cannot open the database in {place}"))?;
    println!("database listening on http://{} ({place})", listener.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = serve(listener, server) => ended?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
