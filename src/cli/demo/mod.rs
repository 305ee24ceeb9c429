//! stub
mod content;
mod schedule;
use super::{Global, exit::Outcome};
#[derive(clap::Args)]
pub struct Demo {}
impl Demo {
    pub fn run(self, _g: &Global) -> Outcome {
        let g = schedule::around(crate::types::UnixSeconds(0));
        println!("{}{}{}", g.json, g.catchup, schedule::OFFSET_OPEN);
        Ok(())
    }
}
