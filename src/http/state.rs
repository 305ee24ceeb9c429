//! What the front makes of its settings once, so that no request does it again.

use http::{HeaderName, HeaderValue};

use super::console::Console;
use super::context::RequestIds;
use super::headers::HeaderNames;
use super::localized_messages::{BadMessages, Messages};
use super::metrics::HttpMetrics;
use super::openapi::Descriptions;
use super::recent_failures::RecentFailures;
use super::reset_page_view::Pages;
use super::response_cache::ResponseCache;
use super::xmltv_cache::XmltvCache;
use crate::config::http::{CorsOrigins, HttpSettings};
use crate::observe::metrics::Registry;
use crate::ports::Entropy;

/// A setting that the front cannot use.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSetting {
    /// The prefix makes no header names.
    #[error("`http.header_prefix`: no header name can begin with `{0}`")]
    Prefix(String),
    /// The header of the country has no header's name.
    #[error("`geo.header`: `{0}` is no header name")]
    GeoHeader(String),
    /// An origin cannot stand in a header.
    #[error("`http.cors_origins`: `{0}` is no origin")]
    Origin(String),
    /// The day of sunset cannot stand in a header.
    #[error("the sunset `{0}` is no HTTP date")]
    Sunset(String),
    /// What is built in of the page cannot be used.
    #[error("the built-in page is damaged: {0}")]
    Page(&'static str),
    /// A language cannot be used.
    #[error(transparent)]
    Messages(#[from] BadMessages),
}

/// What the front makes of its settings.
pub struct HttpState {
    /// The names of our headers.
    pub names: HeaderNames,
    /// Texts for viewers.
    pub messages: Messages,
    /// The page for people.
    pub pages: Pages,
    /// The descriptions of the interfaces.
    pub descriptions: Descriptions,
    /// The operators' console.
    pub console: Console,
    /// Request ids.
    pub ids: RequestIds,
    /// Drawn at the start: tags that count what this process has done begin here, so that they
    /// do not meet those of an earlier one.
    pub etag_seed: u64,
    /// Schedule responses, for requests with the same meaning.
    pub responses: ResponseCache,
    /// The XMLTV export of the newest schedule.
    pub xmltv: XmltvCache,
    /// From which networks log-ins have failed of late.
    pub failures: RecentFailures,
    /// What is counted.
    pub metrics: HttpMetrics,
    /// Origins that may read our answers; `None` for any.
    pub origins: Option<Vec<HeaderValue>>,
    /// Where a trusted proxy tells the country.
    pub geo_header: Option<HeaderName>,
    /// The value of `Sunset` on deprecated routes.
    pub sunset: Option<HeaderValue>,
}

impl HttpState {
    /// Prepares the settings.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn new(
        settings: &HttpSettings,
        messages: Messages,
        entropy: &dyn Entropy,
        registry: &Registry,
    ) -> Result<Self, InvalidSetting> {
        let names = HeaderNames::new(&settings.header_prefix).map_err(InvalidSetting::Prefix)?;
        let geo_header = settings
            .geo_header
            .as_ref()
            .map(|name| {
                HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| InvalidSetting::GeoHeader(name.clone()))
            })
            .transpose()?;
        let origins = match &settings.cors_origins {
            CorsOrigins::Any => None,
            CorsOrigins::Listed(list) => Some(
                list.iter()
                    .map(|text| {
                        HeaderValue::from_str(text)
                            .map_err(|_| InvalidSetting::Origin(text.clone()))
                    })
                    .collect::<Result<_, _>>()?,
            ),
        };
        let sunset = settings
            .sunset
            .as_ref()
            .map(|date| {
                HeaderValue::from_str(date).map_err(|_| InvalidSetting::Sunset(date.clone()))
            })
            .transpose()?;
        Ok(Self {
            names,
            messages,
            pages: Pages::built_in().map_err(InvalidSetting::Page)?,
            descriptions: Descriptions::default(),
            console: Console::built_in(),
            ids: RequestIds::new(u64::from_be_bytes(entropy.array())),
            responses: ResponseCache::default(),
            xmltv: XmltvCache::default(),
            etag_seed: u64::from_be_bytes(entropy.array()),
            failures: RecentFailures::default(),
            metrics: HttpMetrics::new(registry),
            origins,
            geo_header,
            sunset,
        })
    }
}
