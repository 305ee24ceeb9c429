//! DRM licenses and certificates.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::partner::playback::request::{entitlement, session};
use playgate_domain::playback::{self, RequestTime, Session, license_challenge};
use playgate_http::metrics::LicenseResult;
use playgate_http::pipeline::journal_entry::SERVICE_CERTIFICATE;
use playgate_http::response::reply::media;
use playgate_http::{
    Anyone, ApiError, CombineResults, Context, ErrorCode, HttpState, Input, Object, ParseRequest,
    Payload, Reply, UserAuth,
};
use playgate_ports::license_server::{License, LicenseSubject, Refusal, UpstreamError};
use playgate_process::Turn;
use playgate_process::worker_pool::slots::NoSlot;
use playgate_services::Services;
use playgate_types::{Described, Drm, SessionId, TokenHash, UserId};

crate::openapi::words::words! { ClearKeyLicense => r##"
[requests.ClearKeyRequest]
kids = "KeyIds: Key ids."
type = "any?: Session type as in the EME specification. Ignored."

[operations.license_widevine]
summary = "Get a Widevine license"
text = '''
Checks session, entitlement, rights at the playing position, the DRM system of the preflight, and the key ids if they are readable. Then it forwards the challenge to the operator's license server and returns the license. Requests for the service certificate are forwarded too. A 4xx of the license server is `LICENSE_REFUSED` with its status in `details.status`: do not repeat the request. 429 keeps its `Retry-After`. `Content-Type` is not required. One key id that does not belong to the asset rejects the whole request.'''
headers = ["Service-Play-EntitlementId", "Service-Play-Session"]
send = { text = "The challenge created by the player's DRM system.", media = ["application/octet-stream"], example = "\b\u0001\u0012\n" }
returns."200" = { text = "The license, with the media type set by the license server.", media = ["*/*"], example = "\b\u0002\u0012\n" }
errors = ["ENTITLEMENT_INVALID", "ENTITLEMENT_EXPIRED", "SESSION_MISMATCH", "KEY_NOT_ALLOWED", "DRM_MISMATCH", "NO_LIVE_RIGHTS", "NOT_AVAILABLE", "PIN_CODE_REQUIRED", "ASSET_NOT_FOUND", "SESSION_NOT_FOUND", "SESSION_ENDED", "LICENSE_REFUSED", "LICENSE_SERVER_FAILED", "LICENSE_SERVER_TIMEOUT"]

[operations.license_playready]
summary = "Get a PlayReady license"
text = '''
Works like `license_widevine`. A client that sends `SOAPAction` gets errors as SOAP faults with the status of the error. Faults of the license server are returned unchanged with status 403.'''
like = "license_widevine"

[operations.license_fairplay]
summary = "Get a FairPlay license"
text = "Works like `license_widevine`."
like = "license_widevine"

[operations.license_clearkey]
summary = "Get a Clear Key license"
text = "Returns keys from the catalogue in the format of the EME specification. Meant for laboratories; off in production unless configured."
headers = ["Service-Play-EntitlementId", "Service-Play-Session"]
send = "ClearKeyRequest: Key ids, as created by the player's key system."
returns."200" = "ClearKeyLicense: The keys."
errors = ["ENTITLEMENT_INVALID", "ENTITLEMENT_EXPIRED", "SESSION_MISMATCH", "KEY_NOT_ALLOWED", "DRM_MISMATCH", "NO_LIVE_RIGHTS", "NOT_AVAILABLE", "PIN_CODE_REQUIRED", "ASSET_NOT_FOUND", "SESSION_NOT_FOUND", "SESSION_ENDED", "LICENSE_SERVER_FAILED"]

[operations.license_signed]
summary = "Get a license at a signed address"
text = "The address `licenseSigned` of the preflight, for players that can set an address and no headers. It names and authorizes the session; everything else is as for `license_widevine` and the routes of the other DRM systems."
send = { text = "The challenge created by the player's DRM system.", media = ["application/octet-stream"], example = "\b\u0001\u0012\n" }
returns."200" = { text = "The license.", media = ["*/*"], example = "\b\u0002\u0012\n" }
errors = ["ENTITLEMENT_INVALID", "KEY_NOT_ALLOWED", "NO_LIVE_RIGHTS", "NOT_AVAILABLE", "PIN_CODE_REQUIRED", "SESSION_NOT_FOUND", "SESSION_ENDED", "LICENSE_REFUSED", "LICENSE_SERVER_FAILED", "LICENSE_SERVER_TIMEOUT"]

[operations.fairplay_certificate]
summary = "Get the FairPlay certificate"
text = "The application certificate that a FairPlay player needs before it makes a challenge. `certificate` of the preflight is this address."
returns."200" = { text = "The certificate in DER, shortened in the example.", media = ["application/octet-stream"], example = "0\u0003\u0002\u0001\u0000" }
errors = ["CERTIFICATE_NOT_CONFIGURED"]
"## }

/// Length in bytes of a Widevine request for a service certificate. A license challenge has
/// hundreds.
const CERTIFICATE_REQUEST: std::ops::RangeInclusive<usize> = 2..=4;

pub(crate) async fn license(
    http: &HttpState,
    cx: &Context,
    auth: UserAuth,
    request: LicenseRequest,
) -> Result<Reply, ApiError> {
    let LicenseRequest {
        system: drm,
        challenge,
        kids,
        ..
    } = request;
    let keys = key_names(drm, &challenge, &kids);
    let attempt = playback::LicenseAttempt {
        user: &auth.user(),
        session: Some(request.session),
        token: request.entitlement,
        device: None,
        drm,
        kids: &kids,
        keys: &keys,
        trace: &cx.trace,
    };
    let authorized = http.services.playback.license(&attempt, cx.time());
    // Checked before the license server is called, so that it never sees a request without a right.
    let session = authorized.inspect_err(|_| {
        count(
            http,
            cx,
            drm,
            (auth.user(), request.session),
            LicenseResult::Denied,
        );
    })?;
    let clear_keys = |keys: &[_]| Reply::json(&ClearKeyLicense::new(keys));
    issue(http, cx, &session, challenge, &kids, clear_keys).await
}

/// The address names and authorizes the session, for players that can set an address and no headers.
pub(crate) async fn license_signed(
    http: &HttpState,
    cx: &Context,
    _anyone: Anyone,
    SignedLicenseRequest { token, challenge }: SignedLicenseRequest,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    // Before the check, so that the journal of a refusal names the session too.
    if let Some(named) = services.playback.license_session(&token, cx.server_now) {
        trace_named(cx, &named);
    }
    let session = services.playback.signed_session(&token, cx.server_now)?;
    let drm = session.start.drm;
    let kids = key_ids(drm, &challenge)?;
    let keys = key_names(drm, &challenge, &kids);
    let time = RequestTime {
        partner: cx.server_now + services.lab.clock_offset(&session.start.partner),
        server: cx.server_now,
    };
    let allowed = services
        .playback
        .license_signed(&session, (&kids, &keys), &cx.trace, time);
    allowed.inspect_err(|_| {
        count(
            http,
            cx,
            drm,
            (session.user, session.id),
            LicenseResult::Denied,
        );
    })?;
    // One type for the licenses of all systems: players pass the bytes on.
    let clear_keys = |keys: &[_]| {
        let body = serde_json::to_vec(&ClearKeyLicense::new(keys)).map_err(ApiError::internal)?;
        Ok(Reply::bytes(media::BYTES, body))
    };
    issue(http, cx, &session, challenge, &kids, clear_keys).await
}

/// Records whom a signed address names.
pub(super) fn trace_named(cx: &Context, session: &Session) {
    cx.trace.partner(session.start.partner);
    cx.trace.user(session.user);
    cx.trace.session(session.id);
    cx.trace.asset(&session.start.asset);
}

/// Gets the license of a request that was checked.
async fn issue(
    http: &HttpState,
    cx: &Context,
    session: &Session,
    challenge: Bytes,
    kids: &[[u8; 16]],
    clear_keys: fn(&[([u8; 16], [u8; 16])]) -> Result<Reply, ApiError>,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    let (drm, asset) = (session.start.drm, &session.start.asset);
    let count = |result| count(http, cx, drm, (session.user, session.id), result);
    if drm == Drm::Clearkey {
        let keys = services.playback.clear_keys(asset, kids);
        let keys = keys.inspect_err(|_| count(LicenseResult::Denied))?;
        count(LicenseResult::Issued);
        return clear_keys(&keys);
    }
    let server = services
        .licenses
        .get(drm)
        .ok_or_else(|| not_configured(drm))?;
    let subject = LicenseSubject {
        user: session.user,
        session: session.id,
        // The key ids of the asset, not of the challenge: the license server must not issue keys that a client asks
        // for.
        kids: services.playback.key_ids(asset),
        asset: asset.clone(),
        // License servers compare it with their own clock.
        now: cx.server_now,
    };
    let turn = Turn::for_client(Some(session.start.partner), cx.peer);
    let slot = services.slots.licenses.acquire(drm, session.id, turn).await;
    let _slot = slot.map_err(|refused| {
        count(LicenseResult::NotAsked);
        no_slot(refused)
    })?;
    let certificate = is_certificate(drm, &challenge);
    let asked = Instant::now();
    let answer = server.license(challenge, subject).await;
    cx.trace.step("licenseServer", answer.is_ok(), || {
        let millis = asked.elapsed().as_millis();
        match &answer {
            Ok(_) => format!("answered with a license in {millis} ms"),
            Err(error) => format!("{error}, after {millis} ms"),
        }
    });
    count(match &answer {
        // Counted apart from licenses: every player asks for it once, and it decrypts nothing.
        Ok(_) if certificate => LicenseResult::Certificate,
        Ok(_) => LicenseResult::Issued,
        Err(error) => LicenseResult::from_error(error),
    });
    match answer {
        Ok(license) => Ok(forward(license)),
        // The refusal of the license server reaches the player unchanged, with 403: neither this
        // service nor the license server has failed.
        Err(UpstreamError::Refused(Refusal {
            fault: Some(fault), ..
        })) => Ok(forward(fault).with_status(StatusCode::FORBIDDEN)),
        Err(error) => Err(error.into()),
    }
}

fn no_slot(refused: NoSlot) -> ApiError {
    match refused {
        NoSlot::Session => ApiError::new(
            ErrorCode::RateLimited,
            "too many license requests of this session are waiting; see Retry-After",
        ),
        NoSlot::All => ApiError::new(
            ErrorCode::Overloaded,
            "too many license requests are waiting; try again shortly",
        ),
    }
}

fn count(
    http: &HttpState,
    cx: &Context,
    drm: Drm,
    (user, session): (UserId, SessionId),
    result: LicenseResult,
) {
    http.metrics.license(drm, result);
    if matches!(result, LicenseResult::Denied | LicenseResult::Refused) {
        let quality = &http.services.quality;
        quality.license_refused(&user, session, cx.server_now);
    }
}

fn is_certificate(drm: Drm, challenge: &[u8]) -> bool {
    drm == Drm::Widevine && CERTIFICATE_REQUEST.contains(&challenge.len())
}

/// The key ids of a challenge, or what tells it from others if they cannot be read.
fn key_names(drm: Drm, challenge: &[u8], kids: &[[u8; 16]]) -> String {
    const SHOWN: usize = 16;
    if is_certificate(drm, challenge) {
        return SERVICE_CERTIFICATE.to_owned();
    }
    if kids.is_empty() {
        let hash = ring::digest::digest(&ring::digest::SHA256, challenge);
        let start = hash.as_ref().first_chunk::<6>();
        return format!(
            "not readable in challenge {}",
            HEXLOWER.encode(start.map_or(&[], |s| s))
        );
    }
    let shown = kids.iter().take(SHOWN);
    let names: Vec<String> = shown.map(|kid| HEXLOWER.encode(kid)).collect();
    names.join(" ")
}

fn forward(License { media, body }: License) -> Reply {
    Reply::bytes(media.unwrap_or(media::BYTES), body)
}

fn not_configured(drm: Drm) -> ApiError {
    let name = drm.as_str();
    ApiError::new(
        ErrorCode::LicenseServerFailed,
        format!("no license server is configured for {name}: set `license.{name}.url`"),
    )
}

pub(crate) async fn fairplay_certificate(
    services: &Services,
    _cx: &Context,
    _anyone: Anyone,
) -> Result<Reply, ApiError> {
    match &services.licenses.fairplay_certificate {
        Some(certificate) => Ok(Reply::bytes(media::BYTES, certificate.clone())),
        None => Err(ApiError::new(
            ErrorCode::CertificateNotConfigured,
            "no certificate is configured: set `license.fairplay.certificate`",
        )),
    }
}

pub(crate) struct LicenseRequest {
    pub system: Drm,
    pub session: SessionId,
    pub entitlement: Option<TokenHash>,
    pub challenge: Bytes,
    pub kids: Vec<[u8; 16]>,
}

impl ParseRequest for LicenseRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        // `/api/playback/v1/{drm}/license`: one route for each system, as their requests differ.
        let system = input.path.split('/').nth(4).and_then(Drm::parse);
        let system = system.ok_or_else(|| ApiError::internal("no DRM system in the path"))?;
        let challenge = payload.whole()?;
        let (entitlement, session, kids) = (
            entitlement(input),
            session(input),
            key_ids(system, &challenge),
        )
            .combine()?;
        Ok(Self {
            system,
            session,
            entitlement,
            challenge,
            kids,
        })
    }
}

