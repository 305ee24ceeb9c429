//! Keys of the appliance, each in a file of its own beside the store: made on the first start, never
//! in the store, so that a copy of the store alone opens nothing.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use ring::hmac;

use crate::ports::Entropy;

/// The directory of key files below the data directory.
const DIRECTORY: &str = "keys";
/// What content keys are sealed with.
pub const CONTENT: &str = "content.key";
/// What chooses the stand-ins of unknown users.
pub const ACCOUNTS: &str = "accounts.key";
/// What tokens and PINs of queued mails are sealed with.
pub const MAIL: &str = "mail.key";
/// What addresses of the built-in origin are signed with.
pub const ORIGIN: &str = "origin.key";

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It holds something else.
    #[error("{}: holds no key of 32 bytes in hexadecimal", .0.display())]
    Malformed(PathBuf),
    /// It is gone, and something is sealed with it.
    #[error("{}: is missing, and {sealed} content keys of the catalogue are sealed with it", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// How many.
        sealed: usize,
    },
    /// It is another one than what is sealed was sealed with.
    #[error("{}: is another key than the one that {sealed} content keys of the catalogue are sealed with", path.display())]
    Exchanged {
        /// The file.
        path: PathBuf,
        /// How many.
        sealed: usize,
    },
}

impl KeyError {
    /// What an operator can do about it.
    #[must_use]
    pub const fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Missing { .. } | Self::Exchanged { .. } => Some(
                "put the file back from the copy that is kept with the backups, or from the machine that \
                 the backup was made on; or give these content keys up with `playgate catalog drop-keys`, \
                 and import the catalogue with its keys again",
            ),
            Self::File { .. } | Self::Malformed(_) => None,
        }
    }
}

/// The file of a key.
#[must_use]
pub fn path(data_dir: &Path, name: &str) -> PathBuf {
    data_dir.join(DIRECTORY).join(name)
}

/// Reads a key; nothing if there is no such file.
///
/// # Errors
/// [`KeyError`].
pub fn read(data_dir: &Path, name: &str) -> Result<Option<[u8; 32]>, KeyError> {
    let path = path(data_dir, name);
    match fs::read(&path) {
        Ok(content) => decode(&content).ok_or(KeyError::Malformed(path)).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KeyError::File { path, error }),
    }
}

/// Reads a key, or makes it.
///
/// # Errors
/// [`KeyError`].
pub fn read_or_make(
    data_dir: &Path,
    name: &str,
    entropy: &dyn Entropy,
) -> Result<[u8; 32], KeyError> {
    if let Some(key) = read(data_dir, name)? {
        return Ok(key);
    }
    let (path, key) = (path(data_dir, name), entropy.array());
    match write(&data_dir.join(DIRECTORY), &path, &key) {
        Ok(()) => Ok(key),
        Err(error) => Err(KeyError::File { path, error }),
    }
}

/// What tells one key from another and tells nothing of the key; none if there is no key.
#[must_use]
pub fn fingerprint(data_dir: &Path, name: &str) -> Option<String> {
    let content = fs::read(data_dir.join(DIRECTORY).join(name)).ok()?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &decode(&content)?);
    let tag = hmac::sign(&key, b"playgate key fingerprint");
    Some(HEXLOWER.encode(tag.as_ref().first_chunk::<8>()?))
}

fn decode(content: &[u8]) -> Option<[u8; 32]> {
    let key = HEXLOWER.decode(content.trim_ascii()).ok()?;
    key.try_into().ok()
}

/// Written aside, synced and renamed: a power cut leaves a whole key or none, never a torn one that
/// content keys were sealed with.
fn write(directory: &Path, path: &Path, key: &[u8; 32]) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let aside = path.with_extension("new");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&aside)?;
    writeln!(file, "{}", HEXLOWER.encode(key))?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::ports::entropy::SeededEntropy;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let data = tempfile::tempdir().unwrap();
        let key = read_or_make(data.path(), CONTENT, &SeededEntropy::new(1)).unwrap();
        let again = read_or_make(data.path(), CONTENT, &SeededEntropy::new(2)).unwrap();
        assert_eq!(key, again);
        let print = fingerprint(data.path(), CONTENT).unwrap();
        assert_eq!(print.len(), 16);
        assert!(!HEXLOWER.encode(&key).contains(&print));
        assert_eq!(fingerprint(data.path(), ORIGIN), None);
        let path = data.path().join(DIRECTORY).join(CONTENT);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::write(&path, "torn").unwrap();
        let damaged = read_or_make(data.path(), CONTENT, &SeededEntropy::new(3));
        assert!(matches!(damaged, Err(KeyError::Malformed(_))));
    }
}
