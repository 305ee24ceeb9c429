//! Path of the administration socket of a data directory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;

const NAME: &str = "admin.sock";
/// The kernel's limit for a socket path, without the final zero byte.
const PATH_MAX: usize = 107;

pub(crate) struct SocketPath {
    path: PathBuf,
    /// Keeps the descriptor open while the path leads through it.
    _through: Option<File>,
    /// The only user whose server is accepted; set if this process is root's.
    owner: Option<u32>,
}

impl SocketPath {
    /// Returns the socket path of a data directory. If it is too long for the kernel, the path leads through a
    /// descriptor of the directory.
    pub(crate) fn for_data_dir(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        if path.as_os_str().as_bytes().len() <= PATH_MAX {
            return Ok(Self {
                path,
                _through: None,
                owner: None,
            });
        }
        let directory = File::open(directory)?;
        // The kernel rejects a longer path, however it is spelt. The path of the descriptor stands for the directory.
        let path = format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd());
        Ok(Self {
            path: path.into(),
            _through: Some(directory),
            owner: None,
        })
    }

    /// Returns the path of an existing socket, to connect to.
    pub(crate) fn of_server(directory: &Path) -> io::Result<Self> {
        match getuid().is_root() {
            true => Self::for_root(directory),
            false => Self::for_data_dir(directory),
        }
    }

    /// Opens the socket itself: the owner of the directory could put a link to a socket of another program in its place.
    fn for_root(directory: &Path) -> io::Result<Self> {
        let directory = File::open(directory)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = openat(&directory, NAME, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&socket)?.st_mode) != FileType::Socket {
            return Err(io::Error::other(format!("{NAME} is no socket: remove it")));
        }
        Ok(Self {
            path: format!("/proc/self/fd/{}", socket.as_raw_fd()).into(),
            _through: Some(socket.into()),
            owner: Some(fstat(&directory)?.st_uid),
        })
    }

    /// The path, valid as long as `self` exists.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that root is connected to the server of the data directory's owner.
    pub(crate) fn check(&self, stream: &impl AsFd) -> io::Result<()> {
        let Some(owner) = self.owner else {
            return Ok(());
        };
        let server = socket_peercred(stream)?.uid.as_raw();
        if server == owner {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{NAME} belongs to a program of user {server}, and the data directory to user {owner}"
        )))
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
        let place = SocketPath::of_server(&deep).unwrap();
        let stream = UnixStream::connect(place.path()).unwrap();
        place.check(&stream).unwrap();
    }

    #[test]
    fn root_follows_no_link_to_another_socket() {
        let folder = tempfile::tempdir().unwrap();
        let [data, other] = ["data", "other"].map(|name| folder.path().join(name));
        std::fs::create_dir(&data).unwrap();
        let _listener = UnixListener::bind(&other).unwrap();
        std::os::unix::fs::symlink(&other, data.join(NAME)).unwrap();
        if getuid().is_root() {
            assert!(SocketPath::of_server(&data).is_err());
        }
    }
}
