//! Who asks. A proof is made here and nowhere else: a handler that takes one as an argument cannot
//! be reached without it.

#![deny(clippy::wildcard_enum_match_arm)]

use std::fmt;
use std::net::IpAddr;

use rustix::process::getuid;

use super::error::{ApiError, ErrorCode};
use super::headers::{HeaderNames, RequestHeaders, SingleHeader};
use super::query::Query;
use super::route::{
    Endpoint, OperatorRoute, PartnerRoute, PublicRoute, RateClass, Route, UserRoute,
};
use crate::types::{
    LimitReached, Locale, LoginId, OperatorId, PartnerId, Role, TokenHash, TokenKind, UnixSeconds,
    UserId,
};

/// Who a user token belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIdentity {
    /// The user.
    pub user: UserId,
    /// The login session that the token lives in.
    pub login: LoginId,
}

/// Who an operator token belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorIdentity {
    /// The operator.
    pub operator: OperatorId,
    /// What they may do.
    pub role: Role,
}

/// The name of the limit on all requests of a partner.
pub const PARTNER_LIMIT: &str = "partner";

/// What the front must know before a request is let in. All of it is answered from memory.
pub trait Authenticator: Send + Sync {
    /// The partner whose token has this hash, unless it is revoked.
    fn partner(&self, token: &TokenHash) -> Option<PartnerId>;

    /// The user whose token has this hash, if they are this partner's, and the token and its
    /// login session are alive at `now`.
    fn user(&self, token: &TokenHash, partner: PartnerId, now: UnixSeconds)
    -> Option<UserIdentity>;

    /// The operator whose token has this hash, unless it is revoked.
    fn operator(&self, token: &TokenHash) -> Option<OperatorIdentity>;

    /// The language that the user has chosen, for messages.
    fn locale(&self, user: UserId) -> Option<Locale>;

    /// Whether a request of this class may go on: the limits that need nothing of its body.
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

/// Proof that a partner asks.
#[derive(Clone, Copy, Debug)]
pub struct PartnerAuth {
    partner: PartnerId,
}

impl PartnerAuth {
    /// The partner.
    #[must_use]
    pub const fn partner(&self) -> PartnerId {
        self.partner
    }
}

/// Proof that a user of a partner asks.
#[derive(Clone, Copy, Debug)]
pub struct UserAuth {
    partner: PartnerId,
    user: UserId,
    login: LoginId,
}

impl UserAuth {
    /// The partner.
    #[must_use]
    pub const fn partner(&self) -> PartnerId {
        self.partner
    }

    /// The user.
    #[must_use]
    pub const fn user(&self) -> UserId {
        self.user
    }

    /// The login session of the token.
    #[must_use]
    pub const fn login(&self) -> LoginId {
        self.login
    }
}

/// A user of this machine who may open the local administration socket: its file mode says who may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Administrator {
    /// The number that the kernel has for the user.
    pub uid: u32,
}

/// The number that the kernel has for users whom this process may not know, as the unit's own
/// namespace of users has it.
const UNKNOWN: u32 = 65_534;
/// The longest claim that is recorded, in bytes.
const CLAIM_MAX: usize = 64;

impl Administrator {
    /// The user of this process.
    #[must_use]
    pub fn here() -> Self {
        Self {
            uid: getuid().as_raw(),
        }
    }
}

/// Who the caller of the administration socket says it is, where that is not what the kernel says:
/// the person behind `sudo`, or a user whom the service's own namespace hides. Nothing vouches for
/// it, so the audit record keeps it beside the name that the kernel gives and never in its place.
#[must_use]
pub fn claim(administrator: Administrator, heads: &RequestHeaders<'_>) -> Option<String> {
    let SingleHeader::One(value) = heads.authorization else {
        return None;
    };
    let claim = value.to_str().ok()?.strip_prefix(NAMED)?.trim();
    let sound = (1..=CLAIM_MAX).contains(&claim.len()) && !claim.contains('\t');
    let differs = claim.parse() != Ok(administrator.uid);
    (sound && differs).then(|| claim.to_owned())
}

