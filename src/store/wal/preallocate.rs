//! The next segment, made ready while the present one is filled: its zeros take as long to reach the
//! disk as many commits do.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

use super::prepare;
use crate::store::files::{is_failed_sync, rename};

/// What it is called until it is written to. Nothing reads a file of this name.
const NAME: &str = "ahead";

pub(super) struct PreallocatedSegment {
    path: PathBuf,
    length: u64,
    sync: bool,
    making: Option<JoinHandle<io::Result<File>>>,
}

impl PreallocatedSegment {
    /// None yet; what a process that has ended left behind is removed.
    pub(super) fn new(directory: &Path, length: u64, sync: bool) -> io::Result<Self> {
        let path = directory.join(NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(Self {
            path,
            length,
            sync,
            making: None,
        })
    }

    /// Has it made, unless it is.
    pub(super) fn begin(&mut self) {
        if self.making.is_none() {
            let (path, length, sync) = (self.path.clone(), self.length, self.sync);
            // Where it will begin is not known yet.
            let make = move || prepare(&path, length, &[], sync);
            // Without a thread it is made when it is needed.
            self.making = Builder::new()
                .name("store-ahead".to_owned())
                .spawn(make)
                .ok();
        }
    }

    /// Gives it the name under which it is written to. None if it was not made: whoever makes it then
    /// is told why. A failed sync alone is told here, since it is never tried again.
    pub(super) fn adopt(&mut self, path: &Path, head: &[u8]) -> io::Result<Option<File>> {
        let Some(making) = self.making.take() else {
            return Ok(None);
        };
        let file = match making.join() {
            Ok(Ok(file)) => file,
            Ok(Err(error)) if is_failed_sync(&error) => return Err(error),
            Ok(Err(_)) | Err(_) => {
                let _ = fs::remove_file(&self.path);
                return Ok(None);
            }
        };
        // Synced with the first frame: without a frame nobody needs it.
        file.write_all_at(head, 0)?;
        rename(&self.path, path, self.sync)?;
        Ok(Some(file))
    }
}

impl Drop for PreallocatedSegment {
    /// Nobody may write to the file any more when another log begins one of that name.
    fn drop(&mut self) {
        if let Some(making) = self.making.take() {
            let _ = making.join();
            let _ = fs::remove_file(&self.path);
        }
    }
}
