//! Answers about users.

use serde::Serialize;

use crate::partner::users::answer::UserReply;
use playgate_domain::accounts::User;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagedUser {
    #[serde(flatten)]
    pub user: UserReply,
    pub partner_id: String,
    pub has_pin: bool,
    pub disabled: bool,
}

impl From<&User> for ManagedUser {
    fn from(user: &User) -> Self {
        Self {
            user: user.into(),
            partner_id: user.partner.to_string(),
            has_pin: user.has_pin,
            disabled: user.disabled,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedUser {
    pub user_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserImportReport {
    pub dry_run: bool,
    pub lines: u64,
    pub added: u64,
    pub existing: u64,
    pub rejected: u64,
    pub failed: Vec<ReportedLine>,
    pub noted: u64,
    pub notes: Vec<ReportedLine>,
}

/// A line that was rejected, repaired or taken in part.
#[derive(Serialize)]
pub(crate) struct ReportedLine {
    pub line: u64,
    /// The address as the line has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    pub message: String,
}

impl UserImportReport {
    pub(crate) const fn new(dry_run: bool) -> Self {
        Self {
            dry_run,
            lines: 0,
            added: 0,
            existing: 0,
            rejected: 0,
            failed: Vec::new(),
            noted: 0,
            notes: Vec::new(),
        }
    }

    pub(crate) fn counts(&self) -> String {
        let Self {
            added,
            existing,
            rejected,
            ..
        } = self;
        format!("{added} added, {existing} existing, {rejected} rejected")
    }
}
