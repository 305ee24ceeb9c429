//! Prints why a user may or may not play an asset.

use clap::Args;
use serde_json::Value;

use crate::client::time_arg::{TimeArg, server_time};
use crate::client::{Admin, with_query};
use crate::output::members::elements;
use crate::output::{self, CommandResult, Tone};

#[derive(Args)]
pub(crate) struct WhyQuestion {
    /// Id of a livestream, broadcast or video on demand
    pub(crate) asset: String,
    /// Seconds back from the live point, such as -1800
    #[arg(long, allow_hyphen_values = true)]
    offset: Option<String>,
    /// The user's country, such as SE
    #[arg(long)]
    country: Option<String>,
    /// Device id: also says whether this device could be registered
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    device: Option<String>,
    /// Explain the last decision up to this time, from the request journal: 20:14 or "yesterday 20:14" in `schedule.zone`, RFC
    /// 3339, Unix seconds, or a span such as -15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["offset", "country", "device"])]
    at: Option<TimeArg>,
}

pub(crate) async fn why(
    admin: &mut Admin,
    target: String,
    question: &WhyQuestion,
    json: bool,
) -> CommandResult {
    let now = server_time(admin).await?;
    let at = question.at.map(|time| time.at(now).to_string());
    let parameters = [
        ("offset", question.offset.as_deref()),
        ("country", question.country.as_deref()),
        ("device", question.device.as_deref()),
        ("at", at.as_deref()),
    ];
    let why = admin.get(&with_query(target, &parameters)).await?;
    if !json {
        output::line(&format!("{}\n", explained(&why, question, now)))?;
    }
    show(&why, json)
}

/// What is explained: the request of the journal, or one that the user would make now.
fn explained(why: &Value, question: &WhyQuestion, now: i64) -> String {
    let names: Vec<_> = ["title", "livestreamName"]
        .into_iter()
        .filter(|member| why.get(member).is_some())
        .map(|member| output::text(why, member))
        .collect();
    let asset = match names.is_empty() {
        true => question.asset.clone(),
        false => format!("{} ({})", names.join(", "), question.asset),
    };
    let time = |at| output::instant(at).unwrap_or_default();
    match (why["at"].as_i64(), why["requestId"].as_str()) {
        (Some(at), Some(id)) => {
            let route = output::text(why, "route");
            format!("{route} of {asset} at {}, request {id}:", time(at))
        }
        _ => format!(
            "entitlement of {asset}, as it would be answered at {}:",
            time(now)
        ),
    }
}

pub(crate) fn show_step(step: &Value) -> CommandResult {
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
    output::line(&format!("{mark}  {check}{subject}: {finding}"))
}

pub(crate) fn show(why: &Value, json: bool) -> CommandResult {
    if json {
        return output::json(why);
    }
    let steps = elements(why, "steps");
    steps.iter().try_for_each(show_step)?;
    let is = |member: &str, value: bool| why.get(member) == Some(&Value::Bool(value));
    if !is("granted", true) {
        let code = why.get("code").map(|_| output::text(why, "code"));
        let code = code.map_or_else(String::new, |code| format!(" ({code})"));
        let reason = why.get("reason").map(|_| output::text(why, "reason"));
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let denied = output::tinted("denied", Tone::Bad);
        return output::line(&format!("{denied}{code}{reason}"));
    }
    // The rights are granted, but a limit on devices or streams, or a missing playlist, prevents playback.
    if is("playable", false) {
        let playback = steps.iter().find(|step| {
            let limits = ["devices", "streams", "playback"].map(Value::from);
            limits.contains(&step["check"]) && step["passed"] == false
        });
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
