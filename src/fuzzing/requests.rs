//! Fuzz targets of request formats.

use std::net::IpAddr;
use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Number, Value};

use playgate_api::route_table::ROUTERS;
use playgate_domain::accounts::ForeignHash;
use playgate_domain::playback::license_challenge::key_ids;
use playgate_formats::cmcd::{CmcdBatch, ReportedSession, dictionary};
use playgate_http::access::auth::Credentials;
use playgate_http::access::local_admin::Administrator;
use playgate_http::pipeline::authentication::{Proof, check_own_record, prove};
use playgate_http::request::head_validation::check_path;
use playgate_http::request::headers::RequestHeaders;
use playgate_http::response::range::{RangePart, part};
use playgate_http::route_facts::AllRouteFacts;
use playgate_http::{
    Authenticator, BodyRule, HeaderNames, Input, OperatorIdentity, PartnerIdentity, Payload, Query,
    RateClass, RouteMatch, RouteSet, UserIdentity,
};
use playgate_records::telemetry::EVENT_BYTES_MAX;
use playgate_types::{
    AssetId, BirthDate, BroadcastId, Country, DeviceId, Drm, Email, LimitReached, LivestreamId,
    Locale, LoginId, MediaPath, OperatorId, PartnerId, PartnerKind, Pin, Protocol, Role, SessionId,
    TokenHash, UnixSeconds, UserId,
};

/// Accepts every token, so that fuzzing reaches the parsers behind authentication.
struct Open;

impl Authenticator for Open {
    fn partner(&self, token: &TokenHash, _: UnixSeconds) -> Option<PartnerIdentity> {
        Some(PartnerIdentity {
            partner: PartnerId::from_bytes([1; 16]),
            token: *token,
            kind: PartnerKind::Standard,
            clock_offset: 0,
        })
    }

    fn user(&self, _: &TokenHash, _: PartnerId, _: UnixSeconds) -> Option<UserIdentity> {
        Some(UserIdentity {
            user: UserId::from_bytes([0; 16]),
            login: LoginId::from_bytes([2; 16]),
        })
    }

    fn operator(&self, _: &TokenHash, _: UnixSeconds) -> Option<OperatorIdentity> {
        Some(OperatorIdentity {
            operator: OperatorId::from_bytes([3; 16]),
            role: Role::Admin,
        })
    }

    fn locale(&self, _: UserId) -> Option<Locale> {
        None
    }

    fn admit(
        &self,
        _: RateClass,
        _: Option<PartnerId>,
        _: IpAddr,
        _: UnixSeconds,
    ) -> Result<(), LimitReached> {
        Ok(())
    }
}

static NAMES: LazyLock<Option<HeaderNames>> = LazyLock::new(|| HeaderNames::new("Service-").ok());

static FACTS: LazyLock<AllRouteFacts> = LazyLock::new(|| ROUTERS.facts());

/// Parses any bytes as a request: a line with method and target, headers, an empty line, the body. Runs it from
/// the check of the path to the typed request; a refusal must have a status from 400 to 499.
pub(crate) fn request(data: &[u8]) {
    let Some(names) = &*NAMES else { return };
    let mut rest = data;
    let mut line = || {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, more) = rest.split_at(end);
        rest = more.get(1..).unwrap_or_default();
        Some(line)
    };
    let first = line().and_then(|line| std::str::from_utf8(line).ok());
    let Some((method, target)) = first.and_then(|first| first.split_once(' ')) else {
        return;
    };
    let Ok(method) = Method::from_bytes(method.as_bytes()) else {
        return;
    };
    let mut headers = HeaderMap::new();
    while let Some(line) = line().filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().map(HeaderName::from_bytes);
        let value = parts
            .next()
            .map(|value| HeaderValue::from_bytes(value.trim_ascii()));
        if let (Some(Ok(name)), Some(Ok(value))) = (name, value) {
            headers.append(name, value);
        }
    }
    let heads = RequestHeaders::read(&headers, names);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    for table in [RouteSet::Public, RouteSet::Ops] {
        ask(table, &method, path, Query::new(query), &heads, names, rest);
    }
}

fn ask(
    table: RouteSet,
    method: &Method,
    path: &str,
    query: Query<'_>,
    heads: &RequestHeaders<'_>,
    names: &HeaderNames,
    body: &[u8],
) {
    let _ = heads.check_size(path.len());
    let _ = part(heads.range.ascii(), body.len() as u64);
    if check_path(path).is_err() {
        return;
    }
    let Ok(RouteMatch::Route(_, route, params)) = ROUTERS.of(table).find(method, path) else {
        return;
    };
    let credentials = Credentials {
        heads,
        query: Query::new(""),
        takes_query_token: false,
        names,
        administrator: Some(Administrator { uid: 0 }),
    };
    let proof = prove(&Open, route, &credentials, UnixSeconds(0));
    let payload = match route.body {
        BodyRule::Ignored => Bytes::new(),
        BodyRule::Whole(limit) | BodyRule::Gzip(limit) | BodyRule::Streamed(limit) => {
            Bytes::copy_from_slice(body.get(..limit).unwrap_or(body))
        }
    };
    let input = Input {
        path,
        params,
        query,
        heads,
        names,
        password_min: 8,
        partner_routes: &FACTS.public,
    };
    let payload = Payload::Whole(payload);
    let parsed = proof.and_then(|proof| match proof {
        Proof::Open(auth, handler) => (handler.bind)(&input, payload, auth),
        Proof::Partner(auth, handler) => (handler.bind)(&input, payload, auth),
        Proof::User(auth, handler) => {
            check_own_record(&auth, &input)?;
            (handler.bind)(&input, payload, auth)
        }
        Proof::Operator(auth, handler) => (handler.bind)(&input, payload, auth),
    });
    if let Err(error) = parsed {
        let status = error.code().status().as_u16();
        assert!((400..500).contains(&status), "{}: {status}", route.label);
    }
}

