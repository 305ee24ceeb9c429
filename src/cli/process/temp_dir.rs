//! A temporary directory, for example the demo's data directory, deleted when it is dropped.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;

use crate::output::Failure;
use playgate_ports::{Entropy, SystemEntropy};

pub(crate) struct TempDataDir(PathBuf);

impl TempDataDir {
    /// `purpose` becomes a part of the name.
    pub(crate) fn temporary(purpose: &str) -> Result<Self, Failure> {
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

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn text(&self) -> Result<String, Failure> {
        let text = self.0.to_str().map(str::to_owned);
        text.ok_or_else(|| Failure::usage("the temporary directory's path is not UTF-8"))
    }
}

/// Attempts to remove the directory: far more than files that appear meanwhile.
const ATTEMPTS: usize = 10;

impl Drop for TempDataDir {
    fn drop(&mut self) {
        for _ in 0..ATTEMPTS {
            match fs::remove_dir_all(&self.0) {
                // A store that has failed is not closed: its threads may create files meanwhile, such as the ballast.
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                // A directory that cannot be removed is left to the system's cleanup of temporary files.
                Ok(()) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_file_that_appears_during_the_removal_is_removed_too() {
        const FILE_COUNT: usize = 1_000;
        let directory = TempDataDir::temporary("test").unwrap();
        let path = directory.path().to_owned();
        for number in 0..FILE_COUNT {
            fs::write(path.join(number.to_string()), "").unwrap();
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                while fs::read_dir(&path).is_ok_and(|files| files.count() == FILE_COUNT) {}
                // It may be too late.
                let _ = fs::write(path.join("late"), "");
            });
            drop(directory);
        });
        assert!(!path.exists());
    }
}
