//! The key that all members share, and its rotation while the members run.
//!
//! A rotation has three steps, and each one is taken by every member before the next one begins: the members accept a new key
//! beside the old one, they present the new one, and they accept the old one no more. So two members always accept each other.
//! Every step can be repeated, and each member remembers its own in `next-key.json` beside `member.json`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use data_encoding::HEXLOWER;
use parking_lot::RwLock;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};

use super::membership::{Membership, MembershipError, directory};
use playgate_ports::private_file;
use playgate_types::from_hex;

const NAME: &str = "next-key.json";
const VERSION: u32 = 1;

/// A step of a rotation. All but the first one name the new key by its public half.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStep {
    /// Accept this key beside the present one. The seed, in hexadecimal.
    Offer(String),
    /// Present the new key.
    Present(String),
    /// Accept only the new key.
    Retire(String),
    /// Forget an offer that not all members have accepted.
    Withdraw(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NextKey {
    pub seed: [u8; 32],
    pub is_presented: bool,
}

#[derive(Serialize, Deserialize)]
struct NextKeyFile {
    version: u32,
    key: String,
    presented: bool,
}

pub fn public_key(seed: &[u8; 32]) -> Option<[u8; 32]> {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
    pair.public_key().as_ref().try_into().ok()
}

/// The keys of a member, for all of its connections.
pub struct PeerKeys {
    state: RwLock<KeyState>,
    /// Whose files are changed; `None` for connections of a command.
    member: Option<(Membership, PathBuf)>,
}

#[derive(Clone, Copy)]
struct KeyState {
    current: [u8; 32],
    next: Option<NextKey>,
}

impl PeerKeys {
    /// The keys of a command: one to present and one more to accept.
    pub const fn new(current: [u8; 32], next: Option<NextKey>) -> Self {
        let state = KeyState { current, next };
        Self {
            state: RwLock::new(state),
            member: None,
        }
    }

    /// Reads the keys of a data directory.
    pub fn open(membership: &Membership, data_dir: &Path) -> Result<Self, MembershipError> {
        let path = directory(data_dir).join(NAME);
        let next = match fs::read(&path) {
            Ok(bytes) => Some(parse(&bytes).ok_or(MembershipError::Damaged(path))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(MembershipError::File { path, error }),
        };
        let state = KeyState {
            current: membership.key,
            // A process that ended between the last two writes has the new key as its own already.
            next: next.filter(|next| next.seed != membership.key),
        };
        Ok(Self {
            state: RwLock::new(state),
            member: Some((membership.clone(), data_dir.to_owned())),
        })
    }

    pub fn next(&self) -> Option<NextKey> {
        self.state.read().next
    }

    /// The key that a new member gets; `None` during a rotation.
    pub(super) fn settled(&self) -> Option<[u8; 32]> {
        let state = self.state.read();
        state.next.is_none().then_some(state.current)
    }

    pub fn presented(&self) -> [u8; 32] {
        let state = self.state.read();
        let next = state.next.filter(|next| next.is_presented);
        next.map_or(state.current, |next| next.seed)
    }

    pub(super) fn accepted(&self) -> impl Iterator<Item = [u8; 32]> {
        let state = *self.state.read();
        let seeds = [Some(state.current), state.next.map(|next| next.seed)];
        seeds
            .into_iter()
            .flatten()
            .filter_map(|seed| public_key(&seed))
    }

    /// Takes a step of a rotation, first on disk. Blocks. Returns why it cannot be taken.
    pub(super) fn take(&self, step: &KeyStep) -> Result<(), String> {
        let mut state = self.state.write();
        let named = match step {
            KeyStep::Offer(seed) => {
                let seed: [u8; 32] = from_hex(seed).ok_or("the key is damaged")?;
                return match state.next {
                    Some(next) if next.seed != seed => Err(
                        "it has begun another rotation of the key, which is not finished: run `playgate fleet rotate-key` there"
                            .to_owned(),
                    ),
                    Some(_) => Ok(()),
                    None if state.current == seed => Ok(()),
                    None => {
                        let is_presented = false;
                        self.change(&mut state, Some(NextKey { seed, is_presented }))
                    }
                };
            }
            KeyStep::Present(named) | KeyStep::Retire(named) | KeyStep::Withdraw(named) => named,
        };
        let is_named = |seed: [u8; 32]| {
            public_key(&seed).is_some_and(|public| HEXLOWER.encode(&public) == *named)
        };
        let next = state.next.filter(|next| is_named(next.seed));
        match (step, next) {
            (KeyStep::Withdraw(_), Some(next)) if !next.is_presented => {
                self.change(&mut state, None)
            }
            (KeyStep::Withdraw(_), _) => Ok(()),
            // Done already.
            (_, None) if is_named(state.current) => Ok(()),
            (_, None) => Err("it does not have the new key".to_owned()),
            (KeyStep::Retire(_), Some(next)) if next.is_presented => {
                self.adopt(&mut state, next.seed)
            }
            (KeyStep::Retire(_), Some(_)) => Err("it does not present the new key yet".to_owned()),
            (_, Some(next)) => {
                let is_presented = true;
                self.change(
                    &mut state,
                    Some(NextKey {
                        is_presented,
                        ..next
                    }),
                )
            }
        }
    }

    fn change(&self, state: &mut KeyState, next: Option<NextKey>) -> Result<(), String> {
        if let Some((_, data_dir)) = &self.member {
            let directory = directory(data_dir);
            match next {
                Some(next) => {
                    let file = NextKeyFile {
                        version: VERSION,
                        key: HEXLOWER.encode(&next.seed),
                        presented: next.is_presented,
                    };
                    let text = serde_json::to_string_pretty(&file).unwrap_or_default();
                    private_file::write(&directory, NAME, text.as_bytes())
                }
                None => fs::remove_file(directory.join(NAME)),
            }
            .map_err(|error| format!("{}: {error}", directory.join(NAME).display()))?;
        }
        state.next = next;
        Ok(())
    }

    fn adopt(&self, state: &mut KeyState, seed: [u8; 32]) -> Result<(), String> {
        if let Some((membership, data_dir)) = &self.member {
            let membership = Membership {
                key: seed,
                ..membership.clone()
            };
            let written = membership.write(data_dir);
            written.map_err(|error| error.to_string())?;
        }
        state.current = seed;
        self.change(state, None)
    }
}

fn parse(bytes: &[u8]) -> Option<NextKey> {
    let file: NextKeyFile = serde_json::from_slice(bytes).ok()?;
    (file.version == VERSION).then_some(NextKey {
        seed: from_hex(&file.key)?,
        is_presented: file.presented,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; 32] = [1; 32];
    const NEW: [u8; 32] = [2; 32];

    fn public(seed: [u8; 32]) -> String {
        HEXLOWER.encode(&public_key(&seed).unwrap())
    }

    fn offer(seed: [u8; 32]) -> KeyStep {
        KeyStep::Offer(HEXLOWER.encode(&seed))
    }

    fn membership() -> Membership {
        Membership {
            fleet: [1; 16],
            member: [2; 16],
            name: "north".to_owned(),
            key: OLD,
        }
    }

    #[test]
    fn in_each_order_of_steps_two_members_accept_each_other() {
        let steps = [
            offer(NEW),
            KeyStep::Present(public(NEW)),
            KeyStep::Retire(public(NEW)),
        ];
        let [one, other] = [(); 2].map(|()| PeerKeys::new(OLD, None));
        let accept = |keys: &PeerKeys, presented| {
            let presented = public_key(&presented).unwrap();
            keys.accepted().any(|accepted| accepted == presented)
        };
        for step in &steps {
            for keys in [&one, &other] {
                keys.take(step).unwrap();
                // Repeated after an answer that was lost.
                keys.take(step).unwrap();
                assert!(accept(&one, other.presented()), "{step:?}");
                assert!(accept(&other, one.presented()), "{step:?}");
            }
        }
        for keys in [&one, &other] {
            assert_eq!(keys.settled(), Some(NEW));
            assert!(!accept(keys, OLD));
            // An answer was lost, and the whole rotation is repeated with the same key.
            steps.iter().for_each(|step| keys.take(step).unwrap());
        }
    }

    #[test]
    fn a_step_out_of_order_and_a_second_rotation_change_nothing() {
        let keys = PeerKeys::new(OLD, None);
        assert!(keys.take(&KeyStep::Present(public(NEW))).is_err());
        assert!(keys.take(&KeyStep::Offer("12".to_owned())).is_err());
        keys.take(&offer(NEW)).unwrap();
        assert_eq!(keys.settled(), None);
        assert!(keys.take(&KeyStep::Retire(public(NEW))).is_err());
        let error = keys.take(&offer([3; 32])).unwrap_err();
        assert!(error.contains("rotate-key"), "{error}");
        // Only the own offer is withdrawn, and not after it is presented.
        keys.take(&KeyStep::Withdraw(public([3; 32]))).unwrap();
        assert_eq!(keys.settled(), None);
        keys.take(&KeyStep::Withdraw(public(NEW))).unwrap();
        assert_eq!(keys.settled(), Some(OLD));
        keys.take(&offer(NEW)).unwrap();
        keys.take(&KeyStep::Present(public(NEW))).unwrap();
        keys.take(&KeyStep::Withdraw(public(NEW))).unwrap();
        assert!(keys.presented() == NEW);
    }

    #[test]
    fn a_restart_between_any_two_writes_continues_with_the_keys_of_before() {
        let data = tempfile::tempdir().unwrap();
        membership().write(data.path()).unwrap();
        let open = || {
            let current = Membership::read(data.path()).unwrap().unwrap();
            PeerKeys::open(&current, data.path()).unwrap()
        };
        open().take(&offer(NEW)).unwrap();
        assert!(open().presented() == OLD && open().accepted().count() == 2);
        open().take(&KeyStep::Present(public(NEW))).unwrap();
        assert!(open().presented() == NEW && open().accepted().count() == 2);
        let file = directory(data.path()).join(NAME);
        let between = fs::read(&file).unwrap();
        open().take(&KeyStep::Retire(public(NEW))).unwrap();
        assert!(open().settled() == Some(NEW) && !file.exists());
        // The process ended before the last step removed its file.
        fs::write(&file, between).unwrap();
        assert!(open().settled() == Some(NEW));
        fs::write(&file, "{}").unwrap();
        let current = Membership::read(data.path()).unwrap().unwrap();
        let damaged = PeerKeys::open(&current, data.path());
        assert!(matches!(damaged, Err(MembershipError::Damaged(_))));
    }
}
