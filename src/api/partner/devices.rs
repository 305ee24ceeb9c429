//! A user's devices.

use serde::Serialize;

use playgate_domain::playback::{PlaybackError, Registered};
use playgate_http::offload::cold_for;
use playgate_http::{ApiError, Context, Input, ParseRequest, Payload, Reply, UserAuth};
use playgate_services::Services;
use playgate_types::DeviceId;

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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceBody {
    device_id: String,
    device_platform: String,
    device_type: String,
    device_model: String,
    since: i64,
    last_start: i64,
}

impl From<Registered> for DeviceBody {
    fn from(registered: Registered) -> Self {
        let device = registered.device;
        Self {
            device_id: device.id.as_str().to_owned(),
            device_platform: device.platform,
            device_type: device.kind,
            device_model: device.model,
            since: registered.since.0,
            last_start: registered.latest.0,
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
