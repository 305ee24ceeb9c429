//! Mutators of requests: of single members, and of bytes.

use serde_json::{Map, Value, json};

use crate::mutations::fixtures::BatchData;
use crate::mutations::rng::Rng;
use crate::mutations::seed_requests::{Body, Request, escaped};
use crate::support::playback_fixture::PLAY_HEADERS;

/// Values that parsers often get wrong.
const ODD: [&str; 58] = [
    "",
    " ",
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "01",
    "+1",
    "1.5",
    "1e3",
    "1e999",
    "NaN",
    "0x10",
    "true",
    "null",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "253402300799",
    "253402300800",
    "4294967296",
    "99999999999999999999999999999999999999",
    "news",
    "news,news",
    ",",
    ",,,",
    "news,",
    "film",
    "noon",
    ".",
    "..",
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "\u{0}",
    "\u{7f}",
    "\u{202e}abc",
    "ä",
    "e\u{301}",
    "𝟙𝟚",
    "\u{feff}x",
    "\u{fffd}",
    "<script>&\"'</script>",
    "{}",
    "[]",
    "\"",
    "2026-01-01",
    "2026-02-30",
    "0000-00-00",
    "9999-12-31",
    "10000-01-01",
    "-0001-01-01",
    "ann@example.com",
    "@",
    "a@b",
    "bytes=0-",
];

/// Headers with a meaning in some route, without those of players.
const HEADERS: [&str; 22] = [
    "Service-AccessToken",
    "Authorization",
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "If-None-Match",
    "If-Range",
    "Range",
    "Origin",
    "SOAPAction",
    "Content-Type",
    "Content-Encoding",
    "Access-Control-Request-Method",
    "Access-Control-Request-Headers",
    "X-Forwarded-For",
    "Forwarded",
    "X-Request-Id",
    "User-Agent",
    "Cookie",
    "Upgrade",
    "TE",
    "Trailer",
];

const HEADER_VALUES: [&str; 32] = [
    "gzip",
    "gzip;q=0",
    "*;q=0.001, gzip;q=1.001",
    "br, gzip;q=0.5, identity;q=0",
    "sv-SE,sv;q=0.9,en;q=0.1",
    "*",
    "x-klingon",
    "W/\"x\"",
    "\"x\", \"y\"",
    "bytes=0-3",
    "bytes=-1",
    "bytes=3-0",
    "bytes=0-0,2-3",
    "bytes=99999999999999999999-",
    "https://a.example",
    "null",
    "http://[::1]:80",
    "\"urn:license\"",
    "application/json; charset=utf-16",
    "multipart/form-data",
    "10.0.0.1, unknown",
    "for=\"[::1]:1\";proto=https",
    "PUT",
    "x-a, x-b,,",
    "websocket",
    "Basic eDp5",
    "Bearer",
    "Bearer  x",
    "bearer x",
    "a=b; c=d",
    "identity",
    "trailers",
];

const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "BREW",
];

fn pick<'a>(rng: &mut Rng, words: &[&'a str]) -> &'a str {
    words[rng.index(words.len())]
}

/// An unusual value: a word, a token of another kind, or a very long text.
fn odd(rng: &mut Rng, data: &BatchData) -> String {
    match rng.below(12) {
        0 => "x".repeat(1 << rng.below(15)),
        1 => pick(rng, &ODD).repeat(usize::try_from(rng.below(300)).unwrap()),
        2 | 3 if !data.tokens.is_empty() => data.tokens[rng.index(data.tokens.len())].clone(),
        4 => format!("{}{}", pick(rng, &ODD), pick(rng, &ODD)),
        _ => pick(rng, &ODD).to_owned(),
    }
}

/// Changes a request so that it stays well-formed and must get exactly one response.
pub fn mutate(request: &mut Request, data: &BatchData, rng: &mut Rng) {
    match rng.below(14) {
        0..=3 if !matches!(request.body, Body::None) => body(request, data, rng),
        4..=5 => query(request, data, rng),
        6..=9 => header(request, data, rng),
        10..=11 => path(request, data, rng),
        12 => request.method = pick(rng, &METHODS).to_owned(),
        _ => framing(request, rng),
    }
}

