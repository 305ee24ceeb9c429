//! From a reply or an error to a response: conditions, codings, ranges, caching.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::ext::ReasonPhrase;

use super::content_encoding::{Preference, is_known, preference, tag};
use super::error::{ApiError, ErrorBody, ErrorCode, NO_LIVE_RIGHTS_STATUS};
use super::fair_queue::Turn;
use super::headers::{HeaderNames, RequestHeaders};
use super::range::{Part, part};
use super::reply::{Content, FileContent, FileReply, Kept, Prepared, Reply, media};
use super::response_body::{ChunkStream, LaneBody, ResponseBody, ResponseStream};
use super::response_cache::CompressibleBody;
use super::soap;
use super::worker_pool::WorkerPool;
use crate::types::LimitReached;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const VARIES: HeaderValue = HeaderValue::from_static("Accept-Encoding, Accept-Language, Origin");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const BYTES: HeaderValue = HeaderValue::from_static("bytes");
const NO_LIVE_RIGHTS: ReasonPhrase = ReasonPhrase::from_static(b"No Live Rights");

/// Headers of an ordinary answer; room for them saves growing the map.
const USUAL_HEADERS: usize = 12;

/// The smallest body worth compressing: below, the packed one is hardly smaller.
const GZIP_FROM: usize = 1_024;
/// The largest body that is compressed at once: above, it would hold the thread for over a
/// millisecond, and a lane does it.
const GZIP_AT_ONCE: usize = 64 * 1_024;

/// `private, max-age=n` for the ages that occur.
static AGES: LazyLock<Vec<HeaderValue>> =
    LazyLock::new(|| (0..=60).filter_map(|age| cache_control(age).ok()).collect());

fn cache_control(age: u32) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    HeaderValue::from_str(&format!("private, max-age={age}"))
}

/// What the request says of the form of the answer.
#[derive(Clone, Copy)]
pub struct ResponseOptions<'a> {
    /// Its headers.
    pub heads: &'a RequestHeaders<'a>,
    /// Whether it is a HEAD.
    pub head: bool,
    /// The pool that compresses large bodies, and whose turn that takes; without one they are sent
    /// uncompressed.
    pub compression: Option<(&'a WorkerPool<()>, Turn)>,
}

