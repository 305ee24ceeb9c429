//! Bodies of entitlement, preflight, license, devices and playback sessions.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::partner::devices::DeviceBody;
use crate::partner::sessions::PlaybackSession;
use playgate_domain::playback::model::Entitlement;
use playgate_domain::playback::{self, Issued};
use playgate_types::{AssetId, BroadcastId, Described, JsonType, UnixSeconds};

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Program {
    /// Id of the broadcast.
    broadcast_id: BroadcastId,
    /// Time at which the program ends.
    stop: UnixSeconds,
}

#[derive(Described, Serialize)]
pub(crate) struct EntitlementBody<'a> {
    /// Entitlement Token. Valid for 24 hours by default, never longer than the right it is based on. It is bound to the
    /// first device that uses it at preflight.
    #[described(JsonType::Named("EntitlementToken"))]
    token: &'a str,
    /// Time at which the token expires.
    expires: UnixSeconds,
    /// Current program of a livestream. Ask for entitlement again when it ends. Absent for other assets and if no program
    /// is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<Program>,
}

impl<'a> EntitlementBody<'a> {
    pub(crate) fn new(issued: &'a Issued) -> Self {
        let program = issued.program.as_ref().map(|(id, stop)| Program {
            broadcast_id: id.clone(),
            stop: *stop,
        });
        Self {
            token: issued.token.reveal(),
            expires: issued.expires,
            program,
        }
    }
}

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Preflight {
    /// Address of the manifest (DASH or HLS) that the player loads.
    pub playlist: String,
    /// Address for license requests. Absent if the asset is not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Address for license requests that needs no headers. It authorizes licenses of this session only, for as long as the
    /// entitlement is valid. Absent if the asset is not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license_signed: Option<String>,
    /// Address to which the player sends its heartbeats.
    pub heartbeat: String,
    /// Interval between heartbeats in seconds: 10.
    pub heartbeat_interval: u32,
    /// Headers that the player must send unchanged with every license and heartbeat request.
    pub headers: BTreeMap<String, String>,
    /// Address of the FairPlay certificate. Present for FairPlay only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Where the player may report playback by CMCD in event mode.
    pub cmcd: CmcdTarget,
}

/// Where a player reports its playback, by CMCD in event mode.
#[derive(Debug, Described, Serialize)]
pub(crate) struct CmcdTarget {
    /// Address. It authorizes reports about this session only, and needs no headers.
    pub url: String,
    /// Version of CMCD: 2.
    pub version: u8,
}

/// An entitlement in an export. Its token is not included: only the hash is stored.
#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportedEntitlement {
    /// Asset that may be played.
    asset_id: AssetId,
    /// Broadcast that the entitlement was issued for. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    broadcast_id: Option<BroadcastId>,
    /// Time at which the entitlement was issued.
    issued: UnixSeconds,
    /// Time at which the entitlement expires.
    expires: UnixSeconds,
}

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlaybackExport {
    /// Devices that are registered for the user.
    devices: Vec<DeviceBody>,
    /// Playback sessions that are running.
    playback_sessions: Vec<PlaybackSession>,
    /// Entitlements. Their tokens are stored as hashes only and are not included.
    entitlements: Vec<ExportedEntitlement>,
}

impl From<playback::PlaybackData> for PlaybackExport {
    fn from(export: playback::PlaybackData) -> Self {
        let line = |held: &Entitlement| ExportedEntitlement {
            asset_id: held.asset.clone(),
            broadcast_id: held.program.clone(),
            issued: held.issued,
            expires: held.expires,
        };
        Self {
            devices: export.devices.into_iter().map(DeviceBody::from).collect(),
            playback_sessions: export
                .sessions
                .into_iter()
                .map(PlaybackSession::for_user)
                .collect(),
            entitlements: export.entitlements.iter().map(line).collect(),
        }
    }
}