fn query(request: &mut Request, data: &BatchData, rng: &mut Rng) {
    let length = request.query.len();
    if length == 0 || rng.once_in(5) {
        let name = pick(
            rng,
            &[
                "offset",
                "livestreams",
                "dryRun",
                "from",
                "limit",
                "accessToken",
                "",
                "x",
            ],
        );
        request.query.push((name.to_owned(), odd(rng, data)));
        return;
    }
    let at = rng.index(length);
    match rng.below(5) {
        0 => drop(request.query.remove(at)),
        1 => request.query.push(request.query[at].clone()),
        2 => request.query[at].0 = odd(rng, data),
        3 => {
            let many = 1 << rng.below(9);
            request.query[at].1 = vec![request.query[at].1.clone(); many].join(",");
        }
        _ => request.query[at].1 = odd(rng, data),
    }
}

/// Removes control characters, because line breaks would start another header.
fn header_bytes(text: &str) -> Vec<u8> {
    text.bytes()
        .filter(|byte| *byte >= b' ' && *byte != 0x7f)
        .collect()
}

fn header(request: &mut Request, data: &BatchData, rng: &mut Rng) {
    let length = request.headers.len();
    let at = rng.index(length);
    match rng.below(8) {
        0..=4 if length == 0 => {}
        0 => drop(request.headers.remove(at)),
        1 => request.headers.push(request.headers[at].clone()),
        2 => request.headers[at].1 = header_bytes(&odd(rng, data)),
        3 => {
            let mut value = request.headers[at].1.clone();
            let length = value.len();
            if let Some(byte) = value.get_mut(rng.index(length)) {
                *byte = 0x80 | u8::try_from(rng.below(128)).unwrap();
            }
            request.headers[at].1 = value;
        }
        4 => {
            let token = data
                .tokens
                .get(rng.index(data.tokens.len()))
                .cloned()
                .unwrap_or_default();
            let value = if rng.once_in(2) {
                format!("Bearer {token}")
            } else {
                token
            };
            request.headers[at].1 = value.into_bytes();
        }
        _ => {
            let known = [&HEADERS[..], &PLAY_HEADERS].concat();
            let name = pick(rng, &known).to_owned();
            let value = if rng.once_in(3) {
                odd(rng, data)
            } else {
                pick(rng, &HEADER_VALUES).to_owned()
            };
            request.headers.push((name, header_bytes(&value)));
        }
    }
}

fn path(request: &mut Request, data: &BatchData, rng: &mut Rng) {
    let mut segments: Vec<String> = request.path.split('/').map(str::to_owned).collect();
    if segments.len() < 2 {
        return;
    }
    let at = rng.index(segments.len() - 1) + 1;
    match rng.below(8) {
        0 => drop(segments.remove(at)),
        1 => segments.insert(at, segments[at].clone()),
        2 => segments.push(String::new()),
        3 => segments[at] = segments[at].to_uppercase(),
        4 => segments[at].push_str(pick(
            rng,
            &["%", "%zz", "%00", "%2e", "%2F", ";x", "%c3%28", "%ed%a0%80"],
        )),
        _ => segments[at] = escaped(&odd(rng, data)),
    }
    request.path = segments.join("/");
    if !request.path.starts_with('/') {
        request.path.insert(0, '/');
    }
}

fn framing(request: &mut Request, rng: &mut Rng) {
    let mut push_header =
        |name: &str, value: &str| request.headers.push((name.to_owned(), value.into()));
    match rng.below(6) {
        0 => push_header("Expect", "100-continue"),
        1 => push_header("Connection", "close"),
        2 => push_header("Connection", "keep-alive, x"),
        3 => {
            let Some(bytes) = body_bytes(&request.body) else {
                return;
            };
            request
                .headers
                .push(("Content-Encoding".to_owned(), b"gzip".to_vec()));
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut packed, &bytes).unwrap();
            request.body = Body::Bytes(packed.finish().unwrap());
        }
        4 => request.body = Body::Bytes(vec![b' '; 1 << rng.below(18)]),
        _ => request.chunked = true,
    }
}

fn body_bytes(body: &Body) -> Option<Vec<u8>> {
    match body {
        Body::None => None,
        Body::Json(value) => Some(value.to_string().into_bytes()),
        Body::Bytes(bytes) => Some(bytes.clone()),
    }
}