/// Makes the response of a reply.
///
/// # Errors
/// 416.
pub fn render(reply: Reply, wish: ResponseOptions<'_>) -> Result<Response<ResponseBody>, ApiError> {
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    let mut status = reply.status;
    let body = match reply.content {
        Content::Empty => {
            headers.insert(CACHE_CONTROL, NO_STORE);
            ResponseBody::Empty
        }
        Content::Bytes(media, bytes) => {
            headers.insert(CONTENT_TYPE, media);
            headers.insert(CACHE_CONTROL, NO_STORE);
            whole(bytes, wish, &mut headers)
        }
        Content::Prepared(prepared) => {
            let body = prepared_body(prepared, wish, &mut headers);
            if body.is_none() {
                status = StatusCode::NOT_MODIFIED;
            }
            body.unwrap_or(ResponseBody::Empty)
        }
        Content::File(file) => file_body(file, wish, &mut headers, &mut status)?,
        Content::Export(kept, media, export) => {
            let gzip = preference(wish.heads.accept_encoding) != Preference::Identity;
            if is_held(kept, gzip, wish, &mut headers) {
                status = StatusCode::NOT_MODIFIED;
                ResponseBody::Empty
            } else {
                headers.insert(CONTENT_TYPE, media);
                if gzip {
                    headers.insert(CONTENT_ENCODING, GZIP);
                    whole(export.gzip().clone(), wish, &mut headers)
                } else if let Some(identity) = export.identity() {
                    whole(identity.clone(), wish, &mut headers)
                } else {
                    streamed(Box::pin(ChunkStream::new(export.inflated())), wish)
                }
            }
        }
        Content::Stream(media, length, body) => {
            headers.insert(CONTENT_TYPE, media);
            headers.insert(CACHE_CONTROL, NO_STORE);
            if let Some(length) = length {
                headers.insert(CONTENT_LENGTH, length.into());
            }
            streamed(body, wish)
        }
    };
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

/// The bytes, or for HEAD their length alone.
fn whole(bytes: Bytes, wish: ResponseOptions<'_>, headers: &mut HeaderMap) -> ResponseBody {
    if wish.head {
        headers.insert(CONTENT_LENGTH, bytes.len().into());
        ResponseBody::Empty
    } else {
        bytes.into()
    }
}

fn streamed(body: ResponseStream, wish: ResponseOptions<'_>) -> ResponseBody {
    if wish.head {
        ResponseBody::Empty
    } else {
        ResponseBody::Stream(body, None)
    }
}

/// Says how long the body may be kept, and by which tag; whether the client has it already.
fn is_held(kept: Kept, packed: bool, wish: ResponseOptions<'_>, headers: &mut HeaderMap) -> bool {
    let age = usize::try_from(kept.max_age).ok();
    let caching = age
        .and_then(|age| AGES.get(age).cloned())
        .or_else(|| cache_control(kept.max_age).ok());
    headers.insert(CACHE_CONTROL, caching.unwrap_or(NO_STORE));
    headers.insert(VARY, VARIES);
    let tag = tag(kept.tag, packed);
    let known = is_known(wish.heads, &tag);
    headers.insert(ETAG, tag);
    known
}

/// `None` if the client has the body already.
fn prepared_body(
    prepared: Prepared,
    wish: ResponseOptions<'_>,
    headers: &mut HeaderMap,
) -> Option<ResponseBody> {
    let Prepared {
        media, body, kept, ..
    } = prepared;
    let pack = match preference(wish.heads.accept_encoding) {
        Preference::Identity => false,
        Preference::Gzip => body.identity().len() >= GZIP_FROM,
        Preference::OnlyGzip => true,
    };
    if is_held(kept, pack, wish, headers) {
        return None;
    }
    headers.insert(CONTENT_TYPE, media);
    if pack {
        if let Some(body) = packed(&body, wish, headers) {
            headers.insert(CONTENT_ENCODING, GZIP);
            return Some(body);
        }
        headers.insert(ETAG, tag(kept.tag, false));
    }
    Some(whole(body.identity().clone(), wish, headers))
}

/// The compressed body; `None` where there is no room to make it.
fn packed(
    body: &Arc<CompressibleBody>,
    wish: ResponseOptions<'_>,
    headers: &mut HeaderMap,
) -> Option<ResponseBody> {
    if let Some(packed) = body.ready() {
        return Some(whole(packed.clone(), wish, headers));
    }
    if body.identity().len() <= GZIP_AT_ONCE {
        return Some(whole(body.gzip()?.clone(), wish, headers));
    }
    if wish.head {
        // The length is not known before the body has been made, and a HEAD is not worth that.
        return Some(ResponseBody::Empty);
    }
    let body = Arc::clone(body);
    let (pool, turn) = wish.compression?;
    let packing = pool.run_for(turn, move |()| body.gzip().cloned()).ok()?;
    Some(ResponseBody::Stream(Box::pin(LaneBody::new(packing)), None))
}

fn file_body(
    file: FileReply,
    wish: ResponseOptions<'_>,
    headers: &mut HeaderMap,
    status: &mut StatusCode,
) -> Result<ResponseBody, ApiError> {
    let tag = tag(file.tag, false);
    let whole = file.content.length();
    headers.insert(CACHE_CONTROL, file.caching);
    headers.insert(ACCEPT_RANGES, BYTES);
    let known = is_known(wish.heads, &tag);
    // A range of another version of the file would not fit to what the client has.
    let same = match wish.heads.if_range.value() {
        Some(wanted) => *wanted == tag,
        None => true,
    };
    headers.insert(ETAG, tag);
    if known {
        *status = StatusCode::NOT_MODIFIED;
        return Ok(ResponseBody::Empty);
    }
    headers.insert(CONTENT_TYPE, file.media);
    let asked = wish.heads.range.ascii().filter(|_| same);
    let (from, length) = match part(asked, whole) {
        Part::Whole => (0, whole),
        Part::Bytes(first, last) => {
            *status = StatusCode::PARTIAL_CONTENT;
            headers.insert(
                CONTENT_RANGE,
                content_range(&format!("{first}-{last}/{whole}")),
            );
            (first, last - first + 1)
        }
        Part::Beyond => {
            let range = content_range(&format!("*/{whole}"));
            return Err(ApiError::new(
                ErrorCode::RangeNotSatisfiable,
                "no part of the file lies in the range",
            )
            .with_header(CONTENT_RANGE, range));
        }
    };
    headers.insert(CONTENT_LENGTH, length.into());
    if wish.head || length == 0 {
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

fn content_range(range: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("bytes {range}"))
        .unwrap_or_else(|_| HeaderValue::from_static("bytes */0"))
}

/// The form of an error's body.
#[derive(Clone, Copy)]
pub enum ErrorForm {
    /// JSON, as on every route.
    Json,
    /// JSON with the message at top level too.
    Flat,
    /// A fault of SOAP.
    Soap,
}

/// Makes the response of an error; `user_message` is what a viewer may be shown.
#[must_use]
pub fn render_error(
    error: &ApiError,
    user_message: &str,
    form: ErrorForm,
    names: &HeaderNames,
    wish: ResponseOptions<'_>,
) -> Response<ResponseBody> {
    let json = |flat| {
        let body = ErrorBody::new(error, user_message, flat);
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
    headers.insert(CACHE_CONTROL, NO_STORE);
    if let Some(seconds) = error.retry_after() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if let (Some(limit), Some(seconds)) = (error.limit(), error.retry_after()) {
        tell_limit(limit, seconds, &mut headers);
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, challenge(error, names));
    }
    for (name, value) in error.headers() {
        headers.insert(name, value.clone());
    }
    let body = whole(body.into(), wish, &mut headers);
    let mut response = response(status, headers, body);
    // A status that no table of clients and proxies has says in its line what it is.
    if status.as_u16() == NO_LIVE_RIGHTS_STATUS {
        response.extensions_mut().insert(NO_LIVE_RIGHTS);
    }
    response
}

/// The limit that was reached and when there is room again, as the fields of the HTTP working group's
/// draft. Decision: on refusals alone. What is left before them would tell a guesser how far to go,
/// and counts of attempts would go up and down as they succeed.
fn tell_limit(limit: &LimitReached, seconds: u32, headers: &mut HeaderMap) {
    let name = limit.name;
    let policy = format!("\"{name}\";q={};w={}", limit.limit, limit.window);
    let left = format!("\"{name}\";r=0;t={seconds}");
    for (field, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, left)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(field, value);
        }
    }
}

