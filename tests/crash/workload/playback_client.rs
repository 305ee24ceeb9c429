//! Playback as a client requests it: entitlement, preflight, heartbeats, stop.

use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::Client;
use crate::harness::client::{Connection, Response};
use crate::harness::raw_http::Answer;

const HEARTBEAT: &str = "/api/playback/v1/heartbeat";

#[derive(Clone)]
pub struct Stream {
    pub id: String,
    entitlement: String,
    device: String,
}

impl Stream {
    /// `preflight` must have been answered 200.
    pub fn from_preflight(preflight: &Answer, entitlement: &str, device: &str) -> Self {
        let id = &preflight.json()["headers"]["Service-Play-Session"];
        Self {
            id: id.as_str().unwrap().to_owned(),
            entitlement: entitlement.to_owned(),
            device: device.to_owned(),
        }
    }
}

impl Client {
    pub fn entitle(&self, line: &mut Connection) -> Response {
        let target = "/api/entitlement/v2/asset/clear";
        self.ask(line, "POST", target, &[], &Value::Null)
    }

    pub fn preflight(&self, line: &mut Connection, entitlement: &str, device: &str) -> Response {
        let target = "/api/playback/v2/preflight/asset/clear";
        let headers = headers(entitlement, device);
        self.ask(line, "POST", target, &headers, &Value::Null)
    }

    pub fn beat(&self, line: &mut Connection, stream: &Stream) -> Response {
        let now = UNIX_EPOCH.elapsed().unwrap().as_secs().to_string();
        let mut headers = headers(&stream.entitlement, &stream.device);
        headers.extend([
            ("Service-Play-Session", stream.id.as_str()),
            ("Service-Play-Timestamp", now.as_str()),
            ("Service-Play-Bitrate", "2500000"),
            ("Service-Play-ResolutionWidth", "1280"),
            ("Service-Play-ResolutionHeight", "720"),
        ]);
        self.ask(line, "POST", HEARTBEAT, &headers, &Value::Null)
    }

    pub fn stop(&self, line: &mut Connection, stream: &Stream) -> Response {
        let headers = [("Service-Play-Session", stream.id.as_str())];
        self.ask(line, "DELETE", HEARTBEAT, &headers, &Value::Null)
    }
}

fn headers<'a>(entitlement: &'a str, device: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("Service-Play-DRM", "none"),
        ("Service-Play-Protocol", "hls"),
        ("Service-Play-EntitlementId", entitlement),
        ("Service-Play-DevicePlatform", "linux"),
        ("Service-Play-DeviceType", "tv"),
        ("Service-Play-DeviceModel", "Model"),
        ("Service-Play-DeviceId", device),
    ]
}

/// `entitlement` must have been answered 200.
pub fn token(entitlement: &Answer) -> String {
    entitlement.json()["token"].as_str().unwrap().to_owned()
}
