//! Bodies of entitlement, preflight, license, devices and playback sessions.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::partner::devices::DeviceBody;
use crate::partner::sessions::PlaybackSessionBody;
use playgate_domain::playback::model::Entitlement;
use playgate_domain::playback::{self, Issued};

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
