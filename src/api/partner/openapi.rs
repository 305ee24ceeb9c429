//! The OpenAPI documents.

use playgate_http::response::reply::Answer;
use playgate_http::{About, Anyone, Context, HttpState, RouteSet};

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
