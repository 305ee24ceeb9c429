//! Turns a reply or an error into an HTTP response: conditional requests, content codings, ranges and caching
//! headers. It does not decide what is served.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::ext::ReasonPhrase;

use crate::errors::api_error::{ApiError, ErrorCode, ErrorResponse, NO_LIVE_RIGHTS_STATUS};
use crate::request::context::hex16;
use crate::request::headers::{
    EncodingPreference, HeaderNames, RequestHeaders, preferred_encoding,
};
use crate::response::body::{ChunkStream, PooledBody, ResponseBody, ResponseStream};
use crate::response::prepared::{CompressibleBody, Kept, Prepared};
use crate::response::range::{RangePart, part};
use crate::response::reply::{Content, FileContent, FileReply, Reply, media};
use crate::response::soap;
use playgate_process::{Turn, WorkerPool};
use playgate_types::{LimitReached, PartnerId};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const VARIES: HeaderValue = HeaderValue::from_static("Accept-Encoding, Accept-Language, Origin");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const BYTES: HeaderValue = HeaderValue::from_static("bytes");
const NO_LIVE_RIGHTS: ReasonPhrase = ReasonPhrase::from_static(b"No Live Rights");

const USUAL_HEADERS: usize = 12;

/// Smallest body that is compressed, in bytes. Smaller ones hardly shrink.
const GZIP_FROM: usize = 1_024;
/// Largest body that is compressed on the calling thread, in bytes. A larger one would block it for more than
/// a millisecond and goes to a worker pool.
const GZIP_AT_ONCE: usize = 64 * 1_024;

static AGES: LazyLock<Vec<HeaderValue>> =
    LazyLock::new(|| (0..=60).filter_map(|age| cache_control(age).ok()).collect());

fn cache_control(age: u32) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    HeaderValue::from_str(&format!("private, max-age={age}"))
}

/// The pool that compresses large bodies, and the client whose turn a job takes.
#[derive(Clone, Copy)]
pub(crate) struct CompressionJobs<'a> {
    pub pool: &'a WorkerPool<()>,
    pub partner: Option<PartnerId>,
    pub peer: Option<IpAddr>,
}

#[derive(Clone, Copy)]
pub(crate) struct ResponseOptions<'a> {
    pub heads: &'a RequestHeaders<'a>,
    pub head: bool,
    /// Without it large bodies are sent uncompressed.
    pub compression: Option<CompressionJobs<'a>>,
}

pub(crate) fn render(
    reply: Reply,
    options: ResponseOptions<'_>,
) -> Result<Response<ResponseBody>, ApiError> {
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    let mut status = reply.status;
    let body = match reply.content {
        Content::Empty => {
            headers.insert(CACHE_CONTROL, NO_STORE);
            ResponseBody::Empty
        }
        Content::Bytes(media, bytes) => {
            headers.insert(CONTENT_TYPE, media);
            // A reply may be cached only if its handler says for how long.
            headers.insert(CACHE_CONTROL, NO_STORE);
            whole(bytes, options, &mut headers)
        }
        Content::Prepared(prepared) => {
            let body = prepared_body(prepared, options, &mut headers);
            if body.is_none() {
                status = StatusCode::NOT_MODIFIED;
            }
            body.unwrap_or(ResponseBody::Empty)
        }
        Content::File(file) => file_body(file, options, &mut headers, &mut status)?,
        Content::Export(kept, media, export) => {
            let gzip =
                preferred_encoding(options.heads.accept_encoding) != EncodingPreference::Identity;
            if insert_caching_headers(kept, gzip, options, &mut headers) {
                status = StatusCode::NOT_MODIFIED;
                ResponseBody::Empty
            } else {
                headers.insert(CONTENT_TYPE, media);
                if gzip {
                    headers.insert(CONTENT_ENCODING, GZIP);
                    whole(export.gzip().clone(), options, &mut headers)
                } else if let Some(identity) = export.identity() {
                    whole(identity.clone(), options, &mut headers)
                } else {
                    streamed(Box::pin(ChunkStream::new(export.inflated())), options)
                }
            }
        }
        Content::Stream(media, length, body) => {
            headers.insert(CONTENT_TYPE, media);
            headers.insert(CACHE_CONTROL, NO_STORE);
            if let Some(length) = length {
                headers.insert(CONTENT_LENGTH, length.into());
            }
            streamed(body, options)
        }
    };
    // After the defaults, so that a handler can replace them.
    for (name, value) in reply.headers {
        headers.insert(name, value);
    }
    Ok(response(status, headers, body))
}

