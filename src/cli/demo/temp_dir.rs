//! A temporary directory, for example the demo's data directory, deleted when it is dropped.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;

use crate::cli::exit::Failure;
use crate::ports::{Entropy, SystemEntropy};

pub(in crate::cli) struct TempDataDir(PathBuf);

impl TempDataDir {
    /// `purpose` becomes a part of the name.
    pub(in crate::cli) fn temporary(purpose: &str) -> Result<Self, Failure> {
        let entropy: &dyn Entropy = &SystemEntropy::default();
        let name = HEXLOWER.encode(&entropy.array::<8>());
        let name = format!("playgate-{purpose}-{name}");
        let path = std::env::temp_dir().join(name);
        DirBuilder::new()
            // Other users of the machine may write to the directory for temporary files. The name is random and
            // `create` fails if it exists, so nobody can prepare the directory.
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::file(&path, &error))?;
        Ok(Self(path))
    }

    pub(in crate::cli) fn path(&self) -> &Path {
        &self.0
    }

    pub(in crate::cli) fn text(&self) -> Result<String, Failure> {
        let text = self.0.to_str().map(str::to_owned);
        text.ok_or_else(|| Failure::usage("the temporary directory's path is not UTF-8"))
    }
}

impl Drop for TempDataDir {
    fn drop(&mut self) {
        // A directory that cannot be removed is left to the system's cleanup of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
