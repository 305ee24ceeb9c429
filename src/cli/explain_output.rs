//! Prints why a user may or may not play an asset.

use serde_json::Value;

use super::exit::CommandResult;
use super::output::{self, Tone};

pub(super) fn show(why: &Value, json: bool) -> CommandResult {
    if json {
        return output::json(why);
    }
    let steps = why.get("steps").and_then(Value::as_array);
    for step in steps.into_iter().flatten() {
        let passed = step.get("passed") == Some(&Value::Bool(true));
        let (mark, tone) = if passed {
            ("yes", Tone::Good)
        } else {
            ("no ", Tone::Bad)
        };
        let mark = output::tinted(mark, tone);
        let subject = step.get("subject").map_or(String::new(), |_| {
            format!(" {}", output::text(step, "subject"))
        });
        let (check, finding) = (output::text(step, "check"), output::text(step, "finding"));
        output::line(&format!("{mark}  {check}{subject}: {finding}"))?;
    }
    let is = |member: &str, value: bool| why.get(member) == Some(&Value::Bool(value));
    if !is("granted", true) {
        return output::line(&output::tinted("denied", Tone::Bad));
    }
    if is("playable", false) {
        let playback = steps
            .into_iter()
            .flatten()
            .find(|step| step["check"] == "playback");
        let missing = playback.map_or_else(String::new, |step| output::text(step, "finding"));
        return output::line(&format!("would be granted, but cannot play: {missing}"));
    }
    let granted = if is("pinNeeded", true) {
        "granted, with the PIN"
    } else {
        "granted"
    };
    output::line(&output::tinted(granted, Tone::Good))
}
