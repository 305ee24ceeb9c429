//! The promise of a member not to become the owner for some time.

use serde::{Deserialize, Serialize};

/// A promise not to become the owner, and the process that gives it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PromiseGiven {
    /// Empty for a member of an earlier version.
    pub process: String,
    /// Earlier processes of the member that have certainly ended.
    pub ended: Vec<String>,
}

impl PromiseGiven {
    /// Whether the promise binds a member whose record names this process.
    pub(super) fn is_of(&self, process: &str) -> bool {
        process.is_empty()
            || self.process == process
            || self.ended.iter().any(|ended| ended == process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_binds_only_the_process_that_gives_it_and_those_that_have_ended() {
        let given = PromiseGiven {
            process: "b".to_owned(),
            ended: vec!["a".to_owned()],
        };
        assert!(given.is_of("b") && given.is_of("a"));
        // A copy of the member has written the record since.
        assert!(!given.is_of("c"));
        // The record is that of an earlier version.
        assert!(given.is_of(""));
        // A member of an earlier version answers while the record is that of this one.
        assert!(!PromiseGiven::default().is_of("b"));
    }
}
