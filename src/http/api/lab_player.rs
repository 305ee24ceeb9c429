//! Handlers of the lab's player page. In production every one of them refuses: a page that holds tokens of viewers and
//! ends sessions has no place next to real users.

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::config::http::Environment;
use crate::http::access::auth::Anyone;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::lab_player;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::public::EmbeddedFileRequest;
use crate::http::state::HttpState;
use crate::services::DemoAccess;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SettingsBody<'a> {
    environment: &'static str,
    header_prefix: &'a str,
    public_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    demo: Option<&'a DemoAccess>,
}

fn check_environment(http: &HttpState) -> Result<(), ApiError> {
    match http.settings.environment {
        Environment::Staging => Ok(()),
        Environment::Production => Err(ApiError::new(
            ErrorCode::PathNotFound,
            "the lab player is not served, because `environment` is `production`; use a staging server or `playgate demo`",
        )),
    }
}

pub(crate) fn entry(http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    check_environment(http)?;
    Ok(Reply::no_content()
        .with_status(StatusCode::FOUND)
        // Relative, so that it also works behind a proxy that adds a path prefix.
        .with_header(LOCATION, HeaderValue::from_static("lab/")))
}

pub(crate) fn page(http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    find(http, "index.html")
}

pub(crate) fn settings(http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    check_environment(http)?;
    Reply::json(&SettingsBody {
        environment: http.settings.environment.as_str(),
        header_prefix: &http.settings.header_prefix,
        public_url: &http.settings.public_url,
        demo: http.services.demo.access.get(),
    })
}

pub(crate) fn file(
    http: &HttpState,
    _cx: &Context,
    _: Anyone,
    request: EmbeddedFileRequest,
) -> Result<Reply, ApiError> {
    find(http, &request.name)
}

fn find(http: &HttpState, name: &str) -> Result<Reply, ApiError> {
    check_environment(http)?;
    let found = lab_player::file(name);
    found.ok_or_else(|| ApiError::new(ErrorCode::PathNotFound, "the lab player has no such file"))
}
