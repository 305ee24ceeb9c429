//! The user's account, login sessions, and the export of a user's data.

use std::marker::PhantomData;

use serde::Serialize;

use crate::operators::mail::MailLine;
use crate::operators::requests::answer::JournaledRequest;
use crate::partner::offers::OfferBody;
use crate::partner::playback::answer::PlaybackExport;
use crate::partner::sessions::LoginSession;
use crate::partner::telemetry::events::ExportedEvent;
use playgate_domain::accounts::{AccountExport, ParentalControl, User};
use playgate_types::{BirthDate, Described, JsonType, Locale, LoginId, UnixSeconds, UserId};

#[derive(Described, Serialize)]
pub(crate) struct ParentalControlBody {
    /// Whether parental control is on.
    pub enabled: bool,
    /// Lowest age rating for which the PIN is required.
    #[described(JsonType::Named("Age"))]
    pub limit: u8,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserBody {
    /// Id of the user.
    pub user_id: UserId,
    /// E-mail address of the user, normalized.
    pub email: String,
    /// Name of the user. Absent if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Country of the user. Absent if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("Country"))]
    pub country: Option<String>,
    /// Language of the user. Absent if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locale: Option<Locale>,
    /// Date of birth. Absent if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub birth_date: Option<BirthDate>,
    /// Time at which the user signed up or was added.
    pub created_timestamp: UnixSeconds,
    /// Labels that operators have set. Empty if there are none.
    pub tags: Vec<String>,
    /// Parental control settings.
    pub parental_control: ParentalControlBody,
}

impl From<&User> for UserBody {
    fn from(user: &User) -> Self {
        let ParentalControl { enabled, limit } = user.parental;
        Self {
            user_id: user.id,
            email: user.email.to_string(),
            name: user.name.as_ref().map(|name| name.as_str().to_owned()),
            country: user.country.map(|country| country.as_str().to_owned()),
            locale: user.locale.clone(),
            birth_date: user.birth_date,
            created_timestamp: user.created,
            tags: user.tags.clone(),
            parental_control: ParentalControlBody { enabled, limit },
        }
    }
}

/// All data of a user. Requests and telemetry events are appended as a stream.
#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserExport {
    /// The user's profile.
    pub user: UserBody,
    /// Time of the last password change.
    pub password_set: UnixSeconds,
    /// Login sessions of the user.
    pub sessions: Vec<LoginSession>,
    /// Mails to the user, without their bodies.
    pub mails: Vec<MailLine>,
    /// The user's offers, expired and revoked ones included.
    pub offers: Vec<OfferBody>,
    #[serde(flatten)]
    pub playback: PlaybackExport,
    /// Requests of the user's clients that the request journal has, newest first.
    #[serde(skip_serializing)]
    pub requests: PhantomData<Vec<JournaledRequest>>,
    /// Telemetry events of the user's players, as sent.
    #[serde(skip_serializing)]
    pub telemetry: PhantomData<Vec<ExportedEvent<'static>>>,
}

impl UserExport {
    pub(crate) fn new(
        export: &AccountExport,
        asking: LoginId,
        offers: Vec<OfferBody>,
        playback: PlaybackExport,
    ) -> Self {
        Self {
            user: (&export.user).into(),
            password_set: export.password_set,
            sessions: export
                .logins
                .iter()
                .map(|login| LoginSession::new(login, Some(asking)))
                .collect(),
            mails: export.mails.iter().map(MailLine::from).collect(),
            offers,
            playback,
            requests: PhantomData,
            telemetry: PhantomData,
        }
    }
}
