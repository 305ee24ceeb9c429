//! The end of the log of the systemd unit, which only root may read as a whole.

use std::path::Path;

use super::run_limited::output_of;
use playgate_ports::named_file;

/// Stands for the log among the files that root hands down to the process of the data directory's owner.
pub(crate) const HANDED_DOWN: &str = "log of the unit";
const LINES: &str = "2000";

pub(crate) fn read() -> Option<String> {
    let arguments = [
        "--unit=playgate",
        "--lines",
        LINES,
        "--no-pager",
        "--output=short-iso",
    ];
    output_of("journalctl", &arguments)
}

/// Returns the log that root has read, otherwise what this user may read of it.
pub(crate) fn handed_down_or_read() -> Option<String> {
    let handed_down = Path::new(HANDED_DOWN);
    match named_file::is_inherited(handed_down) {
        true => named_file::read_to_string(handed_down).ok(),
        false => read(),
    }
}
