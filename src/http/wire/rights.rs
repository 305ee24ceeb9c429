//! The explanation of a broadcast's rights, and the list of rules.

use serde::Serialize;
use serde_json::Value;

use crate::catalog_file::{rights_to_json, rule_to_json};
use crate::domain::catalog::{Effects, ExplainedRight, Layer, Rule, Source};
use crate::domain::schedule::Broadcast;

#[derive(Serialize)]
pub(crate) struct RuleLine {
    number: usize,
    rule: Value,
    /// The rule as one line of text.
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
        let facts = &broadcast.facts;
        let categories = facts.categories.iter();
        Ok(Self {
            broadcast_id: broadcast.id.as_str().to_owned(),
            livestream_id: explained.livestream.id.as_str().to_owned(),
            title: facts.title.to_string(),
            start: broadcast.start.0,
            stop: broadcast.stop.0,
            zone: explained.livestream.zone.name(),
            categories: categories.map(|one| one.to_string()).collect(),
            pg_age: facts.pg_age,
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

/// Each right with the layer that decides it, in one line.
pub(crate) fn deciding_rules(explained: &ExplainedRight) -> String {
    let lines = rights(explained);
    let lines = lines
        .iter()
        .map(|line| format!("{} {} by {}", line.right, line.value, line.by));
    lines.collect::<Vec<_>>().join(", ")
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
