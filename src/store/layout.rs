//! The layout of the data directory, and the identity of the store in it:
//! ```text
//! lock        held by the process that has the store open
//! ballast     space that is released when the disk is full
//! store/      format, instance, timeline; sled.N/, log/, log.end, base/
//! fleet/      membership of a fleet; its store is opened by the service only
//! restored/   staging directory of a restore or import, until it is installed
//! aside/      files moved away by a recovery or restore; never read
//! ```

use std::path::{Path, PathBuf};
use std::{fs, io};

use data_encoding::HEXLOWER;

use crate::error::StoreError;
use crate::history::Lineage;
use crate::lock::StoreLock;
use playgate_process::data_file::{self, at};
use playgate_process::files::{make_directory, rename, replace_file, sync_directory, with_suffix};
use playgate_types::from_hex;

/// How many entries of one kind are kept in `aside/`; older ones are deleted.
const ASIDE_KEPT: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct StoreLayout {
    data: PathBuf,
    pub(crate) sync: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The format that a version must support to open the store.
    pub(crate) format: u32,
    /// The format that an upgrade has reached; equals `format` if no upgrade is in progress.
    pub(crate) reached: u32,
    pub(crate) instance: [u8; 16],
    pub(crate) lineage: Lineage,
    /// Whether the WAL and its end record were ever created. If so, their absence is damage and not
    /// a first start.
    pub(crate) begun: bool,
}

/// Returns true for a store or a staged store, and if the directory cannot be read.
pub fn has_data(directory: &Path) -> bool {
    let place = StoreLayout::new(directory, false);
    let is_absent = |part: PathBuf| matches!(part.try_exists(), Ok(false));
    !(is_absent(place.store()) && is_absent(place.restored()))
}