fn response(status: StatusCode, headers: HeaderMap, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn whole(bytes: Bytes, options: ResponseOptions<'_>, headers: &mut HeaderMap) -> ResponseBody {
    if options.head {
        // RFC 9110, 9.3.2: HEAD has the header fields of the GET.
        headers.insert(CONTENT_LENGTH, bytes.len().into());
        ResponseBody::Empty
    } else {
        bytes.into()
    }
}

fn streamed(body: ResponseStream, options: ResponseOptions<'_>) -> ResponseBody {
    if options.head {
        ResponseBody::Empty
    } else {
        ResponseBody::Stream(body, None)
    }
}

fn insert_caching_headers(
    kept: Kept,
    packed: bool,
    options: ResponseOptions<'_>,
    headers: &mut HeaderMap,
) -> bool {
    let age = usize::try_from(kept.max_age).ok();
    let caching = age
        .and_then(|age| AGES.get(age).cloned())
        .or_else(|| cache_control(kept.max_age).ok());
    // RFC 9110, 15.4.5: a 304 has the same caching headers as the 200, so they are set before the tags are compared.
    headers.insert(CACHE_CONTROL, caching.unwrap_or(NO_STORE));
    headers.insert(VARY, VARIES);
    let tag = tag(kept.tag, packed);
    let known = is_known(options.heads, &tag);
    headers.insert(ETAG, tag);
    known
}

fn prepared_body(
    prepared: Prepared,
    options: ResponseOptions<'_>,
    headers: &mut HeaderMap,
) -> Option<ResponseBody> {
    let Prepared {
        media, body, kept, ..
    } = prepared;
    let pack = match preferred_encoding(options.heads.accept_encoding) {
        EncodingPreference::Identity => false,
        EncodingPreference::Gzip => body.identity().len() >= GZIP_FROM,
        EncodingPreference::OnlyGzip => true,
    };
    if insert_caching_headers(kept, pack, options, headers) {
        return None;
    }
    headers.insert(CONTENT_TYPE, media);
    if pack {
        // Only after the comparison of tags: a 304 must not cost a compression.
        if let Some(body) = packed(&body, options, headers) {
            headers.insert(CONTENT_ENCODING, GZIP);
            return Some(body);
        }
        // Sent uncompressed after all, because the pool is full: the tag must be that of the bytes that are
        // sent.
        headers.insert(ETAG, tag(kept.tag, false));
    }
    Some(whole(body.identity().clone(), options, headers))
}

fn packed(
    body: &Arc<CompressibleBody>,
    options: ResponseOptions<'_>,
    headers: &mut HeaderMap,
) -> Option<ResponseBody> {
    if let Some(packed) = body.ready() {
        return Some(whole(packed.clone(), options, headers));
    }
    if body.identity().len() <= GZIP_AT_ONCE {
        return Some(whole(body.gzip()?.clone(), options, headers));
    }
    if options.head {
        // The compressed length is unknown until the body is compressed, which is too expensive for a HEAD.
        return Some(ResponseBody::Empty);
    }
    let body = Arc::clone(body);
    let jobs = options.compression?;
    let turn = jobs
        .peer
        .map_or_else(Turn::default, |peer| Turn::for_client(jobs.partner, peer));
    let packing = jobs
        .pool
        .run_for(turn, move |()| body.gzip().cloned())
        .ok()?;
    Some(ResponseBody::Stream(
        Box::pin(PooledBody::new(packing)),
        None,
    ))
}

fn file_body(
    file: FileReply,
    options: ResponseOptions<'_>,
    headers: &mut HeaderMap,
    status: &mut StatusCode,
) -> Result<ResponseBody, ApiError> {
    let tag = tag(file.tag, false);
    let whole = file.content.length();
    headers.insert(CACHE_CONTROL, file.caching);
    headers.insert(ACCEPT_RANGES, BYTES);
    // RFC 9110, 13.2.2: `If-None-Match` comes before `If-Range`.
    let known = is_known(options.heads, &tag);
    // A range of another version would not match the part that the client already has.
    let same = match options.heads.if_range.value() {
        // RFC 9110, 13.1.5: the comparison is strong. A date never matches, and the whole file is sent.
        Some(wanted) => *wanted == tag,
        None => true,
    };
    headers.insert(ETAG, tag);
    if known {
        *status = StatusCode::NOT_MODIFIED;
        return Ok(ResponseBody::Empty);
    }
    headers.insert(CONTENT_TYPE, file.media);
    // RFC 9110, 14.2: a range has a meaning for GET only.
    let asked = options.heads.range.ascii();
    let asked = asked.filter(|_| same && !options.head);
    let (from, length) = match part(asked, whole) {
        RangePart::Whole => (0, whole),
        RangePart::Bytes(first, last) => {
            *status = StatusCode::PARTIAL_CONTENT;
            headers.insert(
                CONTENT_RANGE,
                content_range(&format!("{first}-{last}/{whole}")),
            );
            (first, last - first + 1)
        }
        RangePart::Beyond => {
            // RFC 9110, 15.5.17: a 416 states the length, so that the client can correct its range.
            let range = content_range(&format!("*/{whole}"));
            return Err(ApiError::new(
                ErrorCode::RangeNotSatisfiable,
                "the range lies outside the file",
            )
            .with_header(CONTENT_RANGE, range));
        }
    };
    headers.insert(CONTENT_LENGTH, length.into());
    if options.head || length == 0 {
        return Ok(ResponseBody::Empty);
    }
    Ok(match file.content {
        FileContent::Disk(file, _) => {
            ResponseBody::Stream(Box::pin(ChunkStream::from_file(file, from, length)), None)
        }
        FileContent::Made(bytes) => {
            let at = |byte| usize::try_from(byte).unwrap_or(usize::MAX).min(bytes.len());
            bytes.slice(at(from)..at(from + length)).into()
        }
    })
}

/// Builds a strong entity tag, which differs by content coding.
fn tag(number: u64, packed: bool) -> HeaderValue {
    // Not with `format!`: every cacheable response has a tag, so this must be cheap.
    let mut text = *b"\"0000000000000000-gz\"";
    for (to, digit) in text.iter_mut().skip(1).zip(hex16(number)) {
        *to = digit;
    }
    let value = if packed {
        HeaderValue::from_bytes(&text)
    } else {
        let mut plain = [b'"'; 18];
        for (to, from) in plain.iter_mut().zip(text).take(17) {
            *to = from;
        }
        HeaderValue::from_bytes(&plain)
    };
    value.unwrap_or_else(|_| HeaderValue::from_static("\"0\""))
}

fn is_known(heads: &RequestHeaders<'_>, tag: &HeaderValue) -> bool {
    heads.if_none_match.values().any(|line| {
        let line = line.as_bytes().trim_ascii();
        // RFC 9110, 13.1.2: `*` matches any current representation.
        line == b"*" || names_tag(line, tag.as_bytes())
    })
}

fn names_tag(mut list: &[u8], tag: &[u8]) -> bool {
    loop {
        // A list may have empty elements (RFC 9110, 5.6.1.2).
        while let [b' ' | b'\t' | b',', rest @ ..] = list {
            list = rest;
        }
        // A weak comparison: a proxy that compresses weakens the tag of the client.
        list = list.strip_prefix(b"W/").unwrap_or(list);
        let Some(inner) = list.strip_prefix(b"\"") else {
            // The list ends, or has a mistake. What follows a mistake is not read, and the client gets the whole
            // response.
            return false;
        };
        let Some(end) = inner.iter().position(|b| *b == b'"') else {
            return false;
        };
        // Including both quotes.
        if list.get(..end + 2) == Some(tag) {
            return true;
        }
        list = inner.get(end + 1..).unwrap_or_default();
    }
}

fn content_range(range: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("bytes {range}"))
        .unwrap_or_else(|_| HeaderValue::from_static("bytes */0"))
}

