//! The OpenAPI documents.

use http::header::CONTENT_SECURITY_POLICY;
use playgate_http::response::reply::Answer;

use crate::openapi::STYLE;
use crate::openapi::guide::guide;
use playgate_http::response::pages::policy;
use playgate_http::response::reply::media;
use playgate_http::{
    About, Anyone, ApiError, Context, ErrorCode, HttpState, Input, ParseRequest, Payload, Reply,
    RouteSet,
};

fn about(http: &HttpState) -> About<'_> {
    About::new(&http.settings, &http.names, &http.messages)
}

pub(crate) struct GuideRequest {
    pub name: String,
}

impl ParseRequest for GuideRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let name = input.text("guide")?.to_string();
        Ok(Self { name })
    }
}

/// Shows a guide.
///
/// # Errors
/// `PATH_NOT_FOUND` if there is none of this name.
pub(crate) fn public_guide(
    _: &HttpState,
    _cx: &Context,
    _: Anyone,
    request: GuideRequest,
) -> Answer {
    guide_page(RouteSet::Public, &request.name)
}

pub(crate) fn ops_guide(_: &HttpState, _cx: &Context, _: Anyone, request: GuideRequest) -> Answer {
    guide_page(RouteSet::Ops, &request.name)
}

fn guide_page(set: RouteSet, name: &str) -> Answer {
    let missing = || ApiError::new(ErrorCode::PathNotFound, "there is no such guide; see /docs");
    let page = guide(set, name).ok_or_else(missing)?;
    let policy = policy(STYLE, None, "'none'").map_err(ApiError::internal)?;
    Ok(Reply::bytes(media::HTML, page).with_header(CONTENT_SECURITY_POLICY, policy))
}

pub(crate) fn public_document(http: &HttpState, _cx: &Context, _: Anyone) -> Answer {
    http.descriptions.json(RouteSet::Public, &about(http))
}

pub(crate) fn public_page(http: &HttpState, _cx: &Context, _: Anyone) -> Answer {
    http.descriptions.page(RouteSet::Public, &about(http))
}

pub(crate) fn ops_document(http: &HttpState, _cx: &Context, _: Anyone) -> Answer {
    http.descriptions.json(RouteSet::Ops, &about(http))
}

pub(crate) fn ops_page(http: &HttpState, _cx: &Context, _: Anyone) -> Answer {
    http.descriptions.page(RouteSet::Ops, &about(http))
}
