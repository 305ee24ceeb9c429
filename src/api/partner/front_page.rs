//! `GET /` on the public listener.

use std::fmt::Write as _;

use http::header::CONTENT_SECURITY_POLICY;

use playgate_config::Environment;
use playgate_http::request::headers::quality;
use playgate_http::response::reply::media;
use playgate_http::response::reset_page_view::policy;
use playgate_http::{
    Anyone, ApiError, Context, ErrorCode, HttpState, Input, ParseRequest, Payload, Reply,
};
use playgate_types::html_escape::escape;

pub(crate) struct FrontPageRequest {
    /// Whether the client names `text/html` in `Accept`, as browsers do when they open a page.
    pub accepts_html: bool,
}

impl ParseRequest for FrontPageRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let mut accepted = input.heads.accept.elements();
        let is_html = |element: &str| {
            let mut parts = element.split(';');
            let media = parts.next().unwrap_or_default().trim();
            media.eq_ignore_ascii_case("text/html") && quality(parts) > 0
        };
        Ok(Self {
            accepts_html: accepted.any(is_html),
        })
    }
}

const SKELETON: &str = include_str!("../../../data/pages/front.html");

const STYLE: &str = include_str!("../../../data/pages/page.css");

/// Shows a browser the links to API reference, player page and console.
///
/// # Errors
/// `PATH_NOT_FOUND` for clients that do not accept HTML: for them the path does not exist.
pub(crate) fn show(
    http: &HttpState,
    _cx: &Context,
    _: Anyone,
    request: FrontPageRequest,
) -> Result<Reply, ApiError> {
    if !request.accepts_html {
        let message = "no route matches GET /; see /docs";
        return Err(ApiError::new(ErrorCode::PathNotFound, message));
    }
    let page = SKELETON
        .replace("{style}", STYLE)
        .replace("{links}", &links(http));
    let policy = policy(STYLE, None, "'none'").map_err(ApiError::internal)?;
    Ok(Reply::bytes(media::HTML, page).with_header(CONTENT_SECURITY_POLICY, policy))
}

fn links(http: &HttpState) -> String {
    let mut links = String::new();
    if http.settings.environment != Environment::Production {
        links.push_str(
            "<li><a href=\"lab/\">Player page</a>: plays through the interface and shows each call</li>\n",
        );
    }
    match http.services.demo.access.get() {
        Some(demo) => {
            if http.settings.environment != Environment::Production {
                let watch = "<li><a href=\"lab/watch.html\">Playgate TV</a>: a page made with <code>&lt;playgate-player&gt;</code></li>\n";
                links.insert_str(0, watch);
            }
            let mut address = String::new();
            escape(&demo.ops_url, &mut address);
            // Writing to a string cannot fail.
            let _ = write!(
                links,
                "<li><a href=\"{address}/console/\">Operators' console</a>: the demo printed its token</li>"
            );
        }
        // The operations listener is private, so its address is not shown to the public.
        None => links.push_str(
            "<li>Operators' console: <code>/console/</code> on the operations listener (<code>ops.listen</code>)</li>",
        ),
    }
    links
}
