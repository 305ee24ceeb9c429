//! Key files of the installation, created at the first start. They are never part of the store, so that a
//! copy of the store alone cannot be decrypted.

use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use ring::hmac;

use playgate_ports::{Entropy, private_file};
use playgate_process::data_file;
use playgate_types::from_hex;

const DIRECTORY: &str = "keys";
/// Encrypts content keys.
pub(super) const CONTENT: &str = "content.key";
/// Derives the decoys of unknown users.
pub(super) const ACCOUNTS: &str = "accounts.key";
/// Encrypts tokens and PINs in queued mails.
pub(super) const MAIL: &str = "mail.key";
/// Signs addresses of the built-in origin.
pub(super) const ORIGIN: &str = "origin.key";

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{error}")]
    File { path: PathBuf, error: io::Error },
    #[error("{}: must contain a key of 32 bytes in hexadecimal", .0.display())]
    Malformed(PathBuf),
    #[error("{}: missing, but {sealed} content keys of the catalogue are encrypted with it", path.display())]
    Missing { path: PathBuf, sealed: usize },
    #[error("{}: wrong key: {sealed} content keys of the catalogue are encrypted with another one", path.display())]
    Exchanged { path: PathBuf, sealed: usize },
}

impl KeyError {
    /// Whether the file could be set aside for a new one.
    pub(super) fn is_about_file(&self) -> bool {
        match self {
            Self::File { error, .. } => data_file::is_about_file(error),
            Self::Malformed(_) => true,
            Self::Missing { .. } | Self::Exchanged { .. } => false,
        }
    }

    pub fn advice(&self) -> Option<String> {
        match self {
            Self::Missing { .. } | Self::Exchanged { .. } => Some(
                "restore the file from the copy kept with the backups, or from the machine on which \
                 the backup was made; or delete these content keys with `playgate catalog drop-keys` \
                 and import the catalogue with its keys again"
                    .to_owned(),
            ),
            Self::File { path, .. } => Some(format!(
                "make the file readable for the service's user, or {}",
                replacing(path)
            )),
            Self::Malformed(path) => Some(replacing(path)),
        }
    }
}

/// What the loss of a key means.
pub(super) fn loss(name: &str) -> &'static str {
    match name {
        MAIL => "queued mails with a PIN or a reset token cannot be sent",
        ACCOUNTS => "the decoy hashes of unknown addresses change",
        ORIGIN => "addresses of the built-in origin that were signed before are rejected",
        _ => "content keys in older backups need the old file",
    }
}

fn replacing(path: &Path) -> String {
    const RESTORE: &str = "restore the file from the copy kept with the backups";
    let name = path.file_name().and_then(|name| name.to_str());
    match name {
        Some(name) if name != CONTENT => format!(
            "{RESTORE}; or move it away: the next start makes a new key, and {}",
            loss(name)
        ),
        _ => format!(
            "{RESTORE}; or, if there is none, move it away, delete the content keys with `playgate catalog drop-keys` and import \
             the catalogue with its keys again"
        ),
    }
}

/// Makes room for a new key in the place of a file that cannot be used. What the keys other than the master key protect is made
/// again, so a service that stands still would cost more than the loss.
pub(super) fn set_aside(data_dir: &Path, name: &str, error: KeyError) -> Result<(), KeyError> {
    let path = path(data_dir, name);
    let Ok(kept) = data_file::set_aside(&path) else {
        return Err(error);
    };
    let loss = loss(name);
    tracing::error!(%error, kept = %kept.display(), "a key file cannot be used; set it aside: {loss}. If you have a copy of the key, stop the service, put it at {}, readable for the service's user, and start again", path.display());
    Ok(())
}

pub(super) fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join(DIRECTORY)
}

pub(super) fn path(data_dir: &Path, name: &str) -> PathBuf {
    directory(data_dir).join(name)
}

pub(super) fn read(data_dir: &Path, name: &str) -> Result<Option<[u8; 32]>, KeyError> {
    let path = path(data_dir, name);
    match data_file::read(&path) {
        Ok(content) => decode(&content).ok_or(KeyError::Malformed(path)).map(Some),
        // Absent before the first start.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KeyError::File { path, error }),
    }
}

pub(super) fn make(
    data_dir: &Path,
    name: &str,
    entropy: &dyn Entropy,
) -> Result<[u8; 32], KeyError> {
    let key = entropy.array();
    let text = format!("{}\n", HEXLOWER.encode(&key));
    // Durable before its first use: without the key nothing that it encrypted can be read.
    private_file::write(&data_dir.join(DIRECTORY), name, text.as_bytes()).map_err(|error| {
        KeyError::File {
            path: path(data_dir, name),
            error,
        }
    })?;
    Ok(key)
}

/// Identifies a key without revealing it; `None` if there is no key.
pub(super) fn fingerprint(data_dir: &Path, name: &str) -> Option<String> {
    let key = read(data_dir, name).ok()??;
    // Backups carry this value, and must not help to guess the key.
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    // Backups hold the result: another text here would make every key look exchanged.
    let tag = hmac::sign(&key, b"playgate key fingerprint");
    Some(HEXLOWER.encode(tag.as_ref().first_chunk::<8>()?))
}

fn decode(content: &[u8]) -> Option<[u8; 32]> {
    // Operators copy these files with editors, which end the last line.
    from_hex(content.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use playgate_ports::SeededEntropy;

    #[test]
    fn a_key_is_complete_and_readable_only_by_its_owner() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(read(data.path(), CONTENT).unwrap(), None);
        let key = make(data.path(), CONTENT, &SeededEntropy::new(1)).unwrap();
        assert_eq!(read(data.path(), CONTENT).unwrap(), Some(key));
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
        let damaged = read(data.path(), CONTENT);
        assert!(matches!(damaged, Err(KeyError::Malformed(_))));
    }

    #[test]
    fn an_unusable_key_is_reported_with_what_its_loss_means() {
        let data = tempfile::tempdir().unwrap();
        let advice = |name: &str| read(data.path(), name).unwrap_err().advice().unwrap();
        fs::create_dir(data.path().join(DIRECTORY)).unwrap();
        for (name, word) in [
            (ACCOUNTS, "decoy"),
            (MAIL, "mails"),
            (ORIGIN, "origin"),
            (CONTENT, "copy kept with the backups"),
        ] {
            let file = path(data.path(), name);
            fs::write(&file, "zz").unwrap();
            let damaged = advice(name);
            assert!(damaged.contains(word), "{damaged}");
            assert_eq!(damaged.contains("drop-keys"), name == CONTENT);
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
            let unreadable = advice(name);
            assert!(unreadable.contains("readable") && unreadable.contains(word));
            let error = read(data.path(), name).unwrap_err();
            assert!(error.is_about_file());
            set_aside(data.path(), name, error).unwrap();
            assert!(read(data.path(), name).unwrap().is_none());
        }
    }
}
