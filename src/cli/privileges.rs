//! The calling user, and the ownership of created files.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Gid, Uid, getuid};
use rustix::thread::{capabilities, set_capabilities, set_thread_res_gid, set_thread_res_uid};

/// Returns the caller for the audit log, besides the user reported by the kernel: the user who called
/// `sudo`, otherwise the number of this process's user.
#[must_use]
pub(super) fn caller() -> String {
    let own = getuid();
    let before = || {
        let named = ["SUDO_USER", "SUDO_UID"].map(std::env::var_os);
        let mut named = named.into_iter().flatten();
        named.find_map(|name| name.into_string().ok())
    };
    // Only from root: anybody else could set these variables to hide behind another name.
    own.is_root()
        .then(before)
        .flatten()
        // The name goes into a header, and must not look like two.
        .filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()))
        .unwrap_or_else(|| own.as_raw().to_string())
}

/// Returns the caller if it differs from the user of this process, which the audit log records anyway.
#[must_use]
pub(super) fn claim() -> Option<String> {
    Some(caller()).filter(|name| *name != getuid().as_raw().to_string())
}

/// Makes root create files as the owner of the data directory, so that a command that opens the store
/// itself leaves no files that the service cannot open. Root keeps its read and write permissions.
///
/// Applies to this thread and to threads started later, so call it before starting others. Where the system
/// forbids it, as in a container without the capability, files belong to root.
pub(super) fn drop_to_owner_of(data_dir: &Path) {
    if getuid().is_root()
        && let Ok(directory) = fs::metadata(data_dir)
        && let Err(error) = act_as(directory.uid(), directory.gid())
    {
        tracing::debug!(%error, "cannot switch to the owner of the data directory; new files belong to root");
    }
}

fn act_as(user: u32, group: u32) -> io::Result<()> {
    // The group first: without root's user id it can no longer be changed.
    set_thread_res_gid(None, Gid::from_raw(group), None)?;
    set_thread_res_uid(None, Uid::from_raw(user), None)?;
    // The capabilities lost their effect with the change of user, but are still permitted.
    let mut held = capabilities(None)?;
    held.effective = held.permitted;
    Ok(set_capabilities(None, held)?)
}
