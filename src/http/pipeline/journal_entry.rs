//! Writes answered requests to the request journal.
//!
//! A record contains only those parts of a request that are listed here by name. So a new header, parameter or member
//! never reaches the journal by itself, and no token, password, PIN or challenge does.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use http::header::{IF_NONE_MATCH, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use ring::digest;
use serde_json::{Value, json};

use crate::errors::api_error::ApiError;
use crate::pipeline::record::RequestRecord;
use crate::request::head_validation::{decode, is_known};
use crate::request::headers::{HeaderNames, RequestHeaders, SingleHeader};
use crate::request::query::Query;
use crate::route_facts::RouteFacts;
use crate::routing::route::Route;
use crate::state::HttpState;
use playgate_domain::decision::RightsRefusal;
use playgate_domain::lab::AppliedFault;
use playgate_formats::rights::rule_step;
use playgate_records::journal::{JournalDevice, JournalRecord, LateFacts, NamedText};
use playgate_services::Services;
use playgate_types::{
    AssetId, Email, PARTNER_TOKEN_LENGTH, SessionId, TokenHash, TokenKind, is_partner_token,
};

/// Parameters of paths whose values are ids of the catalogue or dates.
const PATH_PARAMETERS: [&str; 5] = [
    "{assetId}",
    "{broadcastId}",
    "{date}",
    "{livestreamId}",
    "{manifest}",
];
/// Query parameters that a record may contain. `accessToken` and the `token` of the reset page are secrets.
const QUERY_PARAMETERS: [&str; 5] = ["after", "broadcasts", "limit", "livestreams", "offset"];
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Body members that reveal nothing about a person.
const BODY_MEMBERS: [&str; 3] = ["country", "locale", "type"];
/// Body members whose values are secrets. Only their presence is recorded: it shows what the client tried.
const MASKED_MEMBERS: [&str; 6] = [
    "accessKey",
    "currentPassword",
    "newPassword",
    "newPinCode",
    "password",
    "pinCode",
];
/// What a record says of a request for the service certificate, which is no license.
pub const SERVICE_CERTIFICATE: &str = "the service certificate";
/// Recorded in place of a request id that is a token.
const MASKED_ID: &str = "***";
const MASK: &str = "\"***\"";
const TOKENS: [TokenKind; 4] = [
    TokenKind::User,
    TokenKind::Entitlement,
    TokenKind::Reset,
    TokenKind::Operator,
];

/// Returns the method for a record. An unknown one is any text that a client has put there, also a token.
pub(crate) fn recorded_method(method: &Method) -> &str {
    match is_known(method) {
        true => method.as_str(),
        false => "{unknown}",
    }
}

