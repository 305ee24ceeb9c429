//! The place of a demo's store: a directory of its own that goes with the demo.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use data_encoding::HEXLOWER;

use crate::cli::exit::Failure;
use crate::ports::{Entropy, SystemEntropy};

/// A temporary directory.
pub struct TempDataDir(PathBuf);

impl TempDataDir {
    /// Makes one, under a name that nobody can have prepared.
    pub fn temporary() -> Result<Self, Failure> {
        let entropy: &dyn Entropy = &SystemEntropy::default();
        let name = format!("playgate-demo-{}", HEXLOWER.encode(&entropy.array::<8>()));
        let path = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::file(&path, &error))?;
        Ok(Self(path))
    }

    /// Its path, as the configuration takes it.
    pub fn text(&self) -> Result<String, Failure> {
        let text = self.0.to_str().map(str::to_owned);
        text.ok_or_else(|| Failure::usage("the temporary directory's path is not UTF-8"))
    }
}

impl Drop for TempDataDir {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans temporary directories.
        let _ = fs::remove_dir_all(&self.0);
    }
}
