//! What a telemetry event says about playback. `docs/quality.md` lists the events that count.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::domain::quality::{Dimension, Labels, PlayerAction, PlayerEvent, Reported};

use super::telemetry::{member, text_of};

/// Characters of an id or a code in an event; longer ones are not recognized.
const TEXT_MAX: usize = 128;
/// Bits per second. No stream of a platform has more, so a higher value is an error of the player.
const BITRATE_MAX: f64 = 1e9;

/// `None` if the event does not count.
pub(super) fn player_event(
    action: &str,
    timestamp_millis: i64,
    sequence: i64,
    members: &Map<String, Value>,
) -> Option<PlayerEvent> {
    let empty = Map::new();
    let context = member(members, "context")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let context = EventContext(context);
    Some(PlayerEvent {
        action: player_action(action, &context)?,
        session: context.text("session_id"),
        device: context.text("device_id"),
        timestamp_millis,
        sequence,
        bitrate: context.bitrate(),
        startup: None,
        labels: context.labels(),
    })
}

fn player_action(action: &str, context: &EventContext<'_>) -> Option<PlayerAction> {
    let duration = || context.duration("duration");
    Some(match action {
        "playback_request" => PlayerAction::Requested,
        "playback_start" | "playback_started" => {
            PlayerAction::Started(context.duration("startup_duration"))
        }
        "playback_buffering" => match context.text("playback_buffering_type").as_deref() {
            Some("initial") => PlayerAction::InitialWait(duration()),
            Some(_) | None => PlayerAction::Waited(duration()),
        },
        "playback_paused" => PlayerAction::Paused,
        "playback_resumed" => PlayerAction::Playing,
        "playback_bitrate_changed" => PlayerAction::BitrateChanged,
        "playback_stopped" | "playback_ended" => PlayerAction::Stopped,
        other if other == "error" || other.ends_with("_error") || other.ends_with("_failed") => {
            let code = context.text("error_code");
            PlayerAction::Failed(Some(code.unwrap_or_else(|| Arc::from(other))))
        }
        _ => return None,
    })
}

struct EventContext<'a>(&'a Map<String, Value>);

impl EventContext<'_> {
    fn text(&self, name: &str) -> Option<Arc<str>> {
        let text = text_of(member(self.0, name)?)?;
        let fits = !text.is_empty() && text.chars().count() <= TEXT_MAX;
        fits.then(|| Arc::from(text.as_str()))
    }

    fn duration(&self, name: &str) -> Option<Reported> {
        Reported::in_unit_of_partner(member(self.0, name)?.as_f64()?)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    fn bitrate(&self) -> Option<u64> {
        let bitrate = member(self.0, "playback_bitrate")?.as_f64()?;
        (1.0..=BITRATE_MAX)
            .contains(&bitrate)
            .then_some(bitrate as u64)
    }

    fn labels(&self) -> Labels {
        let mut labels = Labels::default();
        for (dimension, name) in [
            (Dimension::Asset, "asset_id"),
            (Dimension::Platform, "device_platform"),
            (Dimension::DeviceType, "device_type"),
            (Dimension::DeviceModel, "device_model"),
            (Dimension::AppVersion, "app_version"),
        ] {
            if let Some(text) = self.text(name) {
                labels.set(dimension, &text);
            }
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(action: &str, context: Value) -> Option<PlayerEvent> {
        let event = json!({ "context": context });
        player_event(action, 1_000, 7, event.as_object().unwrap())
    }

    #[test]
    fn each_action_that_counts_is_recognized() {
        let millis = Reported::in_unit_of_partner(812.5);
        let failed = |code: &str| PlayerAction::Failed(Some(Arc::from(code)));
        let buffering = |kind: &str| json!({"playback_buffering_type": kind, "duration": 812.5});
        for (action, context, expected) in [
            ("playback_request", json!({}), PlayerAction::Requested),
            (
                "playback_started",
                json!({"startup_duration": 812.5}),
                PlayerAction::Started(millis),
            ),
            ("playback_start", json!({}), PlayerAction::Started(None)),
            (
                "playback_buffering",
                buffering("initial"),
                PlayerAction::InitialWait(millis),
            ),
            (
                "playback_buffering",
                buffering("seek"),
                PlayerAction::Waited(millis),
            ),
            ("playback_buffering", json!({}), PlayerAction::Waited(None)),
            ("playback_paused", json!({}), PlayerAction::Paused),
            ("playback_resumed", json!({}), PlayerAction::Playing),
            ("playback_ended", json!({}), PlayerAction::Stopped),
            ("playback_stopped", json!({}), PlayerAction::Stopped),
            ("error", json!({"error_code": 3016}), failed("3016")),
            (
                "drm_license_failed",
                json!({}),
                failed("drm_license_failed"),
            ),
            ("network_error", json!({"error_code": "E1"}), failed("E1")),
        ] {
            let event = parsed(action, context).unwrap();
            assert_eq!(event.action, expected, "{action}");
        }
        for other in ["app_opened", "", "playback", "failed"] {
            assert_eq!(parsed(other, json!({})), None, "{other}");
        }
    }

    #[test]
    fn impossible_values_are_ignored_and_the_event_counts() {
        for context in [
            json!({"duration": -1, "playback_bitrate": -5}),
            json!({"duration": 1e300, "playback_bitrate": 1e300}),
            json!({"duration": "12", "playback_bitrate": "x"}),
            json!({"duration": null, "playback_bitrate": 0}),
            json!({"duration": {}, "device_id": "x".repeat(200), "session_id": []}),
        ] {
            let event = parsed("playback_buffering", context).unwrap();
            assert_eq!(event.action, PlayerAction::Waited(None));
            assert_eq!(
                (event.bitrate, event.device, event.session),
                (None, None, None)
            );
        }
    }
}
