//! Free disk space, and which writes it still allows.
//!
//! Writes are rejected long before the disk is full, the least important first. The store itself
//! then meets a full disk only if another program fills it. For that case a ballast file reserves
//! some space: it is deleted as a last resort and recreated when space is available.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::error::StoreError;
use playgate_process::data_file;

const MIB: u64 = 1024 * 1024;
/// The ballast is 2 per cent of the file system, and at most this.
const BALLAST_MAX: u64 = 32 * MIB;

/// Write priorities, highest first. Low-priority writes are rejected first; `Ord` is significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WritePriority {
    Login,
    Change,
    Session,
    Telemetry,
    Journal,
}

pub const NEEDS: [WritePriority; 5] = [
    WritePriority::Login,
    WritePriority::Change,
    WritePriority::Session,
    WritePriority::Telemetry,
    WritePriority::Journal,
];

impl WritePriority {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Change => "change",
            Self::Session => "session",
            Self::Telemetry => "telemetry",
            Self::Journal => "journal",
        }
    }

    /// Describes the effect when this is the highest rejected priority.
    pub const fn refusal(self) -> &'static str {
        match self {
            Self::Journal => "the request journal is paused",
            Self::Telemetry => "telemetry is refused",
            Self::Session => "new playback sessions and telemetry are refused",
            Self::Change => {
                "only log-ins are accepted; sign-ups, playback starts and changes are refused"
            }
            Self::Login => "all writes are refused",
        }
    }

    fn watermark(self, total: u64) -> u64 {
        // A share of the file system, within bounds: 256 MiB are enough to run, and a large disk need not have 5 per
        // cent free.
        let (percent, least, most) = match self {
            Self::Login => (1, MIB, 8 * MIB),
            Self::Change => (2, 4 * MIB, 128 * MIB),
            Self::Session => (4, 6 * MIB, 256 * MIB),
            Self::Telemetry => (8, 10 * MIB, 1024 * MIB),
            Self::Journal => (9, 12 * MIB, 1152 * MIB),
        };
        (total / 100).saturating_mul(percent).clamp(least, most)
    }

    const fn files(self) -> u64 {
        // Each segment of WAL and telemetry needs an inode.
        match self {
            Self::Login => 2,
            Self::Change => 8,
            Self::Session => 12,
            Self::Telemetry => 16,
            Self::Journal => 20,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub free: u64,
    pub total: u64,
    pub files: u64,
}

impl Disk {
    pub(crate) fn refuses(&self) -> Option<WritePriority> {
        NEEDS
            .into_iter()
            .find(|need| self.free < need.watermark(self.total) || self.files < need.files())
    }
}

pub(crate) struct Space {
    directory: PathBuf,
    ballast: PathBuf,
    /// Number of write priorities that are accepted, from the highest on.
    met: AtomicU8,
    free: AtomicU64,
    total: AtomicU64,
    /// Bytes announced since the last check, so that a burst cannot use up the space between two
    /// checks.
    written: AtomicU64,
}

impl Space {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            ballast: directory.join("ballast"),
            met: AtomicU8::new(u8::MAX),
            free: AtomicU64::new(0),
            total: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    pub(crate) fn admits(&self, need: WritePriority) -> bool {
        self.met.load(Ordering::Relaxed) > need as u8
    }

    pub(crate) fn admits_bytes(&self, need: WritePriority, bytes: u64) -> bool {
        if !self.admits(need) {
            return false;
        }
        let (free, total) = self.bytes();
        // Check and addition are one step, so that two threads cannot both use the last space. Rejected bytes are never
        // in the counter: `check` would subtract them as well.
        self.written
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |written| {
                let written = written.checked_add(bytes)?;
                (free.saturating_sub(written) >= need.watermark(total)).then_some(written)
            })
            .is_ok()
    }

    pub(crate) fn refuses(&self) -> Option<WritePriority> {
        let met = usize::from(self.met.load(Ordering::Relaxed));
        NEEDS.get(met).copied()
    }

    pub(crate) fn bytes(&self) -> (u64, u64) {
        (
            self.free.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }

    /// Returns the rejected priority if it has changed.
    pub(crate) fn check(&self) -> Option<Option<WritePriority>> {
        // The counter is read before the free space: a concurrent write is then counted twice and never missed.
        let counted = self.written.load(Ordering::Relaxed);
        let disk = read(&self.directory)?;
        let refused = disk.refuses();
        if refused == Some(WritePriority::Login) {
            // As a last resort, the space of the ballast lets users log in and the store shut down cleanly.
            self.release();
        } else if refused.is_none() && !self.ballast.exists() {
            self.restore(&disk);
        }
        let met = refused.map_or(u8::MAX, |need| need as u8);
        self.free.store(disk.free, Ordering::Relaxed);
        self.total.store(disk.total, Ordering::Relaxed);
        // Only the bytes that were counted before the measurement are part of it.
        self.written.fetch_sub(counted, Ordering::Relaxed);
        let before = self.met.swap(met, Ordering::Relaxed);
        (before != met).then_some(refused)
    }

    pub(crate) fn release(&self) -> bool {
        let gone = fs::remove_file(&self.ballast).is_ok();
        if gone {
            tracing::warn!(
                file = %self.ballast.display(),
                "the disk is full: deleted the file that reserved space for this case; free disk space"
            );
        }
        gone
    }

    fn restore(&self, disk: &Disk) {
        let size = (disk.total / 50).min(BALLAST_MAX);
        // The ballast must not cause any write to be rejected.
        if disk.free < size + WritePriority::Telemetry.watermark(disk.total) {
            return;
        }
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        let made = data_file::open(&options, &self.ballast)
            // The file is allocated and not sparse, since a sparse file reserves nothing.
            .and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, size)?));
        if let Err(error) = made {
            tracing::debug!(file = %self.ballast.display(), %error, "cannot create the file that reserves disk space");
            let _ = fs::remove_file(&self.ballast);
        }
    }
}

