//! Bodies of entitlement, preflight, license, devices and playback sessions.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use serde::Serialize;

use crate::partner::login::answer::LoginLine;
use playgate_domain::playback::model::Entitlement;
use playgate_domain::playback::{self, Issued, Registered, SessionView};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProgramBody {
    broadcast_id: String,
    stop: i64,
}

#[derive(Serialize)]
pub(crate) struct EntitlementBody<'a> {
    token: &'a str,
    expires: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<ProgramBody>,
}

impl<'a> EntitlementBody<'a> {
    #[must_use]
    pub(crate) fn new(issued: &'a Issued) -> Self {
        let program = issued.program.as_ref().map(|(id, stop)| ProgramBody {
            broadcast_id: id.as_str().to_owned(),
            stop: stop.0,
        });
        Self {
            token: issued.token.reveal(),
            expires: issued.expires.0,
            program,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreflightBody {
    pub playlist: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Needs no headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license_signed: Option<String>,
    pub heartbeat: String,
    pub heartbeat_interval: u32,
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    pub cmcd: CmcdTarget,
}

/// Where a player reports its playback, by CMCD in event mode.
#[derive(Debug, Serialize)]
pub(crate) struct CmcdTarget {
    pub url: String,
    pub version: u8,
}

#[derive(Serialize)]
struct ClearKey {
    kty: &'static str,
    kid: String,
    k: String,
}

#[derive(Serialize)]
pub(crate) struct ClearKeyBody {
    keys: Vec<ClearKey>,
    r#type: &'static str,
}

impl ClearKeyBody {
    #[must_use]
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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceBody {
    device_id: String,
    device_platform: String,
    device_type: String,
    device_model: String,
    since: i64,
    last_start: i64,
}

impl From<Registered> for DeviceBody {
    fn from(registered: Registered) -> Self {
        let device = registered.device;
        Self {
            device_id: device.id.as_str().to_owned(),
            device_platform: device.platform,
            device_type: device.kind,
            device_model: device.model,
            since: registered.since.0,
            last_start: registered.latest.0,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum SessionBody {
    Login(LoginLine),
    Playback(Box<PlaybackSessionBody>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlaybackSessionBody {
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    asset_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    broadcast_id: Option<String>,
    device_id: String,
    device_model: String,
    device_platform: String,
    device_type: String,
    drm: &'static str,
    protocol: &'static str,
    since: i64,
    last_seen: i64,
    bitrate: u64,
    resolution_width: u32,
    resolution_height: u32,
}

impl PlaybackSessionBody {
    #[must_use]
    pub(crate) fn for_user(view: SessionView) -> Self {
        let (width, height) = view.resolution;
        Self {
            session_id: view.id.to_string(),
            // Omitted, because it is the user's own list.
            user_id: None,
            email: None,
            asset_id: view.asset.as_str().to_owned(),
            broadcast_id: view.program.map(|id| id.as_str().to_owned()),
            device_id: view.device.id.as_str().to_owned(),
            device_model: view.device.model,
            device_platform: view.device.platform,
            device_type: view.device.kind,
            drm: view.drm.as_str(),
            protocol: view.protocol.as_str(),
            since: view.since.0,
            last_seen: view.seen.0,
            bitrate: view.bitrate,
            resolution_width: width,
            resolution_height: height,
        }
    }

    /// A session for an operator, with the e-mail address of its user if the user still exists.
    #[must_use]
    pub(crate) fn for_operator(view: SessionView, email: Option<String>) -> Self {
        let user = view.user.to_string();
        Self {
            user_id: Some(user),
            email,
            ..Self::for_user(view)
        }
    }
}

/// An entitlement in an export. Its token is not included: only the hash is stored.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EntitlementLine {
    asset_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    broadcast_id: Option<String>,
    issued: i64,
    expires: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlaybackExport {
    devices: Vec<DeviceBody>,
    playback_sessions: Vec<PlaybackSessionBody>,
    entitlements: Vec<EntitlementLine>,
}

impl From<playback::PlaybackData> for PlaybackExport {
    fn from(export: playback::PlaybackData) -> Self {
        let line = |held: &Entitlement| EntitlementLine {
            asset_id: held.asset.as_str().to_owned(),
            broadcast_id: held.program.as_ref().map(|id| id.as_str().to_owned()),
            issued: held.issued.0,
            expires: held.expires.0,
        };
        Self {
            devices: export.devices.into_iter().map(DeviceBody::from).collect(),
            playback_sessions: export
                .sessions
                .into_iter()
                .map(PlaybackSessionBody::for_user)
                .collect(),
            entitlements: export.entitlements.iter().map(line).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_key_license_follows_the_eme_specification() {
        let mut kid = [0; 16];
        kid[15] = 1;
        let license = serde_json::to_value(ClearKeyBody::new(&[(kid, [0xff; 16])])).unwrap();
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