impl StoreLayout {
    pub(crate) fn new(data: &Path, sync: bool) -> Self {
        Self {
            data: data.to_owned(),
            sync,
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    /// Returns the newest complete engine directory, and all others (incomplete or replaced).
    pub(crate) fn engines(&self) -> Result<(Option<EngineDir>, Vec<EngineDir>), StoreError> {
        let mut found = Vec::new();
        let store = self.store();
        for entry in fs::read_dir(&store).map_err(at("read the directory", &store))? {
            let path = entry?.path();
            let number = path
                .file_name()
                .and_then(|name| name.to_str()?.strip_prefix("sled."))
                .and_then(|number| number.parse().ok());
            found.extend(number.map(|number| EngineDir { number, path }));
        }
        found.sort_by_key(|engine| engine.number);
        // An incomplete directory is a build that was interrupted.
        let whole = found.iter().rposition(EngineDir::is_whole);
        let current = whole.map(|at| found.remove(at));
        Ok((current, found))
    }

    pub(crate) fn next_engine(&self) -> Result<EngineDir, StoreError> {
        let (current, others) = self.engines()?;
        let numbers = others.iter().chain(&current).map(|engine| engine.number);
        let number = numbers.max().unwrap_or(0) + 1;
        Ok(EngineDir {
            number,
            path: self.store().join(format!("sled.{number}")),
        })
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.store().join("log")
    }

    pub(crate) fn log_end(&self) -> PathBuf {
        // The file is not in the directory of the WAL, which may be lost as a whole.
        with_suffix(&self.log(), ".end")
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.store().join("base")
    }

    pub(crate) fn aside(&self) -> PathBuf {
        self.data.join("aside")
    }

    pub(crate) fn restored(&self) -> PathBuf {
        self.data.join("restored")
    }

    /// The place of the replaced store during an installation by two renames.
    pub(crate) fn replaced_store(&self) -> PathBuf {
        self.restored().join("given-up")
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.data
    }

    pub(crate) fn staged(&self) -> Self {
        Self {
            data: self.restored(),
            sync: self.sync,
        }
    }

    pub(crate) fn lock(&self) -> Result<StoreLock, StoreError> {
        StoreLock::acquire(&self.data, self.sync)
    }

    pub(crate) fn exists(&self) -> bool {
        self.store().exists()
    }

    /// The identity is written before everything else, so that a first start that was interrupted before
    /// it is simply repeated.
    pub(crate) fn is_initialised(&self) -> bool {
        let store = self.store();
        let parts = ["identity", "identity.copy", "log", "base", "sled.1"];
        parts.iter().any(|part| store.join(part).exists())
    }

    pub(crate) fn identity(&self) -> Result<Identity, StoreError> {
        let copies = ["identity", "identity.copy"].map(|name| self.store().join(name));
        let mut problem = None;
        // One damaged copy is not an error: the other one is complete.
        for path in &copies {
            match data_file::read_to_string(path).map(|text| parse(&text)) {
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
                // An unreadable sector, or a file of another user: the other copy may be readable.
                Err(error) => problem = Some(format!("cannot be read, nor its copy: {error}")),
            }
        }
        Err(StoreError::Damaged {
            place: "the file `store/identity`".to_owned(),
            what: problem.unwrap_or_default(),
        })
    }

    /// Whether both copies are there.
    pub(crate) fn has_identity(&self) -> bool {
        let copies = ["identity", "identity.copy"].map(|name| self.store().join(name));
        copies
            .iter()
            .all(|path| !matches!(path.try_exists(), Ok(false)))
    }

    /// Refuses to write to another store than the open one: a disk may have been mounted over the data directory, or the directory
    /// replaced. The lock does not tell, since it is on the file that is hidden then.
    pub(crate) fn check_same_store(&self, opened: &Identity) -> Result<(), StoreError> {
        match self.identity() {
            Ok(found) if found.instance != opened.instance => Err(StoreError::Failed(format!(
                "{}: another store has taken the place of the open one, as by a mount; nothing is written to it",
                self.store().display()
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn write_identity(&self, identity: &Identity) -> Result<(), StoreError> {
        make_directory(&self.store(), self.sync)?;
        let text = write(identity);
        // The copies are written one after the other, so that a power cut leaves at least one of them complete.
        for name in ["identity", "identity.copy"] {
            replace_file(&self.store().join(name), text.as_bytes(), self.sync)?;
        }
        Ok(())
    }

    pub(crate) fn move_aside(&self, path: &Path, kind: &str) -> Result<PathBuf, StoreError> {
        let aside = self.aside();
        make_directory(&aside, self.sync)?;
        let mut of_kind = Vec::new();
        for entry in data_file::list(&aside)? {
            let path = entry.path();
            let number = path
                .file_name()
                .and_then(|found| found.to_str()?.strip_prefix(kind)?.strip_prefix('.'))
                .and_then(|number| number.parse::<u32>().ok());
            of_kind.extend(number.map(|number| (number, path)));
        }
        of_kind.sort();
        // The number is above all existing ones, so that the highest number is the latest.
        let number = of_kind.last().map_or(1, |(last, _)| last + 1);
        let moved = aside.join(format!("{kind}.{number}"));
        rename(path, &moved, self.sync)?;
        for (_, path) in of_kind.iter().rev().skip(ASIDE_KEPT - 1) {
            if path.is_dir() {
                fs::remove_dir_all(path).map_err(at("remove", path))?;
            } else {
                fs::remove_file(path).map_err(at("remove", path))?;
            }
        }
        Ok(moved)
    }

    /// The name is part of the format.
    pub(crate) fn restore_note(&self) -> PathBuf {
        self.store().join("word")
    }

    /// Present in the data directory of a member of a fleet. The name is part of the format.
    pub(crate) fn fleet_member(&self) -> PathBuf {
        self.data.join("fleet").join("member.json")
    }

    /// Names the backup of a format upgrade until a client changes something. `packaging/rollback` reads it.
    pub(crate) fn upgrade_backup(&self) -> PathBuf {
        self.store().join("upgrade-backup")
    }

    pub(crate) fn mark_staged_complete(&self) -> Result<(), StoreError> {
        // The empty file is renamed into place: it exists only if everything before it was synced.
        Ok(replace_file(&self.staged().whole(), b"", self.sync)?)
    }

    pub(crate) fn whole(&self) -> PathBuf {
        self.store().join("whole")
    }
}

/// The directory of one engine. A `whole` mark says that it is complete; a `suspect` mark says that
/// it must not be opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineDir {
    number: u32,
    pub(crate) path: PathBuf,
}

impl EngineDir {
    fn is_whole(&self) -> bool {
        self.path.join("whole").exists()
    }

    pub(crate) fn mark_whole(&self, sync: bool) -> Result<(), StoreError> {
        // The engine's files were synced before; the mark must not survive without them.
        replace_file(&self.path.join("whole"), b"", sync)?;
        if sync && let Some(store) = self.path.parent() {
            sync_directory(store)?;
        }
        Ok(())
    }

    pub(crate) fn suspect_reason(&self) -> Option<String> {
        let bytes = data_file::read(&self.path.join("suspect")).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn mark_suspect(&self, reason: &str) -> Result<(), StoreError> {
        Ok(replace_file(
            &self.path.join("suspect"),
            reason.as_bytes(),
            true,
        )?)
    }
}

fn write(identity: &Identity) -> String {
    let Identity {
        format,
        reached,
        instance,
        lineage,
        begun,
    } = identity;
    let ancestors: Vec<String> = lineage
        .ancestors
        .iter()
        .map(|(timeline, until)| format!("{}:{until}", HEXLOWER.encode(timeline)))
        .collect();
    let body = format!(
        "format = {format}\nreached = {reached}\ninstance = {}\ntimeline = {}\nancestors = {}\nbegun = {begun}\n",
        HEXLOWER.encode(instance),
        HEXLOWER.encode(&lineage.current),
        ancestors.join(" "),
    );
    // The checksum comes last, so that a file that was cut is damaged.
    format!("{body}sum = {:08x}\n", crc32fast::hash(body.as_bytes()))
}

fn parse(text: &str) -> Option<Identity> {
    let (body, sum) = text.split_once("sum = ")?;
    let sum = u32::from_str_radix(sum.trim_end(), 16).ok()?;
    if crc32fast::hash(body.as_bytes()) != sum {
        return None;
    }
    let value = |name: &str| {
        body.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))
    };
    // Versions before timelines wrote only the first three lines.
    let lineage = match value("timeline") {
        Some(current) => Lineage {
            current: from_hex(current)?,
            ancestors: value("ancestors")?
                .split_whitespace()
                .map(|ancestor| {
                    let (timeline, until) = ancestor.split_once(':')?;
                    Some((from_hex(timeline)?, until.parse().ok()?))
                })
                .collect::<Option<_>>()?,
        },
        None => Lineage::default(),
    };
    Some(Identity {
        format: value("format")?.parse().ok()?,
        reached: value("reached")?.parse().ok()?,
        instance: from_hex(value("instance")?)?,
        lineage,
        begun: value("begun") == Some("true"),
    })
}

pub(crate) const fn check_format(found: u32, known: u32) -> Result<(), StoreError> {
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    Ok(())
}
