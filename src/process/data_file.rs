//! Files of the data directory: opened without waiting, and only if they are files; every error has the path and what to
//! do. People touch these files: they restore, copy and clean up, and another user may own what they leave behind.

use std::fmt;
pub use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::descriptor_reserve;

/// The failed operation and its path. Stored inside an [`io::Error`] of the same kind.
#[derive(Debug)]
pub struct FileError {
    what: &'static str,
    path: PathBuf,
    pub(crate) source: io::Error,
    /// Whether it was a sync. A failed sync must never be retried: the kernel drops the pages that
    /// it could not write, so that the next sync succeeds without them.
    pub(crate) sync: bool,
}

impl FileError {
    /// The innermost operation is the most exact one: an error that has a path already is returned as it is.
    pub fn wrap(
        what: &'static str,
        path: &Path,
        sync: bool,
    ) -> impl FnOnce(io::Error) -> io::Error {
        move |source| {
            if Self::find(&source).is_some() {
                return source;
            }
            let path = path.to_owned();
            let kind = source.kind();
            io::Error::new(
                kind,
                Self {
                    what,
                    path,
                    source,
                    sync,
                },
            )
        }
    }

    pub fn find(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, path) = (self.what, self.path.display());
        write!(f, "failed to {what} {path}: {}", self.source)?;
        match remedy(&self.source) {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

pub fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    FileError::wrap(what, path, false)
}

/// What an operator can do about an error of a file; `None` if the callers of all such errors say more.
pub(crate) fn remedy(error: &io::Error) -> Option<&'static str> {
    let error = FileError::find(error).map_or(error, |found| &found.source);
    if error.get_ref().is_some_and(|inner| inner.is::<NotAFile>()) {
        return Some("move it away, and put the file back if a copy of the data directory has it");
    }
    let errno = error.raw_os_error().map(Errno::from_raw_os_error)?;
    Some(match errno {
        Errno::ACCESS | Errno::PERM => {
            "let the user of the service own it (chown), and enter the directories above it"
        }
        Errno::IO | Errno::STALE | Errno::NXIO | Errno::NODEV => {
            "the disk or its file system fails: see the kernel's log (dmesg), and repair or replace it; a backup is restored with `playgate backup restore`"
        }
        Errno::ISDIR => "it is a directory, not a file: move it away",
        Errno::NOTDIR => "a part of the path is not a directory: move that part away",
        Errno::LOOP => "links lead in a circle: remove them",
        Errno::NOLCK | Errno::NOTSUP => {
            "the file system does not support it: use a local file system such as ext4 or XFS, or mount this one with locks"
        }
        Errno::TIMEDOUT | Errno::HOSTDOWN | Errno::HOSTUNREACH => {
            "the server of the file system does not answer: see whether it is mounted"
        }
        Errno::FBIG => {
            "a limit on the size of files is reached: raise `LimitFSIZE` of the unit, or `ulimit -f`"
        }
        Errno::NAMETOOLONG => "choose a shorter path for the data directory",
        _ => return None,
    })
}

/// Whether an error is about one file, in whose place another one can begin, and not about the process, the space of the
/// disk or a sync.
pub fn is_about_file(error: &io::Error) -> bool {
    let (error, sync) = match FileError::find(error) {
        Some(found) => (&found.source, found.sync),
        None => (error, false),
    };
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        _ if sync => false,
        Some(errno) => matches!(
            errno,
            Errno::ACCESS
                | Errno::PERM
                | Errno::IO
                | Errno::ISDIR
                | Errno::LOOP
                | Errno::NXIO
                | Errno::NODEV
                | Errno::STALE
        ),
        // Something else in its place, or damaged content.
        None => true,
    }
}

/// What the name of a file ends in that could not be used.
const DAMAGED: &str = ".damaged";

/// Renames a file that cannot be used, so that a new one can begin. Nothing is deleted or written over: an operator may
/// repair it.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(DAMAGED);
    let first = path.with_file_name(&name);
    let mut free = first.clone();
    let mut number = 2_u32;
    while fs::symlink_metadata(&free).is_ok() {
        let mut numbered = name.clone();
        numbered.push(format!("-{number}"));
        free = path.with_file_name(numbered);
        number += 1;
    }
    fs::rename(path, &free).map_err(at("rename", path))?;
    Ok(free)
}

