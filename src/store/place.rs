//! Where the parts of a store lie in the data directory, and whose they are.
//!
//! ```text
//! lock        held by the one process that has the store open
//! ballast     room that is given up when the disk is full
//! store/      format, instance; sled/, log/, base/; `suspect` while sled must not be opened
//! restored/   a store that a backup was unpacked into, until the next start puts it into place
//! aside/      what a recovery or a restore moved out of the way; nothing reads it
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::files::{make_directory, move_aside, replace, sync_directory};
use super::{FORMAT, StoreError};

/// How many things of one kind that were moved aside are kept; older ones go.
const ASIDE_KEPT: usize = 2;

/// The directories of a store.
#[derive(Clone, Debug)]
pub(super) struct Place {
    data: PathBuf,
    pub(super) sync: bool,
}

/// The format of a store and its name, which tells it from that of another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) format: u32,
    pub(super) instance: [u8; 16],
}

impl Place {
    pub(super) fn of(data: &Path, sync: bool) -> Self {
        Self {
            data: data.to_owned(),
            sync,
        }
    }

    pub(super) fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    pub(super) fn sled(&self) -> PathBuf {
        self.store().join("sled")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.store().join("log")
    }

    pub(super) fn base(&self) -> PathBuf {
        self.store().join("base")
    }

    pub(super) fn aside(&self) -> PathBuf {
        self.data.join("aside")
    }

    fn restored(&self) -> PathBuf {
        self.data.join("restored")
    }

    /// The place of a store that is prepared beside this one.
    pub(super) fn side(&self) -> Self {
        Self {
            data: self.restored(),
            sync: self.sync,
        }
    }

    /// Takes the lock of the data directory.
    pub(super) fn lock(&self) -> Result<File, StoreError> {
        make_directory(&self.data, self.sync).map_err(|error| unusable(&self.data, error))?;
        let path = self.data.join("lock");
        let opened = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let lock = match opened {
            // On a disk that cannot be written, one that is there can be locked all the same.
            Err(error) if StoreError::from(io::Error::from(error.kind())) == StoreError::Full => {
                File::open(&path)
            }
            other => other,
        }
        .map_err(|error| unusable(&self.data, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Whether there is a store.
    pub(super) fn exists(&self) -> bool {
        self.store().exists()
    }

    /// Reads who the store is, from whichever of the two copies is sound.
    pub(super) fn identity(&self) -> Result<Identity, StoreError> {
        let copies = ["identity", "identity.copy"].map(|name| self.store().join(name));
        let mut problem = None;
        for path in &copies {
            match fs::read_to_string(path).map(|text| parse(&text)) {
                Ok(Some(identity)) => return Ok(identity),
                Ok(None) => {
                    problem = Some("is damaged, and so is its copy".to_owned());
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    problem = Some("is damaged, and so is its copy".to_owned());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    problem.get_or_insert_with(|| "is missing, and so is its copy".to_owned());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Damaged {
            place: "the file `store/identity`".to_owned(),
            what: problem.unwrap_or_default(),
        })
    }

    /// Writes who the store is, twice.
    pub(super) fn identify(&self, identity: Identity) -> Result<(), StoreError> {
        make_directory(&self.store(), self.sync)?;
        let text = write(identity);
        for name in ["identity", "identity.copy"] {
            replace(&self.store().join(name), text.as_bytes(), self.sync)?;
        }
        Ok(())
    }

    /// Why sled must not be opened, if it must not.
    pub(super) fn suspicion(&self) -> Option<String> {
        fs::read_to_string(self.suspect()).ok()
    }

    /// Notes that sled must not be opened any more: it is made anew from base and log.
    pub(super) fn suspect_because(&self, reason: &str) -> Result<(), StoreError> {
        Ok(replace(&self.suspect(), reason.as_bytes(), self.sync)?)
    }

    pub(super) fn trust_again(&self) -> Result<(), StoreError> {
        match fs::remove_file(self.suspect()) {
            Ok(()) => Ok(sync_directory(&self.store())?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn suspect(&self) -> PathBuf {
        self.store().join("suspect")
    }

    /// Moves something out of the way and keeps it, with one more of its kind.
    pub(super) fn move_aside(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let moved = move_aside(path, &self.aside(), self.sync)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut of_kind = Vec::new();
        for entry in fs::read_dir(self.aside())? {
            let path = entry?.path();
            let number = path
                .file_name()
                .and_then(|found| found.to_str()?.strip_prefix(&*name)?.strip_prefix('.'))
                .and_then(|number| number.parse::<u32>().ok());
            of_kind.extend(number.map(|number| (number, path)));
        }
        of_kind.sort();
        for (_, path) in of_kind.iter().rev().skip(ASIDE_KEPT) {
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok(moved)
    }

    /// Says that what was prepared beside this store is whole and may take its place.
    pub(super) fn offer_side(&self) -> Result<(), StoreError> {
        Ok(replace(&self.side().whole(), b"", self.sync)?)
    }

    fn whole(&self) -> PathBuf {
        self.store().join("whole")
    }

    /// Puts a store that was prepared into place, and keeps the one that was there. Both change
    /// places in one step, so that a power cut finds the one or the other. Anything else that a
    /// restore has left is removed.
    pub(super) fn take_side(&self) -> Result<(), StoreError> {
        let side = self.side();
        if side.whole().exists() {
            if self.exists() {
                let (new, old) = (side.store(), self.store());
                renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE)
                    .map_err(io::Error::from)?;
            } else {
                fs::rename(side.store(), self.store())?;
            }
            sync_directory(&self.data)?;
            sync_directory(&side.data)?;
        }
        if self.whole().exists() {
            // The mark went with the new store: what lies beside now is the old one.
            if side.store().exists() {
                let moved = self.move_aside(&side.store())?;
                tracing::warn!(kept = %moved.display(), "a backup was restored");
            }
            fs::remove_file(self.whole())?;
        }
        self.clear_side()
    }

    /// Removes what a restore has left that did not come to its end.
    pub(super) fn clear_side(&self) -> Result<(), StoreError> {
        match fs::remove_dir_all(self.restored()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn write(identity: Identity) -> String {
    let body = format!(
        "format = {}\ninstance = {}\n",
        identity.format,
        HEXLOWER.encode(&identity.instance)
    );
    format!("{body}sum = {:08x}\n", crc32fast::hash(body.as_bytes()))
}

fn parse(text: &str) -> Option<Identity> {
    let (body, sum) = text.split_once("sum = ")?;
    let sum = u32::from_str_radix(sum.trim_end(), 16).ok()?;
    if crc32fast::hash(body.as_bytes()) != sum {
        return None;
    }
    let (format, instance) = body.split_once('\n')?;
    let instance = instance.strip_prefix("instance = ")?.trim_end();
    Some(Identity {
        format: format.strip_prefix("format = ")?.parse().ok()?,
        instance: HEXLOWER.decode(instance.as_bytes()).ok()?.try_into().ok()?,
    })
}

/// Refuses a store of a newer version.
pub(super) const fn check_format(found: u32) -> Result<(), StoreError> {
    if found > FORMAT {
        return Err(StoreError::Newer {
            found,
            known: FORMAT,
        });
    }
    Ok(())
}

/// Names the directory: at start "permission denied" alone sends a person looking everywhere.
fn unusable(directory: &Path, error: io::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::Io(why) => {
            StoreError::Io(format!("the data directory {}: {why}", directory.display()))
        }
        other => other,
    }
}
