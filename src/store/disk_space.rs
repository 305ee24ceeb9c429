//! The room that is left on the disk, and who may still use it.
//!
//! Writes are refused long before the disk is full, the least important first, so that the store
//! itself never meets a full disk unless another program fills it. For that case a ballast file
//! keeps a little back: it goes when nothing else is left, and comes back with the space.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::{Store, StoreError};

const MIB: u64 = 1024 * 1024;
/// The ballast is 2 per cent of the file system and never more than this.
const BALLAST_MAX: u64 = 32 * MIB;

/// What is refused when room runs out, the last first. The order is the meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WritePriority {
    /// Logins and what goes with them: served until nothing is left.
    Login,
    /// What users and operators change.
    Change,
    /// New playback sessions.
    Session,
    /// What players report.
    Telemetry,
}

/// All of them, in the order in which they are met.
pub const NEEDS: [WritePriority; 4] = [
    WritePriority::Login,
    WritePriority::Change,
    WritePriority::Session,
    WritePriority::Telemetry,
];

impl WritePriority {
    /// Its name, for figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Change => "change",
            Self::Session => "session",
            Self::Telemetry => "telemetry",
        }
    }

    /// What is refused where it is the first that cannot be met.
    #[must_use]
    pub const fn refusal(self) -> &'static str {
        match self {
            Self::Telemetry => "telemetry is refused",
            Self::Session => "nobody can begin to play, and telemetry is refused",
            Self::Change => "log-ins alone are taken; sign-ups, starts and changes are refused",
            Self::Login => "nothing is taken",
        }
    }

    /// How much must be free on a file system of that size: a share of it, within bounds, so that
    /// 256 MiB is enough to run on and nobody keeps 5 per cent of a large disk empty.
    fn watermark(self, total: u64) -> u64 {
        let (percent, least, most) = match self {
            Self::Login => (1, MIB, 8 * MIB),
            Self::Change => (2, 4 * MIB, 128 * MIB),
            Self::Session => (4, 6 * MIB, 256 * MIB),
            Self::Telemetry => (8, 10 * MIB, 1024 * MIB),
        };
        (total / 100).saturating_mul(percent).clamp(least, most)
    }

    /// How many files must still be possible: segments of the log and of telemetry are files.
    const fn files(self) -> u64 {
        match self {
            Self::Login => 2,
            Self::Change => 8,
            Self::Session => 12,
            Self::Telemetry => 16,
        }
    }
}

/// What is known of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Bytes that can still be written by this user.
    pub free: u64,
    /// The size of the file system.
    pub total: u64,
    /// Files that can still be made.
    pub files: u64,
}

impl Disk {
    /// The first need that cannot be met, if there is one.
    #[must_use]
    pub fn refuses(&self) -> Option<WritePriority> {
        NEEDS
            .into_iter()
            .find(|need| self.free < need.watermark(self.total) || self.files < need.files())
    }
}

/// Watches the file system of a directory.
pub(super) struct Space {
    directory: PathBuf,
    ballast: PathBuf,
    /// How many of the needs are met, in order.
    met: AtomicU8,
    free: AtomicU64,
    total: AtomicU64,
    /// Bytes that were announced since the last look: a flood must not outrun the looks.
    written: AtomicU64,
}

impl Space {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            ballast: directory.join("ballast"),
            met: AtomicU8::new(u8::MAX),
            free: AtomicU64::new(0),
            total: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// Whether there is room for something, as of the last look.
    pub(super) fn admits(&self, need: WritePriority) -> bool {
        self.met.load(Ordering::Relaxed) > need as u8
    }

    /// Whether there is room for so many bytes, which are about to be written, after what has been
    /// written since the last look.
    pub(super) fn admits_bytes(&self, need: WritePriority, bytes: u64) -> bool {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (free, total) = self.bytes();
        let room = self.admits(need) && free.saturating_sub(written) >= need.watermark(total);
        if !room {
            self.written.fetch_sub(bytes, Ordering::Relaxed);
        }
        room
    }

    /// The first need that is not met as of the last look, if there is one: it is refused, and all that
    /// come after it.
    pub(super) fn refuses(&self) -> Option<WritePriority> {
        let met = usize::from(self.met.load(Ordering::Relaxed));
        NEEDS.get(met).copied()
    }

    /// Bytes that are free, and bytes in all, as of the last look.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (
            self.free.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }

    /// Looks again; keeps the ballast where there is room for it. Returns what is refused now if that
    /// is something else than before.
    pub(super) fn check(&self) -> Option<Option<WritePriority>> {
        // Before the free space is read: what is written meanwhile is counted twice rather than never.
        let counted = self.written.load(Ordering::Relaxed);
        let disk = read(&self.directory)?;
        let refused = disk.refuses();
        if refused == Some(WritePriority::Login) {
            self.release();
        } else if refused.is_none() && !self.ballast.exists() {
            self.restore(&disk);
        }
        let met = refused.map_or(u8::MAX, |need| need as u8);
        self.free.store(disk.free, Ordering::Relaxed);
        self.total.store(disk.total, Ordering::Relaxed);
        self.written.fetch_sub(counted, Ordering::Relaxed);
        let before = self.met.swap(met, Ordering::Relaxed);
        (before != met).then_some(refused)
    }

    /// Gives the ballast up; says whether there was one.
    pub(super) fn release(&self) -> bool {
        let gone = fs::remove_file(&self.ballast).is_ok();
        if gone {
            tracing::warn!("the disk is full: the ballast is given up");
        }
        gone
    }

    fn restore(&self, disk: &Disk) {
        let size = (disk.total / 50).min(BALLAST_MAX);
        // Only where writing goes on undisturbed beside it.
        if disk.free < size + WritePriority::Telemetry.watermark(disk.total) {
            return;
        }
        let made = File::create(&self.ballast)
            .and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, size)?));
        if let Err(error) = made {
            tracing::debug!(%error, "no ballast");
            let _ = fs::remove_file(&self.ballast);
        }
    }
}

