//! Reads what a telemetry event says about playback. `docs/quality.md` lists the events that count.

use std::cell::Cell;
use std::sync::Arc;

use super::event_members::{JsonMembers, JsonText};
use playgate_records::quality::{
    BITRATE_MAX, Dimension, Labels, PlayerAction, PlayerEvent, Reported,
};

/// Characters of an id or a code in an event; longer ones are not recognized.
const TEXT_MAX: usize = 128;

/// Returns `None` if the event does not count. Also returns the number of impossible values in its context; the event
/// counts without them.
pub fn player_event(
    action: &str,
    timestamp_millis: i64,
    sequence: i64,
    context: &JsonMembers<'_>,
) -> (Option<PlayerEvent>, u32) {
    let context = EventContext {
        members: context,
        ignored: Cell::new(0),
    };
    let event = player_action(action, &context).map(|action| PlayerEvent {
        action,
        session: context.text("session_id"),
        device: context.text("device_id"),
        timestamp_millis,
        sequence,
        bitrate: context.bitrate(),
        startup: None,
        labels: context.labels(),
    });
    (event, context.ignored.get())
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

struct EventContext<'a> {
    members: &'a JsonMembers<'a>,
    ignored: Cell<u32>,
}

impl EventContext<'_> {
    /// Reads a member. `read` returns `None` for an impossible value, which is counted as ignored.
    fn value<T>(&self, name: &str, read: impl FnOnce(JsonText<'_>) -> Option<T>) -> Option<T> {
        let value = read(self.members.get(name)?);
        if value.is_none() {
            self.ignored.set(self.ignored.get() + 1);
        }
        value
    }

    fn short<T>(&self, name: &str, make: impl FnOnce(&str) -> T) -> Option<T> {
        self.value(name, |value| {
            let text = value.text()?;
            // Some players send an empty id for an absent one.
            (text.chars().count() <= TEXT_MAX).then(|| (!text.is_empty()).then(|| make(&text)))
        })?
    }

    fn text(&self, name: &str) -> Option<Arc<str>> {
        self.short(name, |text| Arc::from(text))
    }

    fn duration(&self, name: &str) -> Option<Reported> {
        self.value(name, |value| Reported::in_unit_of_partner(value.as_f64()?))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    fn bitrate(&self) -> Option<u64> {
        self.value("playback_bitrate", |value| {
            let bitrate = value.as_f64()?;
            let known = (bitrate >= 1.0).then_some(bitrate as u64);
            // Players send 0 before they know the bitrate.
            (0.0..=BITRATE_MAX as f64)
                .contains(&bitrate)
                .then_some(known)
        })?
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
            self.short(name, |text| labels.set(dimension, text));
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::event_members::EventMembers;
    use super::*;

    fn parsed(action: &str, context: Value) -> (Option<PlayerEvent>, u32) {
        let event = json!({ "context": context }).to_string();
        let members = EventMembers::read(&event).unwrap().unwrap();
        player_event(action, 1_000, 7, &members.context)
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
            let event = parsed(action, context).0.unwrap();
            assert_eq!(event.action, expected, "{action}");
        }
        for other in ["app_opened", "", "playback", "failed"] {
            assert_eq!(parsed(other, json!({})), (None, 0), "{other}");
        }
    }

    #[test]
    fn impossible_values_are_ignored_and_counted_and_the_event_counts() {
        for (context, ignored) in [
            (json!({"duration": -1, "playback_bitrate": -5}), 2),
            (json!({"duration": 1e300, "playback_bitrate": 1e300}), 2),
            (json!({"duration": "12", "playback_bitrate": "x"}), 2),
            (json!({"duration": null, "playback_bitrate": 0}), 0),
            (
                json!({"duration": {}, "device_id": "x".repeat(200), "session_id": []}),
                3,
            ),
            (json!({"device_id": "", "app_version": {}}), 1),
            (json!({"later": -1}), 0),
        ] {
            let (event, counted) = parsed("playback_buffering", context.clone());
            let event = event.unwrap();
            assert_eq!(counted, ignored, "{context}");
            assert_eq!(event.action, PlayerAction::Waited(None));
            assert_eq!(
                (event.bitrate, event.device, event.session),
                (None, None, None)
            );
        }
    }
}