pub(crate) fn journal(
    http: &HttpState,
    record: &RequestRecord,
    parts: &Parts,
    heads: &RequestHeaders<'_>,
    status: StatusCode,
    error: Option<&ApiError>,
) {
    let draft = &record.draft;
    let clock = &http.services.clock;
    let decision = draft.trace.take();
    let route = record.route.map(|(_, route)| route);
    let user = record.user.or(decision.user);
    let named = heads.play.session.ascii();
    let session = decision
        .session
        .or_else(|| named.and_then(|text| SessionId::parse(text).ok()));
    let entry = JournalRecord {
        number: 0,
        id: id(record, heads),
        // A request with broken framing or a malformed path is refused before its time is read.
        at_millis: draft.at_millis.unwrap_or_else(|| clock.now_millis()),
        micros: u64::try_from(record.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        partner: draft.partner,
        token_id: draft.token.map(|token| token.handle()),
        user,
        login: draft.login.map(|login| login.to_string()),
        session,
        asset: decision
            .asset
            .or_else(|| route.and_then(|route| asset(route, parts.uri.path())))
            // Only of the user's own session: a header can name that of another.
            .or_else(|| http.services.playback.asset_of(&session?, &user?)),
        entitlement: entitlement_id(heads),
        device: device(heads),
        network: draft.peer.map(network),
        method: recorded_method(&parts.method).to_owned(),
        route: route.map_or("none", |route| route.label).into(),
        path: match route {
            Some(route) => path(record, route, parts.uri.path()),
            // Without a route, any segment may be a token.
            None => known_words(&http.routes.public, parts.uri.path()),
        },
        query: query(parts.uri.query().unwrap_or_default()),
        headers: headers(&http.names, parts, heads),
        body: draft.body.as_deref().map(members).unwrap_or_default(),
        status: status.as_u16(),
        code: error.map(|error| error.code().as_str().into()),
        message: error.map(|error| error.loggable().to_owned()),
        details: error
            .and_then(ApiError::details)
            .and_then(|details| serde_json::to_string(details).ok())
            .or_else(|| wait_details(record.fault.as_ref()?)),
        steps: decision.steps,
        fault: record.fault.as_ref().map(AppliedFault::to_string),
    };
    let late = late_facts(
        &http.services,
        decision.refused_by,
        decision.address,
        &entry,
    );
    http.services.journal.record_with(entry, late);
}

/// Returns the step that adds what has to be read from disk. The journal thread runs it later.
fn late_facts(
    services: &Services,
    refused_by: Option<RightsRefusal>,
    address: Option<Email>,
    entry: &JournalRecord,
) -> Option<LateFacts> {
    if let Some(refusal) = refused_by {
        let schedule = Arc::clone(&services.schedule);
        // The snapshot is taken now: the rule may have changed when the journal thread runs this.
        let catalog = services.catalog.snapshot();
        return Some(Box::new(move |record| {
            record
                .steps
                .extend(rule_step(&schedule, &catalog, &refusal));
        }));
    }
    // Looking a user up by address reads the disk; the record keeps the user and never the address.
    let address = address.filter(|_| entry.user.is_none())?;
    let (accounts, partner) = (services.accounts.clone(), entry.partner?);
    Some(Box::new(move |record| {
        let found = accounts.find(partner, &address).ok().flatten();
        record.user = found;
    }))
}

/// The request id, unless the client sent a token as its id. Ids often have the form of a partner token, so only the
/// token of this request counts.
fn id(record: &RequestRecord, heads: &RequestHeaders<'_>) -> String {
    let id = record.id.to_string();
    // The client chooses the id, and some clients send their token in every header.
    let is_token = has_prefix(&id)
        || heads
            .access_token
            .ascii()
            .is_some_and(|token| token.eq_ignore_ascii_case(&id));
    if is_token { MASKED_ID.to_owned() } else { id }
}

/// Returns the handle of the token. It shows whether two requests carry the same token.
fn entitlement_id(heads: &RequestHeaders<'_>) -> Option<String> {
    let token = heads.play.entitlement.ascii()?;
    Some(TokenHash::hash_presented(TokenKind::Entitlement, token)?.handle())
}

fn asset(route: &Route, path: &str) -> Option<AssetId> {
    let mut segments = route.pattern.split('/').zip(path.split('/'));
    let (_, text) = segments.find(|(name, _)| *name == "{assetId}")?;
    // A token in a wrong segment of the path must not become an asset.
    let text = decode(text).filter(|text| !has_token(text))?;
    AssetId::parse(&text).ok()
}

fn path(record: &RequestRecord, route: &Route, path: &str) -> String {
    let user = record.user.map(|user| user.to_string());
    let segments = route.pattern.split('/').zip(path.split('/'));
    let named = segments.map(|(name, text)| {
        // The id of another user would tie the record to a person who did not ask.
        let is_requesting_user = name == "{userId}" && user.as_deref() == Some(text);
        let shown = is_requesting_user || PATH_PARAMETERS.contains(&name);
        if shown && !has_token(text) {
            text
        } else {
            name
        }
    });
    named.collect::<Vec<_>>().join("/")
}

/// Masks a path without a route. It shows only words that occur in the patterns of routes: anything else may be a
/// secret.
fn known_words(routes: &[RouteFacts], path: &str) -> String {
    let is_known = |segment: &str| {
        let mut patterns = routes.iter().map(|route| route.pattern);
        patterns.any(|pattern| pattern.split('/').any(|word| word == segment))
    };
    let shown = path.split('/').map(|segment| match is_known(segment) {
        true => segment,
        false => "{unknown}",
    });
    shown.collect::<Vec<_>>().join("/")
}

fn query(text: &str) -> Vec<NamedText> {
    let query = Query::new(text);
    let known = QUERY_PARAMETERS.into_iter();
    known
        .filter_map(|name| named(name, &query.one(name).ok()??))
        .collect()
}

fn headers(names: &HeaderNames, parts: &Parts, heads: &RequestHeaders<'_>) -> Vec<NamedText> {
    let play = &heads.play;
    let of_player = [
        ("Play-DRM", play.drm),
        ("Play-Protocol", play.protocol),
        ("Play-DevicePlatform", play.device_platform),
        ("Play-DeviceType", play.device_type),
        ("Play-DeviceModel", play.device_model),
        ("Play-Session", play.session),
        ("Play-Timestamp", play.timestamp),
        ("Play-Bitrate", play.bitrate),
        ("Play-ResolutionWidth", play.width),
        ("Play-ResolutionHeight", play.height),
    ];
    let of_player = of_player.into_iter().filter_map(|(name, header)| {
        let value = utf8(header)?;
        named(names.full(name), value)
    });
    let general = [
        ("User-Agent", USER_AGENT),
        ("If-None-Match", IF_NONE_MATCH),
        ("traceparent", TRACEPARENT),
    ];
    let general = general.into_iter().filter_map(|(name, header)| {
        let value = parts.headers.get(header)?;
        named(name, std::str::from_utf8(value.as_bytes()).ok()?)
    });
    of_player.chain(general).collect()
}

fn utf8(header: SingleHeader<'_>) -> Option<&str> {
    std::str::from_utf8(header.value()?.as_bytes()).ok()
}

/// Returns `None` for a value that contains a token: a client may send one in any place by mistake.
fn named(name: impl Into<Cow<'static, str>>, value: &str) -> Option<NamedText> {
    (!has_token(value)).then(|| NamedText {
        name: name.into(),
        value: value.to_owned(),
    })
}

fn has_token(text: &str) -> bool {
    let other = |c: char| !c.is_ascii_hexdigit() && c != '-';
    let mut words = text.split(other);
    has_prefix(text)
        || (text.len() >= PARTNER_TOKEN_LENGTH
            // Partner tokens have no prefix, so any word of their form counts as one. Some tools write UUIDs in upper case,
            // which is no valid token here and shows it all the same.
            && words.any(|word| is_partner_token(&word.to_ascii_lowercase())))
}

fn has_prefix(text: &str) -> bool {
    // Each prefix ends with an underscore, which most texts lack.
    text.contains('_') && TOKENS.iter().any(|kind| text.contains(kind.prefix()))
}

fn device(heads: &RequestHeaders<'_>) -> Option<JournalDevice> {
    let play = &heads.play;
    let text = |header| {
        utf8(header)
            .filter(|text| !has_token(text))
            .map(str::to_owned)
    };
    let device = JournalDevice {
        platform: text(play.device_platform),
        kind: text(play.device_type),
        model: text(play.device_model),
        id_hash: utf8(play.device_id).map(device_hash),
    };
    (device != JournalDevice::default()).then_some(device)
}

/// Hashes the id of a device, because the id identifies the device elsewhere, too.
pub fn device_hash(id: &str) -> String {
    let hash = digest::digest(&digest::SHA256, id.as_bytes());
    HEXLOWER.encode(hash.as_ref().first_chunk::<8>().unwrap_or(&[0; 8]))
}

fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            // Only the network is recorded: an address identifies a household.
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}::/48")
        }
    }
}

