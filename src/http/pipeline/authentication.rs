//! Checks the tokens that a route requires.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::access::auth::{
    Anyone, Authenticator, Credentials, OperatorAuth, PartnerAuth, PartnerIdentity, UserAuth,
};
use crate::errors::api_error::{ApiError, ErrorCode};
use crate::request::headers::RequestHeaders;
use crate::routing::endpoint::{Handler, Input};
use crate::routing::route::{Endpoint, Route};
use crate::state::HttpState;
use playgate_types::{LoginId, PartnerId, TokenHash, UnixSeconds, UserId};

/// The proof that a route requires, together with the handler that it unlocks.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    Open(Anyone, Handler<Anyone>),
    Partner(PartnerAuth, Handler<PartnerAuth>),
    User(UserAuth, Handler<UserAuth>),
    Operator(OperatorAuth, Handler<OperatorAuth>),
}

impl Proof {
    pub(crate) const fn partner(&self) -> Option<PartnerId> {
        match self.identity() {
            Some(identity) => Some(identity.partner),
            None => None,
        }
    }

    pub(crate) const fn lab(&self) -> Option<PartnerId> {
        match self.identity() {
            Some(identity) if identity.is_lab() => Some(identity.partner),
            Some(_) | None => None,
        }
    }

    /// Seconds by which the time of the request differs from that of the service.
    pub(crate) const fn clock_offset(&self) -> i64 {
        match self.identity() {
            Some(identity) => identity.clock_offset,
            None => 0,
        }
    }

    pub(crate) const fn identity(&self) -> Option<PartnerIdentity> {
        match self {
            Self::Partner(auth, _) => Some(auth.identity()),
            Self::User(auth, _) => Some(auth.identity()),
            Self::Open(..) | Self::Operator(..) => None,
        }
    }

    pub(crate) const fn user(&self) -> Option<UserId> {
        match self {
            Self::User(auth, _) => Some(auth.user()),
            Self::Open(..) | Self::Partner(..) | Self::Operator(..) => None,
        }
    }

    pub(crate) const fn login(&self) -> Option<LoginId> {
        match self {
            Self::User(auth, _) => Some(auth.login()),
            Self::Open(..) | Self::Partner(..) | Self::Operator(..) => None,
        }
    }
}

/// Checks the tokens that the route requires, the partner token first.
///
/// # Errors
/// Those of [`PartnerAuth::check`], [`UserAuth::check`] and [`OperatorAuth::check`].
pub fn prove(
    authenticator: &dyn Authenticator,
    route: &Route,
    credentials: &Credentials<'_>,
    now: UnixSeconds,
) -> Result<Proof, ApiError> {
    match route.endpoint {
        Endpoint::Open(to) => Ok(Proof::Open(Anyone::PROOF, to)),
        Endpoint::Partner(to) => {
            PartnerAuth::check(authenticator, credentials, now).map(|auth| Proof::Partner(auth, to))
        }
        Endpoint::User(to) => {
            UserAuth::check(authenticator, credentials, now).map(|auth| Proof::User(auth, to))
        }
        Endpoint::Operator(to) => OperatorAuth::check(authenticator, route.roles, credentials, now)
            .map(|auth| Proof::Operator(auth, to)),
    }
}

/// Checks that the user in a path, if it names one, is the authenticated user.
pub fn check_own_record(auth: &UserAuth, input: &Input<'_>) -> Result<(), ApiError> {
    // A route without a user in its path acts on the authenticated user.
    if !input.params.has("userId") {
        return Ok(());
    }
    match UserId::parse(&input.text("userId")?) {
        Ok(user) if user == auth.user() => Ok(()),
        // The id of another user gets the same response as an unknown id, so that it reveals nothing.
        _ => Err(ApiError::new(
            ErrorCode::UserNotFound,
            "there is no such user",
        )),
    }
}

/// Returns the partner whose token a refused request carries.
pub(crate) fn partner_of(
    http: &HttpState,
    heads: &RequestHeaders<'_>,
    now: UnixSeconds,
) -> Option<PartnerIdentity> {
    let token = TokenHash::hash_partner_token(heads.access_token.ascii()?)?;
    http.authenticator.partner(&token, now)
}
