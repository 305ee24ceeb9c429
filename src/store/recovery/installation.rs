//! Installs a restored, joined or imported store in the place of the present one.

use std::path::Path;
use std::{fs, io};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::StoreError;
use crate::layout::StoreLayout;
use playgate_process::data_file::at;
use playgate_process::files::{make_directory, rename, sync_directory};

impl StoreLayout {
    /// Installs a staged store and keeps the replaced one. After a kill at any step, the next start
    /// completes the installation.
    pub(crate) fn install_staged(&self) -> Result<(), StoreError> {
        let staged = self.staged();
        if staged.whole().exists() {
            match self.switch_to(&staged) {
                // A start that failed here would fail every time, although the old store is whole.
                Err(error @ StoreError::NotReplaceable(_)) if self.exists() => {
                    tracing::error!(%error, "cannot install the restored store; dropped it, and serving the store that is there");
                }
                other => other?,
            }
        }
        if self.whole().exists() {
            // The mark moved with the new store, so the store in the staging directory is the old
            // one.
            for old in [staged.store(), self.replaced_store()] {
                if old.exists() {
                    let moved = self.move_aside(&old, "store")?;
                    tracing::warn!(kept = %moved.display(), "installed a restored or copied store; kept the old one");
                }
            }
            let whole = self.whole();
            fs::remove_file(&whole).map_err(at("remove", &whole))?;
        }
        match self.clear_staged() {
            // Leftovers are never read, so a disk that is not writable must not prevent the start.
            Err(StoreError::Full) => Ok(()),
            other => other,
        }
    }

    fn switch_to(&self, staged: &Self) -> Result<(), StoreError> {
        if self.exists() {
            self.exchange_with_staged(staged)?;
        } else {
            rename(&staged.store(), &self.store(), false)?;
        }
        sync_directory(self.directory())?;
        Ok(sync_directory(staged.directory())?)
    }

    fn exchange_with_staged(&self, staged: &Self) -> Result<(), StoreError> {
        let (new, old) = (staged.store(), self.store());
        if is_link(&old) {
            return Err(not_replaceable(&old, "it is a link"));
        }
        match renameat_with(CWD, &new, CWD, &old, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(()),
            // NFS, CIFS and older file systems: the old store is renamed first, and a start that finds only a
            // staged store completes the installation.
            Err(errno) if is_exchange_unsupported(errno) => self.rename_both(staged),
            Err(errno) => Err(renaming_error(&old, errno.into())),
        }
    }

    /// Checks that the store can be replaced, before a restore is unpacked.
    pub(crate) fn check_replaceable(&self) -> Result<(), StoreError> {
        let store = self.store();
        if !self.exists() {
            return Ok(());
        }
        if is_link(&store) {
            return Err(not_replaceable(&store, "it is a link"));
        }
        let occupied = self.restored().join("probe");
        make_directory(&occupied.join("inside"), false)?;
        // Never succeeds, since the target is not empty. The kernel refuses a mount point and a directory of a lower layer of
        // an overlay before it looks at the target.
        let refused = fs::rename(&store, &occupied);
        let _ = fs::remove_dir_all(&occupied);
        match refused {
            Err(error) => match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(renaming_error(&store, error)),
            },
            Ok(()) => Ok(()),
        }
    }

    /// Logs a message if the file system cannot exchange two directories, before a restore depends on it.
    pub(crate) fn report_missing_exchange(&self) {
        let restored = self.restored();
        let [one, other] = ["one", "other"].map(|name| restored.join(name));
        // The test uses the staging directory, where the next start removes leftovers.
        let made = [&restored, &one, &other].map(|path| fs::create_dir(path).is_ok());
        if made == [true; 3]
            && let Err(errno) = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE)
            && is_exchange_unsupported(errno)
        {
            tracing::info!(
                path = %self.directory().display(),
                "the file system cannot exchange two directories atomically: a restore uses two renames"
            );
        }
        // On a full disk some of them may not exist.
        for path in [&one, &other, &restored] {
            let _ = fs::remove_dir(path);
        }
    }

    pub(crate) fn rename_both(&self, staged: &Self) -> Result<(), StoreError> {
        let (store, replaced) = (self.store(), self.replaced_store());
        // Synced between the renames: a power cut must not undo only the first one.
        rename(&store, &replaced, self.sync).map_err(|error| renaming_error(&store, error))?;
        rename(&staged.store(), &store, self.sync).map_err(|error| {
            // Otherwise no start would find a store.
            let _ = rename(&replaced, &store, self.sync);
            renaming_error(&store, error)
        })
    }

    pub(crate) fn clear_staged(&self) -> Result<(), StoreError> {
        let restored = self.restored();
        match fs::remove_dir_all(&restored) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(at("remove", &restored)(error).into())
            }
            _ => Ok(()),
        }
    }
}

const fn is_exchange_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.is_symlink())
}

fn renaming_error(store: &Path, error: io::Error) -> StoreError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::BUSY) => not_replaceable(store, "it is a mount point"),
        Some(Errno::XDEV) => not_replaceable(
            store,
            "it is on another file system than the data directory, or in a lower layer of an overlay",
        ),
        _ => at("rename to", store)(error).into(),
    }
}

fn not_replaceable(store: &Path, why: &str) -> StoreError {
    StoreError::NotReplaceable(format!("{} cannot be replaced: {why}", store.display()))
}
