//! Raises the limit of open files and fits the number of connections to it.

use std::io::pipe;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::output::{CommandResult, Exit, Failure};
use playgate_process::descriptor_reserve;

/// Descriptors reserved for other uses: files of store, telemetry and media, mail and license servers,
/// listeners, pipes of child processes.
const RESERVED_MAX: u64 = 256;

/// Fits the number of connections to the limit of open files. A member of a fleet has as many connections with other members
/// as with clients.
pub(crate) fn provide(connections: &mut u32, is_member: bool) {
    // Otherwise clients could use up the descriptors that the write-ahead log needs for its next file.
    let limit = raise();
    // Before the first client connects: if clients use up all descriptors, maintenance finds none for the reserve.
    descriptor_reserve::fill();
    if let Some(bytes) = getrlimit(Resource::Fsize).current {
        tracing::warn!(
            bytes,
            "the size of files is limited: the service ends once a file of it reaches the limit; remove LimitFSIZE from the unit (`ulimit -f`)"
        );
    }
    let each = if is_member { 2 } else { 1 };
    let allowed = limit.map(|limit| (allowed(limit) / each).max(1));
    let Some(allowed) = allowed.filter(|allowed| allowed < connections) else {
        return;
    };
    tracing::warn!(
        configured = *connections,
        allowed,
        open_files = limit,
        "limits.connections was lowered to fit the limit of open files; raise LimitNOFILE"
    );
    *connections = allowed;
}

/// Fails if too few descriptors are left for the runtime, which would panic.
pub(crate) fn check() -> CommandResult {
    let pipes = [(); 3].map(|()| pipe());
    for opened in pipes {
        opened.map_err(|error| {
            Failure::new(Exit::Fatal, format!("too few file descriptors: {error}"))
                .hint("raise the limit of open files: `ulimit -n`, or LimitNOFILE of the unit")
        })?;
    }
    Ok(())
}

fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current;
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "failed to raise the limit of open files");
            limit.current
        }
    }
}

fn allowed(limit: u64) -> u32 {
    // With a very low limit the service still accepts connections.
    let kept = RESERVED_MAX.min(limit / 2);
    u32::try_from(limit - kept).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_store() {
        for (limit, connections) in [
            (0, 1),
            (1, 1),
            (64, 32),
            (512, 256),
            (1_024, 768),
            (32_768, 32_512),
            (u64::MAX, u32::MAX),
        ] {
            assert_eq!(allowed(limit), connections, "{limit}");
        }
    }

    #[test]
    fn a_configured_number_that_fits_is_kept() {
        let mut connections = 1;
        provide(&mut connections, true);
        assert_eq!(connections, 1);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
