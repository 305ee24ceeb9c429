//! How a command ends: the exit codes that scripts rely on, and the sentence for the person.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::store::StoreError;

/// The exit codes. They never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It could not be done.
    Failed = 1,
    /// Wrong usage, or wrong configuration.
    Usage = 2,
    /// What was named does not exist.
    NotFound = 3,
    /// An import waits for approval.
    Held = 4,
    /// The store or the machine failed.
    Fatal = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ended without having done its work.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure of a kind, and what to tell the person.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    /// The plain kind: it could not be done.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Wrong usage or configuration.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A file that was named and cannot be read or written.
    pub fn file(path: &std::path::Path, error: &io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        };
        Self::new(exit, format!("{}: {error}", path.display()))
    }

    /// Adds what the person can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What went wrong, without what can be done about it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What can be done about it.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The exit code.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// What to do about another machine's backup.
pub const ADOPT: &str = "`--adopt` takes it over, with everything in it";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(Exit::Fatal, error.to_string());
        match error {
            StoreError::InUse => failure.hint(
                "one process at a time opens the store: another command is at work, or a server that cannot be asked since it is starting, or could not make its administration socket on a full or read-only disk",
            ),
            StoreError::Newer { .. } => failure.hint(
                "install that version or a newer one, or go back with `playgate backup restore FILE`",
            ),
            StoreError::NotEmpty => failure.hint("import into a data directory that is new"),
            StoreError::Foreign => failure.hint(ADOPT),
            StoreError::Lost(_) => failure.hint(
                "`playgate backup list` shows what there is to go back to, `playgate backup restore FILE` does; `playgate store export --salvage FILE` takes out what can be read; `playgate store recover --accept-loss` goes on with what is left",
            ),
            StoreError::Hung => failure,
            StoreError::Damaged { .. } => failure.hint("`playgate store verify` lists what is damaged"),
            StoreError::Full
            | StoreError::NoRoom { .. }
            | StoreError::NoDescriptor(_)
            | StoreError::NotSynced(_)
            | StoreError::Overloaded
            | StoreError::TooLarge { .. }
            | StoreError::Failed(_)
            | StoreError::Engine(_)
            | StoreError::Io(_)
            | StoreError::Closed => failure,
        }
    }
}

/// What a command's function returns.
pub type Outcome = Result<(), Failure>;
