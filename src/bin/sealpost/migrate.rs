//! `sealpost migrate`: brings a database up to date.

use anyhow::Context as _;
use sealpost::ports::Clock as _;
use sealpost::store::hrana::Hrana;
use sealpost::store::migrations::{MIGRATIONS, migrate};

use crate::native::{HttpTransport, SystemClock};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Address of the database: libsql://…, https://… or http://127.0.0.1:PORT.
    #[arg(long, env = "DATABASE_URL")]
    url: String,
    /// Token of the database; a local one needs none.
    #[arg(long, env = "DATABASE_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let token = options.token.filter(|token| !token.is_empty());
    let database = Hrana::new(HttpTransport::new(&options.url, token), SystemClock);
    let migrated = migrate(&database, MIGRATIONS, SystemClock.now())
        .await
        .context("the database is not up to date; running the command again is safe")?;
    if migrated.applied.is_empty() {
        println!("schema {} is up to date", migrated.version);
    } else {
        println!(
            "schema {} now; applied {}",
            migrated.version,
            migrated.applied.join(", ")
        );
    }
    Ok(())
}
