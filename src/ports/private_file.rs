//! Small files that only the service may read: keys, and the membership of a fleet.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use playgate_process::data_file::{self, at};

/// Writes a file, and creates its directory if needed. After a power failure the file is either complete or as it was
/// before: a partial key could already have encrypted something.
pub fn write(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    make_directory(directory)?;
    let path = directory.join(name);
    let aside = path.with_extension("new");
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = data_file::open(&options, &aside)?;
    file.write_all(content).map_err(at("write", &aside))?;
    // Synced before the rename: the final name must never lead to an incomplete file.
    file.sync_all().map_err(at("sync", &aside))?;
    fs::rename(&aside, &path).map_err(at("rename to", &path))?;
    // The rename itself becomes durable with the directory.
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(at("sync the directory", directory))
}

/// Creates a directory if it does not exist, with its parents.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        // Only the service: the administration group may not read keys.
        .mode(0o700)
        .create(directory)
        .map_err(at("create the directory", directory))
}

/// Creates an empty file, in place of an existing one.
pub fn create(path: &Path) -> io::Result<File> {
    // The mode applies to new files only.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(at("remove", path)(error));
        }
        _ => {}
    }
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(at("create", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_owner_may_read_files_and_directories() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a/b");
        make_directory(&directory).unwrap();
        let path = directory.join("file");
        // A file of an earlier attempt that everyone may read.
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(create(&path).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}
