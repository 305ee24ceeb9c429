//! The membership of a data directory in a fleet, which is the file `fleet/member.json`, and the invitation of another
//! member.

use std::path::{Path, PathBuf};
use std::{fs, io};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use playgate_ports::private_file;
use playgate_process::data_file;
use playgate_store::replication::{FleetId, MemberId};
use playgate_types::from_hex;
use playgate_types::pasted::unwrapped;

/// The store rejects every other use of a data directory with `member.json` in this directory.
const DIRECTORY: &str = "fleet";
const MEMBER: &str = "member.json";
const INVITATIONS: &str = "invitations";
const VERSION: u32 = 1;
/// Validity of an invitation in seconds.
pub const INVITED_FOR: i64 = 24 * 3_600;

const WORD: &[u8; 3] = b"pg1";

#[derive(Clone, PartialEq, Eq)]
pub struct Membership {
    pub fleet: FleetId,
    pub member: MemberId,
    pub name: String,
    /// The seed of the key that all members share. It is a secret.
    pub key: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct MemberFile {
    version: u32,
    fleet: String,
    member: String,
    name: String,
    key: String,
}

#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    #[error("{error}")]
    File { path: PathBuf, error: io::Error },
    #[error("{}: is damaged or was written by a newer version", .0.display())]
    Damaged(PathBuf),
    #[error("the invitation is incomplete or mistyped")]
    BadWord,
}

pub fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join(DIRECTORY)
}

impl Membership {
    /// Returns `None` if the data directory belongs to no fleet.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, MembershipError> {
        let path = directory(data_dir).join(MEMBER);
        let bytes = match data_file::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(MembershipError::File { path, error }),
        };
        let parsed = serde_json::from_slice::<MemberFile>(&bytes).ok();
        let read = parsed
            // Another version of the file may have other meanings.
            .filter(|file| file.version == VERSION)
            .and_then(|file| {
                Some(Self {
                    fleet: from_hex(&file.fleet)?,
                    member: from_hex(&file.member)?,
                    key: from_hex(&file.key)?,
                    name: file.name,
                })
            });
        read.map(Some).ok_or(MembershipError::Damaged(path))
    }

    pub fn write(&self, data_dir: &Path) -> Result<(), MembershipError> {
        let file = MemberFile {
            version: VERSION,
            fleet: HEXLOWER.encode(&self.fleet),
            member: HEXLOWER.encode(&self.member),
            name: self.name.clone(),
            key: HEXLOWER.encode(&self.key),
        };
        let text = serde_json::to_string_pretty(&file).unwrap_or_default();
        write(&directory(data_dir), MEMBER, &text)
    }

    pub fn remove(data_dir: &Path) -> Result<(), MembershipError> {
        let path = directory(data_dir);
        fs::remove_dir_all(&path)
            .map_err(data_file::at("remove", &path))
            .map_err(|error| MembershipError::File { path, error })
    }

    pub fn member_hex(&self) -> String {
        HEXLOWER.encode(&self.member)
    }
}

/// The content of the word that `playgate fleet invite` prints. Its secret admits one member.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Public key of the fleet, which identifies the inviting member. The key itself comes with its answer.
    pub public_key: [u8; 32],
    pub secret: [u8; 16],
    /// `host:port` of the inviting member.
    pub address: String,
}

