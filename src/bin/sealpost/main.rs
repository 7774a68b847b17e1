//! The native `sealpost` command.

use clap::{Parser, Subcommand};

mod database;
mod migrate;
mod native;
mod provider;

#[derive(Parser)]
#[command(name = "sealpost", version, about)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs the development database: Hrana 2 and 3 over HTTP in front of a file.
    Database(database::Options),
    /// Brings a database up to date; safe to run again and from two places at once.
    Migrate(migrate::Options),
    /// Runs the provider model: answers like Resend and shows an inbox page.
    Provider(provider::Options),
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Database(options) => database::run(options).await,
        Verb::Migrate(options) => migrate::run(options).await,
        Verb::Provider(options) => provider::run(options).await,
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            // One sentence for a person; a backtrace of ours would not tell them more.
            eprintln!("sealpost: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
