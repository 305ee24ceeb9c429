//! Handlers of a user's devices.

use crate::partner::playback::answer::DeviceBody;
use crate::partner::users::request::DeviceRequest;
use playgate_domain::playback::{PlaybackError, Registered};
use playgate_http::access::auth::UserAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::offload::cold_for;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;

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
