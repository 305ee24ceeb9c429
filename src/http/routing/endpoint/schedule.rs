//! Requests with the partner token for the schedule and the catalogue. Those of sign-up and login
//! are in `login`.

use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::errors::combine::CombineResults;
use crate::http::request::query::IdList;
use crate::http::routing::endpoint::login::{
    LoginRequest, ResetRequest, SendResetRequest, SignUpRequest,
};
use crate::http::routing::endpoint::{Input, Payload};
use crate::http::routing::route::PartnerRoute;
use crate::types::{AssetId, BroadcastId, LiveOffset, LivestreamId, Malformed, Protocol, TvDay};

/// The live view of several livestreams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveRequest {
    pub livestreams: IdList<LivestreamId>,
    pub offset: LiveOffset,
}

/// The live view of one livestream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LivestreamNowRequest {
    pub livestream: LivestreamId,
    pub offset: LiveOffset,
}

/// The broadcasts of several livestreams on a TV day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DayRequest {
    pub day: TvDay,
    pub livestreams: IdList<LivestreamId>,
}

/// The broadcasts of one livestream on a TV day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LivestreamDayRequest {
    pub day: TvDay,
    pub livestream: LivestreamId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BroadcastRequest {
    pub broadcast: BroadcastId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BroadcastsRequest {
    pub broadcasts: IdList<BroadcastId>,
}

/// A list of the catalogue, complete or one page of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRequest<T> {
    /// Maximum number of rows; `None` for all.
    pub limit: Option<usize>,
    /// Only rows with a greater id.
    pub after: Option<T>,
}

/// Maximum page size.
const PAGE_MAX: usize = 500;

impl<T> PageRequest<T> {
    fn parse(
        input: &Input<'_>,
        id: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<Self, ApiError> {
        let limit = input.query.parsed("limit", |text| {
            let plain = text.bytes().all(|b| b.is_ascii_digit());
            let limit = text.parse().ok().filter(|_| plain);
            limit
                .filter(|limit| (1..=PAGE_MAX).contains(limit))
                .ok_or(Malformed("must be an integer from 1 to 500"))
        });
        let (limit, after) = (limit, input.query.parsed("after", id)).combine()?;
        Ok(Self { limit, after })
    }
}

pub(crate) struct M3uRequest {
    /// The partner token as sent; the addresses in the playlist contain it.
    pub access_token: String,
}

impl M3uRequest {
    fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let sent = match input.heads.access_token.ascii() {
            Some(token) => token.into(),
            None => input.query.one("accessToken")?.unwrap_or_default(),
        };
        Ok(Self {
            access_token: sent.into_owned(),
        })
    }
}

/// An entry of the M3U playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaylistRedirectRequest {
    pub livestream: LivestreamId,
    /// Determined by the file name of the manifest.
    pub protocol: Protocol,
}

/// File names of the manifests in the playlist. Players detect the protocol by the extension.
pub(crate) const MANIFESTS: [(Protocol, &str); 2] =
    [(Protocol::Hls, "index.m3u8"), (Protocol::Dash, "index.mpd")];

impl PlaylistRedirectRequest {
    fn parse(livestream: LivestreamId, input: &Input<'_>) -> Result<Self, ApiError> {
        let name = input.text("manifest")?;
        let found = MANIFESTS.iter().find(|(_, manifest)| *manifest == name);
        let (protocol, _) = found.ok_or_else(|| {
            let why = "no such manifest; use index.m3u8 or index.mpd";
            ApiError::new(ErrorCode::ProtocolNotAvailable, why)
        })?;
        Ok(Self {
            livestream,
            protocol: *protocol,
        })
    }
}

/// The endpoints that require only the partner token.
pub(crate) enum PartnerEndpoint {
    LiveOne(LivestreamNowRequest),
    DayOne(LivestreamDayRequest),
    Broadcast(BroadcastRequest),
    Broadcasts(BroadcastsRequest),
    Day(DayRequest),
    Live(LiveRequest),
    Xmltv,
    M3u(M3uRequest),
    Watch(PlaylistRedirectRequest),
    Livestreams(PageRequest<LivestreamId>),
    Assets(PageRequest<AssetId>),
    SignUp(Box<SignUpRequest>),
    Login(LoginRequest),
    SendReset(SendResetRequest),
    Reset(ResetRequest),
    FairplayCertificate,
}