#[derive(Clone, Copy)]
pub(crate) enum ErrorForm {
    Json,
    /// JSON that repeats the message at top level.
    Flat,
    Soap,
}

pub(crate) fn render_error(
    error: &ApiError,
    user_message: &str,
    form: ErrorForm,
    names: &HeaderNames,
    options: ResponseOptions<'_>,
) -> Response<ResponseBody> {
    let json = |flat| {
        let body = ErrorResponse::new(error, user_message, flat);
        serde_json::to_vec(&body).unwrap_or_default()
    };
    let (media, body) = match form {
        ErrorForm::Json => (media::JSON, json(false)),
        ErrorForm::Flat => (media::JSON, json(true)),
        ErrorForm::Soap => (media::SOAP, soap::fault(error, user_message).into_bytes()),
    };
    let status = error.code().status();
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    headers.insert(CONTENT_TYPE, media);
    // An error must not outlive its cause in a cache.
    headers.insert(CACHE_CONTROL, NO_STORE);
    if let Some(seconds) = error.retry_after() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if let (Some(limit), Some(seconds)) = (error.limit(), error.retry_after()) {
        insert_limit_headers(limit, seconds, &mut headers);
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, challenge(error, names));
    }
    for (name, value) in error.headers() {
        headers.insert(name, value.clone());
    }
    let body = whole(body.into(), options, &mut headers);
    let mut response = response(status, headers, body);
    // 552 is not a registered status, so the reason phrase explains it.
    if status.as_u16() == NO_LIVE_RIGHTS_STATUS {
        response.extensions_mut().insert(NO_LIVE_RIGHTS);
    }
    response
}

