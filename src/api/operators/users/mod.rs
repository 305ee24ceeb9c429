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
use crate::partner::sessions::LoginSession;
use playgate_domain::accounts::{OperatorChange, UserChange, UserSearch};
use playgate_domain::playback::EndReason;
use playgate_http::offload::{cold, pool};
use playgate_http::routing::resolve;
use playgate_http::{ApiError, Context, ErrorCode, OperatorAuth, Reply};
use playgate_services::Services;

crate::openapi::words::words! { answer::AddedUser, answer::ManagedUser, answer::UserImportBody => r##"
[requests.NewUser]
partner = "string?: Id or name of the user's partner. Optional if there is only one partner or the query names it."
email = "Email: E-mail address."
password = "NewPassword?: Password. Without `password` and `passwordHash` the user must reset the password before logging in."
passwordHash = "string?: Password hash from another service: argon2, bcrypt, scrypt or PBKDF2, also as Django, Werkzeug, Spring Security and ASP.NET write them. Excludes `password`."
name = "PersonName?: Name."
locale = "Locale?: Language."
country = "Country?: Country."
birthDate = "CalendarDate?: Date of birth."
disabled = "boolean?: Whether the account is disabled."
parentalControl = "ParentalControlChange?: Parental control settings. Without a PIN, which the user sets, programs above the limit stay closed."
tags = "Tags?: Tags."
createdTimestamp = "integer?: When the account was made elsewhere, in Unix seconds; above 100,000,000,000 in milliseconds. Default: now."

[requests.ManagedUserChange]
email = "Email?: Another e-mail address. Both addresses get a notice, and pending reset links end."
name = "PersonName?: Name."
locale = "Locale?: Language."
country = "Country?: Country."
birthDate = "CalendarDate?: Date of birth."
parentalControl = "ParentalControlChange?: Parental control settings."
tags = "Tags?: Tags. Replaces all existing tags."
disabled = "boolean?: Disables or enables the account. Disabling ends its logins and keeps its data."

[requests.PinSet]
pinCode = "Pin?: The new PIN. Without it a PIN is generated and mailed to the user."

[operations.admin_users]
summary = "List users"
text = "Ordered by id unless `sort` says otherwise. To read all users, send the last id of a page as `after`. To show a page of a search, send `offset`. A search reads all users once, from memory."
query.partner = "Partner?: Returns only users of this partner."
query.search = "string?: Returns only users with each of these words in their e-mail address, name or id. Ignores case and accents, except in ids."
query.country = "Country?: Returns only users of this country."
query.state = "active | disabled?: Returns only users in this state."
query.tag = "string?: Returns only users with this tag."
query.sort = "UserOrder?: Order of the users; descending with a minus sign."
query.after = "UserId?: Returns users after this id. Not with another `sort` than `id`."
query.offset = "integer?: Skips this many users, up to 10,000. Default: 0."
query.count = "Flag?: Whether to count all users that match, in `X-Total-Count`."
query.limit = "PageSize?: Maximum number of users."
returns."200" = { text = "The users.", type = "[ManagedUser]", headers = { X-Total-Count = "integer?: Number of all users that match. Only with `count`." } }
errors = ["PARTNER_NOT_FOUND"]

[operations.admin_add_user]
summary = "Add a user"
text = "Adds a user with a password, with a password hash from another service, or without a password."
query.partner = "Partner?: Partner of the user, unless the body names it."
send = "NewUser: The user."
returns."200" = "AddedUser: The user was added."
errors = ["PARTNER_NOT_FOUND", "EMAIL_IN_USE", "PASSWORD_TOO_SHORT", "PASSWORD_TOO_LONG", "PASSWORD_TOO_COMMON"]

[operations.admin_show_user]
summary = "Show a user"
query.partner = "Partner?: Partner of the user."
returns."200" = "ManagedUser: The user."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]

[operations.admin_change_user]
summary = "Change a user"
text = "Absent members stay as they are. An unknown member is refused."
query.partner = "Partner?: Partner of the user."
send = "ManagedUserChange?: The changes."
returns."200" = "ManagedUser: The user after the change."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND", "EMAIL_IN_USE"]

[operations.admin_remove_user]
summary = "Remove a user"
text = "Erases the user and all data about them, telemetry included."
query.partner = "Partner?: Partner of the user."
returns."204" = { text = "The user was removed." }
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]

[operations.admin_set_pin]
summary = "Set a user's PIN"
query.partner = "Partner?: Partner of the user."
send = "PinSet?: The PIN."
returns."200" = "EmptyObject: The PIN was set."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]

[operations.admin_mail_reset]
summary = "Mail a password reset link to a user"
text = "The mail does not count towards the user's limit on reset mails. A newer link invalidates the older one. Refused for a disabled user."
query.partner = "Partner?: Partner of the user."
returns."200" = "EmptyObject: The mail is queued."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]

[operations.admin_user_sessions]
summary = "List a user's login sessions"
query.partner = "Partner?: Partner of the user."
returns."200" = "[LoginSession]: The login sessions."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]

[operations.admin_logout_user]
summary = "Log a user out everywhere"
query.partner = "Partner?: Partner of the user."
text = "Ends all login sessions and playback sessions of the user."
returns."200" = "EmptyObject: All sessions have ended."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]
"## }

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
        .map(|user| ManagedUser::new(services, user))
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
    Reply::json(&ManagedUser::new(services, &user))
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
        user_change: UserChange {
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
    Reply::json(&ManagedUser::new(services, &user))
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
        .map(|login| LoginSession::new(login, None))
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
