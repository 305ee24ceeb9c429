//! The user's account, login sessions, and the export of a user's data.

use serde::Serialize;

use crate::operators::mail::QueuedMailLine;
use crate::partner::offers::OfferReply;
use crate::partner::playback::answer::PlaybackExport;
use crate::partner::sessions::LoginLine;
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