/// What a command sends as `Authorization` over the administration socket, before the name or number
/// of the user who gave it.
pub const NAMED: &str = "Local ";

impl fmt::Display for Administrator {
    /// What the audit record calls them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.uid == UNKNOWN {
            return f.write_str("local administrator, not identified");
        }
        write!(f, "local administrator, uid {}", self.uid)
    }
}

/// Who an operator's request is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminIdentity {
    /// An operator.
    Operator(OperatorId),
    /// The machine's administrator.
    Administrator(Administrator),
}

/// Proof that an operator asks whose role reaches to the route.
#[derive(Clone, Copy, Debug)]
pub struct OperatorAuth {
    asker: AdminIdentity,
    role: Role,
}

impl OperatorAuth {
    /// Who asks.
    #[must_use]
    pub const fn asker(&self) -> AdminIdentity {
        self.asker
    }

    /// The operator; `None` for the machine's administrator.
    #[must_use]
    pub const fn operator(&self) -> Option<OperatorId> {
        match self.asker {
            AdminIdentity::Operator(operator) => Some(operator),
            AdminIdentity::Administrator(_) => None,
        }
    }

    /// What they may do.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }
}

/// The proof that a route requires, in hand, with the endpoint that it opens.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// None is needed.
    Open(PublicRoute),
    /// The partner's.
    Partner(PartnerAuth, PartnerRoute),
    /// The user's.
    User(UserAuth, UserRoute),
    /// The operator's.
    Operator(OperatorAuth, OperatorRoute),
}

impl Proof {
    /// The partner on whose behalf the request runs.
    #[must_use]
    pub const fn partner(&self) -> Option<PartnerId> {
        match self {
            Self::Partner(auth, _) => Some(auth.partner),
            Self::User(auth, _) => Some(auth.partner),
            Self::Open(_) | Self::Operator(..) => None,
        }
    }

    /// The user who asks.
    #[must_use]
    pub const fn user(&self) -> Option<UserId> {
        match self {
            Self::User(auth, _) => Some(auth.user),
            Self::Open(_) | Self::Partner(..) | Self::Operator(..) => None,
        }
    }
}

/// What a request brings to prove who asks.
pub struct Credentials<'a> {
    /// Its headers.
    pub heads: &'a RequestHeaders<'a>,
    /// Its query, for the routes that take the partner token there.
    pub query: Query<'a>,
    /// The names of our headers.
    pub names: &'a HeaderNames,
    /// Who asks, where it came through the local administration socket.
    pub local: Option<Administrator>,
}

/// Checks the tokens that the route requires: the partner's first, then the user's.
///
/// # Errors
/// 400 for a repeated header, 401 for a token that is missing or not valid, 403 for an operator
/// whose role does not reach.
pub fn prove(
    gate: &dyn Authenticator,
    route: &Route,
    credentials: &Credentials<'_>,
    now: UnixSeconds,
) -> Result<Proof, ApiError> {
    match route.target {
        Endpoint::Open(to) => Ok(Proof::Open(to)),
        Endpoint::Partner(to) => {
            let partner = partner(gate, route, credentials)?;
            Ok(Proof::Partner(PartnerAuth { partner }, to))
        }
        Endpoint::User(to) => {
            let partner = partner(gate, route, credentials)?;
            let hash =
                bearer(credentials.heads.authorization, TokenKind::User)?.map_err(user_refused)?;
            let UserIdentity { user, login } = gate
                .user(&hash, partner, now)
                .ok_or_else(|| user_refused(Refusal::Sent))?;
            let auth = UserAuth {
                partner,
                user,
                login,
            };
            Ok(Proof::User(auth, to))
        }
        Endpoint::Operator(to) => {
            operator(gate, route, credentials).map(|auth| Proof::Operator(auth, to))
        }
    }
}