/// Whether [`set_aside`] gave a file this name.
pub fn is_set_aside(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let parts = name.and_then(|name| name.rsplit_once(DAMAGED));
    parts.is_some_and(|(_, number)| {
        let digits = number.strip_prefix('-').unwrap_or(number);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Another kind of entry in the place of a file.
#[derive(Debug)]
struct NotAFile(&'static str);

impl fmt::Display for NotAFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, not a file", self.0)
    }
}

impl std::error::Error for NotAFile {}

fn check_type(file: &File) -> io::Result<()> {
    let found = file.metadata()?.file_type();
    let found = match found {
        _ if found.is_file() => return Ok(()),
        _ if found.is_dir() => "a directory",
        _ if found.is_fifo() => "a pipe",
        _ => "a device",
    };
    Err(io::Error::other(NotAFile(found)))
}

pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    open_file(options, path).map_err(|error| at("open", path)(explained(error, path)))
}

/// Like [`open`], with the reserve of descriptors: for files without which changes are refused.
pub fn open_with_reserve(options: &OpenOptions, path: &Path) -> io::Result<File> {
    descriptor_reserve::open(|| open_file(options, path))
        .map_err(|error| at("open", path)(explained(error, path)))
}

fn open_file(options: &OpenOptions, path: &Path) -> io::Result<File> {
    // Without waiting: a pipe waits for its other end, for ever.
    let mut options = options.clone();
    options.custom_flags(i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0));
    let file = options.open(path)?;
    check_type(&file)?;
    Ok(file)
}

/// A pipe that is opened for writing has no reader, and a socket cannot be opened: the error would name a device.
fn explained(error: io::Error, path: &Path) -> io::Error {
    if error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
        && let Ok(found) = fs::metadata(path)
    {
        return io::Error::other(NotAFile(match found.file_type().is_fifo() {
            true => "a pipe",
            false => "a socket or a device",
        }));
    }
    error
}

pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(File::options().read(true), path)
}

pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?
        .read_to_end(&mut bytes)
        .map_err(at("read", path))?;
    Ok(bytes)
}

pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_to_read(path)?
        .read_to_string(&mut text)
        .map_err(at("read", path))?;
    Ok(text)
}

/// Copies a file with its mode.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let mut source = open_to_read(from)?;
    let mut target = open(File::options().write(true).create(true).truncate(true), to)?;
    let permissions = source.metadata().map_err(at("read", from))?.permissions();
    target
        .set_permissions(permissions)
        .map_err(at("write", to))?;
    io::copy(&mut source, &mut target).map_err(at("copy", from))
}

/// The entries of a directory.
pub fn list(path: &Path) -> io::Result<Vec<fs::DirEntry>> {
    let entries = fs::read_dir(path).and_then(Iterator::collect);
    entries.map_err(at("list", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_opened_and_nothing_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("directory")).unwrap();
        fs::write(path("file"), "text").unwrap();
        let fifo = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), fifo.0, fifo.1, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        assert_eq!(read(&path("file")).unwrap(), b"text");
        assert_eq!(read_to_string(&path("file")).unwrap(), "text");
        let missing = read(&path("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        for (name, what) in [
            ("directory", "a directory"),
            ("pipe", "a pipe"),
            ("socket", "a socket"),
        ] {
            for options in [File::options().read(true), File::options().write(true)] {
                let error = open(options, &path(name)).unwrap_err().to_string();
                assert!(error.contains(&format!("/{name}: ")), "{error}");
                assert!(
                    error.contains(what) && error.contains("move it away"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn what_is_set_aside_replaces_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("mail.key");
        for (content, expected) in [
            ("one", "mail.key.damaged"),
            ("two", "mail.key.damaged-2"),
            ("three", "mail.key.damaged-3"),
        ] {
            fs::write(&path, content).unwrap();
            let kept = set_aside(&path).unwrap();
            assert_eq!(kept, place.path().join(expected));
            assert!(is_set_aside(&kept) && !is_set_aside(&path));
            assert_eq!(fs::read_to_string(kept).unwrap(), content);
        }
        assert!(!is_set_aside(Path::new("x.damaged.txt")));
    }

    #[test]
    fn a_full_disk_or_a_failed_sync_is_not_about_one_file() {
        let of = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        let path = Path::new("file");
        for errno in [Errno::ACCESS, Errno::IO, Errno::ISDIR] {
            assert!(is_about_file(&at("read", path)(of(errno))));
        }
        assert!(is_about_file(&io::Error::from(io::ErrorKind::InvalidData)));
        for errno in [Errno::NOSPC, Errno::ROFS, Errno::MFILE, Errno::NOENT] {
            assert!(!is_about_file(&at("read", path)(of(errno))));
        }
        let sync = FileError::wrap("sync", path, true)(of(Errno::IO));
        assert!(!is_about_file(&sync));
    }

    #[test]
    fn errors_have_the_innermost_path_and_a_remedy() {
        for errno in [
            Errno::ACCESS,
            Errno::IO,
            Errno::NOLCK,
            Errno::NOTDIR,
            Errno::FBIG,
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            let error = at("read", Path::new("log/1"))(error);
            let error = at("list", Path::new("log"))(error).to_string();
            assert!(error.starts_with("failed to read log/1: "), "{error}");
            assert!(error.contains("; "), "{error}");
        }
    }
}
