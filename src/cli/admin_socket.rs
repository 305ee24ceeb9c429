//! Where the administration socket of a data directory is.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Its name in the data directory.
const NAME: &str = "admin.sock";
/// Bytes of a socket's path that the kernel takes, without the closing zero.
const PATH_MAX: usize = 107;

/// A path by which the socket can be bound or connected to.
pub struct SocketPath {
    path: PathBuf,
    /// Held while the path is used, if it leads through it.
    _directory: Option<File>,
}

impl SocketPath {
    /// The place of the socket of a data directory. A path that is too long for the kernel leads
    /// through a descriptor of the directory instead.
    ///
    /// # Errors
    /// That the directory cannot be opened.
    pub fn for_data_dir(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        if path.as_os_str().as_bytes().len() <= PATH_MAX {
            return Ok(Self {
                path,
                _directory: None,
            });
        }
        let directory = File::open(directory)?;
        let path = format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd());
        Ok(Self {
            path: path.into(),
            _directory: Some(directory),
        })
    }

    /// The path, good as long as the place is held.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_can_lie_deep() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(100)).join("b".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let _listener =
            UnixListener::bind(SocketPath::for_data_dir(&deep).unwrap().path()).unwrap();
        assert!(UnixStream::connect(SocketPath::for_data_dir(&deep).unwrap().path()).is_ok());
    }
}