fn partner(
    gate: &dyn Authenticator,
    route: &Route,
    credentials: &Credentials<'_>,
) -> Result<PartnerId, ApiError> {
    let header = || credentials.names.full(ACCESS_TOKEN);
    let (hash, place) = match credentials.heads.access_token {
        SingleHeader::One(value) => {
            let hash = value.to_str().ok().and_then(TokenHash::hash_partner_token);
            (hash, Place::Header)
        }
        SingleHeader::Repeated => return Err(ApiError::field(header(), "is sent more than once")),
        SingleHeader::Absent => {
            let given = match route.query_token {
                true => credentials.query.one(TOKEN_IN_QUERY)?,
                false => None,
            };
            let Some(text) = given else {
                let message = format!("header {} is missing", header());
                return Err(ApiError::new(ErrorCode::PartnerTokenInvalid, message));
            };
            (TokenHash::hash_partner_token(&text), Place::Query)
        }
    };
    hash.and_then(|hash| gate.partner(&hash)).ok_or_else(|| {
        let place = match place {
            Place::Header => format!("header {}", header()),
            Place::Query => format!("parameter {TOKEN_IN_QUERY}"),
        };
        let message = format!("{place}: the partner token is unknown or revoked");
        ApiError::new(ErrorCode::PartnerTokenInvalid, message)
    })
}

/// Our header with the partner token, without the prefix.
const ACCESS_TOKEN: &str = "AccessToken";
/// The member of the query that has the partner token for players that send no headers.
const TOKEN_IN_QUERY: &str = "accessToken";

/// Where a partner token was found.
#[derive(Clone, Copy)]
enum Place {
    Header,
    Query,
}

/// Why there is no hash to look up.
#[derive(Clone, Copy)]
enum Refusal {
    /// No `Authorization` was sent.
    Missing,
    /// One of another scheme was sent, or one without a token.
    NotBearer,
    /// A bearer token was sent, and it is not valid.
    Sent,
}

impl Refusal {
    /// The 401 about a token of this kind. `ended` says for which reasons a token of the kind is refused.
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

/// The hash of the bearer token. The scheme is matched without case and followed by one or more
/// spaces; the token has the form of its kind, or nothing of it is hashed.
fn bearer(slot: SingleHeader<'_>, kind: TokenKind) -> Result<Result<TokenHash, Refusal>, ApiError> {
    let value = match slot {
        SingleHeader::One(value) => value,
        SingleHeader::Repeated => {
            return Err(ApiError::field("Authorization", "is sent more than once"));
        }
        SingleHeader::Absent => return Ok(Err(Refusal::Missing)),
    };
    let Some((scheme, token)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return Ok(Err(Refusal::NotBearer));
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Err(Refusal::NotBearer));
    }
    let token = token.trim_start_matches(' ');
    Ok(TokenHash::hash_presented(kind, token).ok_or(Refusal::Sent))
}

fn user_refused(why: Refusal) -> ApiError {
    why.error(
        ErrorCode::UserTokenInvalid,
        "user",
        "unknown, expired or revoked",
    )
}

fn operator(
    gate: &dyn Authenticator,
    route: &Route,
    credentials: &Credentials<'_>,
) -> Result<OperatorAuth, ApiError> {
    if let Some(administrator) = credentials.local {
        return Ok(OperatorAuth {
            asker: AdminIdentity::Administrator(administrator),
            role: Role::Admin,
        });
    }
    let refused = |why: Refusal| {
        why.error(
            ErrorCode::OperatorTokenInvalid,
            "operator",
            "unknown or revoked",
        )
    };
    let hash = bearer(credentials.heads.authorization, TokenKind::Operator)?.map_err(refused)?;
    let known = gate.operator(&hash).ok_or_else(|| refused(Refusal::Sent))?;
    if route
        .roles()
        .is_some_and(|roles| roles.contains(&known.role))
    {
        Ok(OperatorAuth {
            asker: AdminIdentity::Operator(known.operator),
            role: known.role,
        })
    } else {
        Err(ApiError::new(
            ErrorCode::RoleNotAllowed,
            "the role of the operator does not allow this",
        ))
    }
}
