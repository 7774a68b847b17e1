//! A verb of the command.

#[derive(clap::Args)]
pub(crate) struct Options {}

pub(crate) async fn run(_options: Options) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