impl PartnerEndpoint {
    /// Parses the parameters of a route.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the parameters.
    pub(crate) fn parse(
        route: PartnerRoute,
        input: &Input<'_>,
        payload: Payload,
    ) -> Result<Self, ApiError> {
        let livestream = || input.parsed("livestreamId", LivestreamId::parse);
        let livestreams = || input.query.required_ids("livestreams", LivestreamId::parse);
        let day = || input.parsed("date", TvDay::parse);
        let offset = || {
            let given = input.query.parsed("offset", LiveOffset::parse)?;
            Ok::<_, ApiError>(given.unwrap_or(LiveOffset::LIVE))
        };
        Ok(match route {
            PartnerRoute::LivestreamNow => {
                let (livestream, offset) = (livestream(), offset()).combine()?;
                Self::LiveOne(LivestreamNowRequest { livestream, offset })
            }
            PartnerRoute::LivestreamDay => {
                let (livestream, day) = (livestream(), day()).combine()?;
                Self::DayOne(LivestreamDayRequest { day, livestream })
            }
            PartnerRoute::Broadcast => Self::Broadcast(BroadcastRequest {
                broadcast: input.parsed("broadcastId", BroadcastId::parse)?,
            }),
            PartnerRoute::Broadcasts => Self::Broadcasts(BroadcastsRequest {
                broadcasts: input.query.required_ids("broadcasts", BroadcastId::parse)?,
            }),
            PartnerRoute::Day => {
                let (day, livestreams) = (day(), livestreams()).combine()?;
                Self::Day(DayRequest { livestreams, day })
            }
            PartnerRoute::Live => {
                let (livestreams, offset) = (livestreams(), offset()).combine()?;
                Self::Live(LiveRequest {
                    livestreams,
                    offset,
                })
            }
            PartnerRoute::Xmltv => Self::Xmltv,
            PartnerRoute::M3u => Self::M3u(M3uRequest::parse(input)?),
            PartnerRoute::PlaylistRedirect => {
                Self::Watch(PlaylistRedirectRequest::parse(livestream()?, input)?)
            }
            PartnerRoute::Livestreams => {
                Self::Livestreams(PageRequest::parse(input, LivestreamId::parse)?)
            }
            PartnerRoute::Assets => Self::Assets(PageRequest::parse(input, AssetId::parse)?),
            PartnerRoute::SignUp => Self::SignUp(Box::new(SignUpRequest::parse(input, payload)?)),
            PartnerRoute::Login => Self::Login(LoginRequest::parse(payload)?),
            PartnerRoute::SendReset => Self::SendReset(SendResetRequest::parse(payload)?),
            PartnerRoute::Reset => Self::Reset(ResetRequest::parse(payload)?),
            PartnerRoute::FairplayCertificate => Self::FairplayCertificate,
        })
    }

    /// Returns the cache key of a request for several livestreams or broadcasts. Ids contain no
    /// comma, so different lists have different keys.
    #[must_use]
    pub(crate) fn cache_key(&self) -> Option<String> {
        match self {
            Self::Live(request) => {
                let offset = request.offset.seconds();
                Some(format!("live {offset} {}", request.livestreams))
            }
            Self::Day(request) => Some(format!("day {} {}", request.day, request.livestreams)),
            Self::Broadcasts(request) => Some(format!("broadcasts {}", request.broadcasts)),
            Self::LiveOne(_)
            | Self::DayOne(_)
            | Self::Broadcast(_)
            | Self::Xmltv
            | Self::M3u(_)
            | Self::Watch(_)
            | Self::Livestreams(_)
            | Self::Assets(_)
            | Self::SignUp(_)
            | Self::Login(_)
            | Self::SendReset(_)
            | Self::Reset(_)
            | Self::FairplayCertificate => None,
        }
    }

    /// Returns the address for several livestreams that replaces a deprecated address for one
    /// livestream.
    #[must_use]
    pub(crate) fn successor(&self) -> Option<String> {
        match self {
            Self::LiveOne(request) => {
                let id = encoded(request.livestream.as_str());
                let offset = match request.offset.seconds() {
                    0 => String::new(),
                    seconds => format!("&offset={seconds}"),
                };
                Some(format!(
                    "/api/schedule/v1/broadcasts/live?livestreams={id}{offset}"
                ))
            }
            Self::DayOne(request) => Some(format!(
                "/api/schedule/v1/broadcasts/day/{}?livestreams={}",
                request.day,
                encoded(request.livestream.as_str())
            )),
            Self::Broadcast(_)
            | Self::Broadcasts(_)
            | Self::Day(_)
            | Self::Live(_)
            | Self::Xmltv
            | Self::M3u(_)
            | Self::Watch(_)
            | Self::Livestreams(_)
            | Self::Assets(_)
            | Self::SignUp(_)
            | Self::Login(_)
            | Self::SendReset(_)
            | Self::Reset(_)
            | Self::FairplayCertificate => None,
        }
    }
}

/// Percent-encodes all characters except the unreserved ones of RFC 3986.
pub(crate) fn encoded(text: &str) -> String {
    use std::fmt::Write;

    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