/// A license request at the address that authorizes it. The session knows the DRM system.
pub(crate) struct SignedLicenseRequest {
    pub token: String,
    pub challenge: Bytes,
}

impl ParseRequest for SignedLicenseRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: input.text("token")?.into_owned(),
            challenge: payload.whole()?,
        })
    }
}

/// The key ids that a challenge names, as far as they can be read.
pub(crate) fn key_ids(system: Drm, challenge: &[u8]) -> Result<Vec<[u8; 16]>, ApiError> {
    match system {
        Drm::Clearkey => clear_key_ids(challenge),
        Drm::Widevine | Drm::Playready | Drm::Fairplay | Drm::None => {
            license_challenge::key_ids(system, challenge)
                .map_err(|why| ApiError::malformed(format!("the challenge {}", why.0)))
        }
    }
}

const KIDS_MAX: usize = 64;

#[derive(Debug, Deserialize)]
struct ClearKeyRequest<'a> {
    #[serde(borrow)]
    kids: Vec<Cow<'a, str>>,
}

fn clear_key_ids(challenge: &[u8]) -> Result<Vec<[u8; 16]>, ApiError> {
    // Enforces the rules of all JSON bodies: one object, no duplicate members, bounded depth.
    Object::read(challenge).check()?;
    // Borrowed from the challenge: a license request is parsed while a viewer waits for the picture.
    let request: ClearKeyRequest<'_> = serde_json::from_slice(challenge)
        .map_err(|_| ApiError::field("kids", "must be a list of key ids"))?;
    if request.kids.is_empty() || request.kids.len() > KIDS_MAX {
        return Err(ApiError::field("kids", "must have 1 to 64 key ids"));
    }
    let mut kids = Vec::with_capacity(request.kids.len());
    // All wrong ids are reported together.
    let mut wrong: Option<ApiError> = None;
    for (at, text) in request.kids.iter().enumerate() {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
        match bytes.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()) {
            Some(kid) => kids.push(kid),
            None => {
                let why = "must be a key id: 16 bytes in base64url";
                let error = ApiError::field(format!("kids[{at}]"), why);
                wrong = Some(match wrong {
                    Some(first) => first.and(error),
                    None => error,
                });
            }
        }
    }
    wrong.map_or(Ok(kids), Err)
}

