//! Answers about users.

use serde::Serialize;

use crate::partner::users::answer::UserBody;
use playgate_domain::accounts::User;
use playgate_services::Services;
use playgate_types::{Described, JsonType, PartnerId};

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagedUser {
    #[serde(flatten)]
    pub user: UserBody,
    /// Id of the user's partner.
    pub partner_id: PartnerId,
    /// Whether a PIN is set.
    pub has_pin: bool,
    /// Whether the account is disabled.
    pub disabled: bool,
    /// Number of devices that the user may register. Absent if a tag lifts the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_limit: Option<u32>,
}

impl ManagedUser {
    pub(crate) fn new(services: &Services, user: &User) -> Self {
        Self {
            device_limit: services.playback.device_limit(user),
            user: user.into(),
            partner_id: user.partner,
            has_pin: user.has_pin,
            disabled: user.disabled,
        }
    }
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedUser {
    /// Id of the user.
    #[described(JsonType::Named("UserId"))]
    pub user_id: String,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserImportBody {
    /// Whether this was a dry run, which adds no users.
    pub dry_run: bool,
    /// Number of lines read, empty ones included.
    pub lines: u64,
    /// Number of users that the import adds.
    pub added: u64,
    /// Number of lines whose address already has an account. Those accounts are unchanged.
    pub existing: u64,
    /// Number of lines that were not imported because of an error.
    pub rejected: u64,
    /// The first 1,000 rejected lines.
    pub failed: Vec<ReportedLine>,
    /// Number of notes, of which `notes` has the first.
    pub noted: u64,
    /// The first 1,000 notes: names that were cleaned, unknown members that were left out, and lines with the address of an
    /// earlier line.
    pub notes: Vec<ReportedLine>,
}

/// A line that was rejected, repaired or taken in part.
#[derive(Described, Serialize)]
pub(crate) struct ReportedLine {
    /// Line number, counted from 1.
    pub line: u64,
    /// E-mail address as the line has it. Absent if the line has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Why the line was rejected, or what was repaired or left out.
    pub message: String,
}

impl UserImportBody {
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
