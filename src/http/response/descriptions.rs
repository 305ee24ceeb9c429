//! The descriptions of both interfaces, kept once they are rendered.

use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;

use crate::errors::api_error::ApiError;
use crate::request::headers::HeaderNames;
use crate::response::localized_messages::Messages;
use crate::response::prepared::{CompressibleBody, Kept, Prepared};
use crate::response::reply::{Reply, media};
use crate::route_facts::RouteSet;
use playgate_config::{Environment, HttpSettings};

/// Properties of this installation that the description contains.
#[derive(Clone, Copy)]
pub struct About<'a> {
    pub names: &'a HeaderNames,
    pub base: &'a str,
    pub environment: Environment,
    pub messages: &'a Messages,
}

impl<'a> About<'a> {
    pub fn new(settings: &'a HttpSettings, names: &'a HeaderNames, messages: &'a Messages) -> Self {
        Self {
            names,
            base: &settings.public_url,
            environment: settings.environment,
            messages,
        }
    }
}

/// How long a description may be cached, in seconds. It changes only with a restart; its entity tag
/// shows the change.
const MAX_AGE: u32 = 60;

pub struct RenderedDescription {
    pub json: Arc<CompressibleBody>,
    pub page: Arc<CompressibleBody>,
    /// Content security policy: the page may use only its own inline style and script.
    pub policy: HeaderValue,
}

/// Renders the description of an interface.
pub type Describe = fn(RouteSet, &About<'_>) -> Result<RenderedDescription, String>;

pub struct Descriptions {
    describe: Describe,
    public: OnceLock<Result<RenderedDescription, String>>,
    ops: OnceLock<Result<RenderedDescription, String>>,
}

impl Descriptions {
    pub const fn new(describe: Describe) -> Self {
        Self {
            describe,
            public: OnceLock::new(),
            ops: OnceLock::new(),
        }
    }

    fn rendered(
        &self,
        table: RouteSet,
        about: &About<'_>,
    ) -> Result<&RenderedDescription, ApiError> {
        let cell = match table {
            RouteSet::Public => &self.public,
            RouteSet::Ops => &self.ops,
        };
        // On first use: a start must not wait for half a megabyte of JSON that few clients read.
        let ready = cell.get_or_init(|| (self.describe)(table, about)).as_ref();
        ready.map_err(|why| ApiError::internal(why.clone()))
    }

    pub fn json(&self, table: RouteSet, about: &About<'_>) -> Result<Reply, ApiError> {
        let ready = self.rendered(table, about)?;
        Ok(prepared(media::JSON, &ready.json))
    }

    pub fn page(&self, table: RouteSet, about: &About<'_>) -> Result<Reply, ApiError> {
        let ready = self.rendered(table, about)?;
        let page = prepared(media::HTML, &ready.page);
        Ok(page.with_header(CONTENT_SECURITY_POLICY, ready.policy.clone()))
    }
}

fn prepared(media: HeaderValue, body: &Arc<CompressibleBody>) -> Reply {
    Reply::prepared(Prepared {
        media,
        body: Arc::clone(body),
        kept: Kept {
            // By content: every process of a version gives the same tag, so a restart costs no client a download.
            tag: Kept::tag_of(body.identity()),
            max_age: MAX_AGE,
        },
        until: None,
    })
}
