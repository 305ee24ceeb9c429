//! Handlers of the OpenAPI documents.

use crate::http::access::auth::Anyone;
use crate::http::request::context::Context;
use crate::http::response::descriptions::About;
use crate::http::response::reply::Answer;
use crate::http::route_facts::RouteSet;
use crate::http::state::HttpState;

fn about(http: &HttpState) -> About<'_> {
    About::new(&http.settings, &http.names, &http.messages)
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
