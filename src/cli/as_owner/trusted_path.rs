//! Who decides where a path leads. Root must not follow a path for a user who can change it: a link or a renamed
//! directory would make root read or write a file of its own for that user.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

/// Links followed in one path, as in the kernel.
const LINKS_MAX: usize = 40;
/// What the kernel shows for a user who does not exist in this user namespace.
const OVERFLOW_UID: u32 = 65_534;

/// A path, followed step by step. Every step is an open descriptor: nobody can exchange what was looked at.
#[derive(Default)]
pub(super) struct Trace {
    /// What the path names, opened with `O_PATH`; never a link.
    pub(super) found: Option<OwnedFd>,
    /// The last directory of the path, and the name in it, if only the file itself is missing.
    pub(super) missing: Option<(OwnedFd, OsString)>,
    /// Users besides root who own a directory or a link on the way.
    pub(super) strangers: Vec<u32>,
    /// Groups that may write to a directory on the way.
    groups: Vec<u32>,
    /// Whether everyone may write to a directory on the way, and whether entries can be exchanged there.
    is_shared: bool,
    is_exchangeable: bool,
}

impl Trace {
    fn pass_directory(&mut self, directory: &Stat) {
        const STICKY: u32 = 0o1000;
        self.pass_owner(directory.st_uid);
        if directory.st_mode & 0o020 != 0 {
            self.groups.push(directory.st_gid);
        }
        if directory.st_mode & 0o002 != 0 {
            self.is_shared = true;
            self.is_exchangeable |= directory.st_mode & STICKY == 0;
        }
    }

    fn pass_owner(&mut self, user: u32) {
        if user != 0 && Some(user) != invoker() && !is_unmapped(user) {
            self.strangers.push(user);
        }
    }

    /// Whether a user can decide which file the path names.
    pub(super) fn is_controlled_by(&self, user: u32, group: u32) -> bool {
        let is_linked_here = || {
            let stat = self.found.as_ref().and_then(|found| fstat(found).ok());
            // A hard link to a file of somebody else.
            stat.is_some_and(|file| file.st_nlink > 1 && is_regular(&file))
        };
        self.strangers.contains(&user)
            || self.groups.contains(&group)
            || self.is_exchangeable
            || (self.is_shared && is_linked_here())
    }
}

fn is_regular(file: &Stat) -> bool {
    FileType::from_raw_mode(file.st_mode) == FileType::RegularFile
}

/// The user who called `sudo`: that user has the rights of root anyway.
fn invoker() -> Option<u32> {
    std::env::var_os("SUDO_UID")?.to_str()?.parse().ok()
}

pub(super) fn is_unmapped(user: u32) -> bool {
    let is_initial = || {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        map.split_whitespace().eq(["0", "0", "4294967295"])
    };
    user == OVERFLOW_UID && !is_initial()
}

/// Follows a path. Fails if a part before its last directory is missing.
pub(super) fn trace(path: &Path) -> io::Result<Trace> {
    let start = match path.is_absolute() {
        true => open(&CWD, OsStr::new("/"))?,
        false => open(&CWD, OsStr::new("."))?,
    };
    let mut trace = Trace::default();
    trace.pass_directory(&fstat(&start)?);
    let mut here = start;
    let mut rest: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let next = match open(&here, &name) {
            Err(Errno::NOENT) if rest.is_empty() => {
                trace.missing = Some((here, name));
                return Ok(trace);
            }
            next => next?,
        };
        let stat = fstat(&next)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                trace.pass_owner(stat.st_uid);
                let target = readlinkat(&next, "", Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes())).to_owned();
                if target.is_absolute() {
                    here = open(&CWD, OsStr::new("/"))?;
                }
                for name in names(&target).rev() {
                    rest.push_front(name);
                }
            }
            _ if rest.is_empty() => {
                trace.found = Some(next);
                return Ok(trace);
            }
            // The next step fails if it is no directory.
            _ => {
                trace.pass_directory(&stat);
                here = next;
            }
        }
    }
    trace.found = Some(here);
    Ok(trace)
}

fn open(at: &impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_to_the_file_and_missing_files_have_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        fs::create_dir(place.join("a")).unwrap();
        fs::write(place.join("a/file"), "x").unwrap();
        symlink("a/../a", place.join("b")).unwrap();
        symlink(place.join("b/file"), place.join("c")).unwrap();
        symlink("loop", place.join("loop")).unwrap();
        let same = |path: &Path| {
            let found = trace(path).unwrap().found.unwrap();
            fstat(found).unwrap().st_ino
        };
        assert_eq!(same(&place.join("c")), same(&place.join("a/file")));
        let missing = trace(&place.join("b/new")).unwrap().missing.unwrap();
        assert_eq!(missing.1, "new");
        assert!(trace(&place.join("no/new")).is_err());
        assert!(trace(&place.join("loop")).is_err());
        assert!(trace(&place.join("a/file/x")).is_err());
    }
}
