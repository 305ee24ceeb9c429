//! Path of the administration socket of a data directory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const NAME: &str = "admin.sock";
/// The kernel's limit for a socket path, without the final zero byte.
const PATH_MAX: usize = 107;

pub(super) struct SocketPath {
    path: PathBuf,
    /// Keeps the descriptor open while the path leads through it.
    _directory: Option<File>,
}

impl SocketPath {
    /// Returns the socket path of a data directory. If it is too long for the kernel, the path leads through a
    /// descriptor of the directory.
    pub(super) fn for_data_dir(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        if path.as_os_str().as_bytes().len() <= PATH_MAX {
            return Ok(Self {
                path,
                _directory: None,
            });
        }
        let directory = File::open(directory)?;
        // The kernel rejects a longer path, however it is spelt. The path of the descriptor stands for the directory.
        let path = format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd());
        Ok(Self {
            path: path.into(),
            _directory: Some(directory),
        })
    }

    /// The path, valid as long as `self` exists.
    #[must_use]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_long_path_leads_through_a_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(100)).join("b".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let _listener =
            UnixListener::bind(SocketPath::for_data_dir(&deep).unwrap().path()).unwrap();
        assert!(UnixStream::connect(SocketPath::for_data_dir(&deep).unwrap().path()).is_ok());
    }
}
