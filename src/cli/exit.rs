//! Exit codes that scripts rely on, and the error message of a failed command.

use std::fmt;
use std::io;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::data_file;
use crate::store::StoreError;

/// Exit codes. Scripts depend on them: they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    NotFound = 3,
    /// An import is held for approval.
    Held = 4,
    /// The store or the machine failed.
    Fatal = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    /// Error code of the operators' interface, if it rejected a request.
    code: Option<String>,
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            code: None,
        }
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(super) fn file(path: &std::path::Path, error: &io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        };
        // An error of the data directory has its path and the remedy already.
        if data_file::FileError::find(error).is_some() {
            return Self::new(exit, error.to_string());
        }
        Self::new(exit, format!("{}: {error}", path.display()))
    }

    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub(super) fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    #[must_use]
    pub(super) fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("message".to_owned(), self.message.as_str().into());
        error.insert("exit".to_owned(), (self.exit as u8).into());
        for (name, text) in [("hint", &self.hint), ("code", &self.code)] {
            if let Some(text) = text {
                error.insert(name.to_owned(), text.as_str().into());
            }
        }
        json!({ "error": error })
    }

    #[must_use]
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    #[must_use]
    pub(super) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    #[must_use]
    pub(super) const fn exit(&self) -> Exit {
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

pub(super) const ADOPT: &str = "`--adopt` accepts it with all its data";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(Exit::Fatal, error.to_string());
        match error {
            StoreError::InUse => failure.hint(
                "only one process can open the store: another command has it open, or a server that is starting or could not create its administration socket on a full or read-only disk",
            ),
            StoreError::Newer { .. } | StoreError::NewerRecord { .. } => failure.hint(
                "install that version or a newer one, or run `playgate backup restore FILE`",
            ),
            StoreError::Older { .. } => failure.hint(
                "start the service: it writes a backup and upgrades the store; then repeat the command (a fleet is upgraded as docs/fleet.md says)",
            ),
            StoreError::InFleet => failure.hint(
                "start the service and repeat the command, which then reaches the owner; or run `playgate fleet leave`",
            ),
            StoreError::NotJoined => failure.hint("run `playgate fleet join` again, with a new invitation"),
            StoreError::NotReplaceable(_) => failure.hint(
                "stop the service, move what `store` leads to and the other files of the data directory to one file system, and let `data_dir`, the mount point or the link name their common directory",
            ),
            StoreError::NotEmpty => failure.hint("import into a new data directory"),
            StoreError::Foreign => failure.hint(ADOPT),
            StoreError::Lost(_) => failure.hint(
                "restore a backup (`playgate backup list`, `playgate backup restore FILE`), export readable records with `playgate store export --salvage FILE`, or continue without the lost data with `playgate store recover --accept-loss`",
            ),
            StoreError::Hung => failure,
            StoreError::Damaged { .. } => failure.hint("`playgate store verify` lists the damage"),
            StoreError::Full
            | StoreError::NoRoom { .. }
            | StoreError::NoDescriptor(_)
            | StoreError::NotSynced(_)
            | StoreError::Overloaded
            | StoreError::TooLarge { .. }
            | StoreError::Failed(_)
            | StoreError::Engine(_)
            | StoreError::Io(_)
            | StoreError::Moved
            | StoreError::Unsettled
            | StoreError::SharedLog(_)
            | StoreError::ChangeTooLarge
            | StoreError::Closed => failure,
        }
    }
}

pub(super) type CommandResult = Result<(), Failure>;