fn body(request: &mut Request, data: &BatchData, rng: &mut Rng) {
    match &mut request.body {
        Body::Json(value) if !rng.once_in(6) => json(value, data, rng),
        // As text: repeated members, truncated objects, or something else than JSON.
        other => {
            let mut bytes = body_bytes(other).unwrap_or_default();
            if rng.once_in(3)
                && let Some(at) = bytes.iter().position(|byte| *byte == b'{')
            {
                let member = format!(
                    "\"{}\":{},",
                    pick(rng, &["identity", "name", "email", "live"]),
                    any(rng, data)
                );
                bytes.splice(at + 1..at + 1, member.into_bytes());
            } else {
                corrupt(&mut bytes, rng);
            }
            *other = Body::Bytes(bytes);
        }
    }
}

fn json(value: &mut Value, data: &BatchData, rng: &mut Rng) {
    // Descends a random number of levels.
    let deeper = !rng.once_in(3);
    match value {
        Value::Object(members) if deeper && !members.is_empty() => {
            let at = rng.index(members.len());
            let name = members.keys().nth(at).unwrap().clone();
            match rng.below(8) {
                0 => drop(members.remove(&name)),
                1 => {
                    let member = members.remove(&name).unwrap();
                    members.insert(odd(rng, data), member);
                }
                2 => drop(members.insert(odd(rng, data), any(rng, data))),
                _ => json(&mut members[&name], data, rng),
            }
        }
        Value::Array(items) if deeper && !items.is_empty() => {
            let at = rng.index(items.len());
            match rng.below(6) {
                0 => drop(items.remove(at)),
                1 => *items = vec![items[at].clone(); 1 << rng.below(11)],
                _ => json(&mut items[at], data, rng),
            }
        }
        _ => *value = any(rng, data),
    }
}

fn any(rng: &mut Rng, data: &BatchData) -> Value {
    match rng.below(12) {
        0 => Value::Null,
        1 => rng.once_in(2).into(),
        2 => json!([]),
        3 => Value::Object(Map::new()),
        4 => i64::MAX.into(),
        5 => i64::MIN.into(),
        6 => u64::MAX.into(),
        7 => json!(1.5e300),
        8 => {
            let nest = |inner, _| json!([inner]);
            (0..rng.below(100)).fold(Value::Null, nest)
        }
        9 => rng.below(300).into(),
        _ => odd(rng, data).into(),
    }
}

/// Byte sequences with a meaning for HTTP parsers.
const PIECES: [&[u8]; 36] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b" ",
    b"\t",
    b":",
    b",",
    b"%",
    b"%00",
    b"%2f",
    b"?",
    b"#",
    b"/",
    b"//",
    b"{",
    b"}",
    b"[",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"0\r\n\r\n",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"\x1f\x8b\x08\x00",
    b"<!DOCTYPE x [",
];

/// Corrupts bytes in one place.
pub fn corrupt(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.index(bytes.len() + 1);
    let end = (at + usize::try_from(1 << rng.below(8)).unwrap()).min(bytes.len());
    match rng.below(9) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => drop(bytes.drain(at..end)),
        2 | 3 => {
            let piece = PIECES[rng.index(PIECES.len())];
            bytes.splice(at..at, piece.iter().copied());
        }
        4 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        5 => {
            // Copies the bytes to another place.
            let piece = bytes[at..end].to_vec();
            let to = rng.index(bytes.len() + 1);
            bytes.splice(to..to, piece);
        }
        6 => double_a_line(bytes, rng),
        7 => another_number(bytes, rng),
        _ => bytes.truncate(at),
    }
}

fn double_a_line(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    if ends.len() < 2 {
        return;
    }
    let nth = rng.index(ends.len() - 1);
    let line = bytes[ends[nth] + 1..=ends[nth + 1]].to_vec();
    let to = ends[rng.index(ends.len())] + 1;
    bytes.splice(to..to, line);
}

fn another_number(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[at - 1].is_ascii_digit()))
        .collect();
    if starts.is_empty() {
        return;
    }
    let at = starts[rng.index(starts.len())];
    let length = bytes[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let number = pick(
        rng,
        &[
            "0",
            "-1",
            "4294967296",
            "9223372036854775808",
            "18446744073709551616",
            "1e9",
            "",
        ],
    );
    bytes.splice(at..at + length, number.bytes());
}