fn insert_limit_headers(limit: &LimitReached, seconds: u32, headers: &mut HeaderMap) {
    let name = limit.name;
    // Only on refusals: a remaining quota would help a password guesser.
    let policy = format!("\"{name}\";q={};w={}", limit.limit, limit.window);
    let left = format!("\"{name}\";r=0;t={seconds}");
    for (field, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, left)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(field, value);
        }
    }
}

fn challenge(error: &ApiError, names: &HeaderNames) -> HeaderValue {
    if error.code() == ErrorCode::PartnerTokenInvalid {
        names.partner_challenge.clone()
    } else if error.token_sent() {
        // RFC 6750: only if a token was sent.
        HeaderValue::from_static("Bearer error=\"invalid_token\"")
    } else {
        HeaderValue::from_static("Bearer")
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;
    use crate::request::headers::header_lines;

    fn prepared() -> Prepared {
        Prepared {
            media: media::JSON,
            body: Arc::new(vec![b'x'; 2_000].into()),
            kept: Kept {
                tag: 0xabc,
                max_age: 7,
            },
            until: None,
        }
    }

    fn ask(headers: &[(&'static str, &str)], head: bool) -> Response<ResponseBody> {
        let names = HeaderNames::new("Service-").unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let heads = RequestHeaders::read(&map, &names);
        render(
            Reply::prepared(prepared()),
            ResponseOptions {
                heads: &heads,
                head,
                compression: None,
            },
        )
        .unwrap()
    }

    #[test]
    fn the_tag_differs_by_coding_and_a_match_yields_304() {
        let plain = ask(&[], false);
        let packed = ask(&[("accept-encoding", "br, gzip;q=0.8")], false);
        assert_eq!(plain.headers()[ETAG], "\"0000000000000abc\"");
        assert_eq!(packed.headers()[ETAG], "\"0000000000000abc-gz\"");
        assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(plain.headers()[CACHE_CONTROL], "private, max-age=7");
        let again = ask(&[("if-none-match", "\"y\", \"0000000000000abc\"")], false);
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert!(!again.headers().contains_key(CONTENT_TYPE));
        let other = ask(
            &[
                ("if-none-match", "\"0000000000000abc\""),
                ("accept-encoding", "gzip"),
            ],
            false,
        );
        assert_eq!(other.status(), StatusCode::OK);
        assert_eq!(
            ask(&[("if-none-match", "*")], false).status(),
            StatusCode::NOT_MODIFIED
        );
    }

    #[test]
    fn a_large_body_is_sent_uncompressed_without_a_pool() {
        let names = HeaderNames::new("Service-").unwrap();
        let mut map = HeaderMap::new();
        map.insert("accept-encoding", GZIP);
        let mut large = prepared();
        large.body = Arc::new(vec![b'x'; GZIP_AT_ONCE + 1].into());
        let options = ResponseOptions {
            heads: &RequestHeaders::read(&map, &names),
            head: false,
            compression: None,
        };
        let answer = render(Reply::prepared(large), options).unwrap();
        assert_eq!(answer.headers()[ETAG], "\"0000000000000abc\"");
        assert!(!answer.headers().contains_key(CONTENT_ENCODING));
        assert!(matches!(answer.body(), ResponseBody::Full(_)));
    }

    #[test]
    fn a_head_response_has_a_length_and_no_body() {
        let head = ask(&[], true);
        assert_eq!(head.headers()[CONTENT_LENGTH], "2000");
        assert!(matches!(head.body(), ResponseBody::Empty));
    }

    #[test]
    fn files_support_range_requests() {
        let names = HeaderNames::new("Service-").unwrap();
        let ask = |headers: &[(&'static str, &str)], head: bool| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                let value = HeaderValue::from_str(value).unwrap();
                map.insert(HeaderName::from_static(name), value);
            }
            let heads = RequestHeaders::read(&map, &names);
            let file = FileReply {
                content: FileContent::Disk(tempfile::tempfile().unwrap(), 1_000),
                media: media::BYTES,
                tag: 5,
                caching: NO_STORE,
            };
            let answer = render(
                Reply::file(file),
                ResponseOptions {
                    heads: &heads,
                    head,
                    compression: None,
                },
            );
            answer.map_err(|error| (error.code(), error.headers().to_vec()))
        };
        let range = |headers: &[(&'static str, &str)]| {
            let answer = ask(headers, false).unwrap();
            let range = answer.headers().get(CONTENT_RANGE).cloned();
            let length = answer.headers()[CONTENT_LENGTH].clone();
            (answer.status().as_u16(), range, length)
        };
        let tag = "\"0000000000000005\"";
        let part = Some(HeaderValue::from_static("bytes 10-19/1000"));
        assert_eq!(range(&[]), (200, None, 1_000.into()));
        assert_eq!(
            range(&[("range", "bytes=10-19")]),
            (206, part.clone(), 10.into())
        );
        let same = [("range", "bytes=10-19"), ("if-range", tag)];
        assert_eq!(range(&same), (206, part, 10.into()));
        let other = [("range", "bytes=10-19"), ("if-range", "\"x\"")];
        assert_eq!(range(&other), (200, None, 1_000.into()));
        let known = ask(&[("if-none-match", tag)], false).unwrap();
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        let (code, headers) = ask(&[("range", "bytes=1000-")], false).err().unwrap();
        assert_eq!(code, ErrorCode::RangeNotSatisfiable);
        assert_eq!(
            headers,
            [(CONTENT_RANGE, HeaderValue::from_static("bytes */1000"))]
        );
        for headers in [
            &[][..],
            &[("range", "bytes=10-19")],
            &[("range", "bytes=1000-")],
        ] {
            let head = ask(headers, true).unwrap();
            assert_eq!(head.status(), StatusCode::OK);
            assert_eq!(head.headers()[CONTENT_LENGTH], "1000");
            assert!(matches!(head.body(), ResponseBody::Empty));
        }
    }

    #[test]
    fn a_challenge_names_the_expected_scheme() {
        let names = HeaderNames::new("Service-").unwrap();
        let of = |error: ApiError| challenge(&error, &names);
        let user = || ApiError::new(ErrorCode::UserTokenInvalid, "x");
        assert_eq!(
            of(ApiError::new(ErrorCode::PartnerTokenInvalid, "x")),
            "Service-AccessToken"
        );
        assert_eq!(of(user()), "Bearer");
        assert_eq!(
            of(user().with_token_sent()),
            "Bearer error=\"invalid_token\""
        );
        assert_eq!(
            of(ApiError::new(ErrorCode::InvalidCredentials, "x")),
            "Bearer"
        );
    }

    #[test]
    fn if_none_match_is_a_list_that_is_compared_weakly() {
        let names = HeaderNames::new("Service-").unwrap();
        let known = |values: &[&str]| {
            let map = header_lines("if-none-match", values);
            is_known(
                &RequestHeaders::read(&map, &names),
                &HeaderValue::from_static("\"a\""),
            )
        };
        for yes in [
            &["\"a\""][..],
            &["W/\"a\""],
            &["*"],
            &[" * "],
            &["\"b\",\"a\""],
            &["\"b\"", "\"a\""],
            &["\"x,y\" , W/\"a\""],
            &[", ,\"b\",, \"a\""],
        ] {
            assert!(known(yes), "{yes:?}");
        }
        for no in [
            &[][..],
            &[""],
            &["a"],
            &["\"b\""],
            &["\"a"],
            &["W/W/\"a\""],
            &["\"b,\"a\",c\""],
            &["\"A\""],
            &["**"],
            &["junk, \"a\""],
            &["\u{e4}, \"a\""],
            &["\"b\" junk, \"a\""],
        ] {
            assert!(!known(no), "{no:?}");
        }
    }
}
