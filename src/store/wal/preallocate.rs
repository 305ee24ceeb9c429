//! Preallocates the next segment in the background, since writing its zeros takes as long as many
//! commits.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

use super::prepare;
use playgate_process::files::{is_failed_sync, remove_file, rename};

/// File name before the segment is used; readers of the log ignore it.
const NAME: &str = "ahead";

pub(super) struct PreallocatedSegment {
    path: PathBuf,
    length: u64,
    sync: bool,
    making: Option<JoinHandle<io::Result<File>>>,
}

impl PreallocatedSegment {
    pub(super) fn new(directory: &Path, length: u64, sync: bool) -> io::Result<Self> {
        let path = directory.join(NAME);
        // An earlier process may have left a file of unknown content.
        remove_file(&path, false)?;
        Ok(Self {
            path,
            length,
            sync,
            making: None,
        })
    }

    pub(super) fn begin(&mut self) {
        if self.making.is_none() {
            let (path, length, sync) = (self.path.clone(), self.length, self.sync);
            // The head is written later, since the number of the first frame is not known yet.
            let make = move || prepare(&path, length, &[], sync);
            // If no thread can be started, the segment is created when it is needed.
            self.making = Builder::new()
                .name("store-ahead".to_owned())
                .spawn(make)
                .ok();
        }
    }

    /// Returns `None` if there is no file; the caller then creates one and gets the error.
    pub(super) fn adopt(&mut self, path: &Path, head: &[u8]) -> io::Result<Option<File>> {
        let Some(making) = self.making.take() else {
            return Ok(None);
        };
        let file = match making.join() {
            Ok(Ok(file)) => file,
            // A failed sync must not be retried, so it is the only error that is returned.
            Ok(Err(error)) if is_failed_sync(&error) => return Err(error),
            Ok(Err(_)) | Err(_) => {
                let _ = fs::remove_file(&self.path);
                return Ok(None);
            }
        };
        // The head is synced together with the first frame; without a frame it is not needed.
        file.write_all_at(head, 0)?;
        match rename(&self.path, path, self.sync) {
            Ok(()) => Ok(Some(file)),
            // Another program has deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for PreallocatedSegment {
    fn drop(&mut self) {
        // Waits for the thread, so that it cannot write to the file of a log that is opened next.
        if let Some(making) = self.making.take() {
            let _ = making.join();
            let _ = fs::remove_file(&self.path);
        }
    }
}
