//! Requests about the catalogue and EPG imports.

use bytes::Bytes;

use crate::domain::epg_sources::Refresh;
use crate::http::errors::api_error::{ApiError, CombineResults};
use crate::http::request::body::BodyStream;
use crate::http::request::payload::Payload;
use crate::http::routing::endpoint::{Input, ParseRequest};
use crate::types::Malformed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CatalogFormat {
    Toml,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportCatalogRequest {
    pub format: CatalogFormat,
}

impl ParseRequest for ExportCatalogRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let format = input.query.parsed("format", |text| match text {
            "toml" => Ok(CatalogFormat::Toml),
            "json" => Ok(CatalogFormat::Json),
            _ => Err(Malformed("must be toml or json")),
        })?;
        Ok(Self {
            format: format.unwrap_or(CatalogFormat::Toml),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportCatalogRequest {
    pub file: Bytes,
    pub merge: bool,
    pub dry_run: bool,
    pub accept: bool,
}

impl ParseRequest for ImportCatalogRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let (merge, dry_run, accept) = (
            input.query.flag("merge"),
            input.query.flag("dryRun"),
            input.query.flag("accept"),
        )
            .combine()?;
        Ok(Self {
            file: payload.whole()?,
            merge,
            dry_run,
            accept,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndoCatalogRequest {
    pub version: Option<u64>,
    pub dry_run: bool,
}

impl ParseRequest for UndoCatalogRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (version, dry_run) = (
            input.number("version", 18, "must be the number of a catalogue version"),
            input.query.flag("dryRun"),
        )
            .combine()?;
        Ok(Self { version, dry_run })
    }
}

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
