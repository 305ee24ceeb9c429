//! Requests with the partner token for the schedule and the catalogue. Those of sign-up and login
//! are in `login`.

use playgate_http::errors::api_error::{ApiError, CombineResults, ErrorCode};
use playgate_http::request::payload::Payload;
use playgate_http::request::query::IdList;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_types::percent_encoded;
use playgate_types::{
    AssetId, BroadcastId, LiveOffset, LivestreamId, Malformed, Protocol, TvDay, UnixSeconds,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveRequest {
    pub livestreams: IdList<LivestreamId>,
    pub offset: LiveOffset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LivestreamNowRequest {
    pub livestream: LivestreamId,
    pub offset: LiveOffset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DayRequest {
    pub day: TvDay,
    pub livestreams: IdList<LivestreamId>,
}

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

fn livestream(input: &Input<'_>) -> Result<LivestreamId, ApiError> {
    input.parsed("livestreamId", LivestreamId::parse)
}

fn livestreams(input: &Input<'_>) -> Result<IdList<LivestreamId>, ApiError> {
    input.query.required_ids("livestreams", LivestreamId::parse)
}

fn day(input: &Input<'_>) -> Result<TvDay, ApiError> {
    input.parsed("date", TvDay::parse)
}

fn offset(input: &Input<'_>) -> Result<LiveOffset, ApiError> {
    let offset = input.query.parsed("offset", LiveOffset::parse)?;
    Ok(offset.unwrap_or(LiveOffset::LIVE))
}

// Ids contain no comma, so different lists have different cache keys.

impl ParseRequest for LiveRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (livestreams, offset) = (livestreams(input), offset(input)).combine()?;
        Ok(Self {
            livestreams,
            offset,
        })
    }

    fn cache_key(&self) -> Option<String> {
        let offset = self.offset.seconds();
        Some(format!("live {offset} {}", self.livestreams))
    }
}

impl ParseRequest for LivestreamNowRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (livestream, offset) = (livestream(input), offset(input)).combine()?;
        Ok(Self { livestream, offset })
    }

    fn successor(&self) -> Option<String> {
        let id = percent_encoded(self.livestream.as_str());
        let offset = match self.offset.seconds() {
            0 => String::new(),
            seconds => format!("&offset={seconds}"),
        };
        Some(format!(
            "/api/schedule/v1/broadcasts/live?livestreams={id}{offset}"
        ))
    }
}

impl ParseRequest for DayRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (day, livestreams) = (day(input), livestreams(input)).combine()?;
        Ok(Self { day, livestreams })
    }

    fn cache_key(&self) -> Option<String> {
        Some(format!("day {} {}", self.day, self.livestreams))
    }
}

impl ParseRequest for LivestreamDayRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (livestream, day) = (livestream(input), day(input)).combine()?;
        Ok(Self { day, livestream })
    }

    fn successor(&self) -> Option<String> {
        let (day, id) = (self.day, percent_encoded(self.livestream.as_str()));
        Some(format!(
            "/api/schedule/v1/broadcasts/day/{day}?livestreams={id}"
        ))
    }
}

impl ParseRequest for BroadcastRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            broadcast: input.parsed("broadcastId", BroadcastId::parse)?,
        })
    }
}

impl ParseRequest for BroadcastsRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            broadcasts: input.query.required_ids("broadcasts", BroadcastId::parse)?,
        })
    }

    fn cache_key(&self) -> Option<String> {
        Some(format!("broadcasts {}", self.broadcasts))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRequest<T> {
    pub limit: Option<usize>,
    pub after: Option<T>,
}

const PAGE_MAX: usize = 500;

impl ParseRequest for PageRequest<LivestreamId> {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Self::read(input, LivestreamId::parse)
    }
}

impl ParseRequest for PageRequest<AssetId> {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Self::read(input, AssetId::parse)
    }
}

impl<T> PageRequest<T> {
    pub(crate) const fn is_whole(&self) -> bool {
        self.limit.is_none() && self.after.is_none()
    }

    fn read(
        input: &Input<'_>,
        id: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<Self, ApiError> {
        let why = "must be an integer from 1 to 500";
        let limit = input.number_in("limit", 1..=PAGE_MAX, why);
        let (limit, after) = (limit, input.query.parsed("after", id)).combine()?;
        Ok(Self { limit, after })
    }
}

/// Most days of an XMLTV export in each direction.
const EXPORT_DAYS: u32 = 3_660;

/// Which part of the schedule is exported as XMLTV: all of it without parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct XmltvRequest {
    pub days: Option<u32>,
    pub days_back: Option<u32>,
    pub livestreams: Option<IdList<LivestreamId>>,
}

impl ParseRequest for XmltvRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let query = &input.query;
        let known = ["days", "days_back", "livestreams", "accessToken"];
        let number = |text: &str| {
            let number = text.parse().ok().filter(|days| *days <= EXPORT_DAYS);
            number.ok_or(Malformed("is a number of days from 0 to 3660"))
        };
        query.only("query", &known)?;
        let days = (
            query.parsed("days", number),
            query.parsed("days_back", number),
        );
        let (days, livestreams) = (
            days.combine(),
            query.ids("livestreams", LivestreamId::parse),
        )
            .combine()?;
        Ok(Self {
            days: days.0,
            days_back: days.1,
            livestreams,
        })
    }
}

pub(crate) struct M3uRequest {
    pub access_token: String,
}

impl ParseRequest for M3uRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        // Players that only take an address send the token in the query.
        let sent = match input.heads.access_token.ascii() {
            Some(token) => token.into(),
            None => input.query.one("accessToken")?.unwrap_or_default(),
        };
        Ok(Self {
            access_token: sent.into_owned(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaylistRedirectRequest {
    pub livestream: LivestreamId,
    pub protocol: Protocol,
    /// The start of the program to catch up.
    pub catchup: Option<UnixSeconds>,
}

/// File names of the manifests in the playlist. Players detect the protocol by the extension.
pub(crate) const MANIFESTS: [(Protocol, &str); 2] =
    [(Protocol::Hls, "index.m3u8"), (Protocol::Dash, "index.mpd")];

impl ParseRequest for PlaylistRedirectRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (livestream, utc) = (
            livestream(input),
            input.number("utc", 12, "must be a time in Unix seconds"),
        )
            .combine()?;
        let name = input.text("manifest")?;
        let found = MANIFESTS.iter().find(|(_, manifest)| *manifest == name);
        let (protocol, _) = found.ok_or_else(|| {
            let why = "no such manifest; use index.m3u8 or index.mpd";
            ApiError::new(ErrorCode::ProtocolNotAvailable, why)
        })?;
        Ok(Self {
            livestream,
            protocol: *protocol,
            catchup: utc.map(UnixSeconds),
        })
    }
}