impl Invitation {
    pub fn word(&self) -> String {
        let mut bytes = WORD.to_vec();
        bytes.extend(self.public_key);
        bytes.extend(self.secret);
        bytes.extend(self.address.as_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    pub fn parse(word: &str) -> Result<Self, MembershipError> {
        Self::decode(word).ok_or(MembershipError::BadWord)
    }

    fn decode(word: &str) -> Option<Self> {
        // A terminal breaks the word, and people put it in quotes.
        let word: String = unwrapped(word).split_whitespace().collect();
        let bytes = BASE64URL_NOPAD.decode(word.as_bytes()).ok()?;
        let (covered, sum) = bytes.split_last_chunk::<4>()?;
        // The checksum detects a mistyped word.
        if crc32fast::hash(covered) != u32::from_le_bytes(*sum) {
            return None;
        }
        let rest = covered.strip_prefix(WORD)?;
        let (public_key, rest) = rest.split_first_chunk()?;
        let (secret, address) = rest.split_first_chunk()?;
        Some(Self {
            public_key: *public_key,
            secret: *secret,
            address: String::from_utf8(address.to_vec()).ok()?,
        })
    }

    /// Allows the service of this data directory to admit one member that presents the secret, until the given time.
    pub fn record(&self, data_dir: &Path, until: i64) -> Result<(), MembershipError> {
        let invitations = directory(data_dir).join(INVITATIONS);
        write(&invitations, &name_of(&self.secret), &until.to_string())
    }
}

/// Uses up an invitation. Returns whether it was valid.
pub fn use_invitation(data_dir: &Path, secret: [u8; 16], now: i64) -> bool {
    let path = directory(data_dir).join(INVITATIONS).join(name_of(&secret));
    let until = data_file::read_to_string(&path).ok();
    // The removal is atomic: of two requests with one secret, only the one that removes the file is admitted.
    fs::remove_file(&path).is_ok()
        && until.is_some_and(|until| until.trim().parse::<i64>().is_ok_and(|until| now < until))
}

fn name_of(secret: &[u8; 16]) -> String {
    // The name is a hash of the secret, so that a copy of the directory admits nobody.
    HEXLOWER.encode(digest(&SHA256, secret).as_ref())
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), MembershipError> {
    private_file::write(directory, name, text.as_bytes()).map_err(|error| MembershipError::File {
        path: directory.join(name),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membership_is_read_as_it_was_written_and_damage_is_an_error() {
        let data = tempfile::tempdir().unwrap();
        assert!(Membership::read(data.path()).unwrap().is_none());
        let membership = Membership {
            fleet: [1; 16],
            member: [2; 16],
            name: "north".to_owned(),
            key: [3; 32],
        };
        membership.write(data.path()).unwrap();
        assert!(Membership::read(data.path()).unwrap() == Some(membership));
        fs::write(data.path().join("fleet/member.json"), "{}").unwrap();
        let damaged = Membership::read(data.path());
        assert!(matches!(damaged, Err(MembershipError::Damaged(_))));
    }

    #[test]
    fn a_mistyped_invitation_is_refused() {
        let invitation = Invitation {
            public_key: [7; 32],
            secret: [8; 16],
            address: "[::1]:7080".to_owned(),
        };
        let word = invitation.word();
        let (head, tail) = word.split_at(40);
        for pasted in [
            format!(" {word}\n"),
            format!("\"{word}\""),
            format!("{head}\r\n{tail}"),
            format!("\u{feff}“{word}”"),
        ] {
            assert!(
                Invitation::parse(&pasted).unwrap() == invitation,
                "{pasted}"
            );
        }
        for at in 0..word.len() {
            let mut mistyped = word.clone().into_bytes();
            mistyped[at] = if mistyped[at] == b'A' { b'B' } else { b'A' };
            let mistyped = String::from_utf8(mistyped).unwrap();
            assert!(Invitation::parse(&mistyped).is_err(), "{at}");
            assert!(Invitation::parse(&word[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn an_invitation_admits_once_and_until_it_expires() {
        let data = tempfile::tempdir().unwrap();
        let invitation = Invitation {
            public_key: [7; 32],
            secret: [8; 16],
            address: String::new(),
        };
        assert!(!use_invitation(data.path(), [8; 16], 10));
        invitation.record(data.path(), 20).unwrap();
        assert!(!use_invitation(data.path(), [9; 16], 10));
        assert!(use_invitation(data.path(), [8; 16], 10));
        assert!(!use_invitation(data.path(), [8; 16], 10));
        invitation.record(data.path(), 20).unwrap();
        assert!(!use_invitation(data.path(), [8; 16], 20));
    }
}
