//! Exit codes that scripts rely on, and the error message of a failed command.

use std::process::ExitCode;
use std::{fmt, io};

use serde_json::{Map, Value, json};

use playgate_process::data_file;

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

pub(crate) const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 not found, \
                                     4 held for approval, 5 fatal I/O error.";

#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    /// Error code of the operators' interface, if it rejected a request.
    code: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            code: None,
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// An error of the machine, the store or this program.
    pub(crate) fn fatal(error: impl fmt::Display) -> Self {
        Self::new(Exit::Fatal, error.to_string())
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn file(path: &std::path::Path, error: &io::Error) -> Self {
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

    pub(crate) fn with_message(mut self, message: String) -> Self {
        self.message = message;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    pub(crate) fn to_json(&self) -> Value {
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

    /// Whether the operators' interface refused a request with this code.
    pub(crate) fn is_code(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) const fn exit(&self) -> Exit {
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

pub(crate) const ADOPT: &str = "`--adopt` accepts it with all its data";

pub(crate) type CommandResult = Result<(), Failure>;
