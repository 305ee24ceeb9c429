//! stub
use crate::cli::exit::Failure;
use crate::config::Loaded;
impl super::Admin {
    pub async fn connect(_l: Loaded) -> Result<Self, Failure> {
        Err(Failure::failed("stub"))
    }
}
