//! Requests about EPG sources and imports of guides.

use playgate_domain::epg_sources::Refresh;
use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::body::BodyStream;
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_types::Malformed;

pub(crate) struct ImportGuideRequest {
    pub source: Option<String>,
    pub how: Refresh,
    pub file: BodyStream,
}

impl ParseRequest for ImportGuideRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let source = input.query.parsed("source", |name| match name.len() {
            1..=128 => Ok(name.to_owned()),
            _ => Err(Malformed("must have 1 to 128 characters")),
        });
        let (source, how) = (source, refresh(input)).combine()?;
        Ok(Self {
            source,
            how,
            file: payload.streamed()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceRequest {
    pub source: String,
}

impl ParseRequest for SourceRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            source: input.text("source")?.into_owned(),
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RefreshSourceRequest {
    pub source: String,
    pub how: Refresh,
}

impl ParseRequest for RefreshSourceRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (source, how) = (input.text("source"), refresh(input)).combine()?;
        Ok(Self {
            source: source.into_owned(),
            how,
        })
    }
}

fn refresh(input: &Input<'_>) -> Result<Refresh, ApiError> {
    let (dry_run, accept, create_livestreams) = (
        input.query.flag("dryRun"),
        input.query.flag("accept"),
        input.query.flag("createLivestreams"),
    )
        .combine()?;
    Ok(Refresh {
        dry_run,
        accept,
        create_livestreams,
    })
}
