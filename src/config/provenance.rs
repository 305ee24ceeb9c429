//! Effective values and their sources.

use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    Default,
    File { path: PathBuf, line: u64 },
    Variable(String),
    Credential(String),
    Flag(String),
}

impl Provenance {
    pub(super) fn at_line(self, line: u64) -> Self {
        match self {
            Self::File { path, line: _ } => Self::File { path, line },
            other => other,
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Credential(name) => write!(f, "credential {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    pub key: String,
    /// The value as text, with secrets masked; `None` if the key has no value.
    pub value: Option<String>,
    /// A digest of the whole value, if `value` masks or shortens it.
    pub digest: Option<[u8; 32]>,
    pub origin: Provenance,
}
