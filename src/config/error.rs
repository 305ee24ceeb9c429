//! Configuration errors.

use std::fmt;

use super::Provenance;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub origin: Option<Provenance>,
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "{origin}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// All errors of a configuration; those of the file come first, by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl ConfigProblems {
    pub fn add(&mut self, origin: Option<Provenance>, message: impl Into<String>) {
        self.0.push(ConfigProblem {
            origin,
            message: message.into(),
        });
    }

    pub fn or<T>(self, loaded: Option<T>) -> Result<T, Self> {
        loaded.filter(|_| self.0.is_empty()).ok_or(self)
    }

    pub(super) fn sort(&mut self) {
        self.0
            .sort_by(|a, b| (a.origin.is_none(), &a.origin).cmp(&(b.origin.is_none(), &b.origin)));
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigProblems {}
