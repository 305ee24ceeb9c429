//! Handlers of EPG sources.

use crate::http::access::auth::OperatorAuth;
use crate::http::admin::content::reported;
use crate::http::errors::api_error::ApiError;
use crate::http::offload::bulk;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::admin::content::{RefreshSourceRequest, SourceRequest};
use crate::http::wire::epg_sources::WireSource;
use crate::services::Services;

pub(crate) fn sources(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let sources: Vec<_> = services
        .epg_sources
        .list()
        .into_iter()
        .map(WireSource::from)
        .collect();
    Reply::json(&sources)
}

pub(crate) fn source(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: SourceRequest,
) -> Result<Reply, ApiError> {
    let view = services.epg_sources.show(&request.source)?;
    Reply::json(&WireSource::from(view))
}

pub(crate) async fn refresh(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: RefreshSourceRequest,
) -> Result<Reply, ApiError> {
    let (sources, now) = (services.epg_sources.clone(), cx.now);
    let report = bulk(services, move || {
        sources.refresh(&request.source, request.how, now)
    });
    reported(&report.await?)
}
