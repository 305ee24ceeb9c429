//! stub
use super::{Global, exit::Outcome};
#[derive(clap::Subcommand)]
pub enum Command {
    A,
}
pub async fn run(_c: Command, _g: &Global) -> Outcome {
    Ok(())
}
