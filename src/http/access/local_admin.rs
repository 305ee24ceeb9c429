//! The local administrator: a user of this machine, identified by the kernel and not by a token.

use std::fmt;

use rustix::process::getuid;

use crate::request::headers::{RequestHeaders, SingleHeader};

/// A user of this machine who opened the local administration socket. The file mode of the socket controls
/// access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Administrator {
    pub uid: u32,
}

/// The overflow uid: what the kernel reports for a user outside the user namespace of the service.
const OVERFLOW_UID: u32 = 65_534;
const CLAIM_MAX: usize = 64;

impl Administrator {
    pub fn here() -> Self {
        Self {
            uid: getuid().as_raw(),
        }
    }
}

/// Returns the name that the caller of the administration socket claims, if it differs from the uid that the
/// kernel reports: the user behind `sudo`, or one hidden by the user namespace. The name is not verified, so
/// the audit record shows it next to the kernel's uid and never instead of it.
pub(crate) fn claim(administrator: Administrator, heads: &RequestHeaders<'_>) -> Option<String> {
    let SingleHeader::One(value) = heads.authorization else {
        return None;
    };
    let claim = value.to_str().ok()?.strip_prefix(LOCAL_SCHEME)?.trim();
    // The claim is not verified: bounded, and on one line of the record.
    let sound = (1..=CLAIM_MAX).contains(&claim.len()) && !claim.contains('\t');
    // The kernel's uid is recorded anyway.
    let differs = claim.parse() != Ok(administrator.uid);
    (sound && differs).then(|| claim.to_owned())
}

/// Prefix of the `Authorization` header that commands send over the administration socket. The name or uid of
/// the calling user follows.
pub const LOCAL_SCHEME: &str = "Local ";

impl fmt::Display for Administrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.uid == OVERFLOW_UID {
            return f.write_str("local administrator, not identified");
        }
        write!(f, "local administrator, uid {}", self.uid)
    }
}