/// Refuses a task that needs so much more on the disk of a directory that too little would be left for
/// everything else.
pub(super) fn require_free(directory: &Path, bytes: u64) -> Result<(), StoreError> {
    // A directory that is not there yet is made on the disk of the one above it.
    let there = directory.ancestors().find(|path| path.is_dir());
    let Some(disk) = there.and_then(read) else {
        return Ok(());
    };
    let left = Disk {
        free: disk.free.saturating_sub(bytes),
        ..disk
    };
    if left.refuses().is_none() {
        return Ok(());
    }
    let kept = WritePriority::Telemetry.watermark(disk.total);
    if disk.free >= bytes.saturating_add(kept) {
        // It is files that run out.
        return Err(StoreError::Full);
    }
    Err(StoreError::NoRoom {
        place: directory.display().to_string(),
        needed: bytes.saturating_add(kept),
        free: disk.free,
    })
}

impl Store {
    /// Whether there is room for something.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub fn admits(&self, need: WritePriority) -> Result<(), StoreError> {
        if self.0.core.admits(need) {
            Ok(())
        } else {
            Err(StoreError::Full)
        }
    }

    /// Whether commits are taken; not while the disk is full or read-only.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.0.core.is_writable()
    }

    /// What is refused since the disk runs full, and all that comes after it.
    #[must_use]
    pub fn refuses(&self) -> Option<WritePriority> {
        self.0.core.disk.as_ref()?.space.refuses()
    }

    /// Bytes that are free on the disk, and bytes in all; nothing of a store in memory.
    #[must_use]
    pub fn space(&self) -> Option<(u64, u64)> {
        Some(self.0.core.disk.as_ref()?.space.bytes())
    }

    /// Whether there is room for so many bytes that are about to be written beside the store, after
    /// what was written since its last look at the disk.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub fn admits_bytes(&self, need: WritePriority, bytes: u64) -> Result<(), StoreError> {
        let disk = self.0.core.disk.as_ref();
        match disk.is_none_or(|disk| disk.space.admits_bytes(need, bytes)) {
            true => Ok(()),
            false => Err(StoreError::Full),
        }
    }
}

/// What is known of the disk of a directory.
pub(super) fn read(directory: &Path) -> Option<Disk> {
    let stat = statvfs(directory)
        .inspect_err(|error| tracing::warn!(%error, "the disk's free space is not known"))
        .ok()?;
    Some(Disk {
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        // Some file systems have no limit, and say 0 of 0.
        files: if stat.f_files == 0 {
            u64::MAX
        } else {
            stat.f_favail
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telemetry_goes_first_and_logins_last() {
        let of = |free| {
            Disk {
                free,
                total: 230 * MIB,
                files: 1_000,
            }
            .refuses()
        };
        assert_eq!(of(60 * MIB), None);
        assert_eq!(of(12 * MIB), Some(WritePriority::Telemetry));
        assert_eq!(of(7 * MIB), Some(WritePriority::Session));
        assert_eq!(of(3 * MIB), Some(WritePriority::Change));
        assert_eq!(of(0), Some(WritePriority::Login));
    }

    #[test]
    fn what_was_written_since_the_last_look_counts() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(folder.path());
        space.check();
        let (free, total) = space.bytes();
        let room = free - WritePriority::Telemetry.watermark(total);
        assert!(space.admits_bytes(WritePriority::Telemetry, room / 2));
        assert!(!space.admits_bytes(WritePriority::Telemetry, room / 2 + 1024 * 1024));
        // What was refused was not written; others have more room.
        assert!(space.admits_bytes(WritePriority::Login, room / 2 + 1024 * 1024));
        space.check();
        assert!(space.admits_bytes(WritePriority::Telemetry, room / 2));
    }

    #[test]
    fn a_large_disk_is_not_kept_empty() {
        let terabyte = 1024 * 1024 * MIB;
        let disk = Disk {
            free: 1024 * MIB,
            total: terabyte,
            files: 1_000,
        };
        assert_eq!(disk.refuses(), None);
    }

    #[test]
    fn files_run_out_as_well() {
        let of = |files| {
            Disk {
                free: 100 * MIB,
                total: 200 * MIB,
                files,
            }
            .refuses()
        };
        assert_eq!(of(100), None);
        assert_eq!(of(14), Some(WritePriority::Telemetry));
        assert_eq!(of(0), Some(WritePriority::Login));
    }
}
