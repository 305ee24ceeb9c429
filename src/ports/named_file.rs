//! Files that a user names on the command line. A command of root continues in a process of the data directory's owner,
//! which may not be allowed to open them: root opens them first, and the process inherits the descriptors.

use std::ffi::OsStr;
pub use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use data_encoding::HEXLOWER;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The environment variable that lists the inherited files.
pub const VARIABLE: &str = "FILES_FOR_PLAYGATE";

/// A file that root tried to open: its descriptor, or the number of the error.
pub type Opened = Result<RawFd, i32>;

static INHERITED: LazyLock<Vec<(PathBuf, Opened)>> = LazyLock::new(|| {
    let listed = std::env::var_os(VARIABLE).unwrap_or_default();
    parse(&listed.to_string_lossy())
});

/// The value of [`VARIABLE`]. A path may hold any byte, so it is in hexadecimal; an error is a negative number.
pub fn list(files: &[(PathBuf, Opened)]) -> String {
    let entry = |(path, opened): &(PathBuf, Opened)| {
        let number = opened.map_or_else(|errno| -errno, |descriptor| descriptor);
        let path = HEXLOWER.encode(path.as_os_str().as_bytes());
        format!("{path}={number}")
    };
    files.iter().map(entry).collect::<Vec<_>>().join(" ")
}

fn parse(listed: &str) -> Vec<(PathBuf, Opened)> {
    let entry = |entry: &str| {
        let (path, number) = entry.split_once('=')?;
        let path = HEXLOWER.decode(path.as_bytes()).ok()?;
        let number: i32 = number.parse().ok()?;
        let opened = if number < 0 { Err(-number) } else { Ok(number) };
        Some((OsStr::from_bytes(&path).into(), opened))
    };
    listed.split(' ').filter_map(entry).collect()
}

fn inherited(path: &Path) -> Option<io::Result<RawFd>> {
    let (_, opened) = INHERITED.iter().find(|(known, _)| known == path)?;
    Some(opened.map_err(io::Error::from_raw_os_error))
}

/// Another handle on an inherited descriptor, with the same position.
fn handle(descriptor: RawFd) -> io::Result<File> {
    let this_process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let file = pidfd_getfd(this_process, descriptor, PidfdGetfdFlags::empty())?;
    Ok(File::from(file))
}

fn link(descriptor: RawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{descriptor}"))
}

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    let Some(descriptor) = inherited(path).transpose()? else {
        return File::open(path);
    };
    // The handle of its own that a second reader needs. A pipe has one reader, and opening it again could wait for ever.
    if let Some(again) = reopenable(path)
        && let Ok(file) = File::open(again)
    {
        return Ok(file);
    }
    let mut file = handle(descriptor)?;
    if file.metadata()?.is_file() {
        file.rewind()?;
    }
    Ok(file)
}

pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn read_to_string(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path)?)
}

/// Creates a file that must not exist, with access for its owner only.
pub fn create_new(path: &Path) -> io::Result<File> {
    match inherited(path).transpose()? {
        Some(descriptor) => handle(descriptor),
        None => File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path),
    }
}

/// Replaces the content of a file, or creates it.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let Some(descriptor) = inherited(path).transpose()? else {
        return fs::write(path, content);
    };
    let mut file = handle(descriptor)?;
    // A terminal or a pipe has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    io::Write::write_all(&mut file, content)
}

/// Returns the error with which root could not open the file.
pub fn check(path: &Path) -> io::Result<()> {
    inherited(path).transpose().map(drop)
}

pub fn exists(path: &Path) -> bool {
    inherited(path).map_or_else(|| path.exists(), |opened| opened.is_ok())
}

/// Returns a path to an inherited regular file that this process may open.
pub fn reopenable(path: &Path) -> Option<PathBuf> {
    let link = link(inherited(path)?.ok()?);
    let is_file = fs::metadata(&link).is_ok_and(|found| found.is_file());
    (is_file && File::open(&link).is_ok()).then_some(link)
}

/// Whether root has opened this file for this process.
pub fn is_inherited(path: &Path) -> bool {
    inherited(path).is_some_and(|opened| opened.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_files_are_listed_and_read_back() {
        let files = [
            (PathBuf::from("a b=c"), Ok(7)),
            (OsStr::from_bytes(b"/x/\xff").into(), Err(2)),
        ];
        assert_eq!(parse(&list(&files)), files);
        assert_eq!(parse(""), []);
        assert_eq!(parse("zz=1 61 61=x"), []);
    }

    #[test]
    fn a_descriptor_number_becomes_a_handle() {
        use std::os::fd::AsRawFd as _;
        let file = tempfile::tempfile().unwrap();
        let again = handle(file.as_raw_fd()).unwrap();
        again.set_len(5).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 5);
    }
}
