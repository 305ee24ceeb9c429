//! A profile: rules that do not apply to a client, each with a reason.

use std::collections::BTreeMap;

use super::rules::find;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("there is no rule `{0}`; `playgate lab check --json` lists the rules")]
    UnknownRule(String),
    #[error("rule `{0}` is waived without a reason")]
    NoReason(String),
}

#[derive(Clone, Debug, Default)]
pub struct Profile(BTreeMap<String, String>);

impl Profile {
    /// `waived` maps the id of a rule to the reason.
    ///
    /// # Errors
    /// A rule is unknown, or its reason is empty.
    pub fn new(waived: BTreeMap<String, String>) -> Result<Self, ProfileError> {
        for (id, reason) in &waived {
            if find(id).is_none() {
                return Err(ProfileError::UnknownRule(id.clone()));
            }
            if reason.trim().is_empty() {
                return Err(ProfileError::NoReason(id.clone()));
            }
        }
        Ok(Self(waived))
    }

    pub fn reason(&self, rule: &str) -> Option<&str> {
        self.0.get(rule).map(String::as_str)
    }
}
