//! stub
use super::{Global, exit::Outcome};
#[derive(clap::Args)]
pub struct Serve {}
impl Serve {
    pub fn run(self, _g: &Global) -> Outcome {
        Ok(())
    }
}
