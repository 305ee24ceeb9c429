//! Requests about the catalogue as a file.

use bytes::Bytes;

use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_types::Malformed;

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
