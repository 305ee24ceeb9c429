//! What is in force, and where it comes from.

use std::fmt;
use std::path::PathBuf;

/// The place that a value, or a mistake, stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// Nobody set it.
    Default,
    /// A line of the configuration file, counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A systemd credential.
    Credential(String),
    /// A flag of the command line, with its dashes.
    Flag(String),
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

/// One key as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The key with its section.
    pub key: String,
    /// Its value as text, secrets masked; nothing if it has none.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: Provenance,
}
