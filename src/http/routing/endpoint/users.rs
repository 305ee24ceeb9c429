//! Requests with the user token: the user's account, devices, sessions, offers and playback.
//!
//! The user in a path must be the authenticated user. This is checked here for all routes, so that
//! no handler can forget it.

use crate::http::access::auth::UserAuth;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::errors::combine::CombineResults;
use crate::http::request::strict_json::Object;
use crate::http::routing::endpoint::login::password;
use crate::http::routing::endpoint::playback::{
    EndPlaybackRequest, EntitlementRequest, HeartbeatRequest, LicenseRequest, PreflightRequest,
};
use crate::http::routing::endpoint::telemetry::TelemetryRequest;
use crate::http::routing::endpoint::{Input, Payload};
use crate::http::routing::route::UserRoute;
use crate::types::{
    BirthDate, DeviceId, Locale, LoginId, Password, PersonName, Pin, SessionId, UserId,
};

/// A change of the parental control settings. Absent members keep their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParentalControlChange {
    pub enabled: Option<bool>,
    /// Content rated at or above this age requires the PIN.
    pub limit: Option<u8>,
}

impl ParentalControlChange {
    pub(crate) fn read(body: &Object) -> Result<Option<Self>, ApiError> {
        let Some(object) = body.object("parentalControl")? else {
            return Ok(None);
        };
        let limit = object.integer("limit").and_then(|limit| {
            let Some(limit) = limit else { return Ok(None) };
            match u8::try_from(limit) {
                Ok(limit) if limit <= 99 => Ok(Some(limit)),
                _ => Err(object.refuse("limit", "must be from 0 to 99")),
            }
        });
        let (limit, enabled) = (limit, object.boolean("enabled")).combine()?;
        Ok(Some(Self { enabled, limit }))
    }
}

pub(crate) struct UpdateUserRequest {
    pub name: Option<PersonName>,
    pub locale: Option<Locale>,
    /// Requires the PIN, if one is set.
    pub birth_date: Option<BirthDate>,
    /// Requires the PIN, if one is set.
    pub parental_control: Option<ParentalControlChange>,
    pub pin_code: Option<Pin>,
}

pub(crate) struct ChangePasswordRequest {
    pub current: Password,
    pub new: Password,
}

pub(crate) struct ChangePinRequest {
    /// Required if a PIN is set, unless the password is sent.
    pub current: Option<Pin>,
    /// Authorizes the PIN instead of the current one, for example the first PIN.
    pub password: Option<Password>,
    pub new: Pin,
}

pub(crate) struct DeleteUserRequest {
    pub password: Password,
}

pub(crate) struct DeviceRequest {
    pub device: DeviceId,
}

/// A login session or a playback session. Ids of both kinds are 128 random bits, so an id
/// identifies only one of them.
pub(crate) struct SessionRequest {
    pub login: LoginId,
    pub playback: SessionId,
}

pub(crate) enum UserEndpoint {
    Logout,
    ReadUser,
    UpdateUser(Box<UpdateUserRequest>),
    DeleteUser(DeleteUserRequest),
    ChangePassword(ChangePasswordRequest),
    ChangePin(ChangePinRequest),
    ResetPin,
    Devices,
    Device(DeviceRequest),
    ClearDevices,
    RemoveDevice(DeviceRequest),
    Sessions,
    Session(SessionRequest),
    EndSessions,
    EndSession(SessionRequest),
    Offers,
    Export,
    Entitlement(EntitlementRequest),
    Preflight(PreflightRequest),
    License(LicenseRequest),
    Heartbeat(HeartbeatRequest),
    EndPlayback(EndPlaybackRequest),
    Telemetry(TelemetryRequest),
}

impl UserRoute {
    /// Whether the path contains the user, who must be the authenticated one.
    #[must_use]
    pub const fn is_of_own_record(self) -> bool {
        match self {
            Self::ReadUser
            | Self::UpdateUser
            | Self::DeleteUser
            | Self::ChangePassword
            | Self::ChangePin
            | Self::ResetPin
            | Self::Devices
            | Self::Device
            | Self::ClearDevices
            | Self::RemoveDevice
            | Self::Sessions
            | Self::Session
            | Self::EndSessions
            | Self::EndSession
            | Self::Offers
            | Self::Export => true,
            Self::Logout
            | Self::Entitlement
            | Self::Preflight
            | Self::License(_)
            | Self::Heartbeat
            | Self::EndPlayback
            | Self::Telemetry => false,
        }
    }
}

