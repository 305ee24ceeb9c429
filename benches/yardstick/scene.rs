//! The requests of a viewer who plays.

#![allow(dead_code, reason = "each benchmark takes what it needs")]

use crate::yardstick::client::{request, send};
use crate::yardstick::load::STAMP;
use crate::yardstick::server::Server;

/// Enough viewers that no session exceeds the highest heartbeat rate that can be configured.
pub const SESSIONS: usize = 256;

/// Starts the demo and returns it with the token of its partner. The limits are raised, because only accepted requests
/// are measured.
pub fn demo(settings: &[(&str, &str)]) -> (Server, String) {
    let limits = [
        ("PLAYGATE_LIMITS_HEARTBEATS_PER_SECOND", "1000"),
        ("PLAYGATE_LIMITS_HEARTBEAT_BURST", "1000"),
        ("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000"),
        ("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "8192"),
    ];
    let server = Server::demo(&[&limits, settings].concat());
    let token = server.greeting_member("partnerToken");
    (server, token)
}

pub struct Requests {
    pub entitlement: Vec<u8>,
    /// Replaces the session of the device.
    pub preflight: Vec<u8>,
    pub beat: Vec<u8>,
    /// By the number of events in a request; the events are new each time.
    pub events: [Vec<u8>; EVENTS.len()],
}

/// Events in a request: one that is sent immediately, what a player collects in about 15 s, and what it sends after it
/// was offline.
pub const EVENTS: [usize; 3] = [1, 10, 100];

/// Signs a user up and prepares playback.
pub fn viewer(server: &Server, partner: &str, livestream: &str, number: usize) -> Requests {
    let sign_up = format!(
        r#"{{"identity":"viewer{number}@bench.example","accessKey":"a long enough secret {number}"}}"#
    );
    let partner_only = [("service-accesstoken", partner)];
    let user = send(
        server,
        &request("PUT", "/api/login/v2/auth/email", &partner_only, &sign_up),
    );
    let bearer = format!("Bearer {}", user.member("token"));
    let both = [
        ("service-accesstoken", partner),
        ("authorization", bearer.as_str()),
    ];
    let path = format!("/api/entitlement/v2/asset/{livestream}");
    let ask = request("POST", &path, &both, "");
    let entitlement = send(server, &ask).member("token");
    let device = format!("bench-device-{number}");
    let mut headers = vec![
        ("Service-AccessToken", partner),
        ("Authorization", bearer.as_str()),
        ("Service-Play-DRM", "clearkey"),
        ("Service-Play-Protocol", "dash"),
        ("Service-Play-EntitlementId", entitlement.as_str()),
        ("Service-Play-DevicePlatform", "linux"),
        ("Service-Play-DeviceType", "desktop"),
        ("Service-Play-DeviceModel", "bench"),
        ("Service-Play-DeviceId", device.as_str()),
    ];
    let path = format!("/api/playback/v2/preflight/asset/{livestream}");
    let preflight = request("POST", &path, &headers, "");
    let session = send(server, &preflight).member("Service-Play-Session");
    headers.extend([
        ("Service-Play-Session", session.as_str()),
        ("Service-Play-Timestamp", "0"),
        ("Service-Play-Bitrate", "2500000"),
        ("Service-Play-ResolutionWidth", "1280"),
        ("Service-Play-ResolutionHeight", "720"),
    ]);
    let event = |number: usize| {
        let action = match number % 10 {
            0 => "playback_buffering",
            1 => "playback_bitrate_changed",
            _ => "playback_position",
        };
        format!(
            r#"{{"timestamp":{STAMP},"source":"APP_ACTION","component":"player/shaka","action":"{action}","seqId":{number},"context":{{"session_id":"{session}","asset_id":"{livestream}","device_id":"{device}","device_type":"desktop","device_model":"bench","device_platform":"linux","network_type":"wifi","playlist_url":"https://cdn.example/live/{livestream}/manifest.mpd","playback_bitrate":2500000,"playback_position":1234.5,"duration":80,"app_version":"3.1.0"}},"extra":{{"player_version":"5.2.12"}}}}"#
        )
    };
    let sent_as = [both[0], both[1], ("content-type", "application/json")];
    let events = EVENTS.map(|count| {
        let batch: Vec<String> = (0..count).map(event).collect();
        let body = format!("[{}]", batch.join(","));
        request("POST", "/api/tracker/v1/telemetry-events", &sent_as, &body)
    });
    Requests {
        entitlement: ask,
        preflight,
        events,
        beat: request("POST", "/api/playback/v1/heartbeat", &headers, ""),
    }
}
