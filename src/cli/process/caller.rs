//! The calling user.

use rustix::process::getuid;

/// Names the caller of root's command in the process of the data directory's owner, in which the command continues.
pub(crate) const VARIABLE: &str = "CALLER_OF_PLAYGATE";

/// Returns the caller for the audit log, besides the user reported by the kernel: the user who called
/// `sudo`, otherwise the number of this process's user.
pub(crate) fn name() -> String {
    let caller_uid = getuid();
    let before = || {
        let named = ["SUDO_USER", "SUDO_UID"].map(std::env::var_os);
        let mut named = named.into_iter().flatten();
        named.find_map(|name| name.into_string().ok())
    };
    // Only from root: anybody else could set these variables to hide behind another name. What a user claims here is
    // recorded beside the user that the kernel reports, and never instead.
    let named = match caller_uid.is_root() {
        true => before(),
        false => std::env::var_os(VARIABLE).and_then(|name| name.into_string().ok()),
    };
    named
        // The name goes into a header, and must not look like two.
        .filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()))
        .unwrap_or_else(|| caller_uid.as_raw().to_string())
}

/// Returns the caller if it differs from the user of this process, which the audit log records anyway.
pub(crate) fn claim() -> Option<String> {
    Some(name()).filter(|name| *name != getuid().as_raw().to_string())
}
