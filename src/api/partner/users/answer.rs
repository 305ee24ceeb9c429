//! The user's account, login sessions, and the export of a user's data.

use serde::Serialize;

use crate::operators::grants::answer::OfferReply;
use crate::operators::mail::answer::QueuedMailLine;
use crate::partner::login::answer::LoginLine;
use crate::partner::playback::answer::PlaybackExport;
use playgate_domain::accounts::{AccountExport, ParentalControl, User};
use playgate_types::LoginId;

#[derive(Serialize)]
pub(crate) struct ParentalBody {
    pub enabled: bool,
    pub limit: u8,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserReply {
    pub user_id: String,
    pub email: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub birth_date: Option<String>,
    pub created_timestamp: i64,
    /// Set by operators; shown to the user as well.
    pub tags: Vec<String>,
    pub parental_control: ParentalBody,
}

impl From<&User> for UserReply {
    fn from(user: &User) -> Self {
        let ParentalControl { enabled, limit } = user.parental;
        Self {
            user_id: user.id.to_string(),
            email: user.email.to_string(),
            name: user.name.as_ref().map(|name| name.as_str().to_owned()),
            country: user.country.map(|country| country.as_str().to_owned()),
            locale: user.locale.as_ref().map(|tag| tag.as_str().to_owned()),
            birth_date: user.birth_date.map(|date| date.to_string()),
            created_timestamp: user.created.0,
            tags: user.tags.clone(),
            parental_control: ParentalBody { enabled, limit },
        }
    }
}

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
    #[must_use]
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

    #[must_use]
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

/// All data of a user except telemetry events, which are appended as a stream.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportReply {
    pub user: UserReply,
    pub password_set: i64,
    pub sessions: Vec<LoginLine>,
    /// Metadata only: the text of a mail may contain a PIN.
    pub mails: Vec<QueuedMailLine>,
    pub offers: Vec<OfferReply>,
    #[serde(flatten)]
    pub playback: PlaybackExport,
}

impl ExportReply {
    #[must_use]
    pub(crate) fn new(
        export: &AccountExport,
        asking: LoginId,
        offers: Vec<OfferReply>,
        playback: PlaybackExport,
    ) -> Self {
        Self {
            user: (&export.user).into(),
            password_set: export.password_set.0,
            sessions: export
                .logins
                .iter()
                .map(|login| LoginLine::new(login, Some(asking)))
                .collect(),
            mails: export.mails.iter().map(QueuedMailLine::from).collect(),
            offers,
            playback,
        }
    }
}
