//! A user's devices.

use serde::Serialize;

use playgate_domain::playback::{PlaybackError, Registered};
use playgate_http::offload::cold_for;
use playgate_http::{ApiError, Context, Input, ParseRequest, Payload, Reply, UserAuth};
use playgate_services::Services;
use playgate_types::{Described, DeviceId, UnixSeconds};

crate::openapi::words::words! { DeviceBody => r##"
[operations.devices]
summary = "List the user's devices"
text = "Oldest first. A device is registered at its first preflight. The default limit is five devices."
returns."200" = "[Device]: The devices."
errors = ["USER_NOT_FOUND"]

[operations.clear_devices]
summary = "Remove all devices"
text = "Ends the playback sessions on them."
returns."204" = { text = "All devices were removed." }
errors = ["USER_NOT_FOUND"]

[operations.device]
summary = "Show a device"
text = "The device as it was at its last preflight."
returns."200" = "Device: The device."
errors = ["USER_NOT_FOUND", "DEVICE_NOT_FOUND"]

[operations.remove_device]
summary = "Remove a device"
text = "Ends the playback session on it."
returns."204" = { text = "The device was removed." }
errors = ["USER_NOT_FOUND", "DEVICE_NOT_FOUND"]
"## }

async fn registered(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Vec<Registered>, ApiError> {
    let playback = services.playback.clone();
    cold_for(services, cx, Some(auth.partner()), move || {
        playback.devices_of(&auth.user())
    })
    .await
}

pub(crate) async fn devices(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let devices = registered(services, cx, auth).await?;
    let bodies: Vec<DeviceBody> = devices.into_iter().map(DeviceBody::from).collect();
    Reply::json(&bodies)
}

pub(crate) async fn device(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: DeviceRequest,
) -> Result<Reply, ApiError> {
    let devices = registered(services, cx, auth).await?;
    let found = devices
        .into_iter()
        .find(|registered| registered.device.id == request.device)
        .ok_or(PlaybackError::DeviceNotFound)?;
    Reply::json(&DeviceBody::from(found))
}

pub(crate) async fn clear_devices(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    services
        .playback
        .clear_devices(&auth.user(), cx.server_now)
        .await?;
    Ok(Reply::no_content())
}

pub(crate) async fn remove_device(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: DeviceRequest,
) -> Result<Reply, ApiError> {
    services
        .playback
        .remove_device(&auth.user(), request.device, cx.server_now)
        .await?;
    Ok(Reply::no_content())
}

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceBody {
    /// Id of the device, from `Service-Play-DeviceId`.
    device_id: String,
    /// Device platform sent at the last preflight.
    device_platform: String,
    /// Device type sent at the last preflight.
    device_type: String,
    /// Device model sent at the last preflight.
    device_model: String,
    /// Time of the first playback start.
    since: UnixSeconds,
    /// Time of the last playback start.
    last_start: UnixSeconds,
}

impl From<Registered> for DeviceBody {
    fn from(registered: Registered) -> Self {
        let device = registered.device;
        Self {
            device_id: device.id.as_str().to_owned(),
            device_platform: device.platform.to_string(),
            device_type: device.kind.to_string(),
            device_model: device.model.to_string(),
            since: registered.since,
            last_start: registered.latest,
        }
    }
}

pub(crate) struct DeviceRequest {
    pub device: DeviceId,
}

impl ParseRequest for DeviceRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            device: input.parsed("deviceId", DeviceId::parse)?,
        })
    }
}
