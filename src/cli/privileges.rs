//! Who gives a command, and whose the files are that it makes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Gid, Uid, getuid};
use rustix::thread::{capabilities, set_capabilities, set_thread_res_gid, set_thread_res_uid};

/// Who gave the command, as the audit record keeps it beside what the kernel says: behind `sudo` the
/// user who called that, otherwise the number of this process's user.
#[must_use]
pub fn caller() -> String {
    let own = getuid();
    let before = || {
        let named = ["SUDO_USER", "SUDO_UID"].map(std::env::var_os);
        let mut named = named.into_iter().flatten();
        named.find_map(|name| name.into_string().ok())
    };
    own.is_root()
        .then(before)
        .flatten()
        .filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()))
        .unwrap_or_else(|| own.as_raw().to_string())
}

/// The same where it differs from the user of this process, whom the audit record names.
#[must_use]
pub fn claim() -> Option<String> {
    Some(caller()).filter(|name| *name != getuid().as_raw().to_string())
}

/// Lets root make files as the owner of the data directory, so that a command that opens the store by
/// itself leaves nothing there that the service could not open afterwards. What root may read and write
/// it still may.
///
/// It holds for this thread and those that it starts later: to be called before there are others. Where
/// the system forbids it, as in a container without the capability, files are root's as they would be.
pub fn drop_to_owner_of(data_dir: &Path) {
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