#[derive(Described, Serialize)]
struct ClearKey {
    /// Type of the key (RFC 7517). Always `oct`.
    kty: &'static str,
    /// Key id in base64url.
    kid: String,
    /// Key in base64url.
    k: String,
}

#[derive(Described, Serialize)]
pub(crate) struct ClearKeyLicense {
    /// The keys of the key ids that were asked for.
    keys: Vec<ClearKey>,
    /// Type of the license. Always `temporary`.
    r#type: &'static str,
}

impl ClearKeyLicense {
    pub(crate) fn new(keys: &[([u8; 16], [u8; 16])]) -> Self {
        let key = |(kid, key): &([u8; 16], [u8; 16])| ClearKey {
            kty: "oct",
            kid: BASE64URL_NOPAD.encode(kid),
            k: BASE64URL_NOPAD.encode(key),
        };
        Self {
            keys: keys.iter().map(key).collect(),
            // The session type of Encrypted Media Extensions: players do not store the keys.
            r#type: "temporary",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_key_request_yields_its_key_ids() {
        let ids = clear_key_ids(br#"{"kids":["AAAAAAAAAAAAAAAAAAAAAQ"],"type":"temporary"}"#);
        let mut kid = [0; 16];
        kid[15] = 1;
        assert_eq!(ids.unwrap(), [kid]);
    }

    #[test]
    fn malformed_clear_key_request_is_rejected() {
        let many = format!(
            r#"{{"kids":[{}]}}"#,
            vec![r#""AAAAAAAAAAAAAAAAAAAAAQ""#; 65].join(",")
        );
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"kids":[]}"#,
            r#"{"kids":"AAAAAAAAAAAAAAAAAAAAAQ"}"#,
            r#"{"kids":["AAAAAAAAAAAAAAAAAAAAAQ=="]}"#,
            r#"{"kids":["AAAA"]}"#,
            r#"{"kids":[1]}"#,
            r#"{"kids":["AAAAAAAAAAAAAAAAAAAAAQ"],"kids":[]}"#,
            &many,
        ] {
            assert!(clear_key_ids(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn clear_key_license_follows_the_eme_specification() {
        let mut kid = [0; 16];
        kid[15] = 1;
        let license = serde_json::to_value(ClearKeyLicense::new(&[(kid, [0xff; 16])])).unwrap();
        assert_eq!(
            license,
            serde_json::json!({
                "keys": [{
                    "kty": "oct",
                    "kid": "AAAAAAAAAAAAAAAAAAAAAQ",
                    "k": "_____________________w",
                }],
                "type": "temporary",
            })
        );
    }
}
