//! A user's devices and running streams, for the people who help viewers.

use crate::operators::users::request::{UserDeviceRequest, UserRequest};
use crate::partner::devices::DeviceBody;
use crate::partner::sessions::PlaybackSession;
use playgate_http::offload::cold;
use playgate_http::routing::resolve;
use playgate_http::{ApiError, Context, OperatorAuth, Reply};
use playgate_services::Services;

crate::openapi::words::words! { => r##"
[operations.admin_user_devices]
summary = "List a user's devices"
query.partner = "Partner?: Partner of the user."
returns."200" = "[Device]: The devices, oldest first."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]

[operations.admin_remove_device]
summary = "Remove a device of a user"
text = "Ends the playback session on it."
query.partner = "Partner?: Partner of the user."
returns."204" = { text = "The device was removed." }
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND", "DEVICE_NOT_FOUND"]

[operations.admin_user_streams]
summary = "List a user's running streams"
text = "`DELETE /admin/v1/sessions/{session}` ends one."
query.partner = "Partner?: Partner of the user."
returns."200" = "[PlaybackSession]: The playback sessions."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]

[operations.admin_clear_devices]
summary = "Remove a user's devices"
text = "Ends the playback sessions on them."
query.partner = "Partner?: Partner of the user."
returns."204" = { text = "All devices were removed." }
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]
"## }

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
        .map(|view| PlaybackSession::for_operator(services, view))
        .collect();
    Reply::json(&bodies)
}
