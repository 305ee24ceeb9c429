//! What the file of a resource says about its routes in the description of the interface.

use playgate_types::JsonType;

#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// The operations, by the labels of the route table, and the bodies of their requests, in the notation of
    /// `description_files.rs`.
    pub text: &'static str,
    /// The types of answers that descriptions name.
    pub types: &'static [JsonType],
}

/// The words of a file: the types of answers, `=>`, and the text, also in parts. A name comes first if a file has several.
macro_rules! words {
    ($($answer:ty),* => $($text:expr),+) => {
        $crate::openapi::words::words! { WORDS: $($answer),* => $($text),+ }
    };
    ($name:ident: $($answer:ty),* => $($text:expr),+) => {
        pub(crate) const $name: $crate::openapi::words::Words = $crate::openapi::words::Words {
            types: &[$(<$answer as ::playgate_types::Described>::TYPE),*],
            text: concat!($($text),+),
        };
    };
}
pub(crate) use words;

/// The query parameters of a search in the request journal. Operations of operators and of lab partners have them.
macro_rules! request_filters {
    () => {
        r##"query.user = "string?: Only requests of this user: id or e-mail address."
query.session = "Id?: Only requests of this playback session."
query.asset = "AssetId?: Only requests about this asset."
query.route = "string?: Only this route: an operation id, its short name in the journal, `license` for all license routes, or `none`."
query.status = "StatusFilter?: Only this status, such as `403`, or class, such as `4xx` or `refused`."
query.code = "string?: Only this error code of the interface."
query.from = "Time?: Start of the time span."
query.to = "Time?: End of the time span, exclusive."
query.before = "RequestPosition?: Number or id of a request: only older ones. For the next page, give the last of this one."
query.after = "RequestPosition?: Number or id of a request: only newer ones, the first `limit` of them."
query.limit = "PageSize?: Maximum number of requests."
query.wait = "WaitSeconds?: Seconds, from 0 to 30, to wait for a request if there is none yet."
"##
    };
}
pub(crate) use request_filters;

// The routes of the descriptions themselves.
words! { OPS_WORDS: => r##"
[operations.ops_openapi]
summary = "API description"
text = "OpenAPI 3.1 document of this interface."
kept = true
returns."200" = { text = "The document.", type = "object", example = '{"openapi": "3.1.0"}' }

[operations.ops_docs]
summary = "API description as a page"
text = "Loads nothing, and has all its text without scripts. A script adds a search and examples in several languages."
kept = true
returns."200" = { text = "The page.", media = ["text/html; charset=utf-8"], example = "<!doctype html>\n<html lang=\"en\">\n<title>Playgate administration interface</title>\n" }
"## }

words! { PUBLIC_WORDS: => r##"
[operations.openapi]
summary = "API description"
text = "OpenAPI 3.1 document of this interface."
kept = true
returns."200" = { text = "The document.", type = "object", example = '{"openapi": "3.1.0"}' }

[operations.docs]
summary = "API description as a page"
text = "Loads nothing, and has all its text without scripts. A script adds a search and examples in several languages."
kept = true
returns."200" = { text = "The page.", media = ["text/html; charset=utf-8"], example = "<!doctype html>\n<html lang=\"en\">\n<title>Playgate partner interface</title>\n" }
"## }
