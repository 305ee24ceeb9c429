//! Handlers of the user's own account.

use crate::domain::accounts::{Login, UserChange};
use crate::domain::journal::JournalFilter;
use crate::domain::telemetry::Selection;
use crate::http::access::auth::UserAuth;
use crate::http::api::sessions::end_playback_of;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::{cold_for, pool};
use crate::http::request::context::Context;
use crate::http::response::body::ChunkStream;
use crate::http::response::reply::{Reply, media};
use crate::http::routing::endpoint::users::{
    ChangePasswordRequest, ChangePinRequest, DeleteUserRequest, UpdateUserRequest,
};
use crate::http::wire::entitlement::OfferReply;
use crate::http::wire::requests::RequestPieces;
use crate::http::wire::telemetry_export::EventPieces;
use crate::http::wire::users::{ExportReply, UserReply};
use crate::services::Services;

pub(crate) async fn read_user(
    services: &Services,
    _cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let user = services
        .accounts
        .user(&auth.user())
        .ok_or_else(|| ApiError::new(ErrorCode::UserNotFound, "there is no such user"))?;
    Reply::json(&UserReply::from(&*user))
}

pub(crate) async fn update_user(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: UpdateUserRequest,
) -> Result<Reply, ApiError> {
    let now = cx.now;
    let parental = request.parental_control.unwrap_or_default();
    let change = UserChange {
        name: request.name,
        locale: request.locale,
        birth_date: request.birth_date,
        parental_enabled: parental.enabled,
        parental_limit: parental.limit,
    };
    let pin = request.pin_code;
    let pool = pool(services, cx, Some(auth.partner()));
    let user = pool
        .guess(
            services
                .accounts
                .change_user(&auth.user(), change, pin.as_ref(), now, &pool),
        )
        .await?;
    Reply::json(&UserReply::from(&*user))
}

pub(crate) async fn delete_user(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: DeleteUserRequest,
) -> Result<Reply, ApiError> {
    let (from, now) = (cx.peer, cx.now);
    let pool = pool(services, cx, Some(auth.partner()));
    // With the password: a stolen token must not be enough to erase an account.
    pool.guess(
        services
            .accounts
            .erase(&auth.user(), &request.password, from, now, &pool),
    )
    .await?;
    Ok(Reply::no_content())
}

pub(crate) async fn change_password(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: ChangePasswordRequest,
) -> Result<Reply, ApiError> {
    let (from, now) = (cx.peer, cx.now);
    let login = Login {
        user: auth.user(),
        login: auth.login(),
    };
    let ChangePasswordRequest { current, new } = request;
    // With the current password: a stolen token must not be enough to take over the account.
    let pool = pool(services, cx, Some(auth.partner()));
    pool.guess(
        services
            .accounts
            .change_password(login, &current, &new, from, now, &pool),
    )
    .await
    // The domain knows no members: the mistake is reported at the one that has the new password.
    .map_err(|error| error.for_member("newPassword", ErrorCode::BAD_PASSWORD))?;
    // The other logins have ended; so does what they play.
    end_playback_of(services, cx, &auth.user(), |other| other != auth.login()).await?;
    Ok(Reply::empty_object())
}

pub(crate) async fn change_pin(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: ChangePinRequest,
) -> Result<Reply, ApiError> {
    let (from, now) = (cx.peer, cx.now);
    let ChangePinRequest {
        current,
        password,
        new,
    } = request;
    let pool = pool(services, cx, Some(auth.partner()));
    let (user, proof) = (auth.user(), (current.as_ref(), password.as_ref()));
    let setting = services
        .accounts
        .set_pin(&user, proof, &new, from, now, &pool);
    pool.guess(setting).await?;
    Ok(Reply::empty_object())
}

pub(crate) async fn reset_pin(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let now = cx.now;
    let pool = pool(services, cx, Some(auth.partner()));
    pool.guess(services.accounts.reset_pin(&auth.user(), now, &pool))
        .await?;
    Ok(Reply::empty_object())
}

pub(crate) async fn export(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let (accounts, playback) = (services.accounts.clone(), services.playback.clone());
    let now = cx.now;
    let held = cold_for(services, cx, Some(auth.partner()), move || {
        accounts.export(&auth.user(), now)
    })
    .await?;
    let server_now = cx.server_now;
    let played = cold_for(services, cx, Some(auth.partner()), move || {
        playback.export(&auth.user(), server_now)
    })
    .await?;
    let telemetry = services.telemetry.clone();
    let selection = Selection {
        user: Some(auth.user()),
        ..Selection::default()
    };
    // Requests and telemetry are the last members and are streamed: a month of events does not fit in memory.
    let events = cold_for(services, cx, Some(auth.partner()), move || {
        telemetry.events(selection)
    })
    .await?;
    let snapshot = services.catalog.snapshot();
    let grants = services.grants.for_user(&auth.user());
    let offers = grants
        .iter()
        .map(|grant| OfferReply::from_grant(grant, &snapshot, now))
        .collect();
    let export = ExportReply::new(&held, auth.login(), offers, played.into());
    let object = serde_json::to_vec(&export).map_err(ApiError::internal)?;
    let filter = JournalFilter {
        user: Some(auth.user()),
        ..JournalFilter::default()
    };
    let journal = services.journal.clone();
    let records = cold_for(services, cx, Some(auth.partner()), move || {
        Ok::<_, ApiError>(journal.records(filter))
    })
    .await?;
    let partners = services.partners.clone();
    let requests = RequestPieces::open_member(object, "requests", records, partners);
    let pieces = requests
        .map_err(ApiError::internal)?
        .chain(EventPieces::last_member("telemetry", events));
    Ok(Reply::stream(
        media::JSON,
        None,
        Box::pin(ChunkStream::new(pieces)),
    ))
}
