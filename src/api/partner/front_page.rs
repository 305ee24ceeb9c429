//! `GET /` on the public listener.

use std::fmt::Write as _;
use std::sync::Arc;

use playgate_config::Environment;
use playgate_domain::catalog::Livestream;
use playgate_domain::schedule::Program;
use playgate_http::response::pages::Words;
use playgate_http::{
    Anyone, ApiError, Context, ErrorCode, HttpState, Input, ParseRequest, Payload, Reply,
};
use playgate_types::html_escape::escaped;
use playgate_types::{UnixSeconds, Zone};

/// Channels on the page. Titles are decoded for each request.
const CHANNELS_MAX: usize = 60;

crate::openapi::words::words! { => r##"
[operations.front_page]
summary = "Front page"
text = "Tells a browser where the API description, the player page and the console are. Clients that do not accept `text/html` are answered 404, as on any unknown path."
returns."200" = { text = "The page.", media = ["text/html; charset=utf-8"], example = "<!doctype html>\n<html lang=\"en\">\n<title>Playgate</title>\n" }
errors = ["PATH_NOT_FOUND"]
"## }

pub(crate) struct FrontPageRequest {
    pub accepts_html: bool,
}

impl ParseRequest for FrontPageRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            accepts_html: input.heads.names_html(),
        })
    }
}

/// Shows a browser what is on now, and the links to API reference, player page and console.
///
/// # Errors
/// `PATH_NOT_FOUND` for clients that do not accept HTML: for them the path does not exist.
pub(crate) fn show(
    http: &HttpState,
    cx: &Context,
    _: Anyone,
    request: FrontPageRequest,
) -> Result<Reply, ApiError> {
    if !request.accepts_html {
        let message = "no route matches GET /; see /docs";
        return Err(ApiError::new(ErrorCode::PathNotFound, message));
    }
    let accept = cx.accept_language.as_ref();
    let accept = accept.and_then(|value| value.to_str().ok());
    let words = http.pages.words(http.messages.language(accept, None));
    let content = on_now(http, words, cx.now) + &links(http, words);
    Ok(http.pages.page(words, "front", &words.on_now, &content))
}

fn on_now(http: &HttpState, words: &Words, now: UnixSeconds) -> String {
    let catalog = http.services.catalog.snapshot();
    let mut channels: Vec<&Arc<Livestream>> = catalog.livestreams().collect();
    if channels.is_empty() {
        return format!("<p>{}</p>\n", escaped(&words.nothing));
    }
    // In the order of the remote control; channels without a number follow.
    channels.sort_by_key(|channel| {
        (
            channel.number.unwrap_or(u16::MAX),
            channel.name.to_lowercase(),
        )
    });
    let schedule = http.services.schedule.snapshot();
    let zone = http.services.config.schedule.zone;
    let mut list = format!(
        "<p class=\"soft\">{} {}</p>\n<ul class=\"now\">\n",
        clock(zone, now),
        escaped(&zone.abbreviation(now))
    );
    for channel in channels.iter().take(CHANNELS_MAX) {
        let program = schedule.program_at(&channel.id, now);
        write_channel(&mut list, words, &channel.name, program.as_ref(), zone, now);
    }
    list.push_str("</ul>\n");
    if let Some(left @ 1..) = channels.len().checked_sub(CHANNELS_MAX) {
        let more = words.more.replace("{count}", &left.to_string());
        let _ = writeln!(list, "<p class=\"soft\">{}</p>", escaped(&more));
    }
    list
}

fn write_channel(
    list: &mut String,
    words: &Words,
    name: &str,
    program: Option<&Program>,
    zone: Zone,
    now: UnixSeconds,
) {
    // Writing to a string cannot fail.
    let _ = write!(list, "<li><b dir=\"auto\">{}</b> ", escaped(name));
    let _ = match program {
        None => writeln!(
            list,
            "<span class=\"soft\">{}</span></li>",
            escaped(&words.no_guide)
        ),
        Some(program) => {
            let (start, stop) = (program.start(), program.stop());
            let length = (stop.0 - start.0).max(1);
            let percent = ((now.0 - start.0).clamp(0, length) * 100) / length;
            let label = words.progress.replace("{percent}", &percent.to_string());
            writeln!(
                list,
                "<span dir=\"auto\">{}</span> <span class=\"soft\">{}–{}\
                 <progress max=\"100\" value=\"{percent}\" aria-label=\"{}\"></progress></span></li>",
                escaped(&program.title()),
                clock(zone, start),
                clock(zone, stop),
                escaped(&label),
            )
        }
    };
}

fn clock(zone: Zone, at: UnixSeconds) -> String {
    let minutes = (at.0 + zone.offset_at(at))
        .div_euclid(60)
        .rem_euclid(24 * 60);
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

fn links(http: &HttpState, words: &Words) -> String {
    let docs = escaped(&words.docs);
    let mut links = format!(
        "<h2>{}</h2>\n<ul>\n<li><a href=\"docs\">{docs}</a> · <a href=\"openapi.json\">OpenAPI</a></li>\n",
        escaped(&words.developers)
    );
    let demo = http.services.demo.access.get();
    if http.settings.environment != Environment::Production {
        if demo.is_some() {
            let watch = escaped(&words.watch);
            let _ = writeln!(links, "<li><a href=\"lab/watch.html\">{watch}</a></li>");
        }
        let lab = escaped(&words.lab);
        let _ = writeln!(links, "<li><a href=\"lab/\">{lab}</a></li>");
    }
    let console = escaped(&words.console);
    let _ = match demo {
        Some(demo) => writeln!(
            links,
            "<li><a href=\"{}/console/\">{console}</a>: {}</li>\n</ul>",
            escaped(&demo.ops_url),
            escaped(&words.console_demo)
        ),
        // The operations listener is private, so its address is not shown to the public.
        None => writeln!(
            links,
            "<li>{console}: {}</li>\n</ul>",
            escaped(&words.console_at)
        ),
    };
    links
}
