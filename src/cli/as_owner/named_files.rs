//! The files that a command line names, opened by root for the process of the data directory's owner.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::Owner;
use super::trusted_path::{Trace, trace};
use crate::client::key_files::key_files;
use playgate_ports::named_file::{self, Opened};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    /// Also the key files that the catalogue names.
    ReadCatalog,
    /// The file must not exist.
    CreateNew,
    Replace,
}

/// The arguments that name files, by command. A test finds a path that is missing here.
const ARGUMENTS: &[(&str, &str, Access)] = &[
    ("backup restore", "file", Access::Read),
    ("backup verify", "file", Access::Read),
    ("catalog import", "file", Access::ReadCatalog),
    ("doctor", "bundle", Access::CreateNew),
    ("epg import", "guide", Access::Read),
    ("epg import", "password_file", Access::Read),
    ("lab check", "html", Access::Replace),
    ("lab check", "junit", Access::Replace),
    ("lab check", "profile", Access::Read),
    ("store export", "file", Access::CreateNew),
    ("store export", "from", Access::Read),
    ("store import", "file", Access::Read),
    ("upgrade check", "binary", Access::Read),
    ("upgrade check", "deb", Access::Read),
    ("user add", "password_file", Access::Read),
    ("user import", "file", Access::Read),
    ("user import", "hash_config", Access::Read),
    ("user pin", "pin_file", Access::Read),
];

/// Open files, and the created ones, which are removed if nothing was written.
#[derive(Default)]
pub(super) struct NamedFiles {
    listed: Vec<(PathBuf, Opened)>,
    open: Vec<OwnedFd>,
    created: Vec<(OwnedFd, OsString, OwnedFd)>,
}

impl NamedFiles {
    pub(super) fn open(command: &str, arguments: &ArgMatches, owner: Owner) -> Self {
        let mut files = Self::default();
        let of_command = ARGUMENTS.iter().filter(|(name, ..)| *name == command);
        for (_, argument, access) in of_command {
            let Ok(Some(values)) = arguments.try_get_raw(argument) else {
                continue;
            };
            for value in values.filter(|value| *value != "-") {
                files.add(Path::new(value), *access, owner);
            }
        }
        files
    }

    pub(super) fn add_read(&mut self, path: &Path, owner: Owner) {
        self.add(path, Access::Read, owner);
    }

    fn add(&mut self, path: &Path, access: Access, owner: Owner) {
        match self.opened(path, access, owner) {
            // The owner opens it, with the rights of the owner: root would read or write what the owner makes of the path.
            Ok(None) => {}
            Ok(Some(file)) => {
                if access == Access::ReadCatalog {
                    for key_file in key_files(path) {
                        self.add(&key_file, Access::Read, owner);
                    }
                }
                self.hand_down(path, file);
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
                self.listed.push((path.to_owned(), Err(errno)));
            }
        }
    }

    pub(super) fn hand_down(&mut self, path: &Path, file: OwnedFd) {
        // Inherited through both programs that follow.
        if fcntl_setfd(&file, FdFlags::empty()).is_ok() {
            self.listed.push((path.to_owned(), Ok(file.as_raw_fd())));
            self.open.push(file);
        }
    }

    fn opened(&mut self, path: &Path, access: Access, owner: Owner) -> io::Result<Option<OwnedFd>> {
        // Descriptors of this process, such as those that a shell makes of `<(command)`.
        let descriptor_paths = ["/dev/fd", "/dev/stdin", "/dev/stdout", "/proc/self/fd"];
        if descriptor_paths
            .iter()
            .any(|folder| path.starts_with(folder))
        {
            return match access {
                Access::Read | Access::ReadCatalog => File::open(path),
                Access::CreateNew | Access::Replace => File::options().write(true).open(path),
            }
            .map(|file| Some(file.into()));
        }
        let traced = trace(path)?;
        if traced.is_controlled_by(owner.user, owner.group) {
            return Ok(None);
        }
        let Trace { found, missing, .. } = traced;
        match (access, found, missing) {
            (Access::Read | Access::ReadCatalog, Some(found), _) => reopen(&found, false).map(Some),
            (Access::CreateNew, Some(_), _) => Err(Errno::EXIST.into()),
            (Access::Replace, Some(found), _) => reopen(&found, true).map(Some),
            (Access::CreateNew | Access::Replace, None, Some((directory, name))) => {
                self.create(directory, name, access).map(Some)
            }
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn create(
        &mut self,
        directory: OwnedFd,
        name: OsString,
        access: Access,
    ) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = match access {
            Access::CreateNew => Mode::RUSR | Mode::WUSR,
            _ => Mode::from_raw_mode(0o666),
        };
        // `O_PATH` names a directory; the new file is opened in it, and never through a link.
        let file = openat(&directory, &name, flags, mode)?;
        let handle = file.try_clone()?;
        self.created.push((directory, name, handle));
        Ok(file)
    }

    pub(super) fn list(&self) -> String {
        named_file::list(&self.listed)
    }

    /// Removes created files that are still empty: a command that failed leaves none.
    pub(super) fn remove_empty(self) {
        for (directory, name, file) in self.created {
            if fstat(&file).is_ok_and(|file| file.st_size == 0) {
                // An empty file that stays does no harm.
                let _ = unlinkat(&directory, &name, AtFlags::empty());
            }
        }
    }
}

/// Opens what an `O_PATH` descriptor names.
fn reopen(found: &impl AsFd, write: bool) -> io::Result<OwnedFd> {
    let link = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    let file = File::options().read(!write).write(write).open(link)?;
    Ok(file.into())
}

/// The words of the command, such as `backup create`, and the arguments of its last word.
pub(super) fn command_of(matches: &ArgMatches) -> (String, &ArgMatches) {
    let (mut words, mut last) = (Vec::new(), matches);
    while let Some((word, below)) = last.subcommand() {
        words.push(word);
        last = below;
    }
    (words.join(" "), last)
}

/// The value of a global option, wherever on the line it stands.
pub(super) fn is_given(matches: &ArgMatches, argument: &str) -> bool {
    matches.try_get_raw(argument).is_ok_and(|values| {
        values.is_some_and(|mut values| values.any(|value| value != OsStr::new("")))
    })
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::path::PathBuf;

    use clap::{Command, CommandFactory as _};

    use super::*;
    use crate::arguments::Arguments;

    /// Written where the caller says, without a data directory; or continued as root on purpose.
    const ELSEWHERE: [&str; 2] = ["man", "lab run"];

    #[test]
    fn every_path_of_every_command_is_opened_by_root() {
        fn visit(command: &Command, path: &str, missing: &mut Vec<String>) {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
                let is_known = ARGUMENTS.iter().any(|row| (row.0, row.1) == (path, id));
                if is_path
                    && !is_known
                    && !["config", "data_dir"].contains(&id)
                    && !ELSEWHERE.contains(&path)
                {
                    missing.push(format!("{path}: {id}"));
                }
            }
            for below in command.get_subcommands() {
                let path = format!("{path} {}", below.get_name());
                visit(below, path.trim(), missing);
            }
        }
        let mut command = Arguments::command();
        command.build();
        let mut missing = Vec::new();
        visit(&command, "", &mut missing);
        assert_eq!(missing, Vec::<String>::new());
        for (path, argument, _) in ARGUMENTS {
            let found = path
                .split(' ')
                .try_fold(&command, |at, word| at.find_subcommand(word));
            let found = found.unwrap_or_else(|| panic!("{path}"));
            assert!(
                found
                    .get_arguments()
                    .any(|known| known.get_id() == argument),
                "{path} {argument}"
            );
        }
    }
}
