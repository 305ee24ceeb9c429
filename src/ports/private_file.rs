//! Small files that only the service may read: keys, and the membership of a fleet.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Writes a file, and creates its directory if needed. After a power failure the file is either complete or as it was
/// before: a partial key could already have encrypted something.
pub(crate) fn write(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        // Only the service: the administration group may not read keys.
        .mode(0o700)
        .create(directory)?;
    let path = directory.join(name);
    let aside = path.with_extension("new");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&aside)?;
    file.write_all(content)?;
    // Synced before the rename: the final name must never lead to an incomplete file.
    file.sync_all()?;
    fs::rename(&aside, &path)?;
    // The rename itself becomes durable with the directory.
    File::open(directory)?.sync_all()
}
