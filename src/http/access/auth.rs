//! Authenticates requests and applies the rate limits that need no body.
//!
//! Proofs of authentication are created only here: a handler that takes one as an argument cannot be reached without it.

#![deny(clippy::wildcard_enum_match_arm)]

use std::net::IpAddr;

use crate::access::local_admin::Administrator;
use crate::errors::api_error::{ApiError, ErrorCode};
use crate::request::headers::{HeaderNames, RequestHeaders, SingleHeader};
use crate::request::query::Query;
use playgate_types::{
    LimitReached, Locale, LoginId, OperatorId, PartnerId, PartnerKind, Role, TokenHash, TokenKind,
    UnixSeconds, UserId,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartnerIdentity {
    pub partner: PartnerId,
    pub token: TokenHash,
    pub kind: PartnerKind,
    /// Seconds between the clock of a lab partner and that of the service; 0 for other partners.
    pub clock_offset: i64,
}

impl PartnerIdentity {
    pub const fn is_lab(&self) -> bool {
        matches!(self.kind, PartnerKind::Lab)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIdentity {
    pub user: UserId,
    pub login: LoginId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorIdentity {
    pub operator: OperatorId,
    pub role: Role,
}

pub const PARTNER_LIMIT: &str = "partner";

/// Rate limit by client address, applied before the body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateClass {
    General,
    SignUp,
    Login,
    ResetMail,
    Reset,
}

/// Looks up tokens and applies the rate limits that need no body. Every answer comes from memory.
pub trait Authenticator: Send + Sync {
    fn partner(&self, token: &TokenHash, now: UnixSeconds) -> Option<PartnerIdentity>;

    /// Returns the user of a token, if the user belongs to `partner` and both the token and its login session
    /// are valid at `now`.
    fn user(&self, token: &TokenHash, partner: PartnerId, now: UnixSeconds)
    -> Option<UserIdentity>;

    fn operator(&self, token: &TokenHash, now: UnixSeconds) -> Option<OperatorIdentity>;

    fn locale(&self, user: UserId) -> Option<Locale>;

    /// Applies the rate limits of a class.
    ///
    /// # Errors
    /// The limit that was reached.
    fn admit(
        &self,
        class: RateClass,
        partner: Option<PartnerId>,
        peer: IpAddr,
        now: UnixSeconds,
    ) -> Result<(), LimitReached>;
}

/// The proof of a route that requires no token.
#[derive(Clone, Copy, Debug)]
pub struct Anyone(());

impl Anyone {
    pub(crate) const PROOF: Self = Self(());
}

#[derive(Clone, Copy, Debug)]
pub struct PartnerAuth {
    identity: PartnerIdentity,
}

impl PartnerAuth {
    /// Checks the partner token.
    ///
    /// # Errors
    /// `PARTNER_TOKEN_INVALID` for a missing or invalid token; `INVALID_REQUEST` for a repeated header.
    pub(crate) fn check(
        authenticator: &dyn Authenticator,
        credentials: &Credentials<'_>,
        now: UnixSeconds,
    ) -> Result<Self, ApiError> {
        let identity = partner(authenticator, credentials, now)?;
        Ok(Self { identity })
    }

    pub const fn identity(&self) -> PartnerIdentity {
        self.identity
    }

    pub const fn partner(&self) -> PartnerId {
        self.identity.partner
    }

    pub const fn kind(&self) -> PartnerKind {
        self.identity.kind
    }
}

/// Proof that a partner token and a user token of that partner were checked.
#[derive(Clone, Copy, Debug)]
pub struct UserAuth {
    identity: PartnerIdentity,
    user: UserId,
    login: LoginId,
}

impl UserAuth {
    /// Checks the partner token and then the user token.
    ///
    /// # Errors
    /// Those of [`PartnerAuth::check`]; `USER_TOKEN_INVALID` for a missing or invalid user token.
    pub(crate) fn check(
        authenticator: &dyn Authenticator,
        credentials: &Credentials<'_>,
        now: UnixSeconds,
    ) -> Result<Self, ApiError> {
        let identity = partner(authenticator, credentials, now)?;
        let hash =
            bearer(credentials.heads.authorization, TokenKind::User)?.map_err(user_refused)?;
        let UserIdentity { user, login } = authenticator
            // At the partner's time: users of a lab partner live by its clock, which may be moved.
            .user(&hash, identity.partner, now + identity.clock_offset)
            // Users are looked up within the partner: a token of another partner's user is unknown here.
            .ok_or_else(|| user_refused(AuthRefusal::Sent))?;
        Ok(Self {
            identity,
            user,
            login,
        })
    }

    pub const fn identity(&self) -> PartnerIdentity {
        self.identity
    }

    pub const fn partner(&self) -> PartnerId {
        self.identity.partner
    }

    pub const fn user(&self) -> UserId {
        self.user
    }

    pub const fn login(&self) -> LoginId {
        self.login
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminIdentity {
    Operator(OperatorId),
    Administrator(Administrator),
}

/// Proof that the role of the operator allows the route.
#[derive(Clone, Copy, Debug)]
pub struct OperatorAuth {
    identity: AdminIdentity,
    role: Role,
}

impl OperatorAuth {
    /// Checks the operator token and the role. `roles` may use the route.
    ///
    /// # Errors
    /// `OPERATOR_TOKEN_INVALID` for a missing or invalid token; `ROLE_NOT_ALLOWED` for another role.
    pub(crate) fn check(
        authenticator: &dyn Authenticator,
        roles: Option<&[Role]>,
        credentials: &Credentials<'_>,
        now: UnixSeconds,
    ) -> Result<Self, ApiError> {
        // The file mode of the socket is the access control; a token would have to be stored next to it.
        if let Some(administrator) = credentials.administrator {
            return Ok(Self {
                identity: AdminIdentity::Administrator(administrator),
                role: Role::Admin,
            });
        }
        let refused = |why: AuthRefusal| {
            why.error(
                ErrorCode::OperatorTokenInvalid,
                "operator",
                "unknown or revoked",
            )
        };
        let hash =
            bearer(credentials.heads.authorization, TokenKind::Operator)?.map_err(refused)?;
        let known = authenticator
            .operator(&hash, now)
            .ok_or_else(|| refused(AuthRefusal::Sent))?;
        // A route that names no role is open to no operator.
        if roles.is_some_and(|roles| roles.contains(&known.role)) {
            Ok(Self {
                identity: AdminIdentity::Operator(known.operator),
                role: known.role,
            })
        } else {
            Err(ApiError::new(
                ErrorCode::RoleNotAllowed,
                "the role of the operator does not allow this",
            ))
        }
    }

    pub const fn identity(&self) -> AdminIdentity {
        self.identity
    }

    pub const fn operator(&self) -> Option<OperatorId> {
        match self.identity {
            AdminIdentity::Operator(operator) => Some(operator),
            AdminIdentity::Administrator(_) => None,
        }
    }

    pub const fn role(&self) -> Role {
        self.role
    }
}

pub struct Credentials<'a> {
    pub heads: &'a RequestHeaders<'a>,
    pub query: Query<'a>,
    /// Whether the query may carry the partner token.
    pub takes_query_token: bool,
    pub names: &'a HeaderNames,
    /// The local administrator, if the request came over the administration socket.
    pub administrator: Option<Administrator>,
}

fn partner(
    authenticator: &dyn Authenticator,
    credentials: &Credentials<'_>,
    now: UnixSeconds,
) -> Result<PartnerIdentity, ApiError> {
    let header = || credentials.names.full(ACCESS_TOKEN);
    let (hash, place) = match credentials.heads.access_token {
        SingleHeader::One(value) => {
            let hash = value.to_str().ok().and_then(TokenHash::hash_partner_token);
            (hash, TokenPlace::Header)
        }
        // Which of two tokens counts could differ between this server and a proxy in front of it.
        SingleHeader::Repeated => return Err(ApiError::field(header(), "is sent more than once")),
        SingleHeader::Absent => {
            let given = match credentials.takes_query_token {
                // Only on routes for players that cannot send headers: addresses end up in logs and histories.
                true => credentials.query.one(TOKEN_IN_QUERY)?,
                false => None,
            };
            let Some(text) = given else {
                let message = format!("header {} is missing", header());
                return Err(ApiError::new(ErrorCode::PartnerTokenInvalid, message));
            };
            (TokenHash::hash_partner_token(&text), TokenPlace::Query)
        }
    };
    // Malformed, unknown and revoked tokens get one answer.
    hash.and_then(|hash| authenticator.partner(&hash, now))
        .ok_or_else(|| {
            let place = match place {
                TokenPlace::Header => format!("header {}", header()),
                TokenPlace::Query => format!("parameter {TOKEN_IN_QUERY}"),
            };
            let message = format!("{place}: the partner token is unknown or revoked");
            ApiError::new(ErrorCode::PartnerTokenInvalid, message)
        })
}

const ACCESS_TOKEN: &str = "AccessToken";
/// Query parameter with the partner token, for players that cannot send headers.
const TOKEN_IN_QUERY: &str = "accessToken";

#[derive(Clone, Copy)]
enum TokenPlace {
    Header,
    Query,
}

#[derive(Clone, Copy)]
enum AuthRefusal {
    Missing,
    NotBearer,
    Sent,
}

impl AuthRefusal {
    /// Builds the 401 error for a token of this kind. `ended` lists the reasons for which such a token is
    /// refused.
    fn error(self, code: ErrorCode, kind: &str, ended: &str) -> ApiError {
        match self {
            Self::Missing => ApiError::new(
                code,
                format!("header Authorization is missing; send `Bearer` and the {kind} token"),
            ),
            Self::NotBearer => ApiError::new(
                code,
                format!("header Authorization: must have the form `Bearer` and the {kind} token"),
            ),
            Self::Sent => ApiError::new(
                code,
                format!("header Authorization: the {kind} token is {ended}"),
            )
            .with_token_sent(),
        }
    }
}

/// Returns the hash of the bearer token.
fn bearer(
    slot: SingleHeader<'_>,
    kind: TokenKind,
) -> Result<Result<TokenHash, AuthRefusal>, ApiError> {
    let value = match slot {
        SingleHeader::One(value) => value,
        SingleHeader::Repeated => {
            return Err(ApiError::field("Authorization", "is sent more than once"));
        }
        SingleHeader::Absent => return Ok(Err(AuthRefusal::Missing)),
    };
    let Some((scheme, token)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return Ok(Err(AuthRefusal::NotBearer));
    };
    // Schemes are case-insensitive (RFC 9110, 11.1).
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Err(AuthRefusal::NotBearer));
    }
    // One or more spaces follow the scheme (RFC 9110, 11.4).
    let token = token.trim_start_matches(' ');
    // Text without the form of a token of this kind is not hashed.
    Ok(TokenHash::hash_presented(kind, token).ok_or(AuthRefusal::Sent))
}

fn user_refused(why: AuthRefusal) -> ApiError {
    why.error(
        ErrorCode::UserTokenInvalid,
        "user",
        "unknown, expired or revoked",
    )
}

/// Applies the rate limits that need no body.
///
/// # Errors
/// `RATE_LIMITED` or `TOO_MANY_ATTEMPTS`.
pub(crate) fn check_rate(
    authenticator: &dyn Authenticator,
    class: RateClass,
    partner: Option<PartnerId>,
    peer: IpAddr,
    now: UnixSeconds,
) -> Result<(), ApiError> {
    authenticator
        .admit(class, partner, peer, now)
        .map_err(|limit| {
            let code = match class {
                // All users of a partner share this limit, so it must not read as too many attempts of one viewer.
                _ if limit.name == PARTNER_LIMIT => ErrorCode::RateLimited,
                RateClass::General => ErrorCode::RateLimited,
                RateClass::SignUp | RateClass::Login | RateClass::ResetMail | RateClass::Reset => {
                    ErrorCode::TooManyAttempts
                }
            };
            ApiError::new(code, "too many requests; see Retry-After").with_limit(limit)
        })
}