pub(crate) fn require_free(directory: &Path, bytes: u64) -> Result<(), StoreError> {
    // A directory that does not exist yet will be on the same disk as its parent.
    let there = directory.ancestors().find(|path| path.is_dir());
    let Some(disk) = there.and_then(read) else {
        // Unknown free space does not prevent the task; the write itself may still fail.
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
        // The disk has enough bytes but no inodes.
        return Err(StoreError::Full);
    }
    Err(StoreError::NoRoom {
        place: directory.display().to_string(),
        needed: bytes.saturating_add(kept),
        free: disk.free,
    })
}

pub(crate) fn read(directory: &Path) -> Option<Disk> {
    let stat = statvfs(directory)
        .inspect_err(|error| tracing::warn!(directory = %directory.display(), %error, "cannot read how much disk space is free"))
        .ok()?;
    Some(Disk {
        // Blocks reserved for root are not available to this process.
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        // File systems without an inode limit report 0 of 0.
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
    fn the_journal_is_rejected_first_and_logins_last() {
        let of = |free| {
            Disk {
                free,
                total: 230 * MIB,
                files: 1_000,
            }
            .refuses()
        };
        assert_eq!(of(60 * MIB), None);
        assert_eq!(of(19 * MIB), Some(WritePriority::Journal));
        assert_eq!(of(12 * MIB), Some(WritePriority::Telemetry));
        assert_eq!(of(7 * MIB), Some(WritePriority::Session));
        assert_eq!(of(3 * MIB), Some(WritePriority::Change));
        assert_eq!(of(0), Some(WritePriority::Login));
    }

    #[test]
    fn bytes_written_since_the_last_check_count() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(folder.path());
        space.check();
        let (free, total) = space.bytes();
        let room = free - WritePriority::Telemetry.watermark(total);
        assert!(space.admits_bytes(WritePriority::Telemetry, room / 2));
        assert!(!space.admits_bytes(WritePriority::Telemetry, room / 2 + 1024 * 1024));
        // The rejected bytes are not counted, and higher priorities have more room.
        assert!(space.admits_bytes(WritePriority::Login, room / 2 + 1024 * 1024));
        space.check();
        assert!(space.admits_bytes(WritePriority::Telemetry, room / 2));
    }

    #[test]
    fn bytes_of_a_rejected_priority_are_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(folder.path());
        space.check();
        // As if the file system had too few inodes: bytes are free.
        space
            .met
            .store(WritePriority::Telemetry as u8, Ordering::Relaxed);
        assert!(!space.admits_bytes(WritePriority::Telemetry, 1));
        assert_eq!(space.written.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn rejected_bytes_are_never_subtracted_by_a_check() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(folder.path());
        space.check();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        assert!(!space.admits_bytes(WritePriority::Telemetry, u64::MAX / 8));
                    }
                });
            }
            for _ in 0..5_000 {
                space.check();
            }
        });
        assert_eq!(space.written.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_large_disk_is_not_kept_empty() {
        let terabyte = 1024 * 1024 * MIB;
        let disk = Disk {
            free: 1152 * MIB,
            total: terabyte,
            files: 1_000,
        };
        assert_eq!(disk.refuses(), None);
    }

    #[test]
    fn missing_inodes_reject_writes_as_well() {
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
