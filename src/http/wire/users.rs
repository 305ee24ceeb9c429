//! The user's record, login sessions, and what is held of a user.

use serde::Serialize;

use super::entitlement::OfferReply;
use super::mail::MailLine;
use super::playback::PlaybackExport;
use crate::domain::accounts::{Export, LoginInfo, ParentalControl, User};
use crate::http::error::ImportProblem;
use crate::types::LoginId;

/// The setting of parental control.
#[derive(Serialize)]
pub struct Parental {
    /// Whether it is on.
    pub enabled: bool,
    /// The age from which a PIN is asked for.
    pub limit: u8,
}

/// The user's record.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserReply {
    /// The id.
    pub user_id: String,
    /// The address.
    pub email: String,
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The country.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    /// The language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// The day of birth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub birth_date: Option<String>,
    /// When the user signed up.
    pub created_timestamp: i64,
    /// Marks that operators set.
    pub tags: Vec<String>,
    /// Parental control.
    pub parental_control: Parental,
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
            parental_control: Parental { enabled, limit },
        }
    }
}

/// The record as operators see it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedUser {
    /// What the user sees too.
    #[serde(flatten)]
    pub user: UserReply,
    /// Whose user.
    pub partner_id: String,
    /// Whether a PIN has been set.
    pub has_pin: bool,
    /// Whether the account is shut.
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

/// The answer to adding a user.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddedUser {
    /// The id.
    pub user_id: String,
}

/// The report of an import of users.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserImportReport {
    /// Whether nobody was added because only a report was asked for.
    pub dry_run: bool,
    /// The lines that were read, empty ones included.
    pub lines: u64,
    /// Users who are new.
    pub added: u64,
    /// Lines whose addresses were taken.
    pub existing: u64,
    /// Lines that were rejected.
    pub rejected: u64,
    /// The first of the rejected lines.
    pub failed: Vec<ImportProblem>,
}

impl UserImportReport {
    /// The report of an import that has read nothing yet.
    #[must_use]
    pub const fn new(dry_run: bool) -> Self {
        Self {
            dry_run,
            lines: 0,
            added: 0,
            existing: 0,
            rejected: 0,
            failed: Vec::new(),
        }
    }

    /// The counts as the audit entry has them.
    #[must_use]
    pub fn counts(&self) -> String {
        let Self {
            added,
            existing,
            rejected,
            ..
        } = self;
        format!("{added} added, {existing} existing, {rejected} rejected")
    }
}

/// A login session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginLine {
    /// Its id.
    pub session_id: String,
    /// When it began.
    pub created_timestamp: i64,
    /// When it ends by itself.
    pub expires: i64,
    /// Whether it is the one that asks; left out for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<bool>,
}

impl LoginLine {
    /// A session as the one of `asking`, or an operator, sees it.
    #[must_use]
    pub fn new(login: &LoginInfo, asking: Option<LoginId>) -> Self {
        Self {
            session_id: login.id.to_string(),
            created_timestamp: login.created.0,
            expires: login.expires.0,
            current: asking.map(|asking| asking == login.id),
        }
    }
}

/// All that is held about a user, but the events of players: they follow as they are read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportReply {
    /// The record.
    pub user: UserReply,
    /// When the password was last set.
    pub password_set: i64,
    /// The login sessions.
    pub sessions: Vec<LoginLine>,
    /// The mails, without their words: they may carry a PIN.
    pub mails: Vec<MailLine>,
    /// What the user was given, history included.
    pub offers: Vec<OfferReply>,
    /// What is held about playback.
    #[serde(flatten)]
    pub playback: PlaybackExport,
}

impl ExportReply {
    /// What accounts, mail, grants and playback hold.
    #[must_use]
    pub fn new(
        export: &Export,
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
            mails: export.mails.iter().map(MailLine::from).collect(),
            offers,
            playback,
        }
    }
}