/// Every 401 says what would be taken; `invalid_token` only where a token was sent (RFC 6750).
fn challenge(error: &ApiError, names: &HeaderNames) -> HeaderValue {
    if error.code() == ErrorCode::PartnerTokenInvalid {
        names.partner_challenge.clone()
    } else if error.token_sent() {
        HeaderValue::from_static("Bearer error=\"invalid_token\"")
    } else {
        HeaderValue::from_static("Bearer")
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

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
    fn the_tag_differs_by_coding_and_is_answered_with_304() {
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
    fn a_large_body_without_room_to_pack_it_is_sent_as_it_is() {
        let names = HeaderNames::new("Service-").unwrap();
        let mut map = HeaderMap::new();
        map.insert("accept-encoding", GZIP);
        let mut large = prepared();
        large.body = Arc::new(vec![b'x'; GZIP_AT_ONCE + 1].into());
        let wish = ResponseOptions {
            heads: &RequestHeaders::read(&map, &names),
            head: false,
            compression: None,
        };
        let answer = render(Reply::prepared(large), wish).unwrap();
        assert_eq!(answer.headers()[ETAG], "\"0000000000000abc\"");
        assert!(!answer.headers().contains_key(CONTENT_ENCODING));
        assert!(matches!(answer.body(), ResponseBody::Full(_)));
    }

    #[test]
    fn a_head_has_the_length_and_no_body() {
        let head = ask(&[], true);
        assert_eq!(head.headers()[CONTENT_LENGTH], "2000");
        assert!(matches!(head.body(), ResponseBody::Empty));
    }

    #[test]
    fn files_are_served_in_parts() {
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
        let head = ask(&[], true).unwrap();
        assert_eq!(head.headers()[CONTENT_LENGTH], "1000");
        assert!(matches!(head.body(), ResponseBody::Empty));
    }

    #[test]
    fn a_challenge_says_what_would_be_taken() {
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
}
