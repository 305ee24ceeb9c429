//! The media directory, which the built-in origin serves.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use playgate_types::MediaPath;

#[derive(Debug)]
pub struct MediaFile {
    pub file: File,
    pub length: u64,
    /// Modification time in nanoseconds since the Unix epoch. Together with the length it identifies a
    /// version of the file.
    pub changed: u128,
}

/// The media directory. It may be created or mounted after the start.
#[derive(Clone, Debug)]
pub struct MediaDirectory(PathBuf);

impl MediaDirectory {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Opens a file; blocks. `None` if there is no such regular file, or if a symbolic link leads out of the
    /// directory.
    pub fn open(&self, path: &MediaPath) -> io::Result<Option<MediaFile>> {
        match self.try_open(path) {
            // A client sees 404 for all of these; anything else is a fault of the disk and a 500.
            Err(error) if is_absence(&error) => Ok(None),
            other => other,
        }
    }

    fn try_open(&self, path: &MediaPath) -> io::Result<Option<MediaFile>> {
        // Resolved at each call: the directory may be mounted after the start.
        let root = self.0.canonicalize()?;
        // The path itself contains no `..`; only a symbolic link can lead outside.
        let target = root.join(path.as_str()).canonicalize()?;
        // Checked before opening: opening a named pipe blocks until it has a writer.
        if !target.starts_with(&root) || !fs::metadata(&target)?.is_file() {
            return Ok(None);
        }
        let file = File::open(&target)?;
        // The metadata of the open file, not of the path: the file may have been replaced since.
        let metadata = file.metadata()?;
        let changed = metadata.modified()?.duration_since(UNIX_EPOCH);
        Ok(Some(MediaFile {
            file,
            length: metadata.len(),
            changed: changed.map_or(0, |since| since.as_nanos()),
        }))
    }
}

/// `ELOOP` on Linux: a cycle of symbolic links.
const TOO_MANY_LINKS: i32 = 40;

fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    // An unreadable file counts as absent, and so does a name that the file system does not allow.
    matches!(
        error.kind(),
        Kind::NotFound | Kind::NotADirectory | Kind::PermissionDenied | Kind::InvalidFilename
    ) || error.raw_os_error() == Some(TOO_MANY_LINKS)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_the_directory_is_opened() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let root = inside.path();
        fs::create_dir(root.join("film")).unwrap();
        fs::write(root.join("film/1.m4s"), "segment").unwrap();
        symlink(outside.path().join("secret"), root.join("film/leaf")).unwrap();
        symlink(outside.path(), root.join("way")).unwrap();
        symlink("1.m4s", root.join("film/alias")).unwrap();
        symlink("loop", root.join("loop")).unwrap();

        let media = MediaDirectory::new(root);
        let open = |path: &str| media.open(&MediaPath::parse(path).unwrap()).unwrap();
        for inside in ["film/1.m4s", "film/alias"] {
            let mut found = open(inside).unwrap();
            let mut text = String::new();
            found.file.read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), found.length), ("segment", 7));
        }
        let long = "x".repeat(300);
        for absent in [
            "film",
            "film/leaf",
            "way/secret",
            "film/2.m4s",
            "film/1.m4s/x",
            "loop",
            &long,
        ] {
            assert!(open(absent).is_none(), "{absent}");
        }
        let later = MediaDirectory::new(root.join("later"));
        assert!(
            later
                .open(&MediaPath::parse("a").unwrap())
                .unwrap()
                .is_none()
        );
    }
}
