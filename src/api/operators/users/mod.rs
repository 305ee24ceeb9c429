//! Handlers of users.

pub(crate) mod answer;
pub(crate) mod devices;
pub(crate) mod import;
pub(crate) mod line;
pub(crate) mod lines;
pub(crate) mod new_user;
pub(crate) mod request;

use http::HeaderName;

use crate::operators::users::answer::{AddedUser, ManagedUser};
use crate::operators::users::new_user::AddUserRequest;
use crate::operators::users::request::{
    ChangeUserRequest, SetPinRequest, UserRequest, UsersRequest,
};
use crate::partner::sessions::LoginLine;
use playgate_domain::accounts::{OperatorChange, UserChange, UserSearch};
use playgate_domain::playback::EndReason;
use playgate_http::offload::{cold, pool};
use playgate_http::routing::resolve;
use playgate_http::{ApiError, Context, ErrorCode, OperatorAuth, Reply};
use playgate_services::Services;

/// The number of all users that match, of which the body has a page.
const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

pub(crate) async fn users(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: UsersRequest,
) -> Result<Reply, ApiError> {
    let named = request.partner.as_ref();
    let partner = named
        .map(|named| resolve::partner(services, named))
        .transpose()?;
    let search = UserSearch {
        partner,
        ..request.search
    };
    let accounts = services.accounts.clone();
    let page = cold(services, move || -> Result<_, ApiError> {
        Ok(accounts.search(&search))
    })
    .await?;
    let lines: Vec<_> = page
        .users
        .iter()
        .map(|user| ManagedUser::from(&**user))
        .collect();
    let reply = Reply::json(&lines)?;
    Ok(match page.total {
        Some(total) => reply.with_header(TOTAL_COUNT, total.into()),
        None => reply,
    })
}

pub(crate) async fn add_user(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: AddUserRequest,
) -> Result<Reply, ApiError> {
    let (named, new, password, state) = request.into_parts();
    let partner = resolve::partner_or_only(services, named.as_ref())?;
    let now = cx.now;
    // Without a partner: an operator must not take the turns of the partner's viewers.
    let pool = pool(services, cx, None);
    let accounts = &services.accounts;
    let prepared = accounts.prepare_imported(partner, new, password, state, now);
    let added = async { accounts.add_prepared(prepared?, &pool).await };
    let user = pool
        .guess(added)
        .await
        // The domain knows no members: each mistake is reported at the member that caused it.
        .map_err(|error| {
            error
                .for_member("email", &[ErrorCode::EmailInUse])
                .for_member("password", ErrorCode::BAD_PASSWORD)
        })?;
    let user_id = user.id.to_string();
    Reply::made(
        &user_id,
        &AddedUser {
            user_id: user_id.clone(),
        },
    )
}

pub(crate) async fn show_user(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let user = resolve::user(services, &request.user).await?;
    Reply::json(&ManagedUser::from(&*user))
}

pub(crate) async fn change_user(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ChangeUserRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::user(services, &request.user).await?.id;
    let now = cx.now;
    if let Some(email) = request.email {
        let changed = services.accounts.change_email_by_operator(&id, email, now);
        changed
            .await
            .map_err(|error| ApiError::from(error).for_member("email", &[ErrorCode::EmailInUse]))?;
    }
    let parental = request.parental_control.unwrap_or_default();
    let change = OperatorChange {
        own: UserChange {
            name: request.name,
            locale: request.locale,
            birth_date: request.birth_date,
            parental_enabled: parental.enabled,
            parental_limit: parental.limit,
        },
        country: request.country,
        tags: request.tags,
        disabled: request.disabled,
    };
    let pool = pool(services, cx, None);
    let user = pool
        .guess(
            services
                .accounts
                .change_by_operator(&id, change, now, &pool),
        )
        .await?;
    Reply::json(&ManagedUser::from(&*user))
}

pub(crate) async fn remove_user(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::user(services, &request.user).await?.id;
    services.accounts.remove(&id, cx.now).await?;
    Ok(Reply::no_content())
}

pub(crate) async fn set_pin(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: SetPinRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::user(services, &request.user).await?.id;
    let now = cx.now;
    let pool = pool(services, cx, None);
    match &request.pin {
        Some(pin) => services.accounts.override_pin(&id, pin, &pool).await?,
        None => services.accounts.renew_pin(&id, now, &pool).await?,
    }
    Ok(Reply::empty_object())
}

pub(crate) async fn mail_reset(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::user(services, &request.user).await?.id;
    services
        .accounts
        .send_reset_by_operator(&id, cx.now)
        .await?;
    Ok(Reply::empty_object())
}

pub(crate) async fn sessions(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::user(services, &request.user).await?.id;
    let (accounts, now) = (services.accounts.clone(), cx.now);
    let logins = cold(services, move || accounts.logins(&id, now)).await?;
    let lines: Vec<_> = logins
        .iter()
        .map(|login| LoginLine::new(login, None))
        .collect();
    Reply::json(&lines)
}

pub(crate) async fn logout(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::user(services, &request.user).await?.id;
    // Playback first: if this fails, the logins are still there and the request can be repeated.
    services
        .playback
        .end_all(&id, EndReason::Revoked, cx.now)
        .await?;
    services.accounts.end_logins(id).await?;
    Ok(Reply::empty_object())
}