fn members(body: &[u8]) -> Vec<NamedText> {
    // A body that is no object was refused, and the message of the refusal says so.
    let Ok(Value::Object(object)) = serde_json::from_slice(body) else {
        return Vec::new();
    };
    let member = |(name, value): (&String, &Value)| {
        if MASKED_MEMBERS.contains(&name.as_str()) {
            return named(name.clone(), MASK);
        }
        // Nested values may contain members that are not in the list.
        let simple = value.is_string() || value.is_number() || value.is_boolean();
        if !simple || !BODY_MEMBERS.contains(&name.as_str()) {
            return None;
        }
        named(name.clone(), &value.to_string())
    };
    object.iter().filter_map(member).collect()
}

/// A bare status of a lab has no error with details. The conformance report needs to know how long the client was to wait.
fn wait_details(fault: &AppliedFault) -> Option<String> {
    let seconds = fault.retry_after()?;
    Some(json!({ "retryAfter": seconds }).to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use playgate_domain::lab::{FaultAction, FaultId};

    #[test]
    fn a_bare_status_says_how_long_the_client_was_to_wait() {
        let fault = |retry_after| AppliedFault {
            id: FaultId(1),
            action: FaultAction::Status {
                status: 503,
                retry_after,
            },
            delay: Duration::ZERO,
            random: 0,
        };
        assert_eq!(
            wait_details(&fault(Some(5))).as_deref(),
            Some(r#"{"retryAfter":5}"#)
        );
        assert_eq!(wait_details(&fault(None)), None);
    }

    #[test]
    fn an_address_is_shortened_to_its_network() {
        let of = |address: &str| network(address.parse().unwrap());
        assert_eq!(of("203.0.113.77"), "203.0.113.0/24");
        assert_eq!(of("::ffff:203.0.113.77"), "203.0.113.0/24");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1::/48");
    }

    #[test]
    fn a_partner_token_in_upper_case_is_a_token() {
        let token = "54A70546-C132-4FA1-B95C-844D192F9F6E";
        assert!(has_token(token) && has_token(&format!("id={token};")));
        assert!(!has_token("54A70546-C132-4FA1-B95C"));
    }

    #[test]
    fn only_listed_members_of_a_body_are_recorded() {
        let body =
            br#"{"identity":"ann@x.example","accessKey":"hunter22","country":"AT","locale":"pgu_x",
            "name":"Ann","pinCode":"1234","type":{"a":1}}"#;
        let recorded = members(body);
        let shown: Vec<_> = recorded
            .iter()
            .map(|member| (&*member.name, member.value.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("accessKey", MASK),
                ("country", "\"AT\""),
                ("pinCode", MASK)
            ]
        );
        assert!(members(b"[1]").is_empty() && members(b"{").is_empty());
    }
}
