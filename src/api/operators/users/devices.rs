//! A user's devices and running streams, for the people who help viewers.

use crate::operators::users::request::{UserDeviceRequest, UserRequest};
use crate::partner::devices::DeviceBody;
use crate::partner::sessions::PlaybackSessionBody;
use playgate_http::offload::cold;
use playgate_http::routing::resolve;
use playgate_http::{ApiError, Context, OperatorAuth, Reply};
use playgate_services::Services;

pub(crate) async fn devices(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::user(services, &request.user).await?.id;
    let playback = services.playback.clone();
    let devices = cold(services, move || playback.devices_of(&id)).await?;
    let bodies: Vec<DeviceBody> = devices.into_iter().map(DeviceBody::from).collect();
    Reply::json(&bodies)
}

pub(crate) async fn remove(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UserDeviceRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::user(services, &request.user).await?.id;
    services
        .playback
        .remove_device(&id, request.device, cx.now)
        .await?;
    Ok(Reply::no_content())
}

pub(crate) async fn clear(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let user = resolve::user(services, &request.user).await?;
    services.playback.clear_devices(&user.id, cx.now).await?;
    Ok(Reply::no_content())
}

pub(crate) async fn streams(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let user = resolve::user(services, &request.user).await?;
    let views = services.playback.sessions_of(&user.id, cx.now);
    let bodies: Vec<_> = views
        .into_iter()
        .map(|view| PlaybackSessionBody::for_operator(services, view))
        .collect();
    Reply::json(&bodies)
}
