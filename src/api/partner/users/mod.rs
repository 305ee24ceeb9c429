//! Handlers of the user's own account.

pub(crate) mod answer;
pub(crate) mod request;

use crate::operators::requests::answer::RequestPieces;
use crate::operators::telemetry::export::EventPieces;
use crate::partner::offers::OfferBody;
use crate::partner::sessions::end_playback_of;
use crate::partner::users::answer::{UserBody, UserExport};
use crate::partner::users::request::{
    ChangeEmailRequest, ChangePasswordRequest, ChangePinRequest, DeleteUserRequest,
    UpdateUserRequest,
};
use playgate_domain::accounts::{Login, UserChange};
use playgate_http::offload::{cold_for, pool};
use playgate_http::response::pooled_pieces::PooledPieces;
use playgate_http::response::reply::media;
use playgate_http::{ApiError, Context, ErrorCode, Reply, UserAuth};
use playgate_process::Turn;
use playgate_records::journal::JournalFilter;
use playgate_records::telemetry::Selection;
use playgate_services::Services;
use playgate_types::Email;

crate::openapi::words::words! { answer::UserExport, answer::UserBody => r##"
[requests.UserChange]
name = "PersonName?: Name."
locale = "Locale?: Language."
birthDate = "CalendarDate?: Date of birth. Requires `pinCode` once a PIN is set."
parentalControl = "ParentalControlChange?: Parental control settings. Requires `pinCode` once a PIN is set."
pinCode = "Pin?: Current PIN. Checked only for changes that require it."

[requests.Erase]
password = "Password: Current password."

[requests.EmailChange]
email = "Email: New e-mail address."
password = "Password: Current password."

[requests.PasswordChange]
currentPassword = "Password: Current password."
newPassword = "NewPassword: New password."

[requests.PinChange]
newPinCode = "Pin: New PIN."
pinCode = "Pin?: Current PIN. Required if one is set."
password = "Password?: Password. Required to set the first PIN."

[operations.read_user]
summary = "Show the user's profile"
text = "Profile and settings of the user. `tags` are set by operators and cannot be changed here."
returns."200" = "User: The profile."
errors = ["USER_NOT_FOUND"]

[operations.update_user]
summary = "Change the user's profile"
text = '''
Absent members stay as they are. `birthDate` and `parentalControl` require the right `pinCode` once a PIN is set. A `pinCode` without such a change is not checked. Turning parental control on without a PIN generates one and mails it, so let the user set a PIN first. `userId`, `email`, `country`, `createdTimestamp` and `tags` may be sent as they are; another value is refused, because the route does not change them. Unknown members are ignored.'''
send = "UserChange?: The changes."
returns."200" = "User: The whole profile after the change."
errors = ["USER_NOT_FOUND", "PIN_CODE_REQUIRED", "PIN_CODE_WRONG", "PIN_CODE_LOCKED", "TOO_MANY_ATTEMPTS"]

[operations.delete_user]
summary = "Erase the account"
text = "Erases the account and its telemetry. Tokens are refused and playback ends from the next request on."
send = "Erase: The password."
returns."204" = { text = "The account was erased." }
errors = ["USER_NOT_FOUND", "PASSWORD_WRONG", "PASSWORD_TOO_LONG", "TOO_MANY_ATTEMPTS"]

[operations.change_email]
summary = "Change the e-mail address"
text = "The user logs in with the new address from then on. Pending reset links end, and both addresses get a notice. Login sessions stay."
send = "EmailChange: The new address and the password."
returns."200" = "User: The whole profile after the change."
errors = ["USER_NOT_FOUND", "EMAIL_IN_USE", "PASSWORD_WRONG", "PASSWORD_TOO_LONG", "TOO_MANY_ATTEMPTS"]

[operations.change_password]
summary = "Change the password"
text = "Ends the user's other sessions and mails a notice."
send = "PasswordChange: The current and the new password."
returns."200" = "EmptyObject: The password was changed."
errors = ["USER_NOT_FOUND", "PASSWORD_WRONG", "PASSWORD_TOO_SHORT", "PASSWORD_TOO_LONG", "PASSWORD_TOO_COMMON", "TOO_MANY_ATTEMPTS"]

[operations.change_pin]
summary = "Set the PIN"
text = "The first PIN requires the password. Every further change requires the current PIN."
send = "PinChange: The new PIN, and the current PIN or the password."
returns."200" = "EmptyObject: The PIN was set."
errors = ["USER_NOT_FOUND", "PASSWORD_WRONG", "PASSWORD_TOO_LONG", "TOO_MANY_ATTEMPTS", "PIN_CODE_REQUIRED", "PIN_CODE_WRONG", "PIN_CODE_LOCKED"]

[operations.reset_pin]
summary = "Request a new PIN by mail"
text = "The old PIN becomes invalid. At most three mails an hour."
returns."200" = "EmptyObject: The mail is queued."
errors = ["USER_NOT_FOUND", "TOO_MANY_ATTEMPTS"]

[operations.export]
summary = "Export the user's data"
text = "Returns all data about the user as one JSON object, which may be large. Telemetry events are its last member and are streamed. One export of a user runs at a time."
returns."200" = "UserExport: The user's data."
errors = ["USER_NOT_FOUND", "TOO_MANY_ATTEMPTS"]
"## }

/// Retry-After, in seconds, while another export runs.
const EXPORT_RETRY: u32 = 10;

pub(crate) async fn read_user(
    services: &Services,
    _cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let user = services
        .accounts
        .user(&auth.user())
        .ok_or_else(|| ApiError::new(ErrorCode::UserNotFound, "there is no such user"))?;
    Reply::json(&UserBody::from(&*user))
}

pub(crate) async fn update_user(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: UpdateUserRequest,
) -> Result<Reply, ApiError> {
    let now = cx.now;
    if let Some(user) = services.accounts.user(&auth.user()) {
        check_fixed(&request, &UserBody::from(&*user))?;
    }
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
    Reply::json(&UserBody::from(&*user))
}

/// Refuses a change of a member that the route does not change. A client may send the whole record back.
fn check_fixed(request: &UpdateUserRequest, user: &UserBody) -> Result<(), ApiError> {
    let present = serde_json::to_value(user).map_err(ApiError::internal)?;
    for (name, value) in &request.fixed {
        let same = match (*name, value.as_str()) {
            ("email", Some(text)) => {
                Email::parse(text).is_ok_and(|email| email.as_str() == user.email)
            }
            _ => present.get(*name) == Some(value),
        };
        if !same {
            let why = match *name {
                "email" => "is not changed here; send it with the password to …/email",
                _ => "cannot be changed by the user",
            };
            return Err(ApiError::field(*name, why));
        }
    }
    Ok(())
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

pub(crate) async fn change_email(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: ChangeEmailRequest,
) -> Result<Reply, ApiError> {
    let (from, now) = (cx.peer, cx.now);
    let ChangeEmailRequest { email, password } = request;
    let (user, accounts) = (auth.user(), &services.accounts);
    let pool = pool(services, cx, Some(auth.partner()));
    // With the password: whoever reads the mail of the new address can reset it.
    pool.guess(accounts.change_email(&user, email, &password, from, now, &pool))
        .await
        .map_err(|error| error.for_member("email", &[ErrorCode::EmailInUse]))?;
    read_user(services, cx, auth).await
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
    // Before anything is read: twenty connections of one viewer must cost no more than one.
    let slot = services.slots.exports.take(auth.user()).map_err(|_taken| {
        let message = "an export of this user is running, or too many of others; try again after Retry-After seconds";
        ApiError::new(ErrorCode::TooManyAttempts, message).with_retry_after(EXPORT_RETRY)
    })?;
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
    .await?
    .until(slot.stopped());
    let snapshot = services.catalog.snapshot();
    let grants = services.grants.for_user(&auth.user());
    let offers = grants
        .iter()
        .map(|grant| OfferBody::from_grant(grant, &snapshot, now))
        .collect();
    let export = UserExport::new(&held, auth.login(), offers, played.into());
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
    let turn = Turn::for_client(Some(auth.partner()), cx.peer);
    let requests = RequestPieces::open_member(object, "requests", records, partners);
    let pieces = requests
        .map_err(ApiError::internal)?
        .chain(EventPieces::last_member("telemetry", events));
    Ok(Reply::stream(
        media::JSON,
        None,
        Box::pin(PooledPieces::new(pieces, turn, slot)),
    ))
}
