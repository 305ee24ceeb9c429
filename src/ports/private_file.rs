//! Small files that only the service may read: keys, and what makes a machine a member of a fleet.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Writes a file, and makes its directory if that is missing. After a power failure the file is complete or as it was
/// before, and never a part: a partial key may already have encrypted something.
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
    file.sync_all()?;
    fs::rename(&aside, &path)?;
    File::open(directory)?.sync_all()
}
