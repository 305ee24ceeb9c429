//! The explanation of a broadcast's rights, and the list of rules.

use serde::Serialize;
use serde_json::Value;

use crate::catalog_file::{rights_to_json, rule_to_json};
use crate::domain::catalog::{CatalogSnapshot, Effects, ExplainedRight, Layer, Rule, Source};
use crate::domain::decision::DecisionStep;
use crate::domain::decision::RightsSource;
use crate::domain::schedule::{Broadcast, Schedule};

#[derive(Serialize)]
pub(crate) struct RuleLine {
    number: usize,
    rule: Value,
    text: String,
}

impl RuleLine {
    pub(crate) fn new(number: usize, rule: &Rule) -> serde_json::Result<Self> {
        Ok(Self {
            number,
            rule: rule_to_json(rule)?,
            text: rule.to_string(),
        })
    }
}

/// The effective rights of a broadcast, with all layers and the layer that determines each right.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainRightsReply {
    broadcast_id: String,
    livestream_id: String,
    title: String,
    start: i64,
    stop: i64,
    zone: &'static str,
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pg_age: Option<u8>,
    layers: Vec<LayerLine>,
    rights: Vec<RightLine>,
    live_available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    catchup_interval: Option<Interval>,
}

/// One layer: the livestream's defaults, a rule, or the override of the broadcast.
#[derive(Serialize)]
pub(crate) struct LayerLine {
    by: String,
    applies: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    misfit: Option<&'static str>,
    /// The rule as one line of text.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    says: Value,
}

#[derive(Serialize)]
pub(crate) struct RightLine {
    right: &'static str,
    value: Value,
    by: String,
}

#[derive(Serialize)]
struct Interval {
    from: i64,
    to: i64,
}

impl ExplainRightsReply {
    pub(crate) fn new(
        broadcast: &Broadcast,
        explained: &ExplainedRight,
    ) -> serde_json::Result<Self> {
        let layers: serde_json::Result<_> = explained.layers.iter().map(layer).collect();
        let metadata = &broadcast.metadata;
        let categories = metadata.categories.iter();
        Ok(Self {
            broadcast_id: broadcast.id.as_str().to_owned(),
            livestream_id: explained.livestream.id.as_str().to_owned(),
            title: metadata.title.to_string(),
            start: broadcast.start.0,
            stop: broadcast.stop.0,
            zone: explained.livestream.zone.name(),
            categories: categories.map(|one| one.to_string()).collect(),
            pg_age: metadata.pg_age,
            layers: layers?,
            rights: rights(explained),
            live_available: explained.rights.live,
            catchup_interval: explained.rights.catchup.map(|(from, to)| Interval {
                from: from.0,
                to: to.0,
            }),
        })
    }
}

fn layer(layer: &Layer) -> serde_json::Result<LayerLine> {
    Ok(LayerLine {
        by: name(&layer.source),
        applies: layer.mismatch.is_none(),
        misfit: layer.mismatch,
        rule: match &layer.source {
            Source::Rule(_, rule) => Some(rule.to_string()),
            Source::Livestream | Source::Broadcast => None,
        },
        says: rights_to_json(&layer.effects)?,
    })
}

fn name(source: &Source) -> String {
    match source {
        Source::Livestream => "livestream".to_owned(),
        Source::Rule(number, _) => format!("rule {number}"),
        Source::Broadcast => "broadcast".to_owned(),
    }
}

type Getter = fn(&Effects) -> Option<Value>;

/// All rights, by their names in catalogue files.
const RIGHTS: [(&str, Getter); 7] = [
    ("live", |says| says.live.map(Value::from)),
    ("catchup", |says| says.catchup.map(Value::from)),
    ("catchup_days", |says| says.catchup_days.map(Value::from)),
    ("start_over", |says| says.start_over.map(Value::from)),
    ("pause", |says| says.pause.map(Value::from)),
    ("rewind", |says| says.rewind.map(Value::from)),
    ("fastForward", |says| says.fast_forward.map(Value::from)),
];

/// Makes the step of a refusal that names what withholds the rights at a position. Reads the broadcast from disk; a
/// failure only omits the step.
pub(crate) fn rule_step(
    schedule: &Schedule,
    catalog: &CatalogSnapshot,
    source: &RightsSource,
) -> Option<DecisionStep> {
    let (subject, finding) = match source {
        RightsSource::LivestreamDefaults => {
            let finding =
                "the schedule has no program at this position, so the livestream's defaults decide";
            (None, finding.to_owned())
        }
        RightsSource::Program(id) => {
            let (livestream, broadcast) = schedule.broadcast(id).ok()??;
            let explained = catalog.explain(&livestream, &broadcast)?;
            let (title, layers) = (&broadcast.metadata.title, withholding_layers(&explained));
            (Some(id.as_str().to_owned()), format!("`{title}`: {layers}"))
        }
    };
    Some(DecisionStep {
        check: "rule".into(),
        subject,
        finding,
        passed: false,
    })
}

/// Lists the withheld rights, or all of them if none is withheld, with their layers. Rules are quoted, because their
/// numbers change.
fn withholding_layers(explained: &ExplainedRight) -> String {
    let all = rights(explained);
    let withheld = |line: &&RightLine| line.value == Value::Bool(false);
    let shown: Vec<&RightLine> = match all.iter().any(|line| withheld(&line)) {
        true => all.iter().filter(withheld).collect(),
        false => all.iter().collect(),
    };
    let mut lines: Vec<String> = shown
        .iter()
        .map(|line| format!("{} {} by {}", line.right, line.value, line.by))
        .collect();
    lines.extend(explained.layers.iter().filter_map(|layer| {
        let by = name(&layer.source);
        match &layer.source {
            Source::Rule(_, rule) if shown.iter().any(|line| line.by == by) => {
                Some(format!("{by} is `{rule}`"))
            }
            Source::Rule(..) | Source::Livestream | Source::Broadcast => None,
        }
    }));
    lines.join(", ")
}

fn rights(explained: &ExplainedRight) -> Vec<RightLine> {
    let line = |(right, said): &(&'static str, Getter)| {
        let layer = explained.winner(|says| said(says).is_some())?;
        Some(RightLine {
            right,
            value: said(&layer.effects)?,
            by: name(&layer.source),
        })
    };
    let mut lines: Vec<RightLine> = RIGHTS.iter().filter_map(line).collect();
    // Removing live rights also removes start-over, even if no layer sets it.
    let blackout = explained.winner(|says| says.live.is_some());
    let start_over = lines.iter_mut().find(|line| line.right == "start_over");
    if let (Some(line), Some(blackout)) = (start_over, blackout)
        && line.value == Value::Bool(true)
        && !explained.rights.start_over
    {
        line.value = Value::Bool(false);
        line.by = name(&blackout.source);
    }
    lines
}
