//! Requests about the grants of users, and about what they may play.

use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_http::routing::resolve::UserIdOrEmail;
use playgate_types::{AssetId, Country, DeviceId, LiveOffset, OfferId, UnixSeconds};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrantRequest {
    pub user: UserIdOrEmail,
    pub offer: OfferId,
    /// If absent, the offer determines the expiry.
    pub expiry: Option<UnixSeconds>,
}

impl ParseRequest for GrantRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (user, offer, expiry) = (
            UserIdOrEmail::parse(input),
            input.parsed("offer", OfferId::parse),
            body.integer("expiry"),
        )
            .combine()?;
        Ok(Self {
            user,
            offer,
            expiry: expiry.map(UnixSeconds),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RevokeGrantRequest {
    pub user: UserIdOrEmail,
    pub offer: OfferId,
}

impl ParseRequest for RevokeGrantRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            user: UserIdOrEmail::parse(input)?,
            offer: input.parsed("offer", OfferId::parse)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExplainEntitlementRequest {
    pub user: UserIdOrEmail,
    pub asset: AssetId,
    pub offset: LiveOffset,
    pub country: Option<Country>,
    pub device: Option<DeviceId>,
    /// Explains a past decision from the journal instead of one now.
    pub at: Option<UnixSeconds>,
}

impl ParseRequest for ExplainEntitlementRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let at = input.number("at", 12, "must be a time in Unix seconds");
        let (user, asset, offset, country, device, at) = (
            UserIdOrEmail::parse(input),
            input.parsed("asset", AssetId::parse),
            input.query.parsed("offset", LiveOffset::parse),
            input.query.parsed("country", Country::parse),
            input.query.parsed("device", DeviceId::parse),
            at,
        )
            .combine()?;
        Ok(Self {
            user,
            asset,
            offset: offset.unwrap_or(LiveOffset::LIVE),
            country,
            device,
            at: at.map(UnixSeconds),
        })
    }
}
