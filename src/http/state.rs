//! HTTP state prepared once from the settings, so that requests do not repeat the work.

use std::sync::{Arc, OnceLock};

use http::{HeaderName, HeaderValue};

use crate::access::auth::Authenticator;
use crate::freshness::FreshnessCheck;
use crate::metrics::HttpMetrics;
use crate::request::body_budget::BodyBudget;
use crate::request::context::RequestIds;
use crate::request::headers::HeaderNames;
use crate::response::cache::ResponseCache;
use crate::response::descriptions::{Describe, Descriptions};
use crate::response::localized_messages::{BadMessages, Messages};
use crate::response::pages::Pages;
use crate::response::snapshot_replies::SnapshotReplies;
use crate::response::xmltv_cache::XmltvCache;
use crate::route_facts::AllRouteFacts;
use crate::standby_fleet::StandbyFleet;
use playgate_config::HttpSettings;
use playgate_config::http::CorsOrigins;
use playgate_domain::catalog::CatalogSnapshot;
use playgate_services::Services;

#[derive(Debug, thiserror::Error)]
pub enum InvalidSetting {
    #[error("`http.header_prefix`: no header name can start with `{0}`")]
    Prefix(String),
    #[error("`geo.header`: `{0}` is not a header name")]
    GeoHeader(String),
    #[error("`http.cors_origins`: `{0}` is not an origin")]
    Origin(String),
    #[error("the sunset date `{0}` is not an HTTP date")]
    Sunset(String),
    #[error("the built-in page is damaged: {0}")]
    Page(&'static str),
    #[error(transparent)]
    Messages(#[from] BadMessages),
}

/// The services, and what the HTTP layer adds to them. A handler takes this, or the services alone.
pub struct HttpState {
    pub services: Arc<Services>,
    pub authenticator: Arc<dyn Authenticator>,
    pub settings: HttpSettings,
    pub names: HeaderNames,
    pub messages: Messages,
    pub pages: Pages,
    pub descriptions: Descriptions,
    /// What the table of routes says to those that handlers use.
    pub routes: AllRouteFacts,
    pub ids: RequestIds,
    pub responses: ResponseCache,
    pub xmltv: XmltvCache,
    pub catalog_lists: SnapshotReplies<CatalogSnapshot>,
    pub metrics: HttpMetrics,
    pub bodies: Arc<BodyBudget>,
    pub origins: Option<Vec<HeaderValue>>,
    pub geo_header: Option<HeaderName>,
    pub sunset: Option<HeaderValue>,
    /// Set on the owner of a fleet.
    pub freshness_check: OnceLock<FreshnessCheck>,
    /// Set on every member of a fleet.
    pub fleet: OnceLock<Arc<dyn StandbyFleet>>,
}

impl HttpState {
    pub fn new(
        services: Arc<Services>,
        settings: HttpSettings,
        authenticator: Arc<dyn Authenticator>,
        messages: Messages,
        routes: AllRouteFacts,
        describe: Describe,
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
        let random = u64::from_be_bytes(services.entropy.array());
        Ok(Self {
            names,
            messages,
            pages: Pages::new(services.mail.brand()).map_err(InvalidSetting::Page)?,
            descriptions: Descriptions::new(describe),
            ids: RequestIds::new(random),
            responses: ResponseCache::default(),
            xmltv: XmltvCache::default(),
            catalog_lists: SnapshotReplies::default(),
            metrics: HttpMetrics::new(&services.metrics, &routes),
            routes,
            bodies: BodyBudget::new(services.limits.body_bytes.0, &services.metrics),
            origins,
            geo_header,
            sunset,
            freshness_check: OnceLock::new(),
            fleet: OnceLock::new(),
            services,
            authenticator,
            settings,
        })
    }
}

impl<'a> From<&'a HttpState> for &'a Services {
    fn from(state: &'a HttpState) -> Self {
        &state.services
    }
}
