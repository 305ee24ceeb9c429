//! Requests about the catalogue and guides.

use bytes::Bytes;

use super::super::{Input, Payload};
use crate::domain::feeds::Refresh;
use crate::http::body::BodyStream;
use crate::http::error::ApiError;
use crate::types::Malformed;

/// The language of a catalogue file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogFormat {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// GET catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportCatalogRequest {
    /// The language; TOML where none is named.
    pub format: CatalogFormat,
}

impl ExportCatalogRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
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

/// POST catalog/import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportCatalogRequest {
    /// The file, TOML or JSON.
    pub file: Bytes,
    /// Adds and changes; otherwise the file replaces the whole catalogue.
    pub merge: bool,
    /// Says what would change and changes nothing.
    pub dry_run: bool,
    /// Imports what looks implausible.
    pub accept: bool,
}

impl ImportCatalogRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            file: payload.whole()?,
            merge: input.query.flag("merge")?,
            dry_run: input.query.flag("dryRun")?,
            accept: input.query.flag("accept")?,
        })
    }
}

/// POST catalog/undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoCatalogRequest {
    /// The version to go back to; the newest if none is named.
    pub version: Option<u64>,
    /// Says what would change and changes nothing.
    pub dry_run: bool,
}

impl UndoCatalogRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            version: input.number("version", 18, "must be the number of a version")?,
            dry_run: input.query.flag("dryRun")?,
        })
    }
}

/// POST epg/import.
pub struct ImportGuideRequest {
    /// The name of the source, for its settings and its report.
    pub source: Option<String>,
    /// Says what would change and changes nothing.
    pub dry_run: bool,
    /// Goes over the plausibility brake.
    pub accept: bool,
    /// Makes livestreams that the catalogue does not know.
    pub create_livestreams: bool,
    /// The file as it arrives: XMLTV or JSON, plain, gzip or xz.
    pub file: BodyStream,
}

impl ImportGuideRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let source = input.query.one("source")?.map(std::borrow::Cow::into_owned);
        if source
            .as_ref()
            .is_some_and(|name| name.is_empty() || name.len() > 128)
        {
            return Err(ApiError::field("source", "has 1 to 128 characters"));
        }
        Ok(Self {
            source,
            dry_run: input.query.flag("dryRun")?,
            accept: input.query.flag("accept")?,
            create_livestreams: input.query.flag("createLivestreams")?,
            file: payload.streamed()?,
        })
    }
}

/// A source of guides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRequest {
    /// Its name.
    pub source: String,
}

impl SourceRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            source: input.text("source")?.into_owned(),
        })
    }
}

/// POST epg/sources/{source}/refresh.
#[derive(Clone, Debug)]
pub struct RefreshSourceRequest {
    /// Its name.
    pub source: String,
    /// What is to be done with its guide.
    pub how: Refresh,
}

impl RefreshSourceRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            source: input.text("source")?.into_owned(),
            how: Refresh {
                dry_run: input.query.flag("dryRun")?,
                accept: input.query.flag("accept")?,
                create_livestreams: input.query.flag("createLivestreams")?,
            },
        })
    }
}