impl UserEndpoint {
    /// Parses the parameters of a route.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the parameters; `USER_NOT_FOUND` for the id of another user,
    /// whether it exists or not.
    pub(crate) fn parse(
        route: UserRoute,
        auth: &UserAuth,
        input: &Input<'_>,
        payload: Payload,
    ) -> Result<Self, ApiError> {
        use UserRoute as R;
        if route.is_of_own_record() {
            check_own_record(auth, input)?;
        }
        Ok(match route {
            R::Logout => Self::Logout,
            R::ReadUser => Self::ReadUser,
            R::UpdateUser => Self::UpdateUser(Box::new(UpdateUserRequest::parse(payload)?)),
            R::DeleteUser => Self::DeleteUser(DeleteUserRequest::parse(payload)?),
            R::ChangePassword => Self::ChangePassword(ChangePasswordRequest::parse(payload)?),
            R::ChangePin => Self::ChangePin(ChangePinRequest::parse(payload)?),
            R::ResetPin => Self::ResetPin,
            R::Devices => Self::Devices,
            R::Device => Self::Device(device(input)?),
            R::ClearDevices => Self::ClearDevices,
            R::RemoveDevice => Self::RemoveDevice(device(input)?),
            R::Sessions => Self::Sessions,
            R::Session => Self::Session(session(input)?),
            R::EndSessions => Self::EndSessions,
            R::EndSession => Self::EndSession(session(input)?),
            R::Offers => Self::Offers,
            R::Export => Self::Export,
            R::Entitlement => Self::Entitlement(EntitlementRequest::parse(input, payload)?),
            R::Preflight => Self::Preflight(PreflightRequest::parse(input)?),
            R::License(system) => Self::License(LicenseRequest::parse(system, input, payload)?),
            R::Heartbeat => Self::Heartbeat(HeartbeatRequest::parse(input)?),
            R::EndPlayback => Self::EndPlayback(EndPlaybackRequest::parse(input)?),
            R::Telemetry => Self::Telemetry(TelemetryRequest::parse(payload)?),
        })
    }
}

/// The id of another user gets the same response as an unknown id, so that it reveals nothing.
fn check_own_record(auth: &UserAuth, input: &Input<'_>) -> Result<(), ApiError> {
    match UserId::parse(&input.text("userId")?) {
        Ok(user) if user == auth.user() => Ok(()),
        _ => Err(ApiError::new(
            ErrorCode::UserNotFound,
            "there is no such user",
        )),
    }
}

fn device(input: &Input<'_>) -> Result<DeviceRequest, ApiError> {
    Ok(DeviceRequest {
        device: input.parsed("deviceId", DeviceId::parse)?,
    })
}

/// Ids are opaque to clients: malformed text is answered as an unknown id.
fn session(input: &Input<'_>) -> Result<SessionRequest, ApiError> {
    let id = input.text("sessionId")?;
    let unknown = |_| ApiError::new(ErrorCode::SessionNotFound, "there is no such session");
    Ok(SessionRequest {
        login: LoginId::parse(&id).map_err(unknown)?,
        playback: SessionId::parse(&id).map_err(unknown)?,
    })
}

impl UpdateUserRequest {
    fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (name, locale, birth_date, parental_control, pin_code) = (
            body.parsed("name", PersonName::parse),
            body.parsed("locale", Locale::parse),
            body.parsed("birthDate", BirthDate::parse),
            ParentalControlChange::read(&body),
            body.parsed("pinCode", Pin::parse),
        )
            .combine()?;
        Ok(Self {
            name,
            locale,
            birth_date,
            parental_control,
            pin_code,
        })
    }
}

impl DeleteUserRequest {
    fn parse(payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            password: password(&payload.object()?, "password")?,
        })
    }
}

impl ChangePasswordRequest {
    fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (current, new) = (
            password(&body, "currentPassword"),
            password(&body, "newPassword"),
        )
            .combine()?;
        Ok(Self { current, new })
    }
}

impl ChangePinRequest {
    fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let given = match body.text("password") {
            Ok(None) => Ok(None),
            Ok(Some(_)) | Err(_) => password(&body, "password").map(Some),
        };
        let (current, password, new) = (
            body.parsed("pinCode", Pin::parse),
            given,
            body.required("newPinCode", Pin::parse),
        )
            .combine()?;
        Ok(Self {
            current,
            password,
            new,
        })
    }
}