/// Reads any bytes as strict JSON. Values that are accepted must be the same to another reader, and after being
/// written and read again.
pub(crate) fn json(data: &[u8]) {
    let Ok(value) = playgate_decode::strict_json::strict(data) else {
        return;
    };
    let other = serde_json::from_slice::<Value>(data);
    assert_eq!(other.ok().as_ref(), Some(&value), "another value to others");
    let again = playgate_decode::strict_json::strict(value.to_string().as_bytes());
    let same = again.is_ok_and(|again| are_same(&again, &value));
    assert!(same, "another value once it was written: {value}");
}

/// Returns whether two values are equal. Fractions may differ in their last bit, as serde_json is built without
/// `float_roundtrip`: only measurements of players are fractions, and they are stored as text.
fn are_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let bits = |number: &Number| number.as_f64().map_or(0, f64::to_bits);
            bits(a).abs_diff(bits(b)) <= 1
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.0 == b.0 && are_same(a.1, b.1))
        }
        _ => one == other,
    }
}

/// Parses any text as each type of value. Written and parsed again, the value must be the same.
pub(crate) fn value(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    macro_rules! same {
        ($($type:ty, $write:expr;)+) => {$(
            if let Ok(value) = <$type>::parse(text) {
                let written = $write(&value);
                let again = <$type>::parse(&written);
                assert!(again.is_ok_and(|again| again == value), "{text:?} becomes {written:?}");
            }
        )+};
    }
    same! {
        LivestreamId, ToString::to_string;
        AssetId, ToString::to_string;
        BroadcastId, ToString::to_string;
        DeviceId, |id: &DeviceId| id.as_str().to_owned();
        UserId, ToString::to_string;
        Email, |email: &Email| email.as_str().to_owned();
        Locale, |locale: &Locale| locale.as_str().to_owned();
        Country, |country: &Country| country.as_str().to_owned();
    }
    if let Ok(id) = UserId::parse(text) {
        assert_eq!(id.to_string(), text, "an id with two spellings");
    }
    if let Some(path) = MediaPath::parse(text) {
        let climbs = path
            .as_str()
            .split('/')
            .any(|part| matches!(part, "" | "." | ".."));
        assert!(
            !climbs && path.as_str() == text,
            "a path that leads elsewhere"
        );
    }
    let _ = (BirthDate::parse(text).is_ok(), Pin::parse(text).is_ok());
    let _ = (Drm::parse(text), Protocol::parse(text));
    let length = data.len() as u64;
    if let RangePart::Bytes(from, to) = part(Some(text), length) {
        assert!(from <= to && to < length, "a range beyond the file");
    }
}

/// Reads any bytes as a license challenge of each DRM system. It must not yield more key ids than its bytes can hold.
pub(crate) fn challenge(data: &[u8]) {
    for drm in [
        Drm::Widevine,
        Drm::Playready,
        Drm::Fairplay,
        Drm::Clearkey,
        Drm::None,
    ] {
        let Ok(kids) = key_ids(drm, data) else {
            continue;
        };
        assert!(
            // One stretch of bytes can be read in two ways.
            kids.len() * 8 <= data.len().max(16),
            "more key ids than bytes"
        );
    }
}

/// Parses any text as a password hash of another service. The hash is not computed, only its cost is checked.
pub(crate) fn hash(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = ForeignHash::parse(text).is_ok();
    }
}

/// Reads a body of CMCD reports. Each line is an event or rejected; what was read of a line, written as CMCD and read
/// again, is the same.
pub(super) fn cmcd(data: &[u8]) {
    let (Ok(device), Ok(asset)) = (DeviceId::parse("tv"), AssetId::parse("film")) else {
        return;
    };
    let session = ReportedSession {
        id: SessionId::from_bytes([4; 16]),
        device: &device,
        asset: &asset,
    };
    let batch = CmcdBatch::parse(data, session, 1_800_000_000_000);
    let lines = data.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.trim_ascii().is_empty()).count();
    assert_eq!(batch.events.len() + batch.rejected, lines, "a line is lost");
    for event in batch.events {
        assert!(event.json.len() <= EVENT_BYTES_MAX, "an event is too long");
        let json: Value = serde_json::from_slice(&event.json).unwrap_or_default();
        let values = json.pointer("/context/cmcd").and_then(Value::as_object);
        assert!(values.is_some(), "an event is not JSON of a report");
        let bitrate = event.player.and_then(|player| player.bitrate);
        let possible = bitrate.is_none_or(|bits| (1..=1_000_000_000).contains(&bits));
        assert!(possible, "an impossible bitrate counts");
        let written: Option<Vec<String>> = (values.into_iter().flatten())
            .map(|(key, value)| Some(format!("{key}={}", cmcd_item(value)?)))
            .collect();
        if let Some(written) = written {
            let read = dictionary(&written.join(","), &mut 0);
            assert_eq!(read.as_ref(), values, "another report was read");
        }
    }
}

/// A value as CMCD; `None` for decimals, which have several forms.
fn cmcd_item(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(flag) => format!("?{}", u8::from(*flag)),
        Value::Number(number) => number.as_i64()?.to_string(),
        Value::String(text) => {
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(cmcd_item).collect();
            format!("({})", items?.join(" "))
        }
        Value::Null | Value::Object(_) => return None,
    })
}
