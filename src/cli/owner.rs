//! Who gives a command, and whose the files are that it makes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Gid, Uid, getuid};
use rustix::thread::{capabilities, set_capabilities, set_thread_res_gid, set_thread_res_uid};

/// The user who gave the command; behind `sudo`, the one who called that.
#[must_use]
pub fn caller() -> u32 {
    let own = getuid();
    let before = || std::env::var_os("SUDO_UID")?.to_str()?.parse().ok();
    own.is_root().then(before).flatten().unwrap_or(own.as_raw())
}

/// Lets root make files as the owner of the data directory, so that a command that opens the store by
/// itself leaves nothing there that the service could not open afterwards. What root may read and write
/// it still may.
///
/// It holds for this thread and those that it starts later: to be called before there are others. Where
/// the system forbids it, as in a container without the capability, files are root's as they would be.
pub fn act_as_owner_of(data_dir: &Path) {
    if getuid().is_root()
        && let Ok(directory) = fs::metadata(data_dir)
        && let Err(error) = act_as(directory.uid(), directory.gid())
    {
        tracing::debug!(%error, "files will be root's");
    }
}

fn act_as(user: u32, group: u32) -> io::Result<()> {
    set_thread_res_gid(None, Gid::from_raw(group), None)?;
    set_thread_res_uid(None, Uid::from_raw(user), None)?;
    // They stopped being effective with the change of the user, and are still permitted.
    let mut held = capabilities(None)?;
    held.effective = held.permitted;
    Ok(set_capabilities(None, held)?)
}
