//! The rights of a broadcast explained, and rules in their order.

use serde::Serialize;
use serde_json::Value;

use crate::catalog_file::{rights_to_json, rule_to_json};
use crate::domain::catalog::{Effects, ExplainedRight, Layer, Rule, Source};
use crate::domain::schedule::Broadcast;

/// A rule with its number.
#[derive(Serialize)]
pub struct RuleLine {
    number: usize,
    /// As a catalogue file has it.
    rule: Value,
    /// All of it for a person to read.
    text: String,
}

impl RuleLine {
    /// A rule with its number; the first is 1.
    ///
    /// # Errors
    /// None that a rule can cause.
    pub fn new(number: usize, rule: &Rule) -> serde_json::Result<Self> {
        Ok(Self {
            number,
            rule: rule_to_json(rule)?,
            text: rule.to_string(),
        })
    }
}

/// The rights of a broadcast, with everything that was said of them and whose word counts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyRightsReply {
    broadcast_id: String,
    livestream_id: String,
    title: String,
    start: i64,
    stop: i64,
    /// The zone in which rules read hours of the day.
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

/// What one of those says who say something.
#[derive(Serialize)]
pub struct LayerLine {
    /// `livestream`, `rule 1`, `broadcast`.
    by: String,
    /// Whether it holds for this broadcast.
    applies: bool,
    /// The member of the rule that does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    misfit: Option<&'static str>,
    /// The rule for a person to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// What it says, in the names of catalogue files.
    says: Value,
}

/// One right, and who has the word on it.
#[derive(Serialize)]
pub struct RightLine {
    right: &'static str,
    value: Value,
    by: String,
}

#[derive(Serialize)]
struct Interval {
    from: i64,
    to: i64,
}

impl WhyRightsReply {
    /// The rights of a broadcast explained.
    ///
    /// # Errors
    /// None that rights can cause.
    pub fn new(broadcast: &Broadcast, explained: &ExplainedRight) -> serde_json::Result<Self> {
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
        applies: layer.misfit.is_none(),
        misfit: layer.misfit,
        rule: match &layer.source {
            Source::Rule(_, rule) => Some(rule.to_string()),
            Source::Livestream | Source::Broadcast => None,
        },
        says: rights_to_json(&layer.says)?,
    })
}

fn name(source: &Source) -> String {
    match source {
        Source::Livestream => "livestream".to_owned(),
        Source::Rule(number, _) => format!("rule {number}"),
        Source::Broadcast => "broadcast".to_owned(),
    }
}

/// What is said of one right.
type Said = fn(&Effects) -> Option<Value>;

/// Every right, by its name in catalogue files.
const RIGHTS: [(&str, Said); 7] = [
    ("live", |says| says.live.map(Value::from)),
    ("catchup", |says| says.catchup.map(Value::from)),
    ("catchup_days", |says| says.catchup_days.map(Value::from)),
    ("start_over", |says| says.start_over.map(Value::from)),
    ("pause", |says| says.pause.map(Value::from)),
    ("rewind", |says| says.rewind.map(Value::from)),
    ("fastForward", |says| says.fast_forward.map(Value::from)),
];

fn rights(explained: &ExplainedRight) -> Vec<RightLine> {
    let line = |(right, said): &(&'static str, Said)| {
        let layer = explained.winner(|says| said(says).is_some())?;
        Some(RightLine {
            right,
            value: said(&layer.says)?,
            by: name(&layer.source),
        })
    };
    let mut lines: Vec<RightLine> = RIGHTS.iter().filter_map(line).collect();
    // A layer that takes live rights away takes start-over with it, without a word of its own on it.
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
