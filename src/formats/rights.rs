//! The explanation of a broadcast's rights, and the list of rules.

use serde::Serialize;
use serde_json::Value;

use crate::catalog_file::{rights_to_json, rule_to_json};
use playgate_domain::catalog::{CatalogSnapshot, Effects, ExplainedRight, Layer, Rule, Source};
use playgate_domain::decision::{DecisionStep, RightsRefusal, RightsSource};
use playgate_domain::schedule::{Broadcast, Schedule};
use playgate_types::{BroadcastId, Described, JsonType, LivestreamId, UnixSeconds};

#[derive(Described, Serialize)]
pub struct RuleLine {
    /// Number used to remove the rule. The first is 1. Later rules override earlier ones.
    number: usize,
    /// The rule as an object, as the catalogue file has it.
    #[described(JsonType::Named("Rule"))]
    rule: Value,
    /// The rule in human-readable form. After 120 characters it is cut and ends with a checksum.
    text: String,
}

impl RuleLine {
    pub fn new(number: usize, rule: &Rule) -> serde_json::Result<Self> {
        Ok(Self {
            number,
            rule: rule_to_json(rule)?,
            text: rule.to_string(),
        })
    }
}

/// The effective rights of a broadcast, with all layers and the layer that determines each right.
#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RightsExplained {
    /// Id of the broadcast.
    broadcast_id: BroadcastId,
    /// Id of the livestream of the broadcast.
    livestream_id: LivestreamId,
    /// Name of the livestream of the broadcast.
    livestream_name: String,
    /// Title of the broadcast.
    title: String,
    /// Usually the title of the episode. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    subtitle: Option<String>,
    /// Number of the season. Absent if not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    season: Option<u16>,
    /// Number of the episode in its season. Absent if not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    episode: Option<u16>,
    /// Description of the broadcast. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Start time, inclusive.
    start: UnixSeconds,
    /// End time, exclusive.
    stop: UnixSeconds,
    /// Time zone in which rules evaluate times of day.
    zone: &'static str,
    /// Categories of the broadcast. Empty if there are none.
    categories: Vec<String>,
    /// Minimum age. Absent if not rated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("Age"))]
    pg_age: Option<u8>,
    /// All layers of rights. Later layers override earlier ones.
    layers: Vec<RightsLayer>,
    /// The rights that result from the layers.
    rights: Vec<RightLine>,
    /// Whether the broadcast may be watched live.
    live_available: bool,
    /// Period in which catch-up is available. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    catchup_interval: Option<Interval>,
}

/// One layer: the livestream's defaults, a rule, or the override of the broadcast.
#[derive(Described, Serialize)]
pub(crate) struct RightsLayer {
    /// Origin of the layer: `livestream`, `rule 1`, `broadcast`.
    by: String,
    /// Whether the layer applies to this broadcast.
    applies: bool,
    /// Condition of the rule that does not match. Absent if all match.
    #[serde(skip_serializing_if = "Option::is_none")]
    mismatch: Option<&'static str>,
    /// The rule in human-readable form. Absent if the layer is not a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Rights that the layer sets, with the names of the catalogue file.
    #[described(JsonType::AnyObject)]
    effects: Value,
}

#[derive(Described, Serialize)]
pub(crate) struct RightLine {
    /// Name of the right in the catalogue file.
    right: &'static str,
    /// Value that results from the layers.
    #[described(JsonType::Any)]
    value: Value,
    /// Layer that sets the effective value.
    by: String,
}

#[derive(Described, Serialize)]
struct Interval {
    /// Begin of the period, inclusive.
    from: UnixSeconds,
    /// End of the period, exclusive.
    to: UnixSeconds,
}

impl RightsExplained {
    pub fn new(broadcast: &Broadcast, explained: &ExplainedRight) -> serde_json::Result<Self> {
        let layers: serde_json::Result<_> = explained.layers.iter().map(layer).collect();
        let metadata = &broadcast.metadata;
        let categories = metadata.categories.iter();
        Ok(Self {
            broadcast_id: broadcast.id.clone(),
            livestream_id: explained.livestream.id.clone(),
            livestream_name: explained.livestream.name.clone(),
            title: metadata.title.to_string(),
            subtitle: metadata.subtitle.as_deref().map(str::to_owned),
            season: metadata.season,
            episode: metadata.episode,
            description: metadata.description.as_deref().map(str::to_owned),
            start: broadcast.start,
            stop: broadcast.stop,
            zone: explained.livestream.zone.name(),
            categories: categories.map(|one| one.to_string()).collect(),
            pg_age: metadata.pg_age,
            layers: layers?,
            rights: rights(explained),
            live_available: explained.rights.live,
            catchup_interval: explained
                .rights
                .catchup
                .map(|(from, to)| Interval { from, to }),
        })
    }
}

fn layer(layer: &Layer) -> serde_json::Result<RightsLayer> {
    Ok(RightsLayer {
        by: name(&layer.source),
        applies: layer.mismatch.is_none(),
        mismatch: layer.mismatch,
        rule: match &layer.source {
            Source::Rule(_, rule) => Some(rule.to_string()),
            Source::Livestream | Source::Broadcast => None,
        },
        effects: rights_to_json(&layer.effects)?,
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
    ("live", |effects| effects.live.map(Value::from)),
    ("catchup", |effects| effects.catchup.map(Value::from)),
    ("catchup_days", |effects| {
        effects.catchup_days.map(Value::from)
    }),
    ("start_over", |effects| effects.start_over.map(Value::from)),
    ("pause", |effects| effects.pause.map(Value::from)),
    ("rewind", |effects| effects.rewind.map(Value::from)),
    ("fastForward", |effects| {
        effects.fast_forward.map(Value::from)
    }),
];

/// Makes the step of a refusal that names what withholds the rights at a position, and what would allow it. Reads the
/// broadcast from disk; a failure only omits the step.
pub fn rule_step(
    schedule: &Schedule,
    catalog: &CatalogSnapshot,
    refusal: &RightsRefusal,
) -> Option<DecisionStep> {
    let (subject, finding) = match &refusal.source {
        RightsSource::LivestreamDefaults => (None, in_gap(refusal.live).to_owned()),
        RightsSource::Program(id) => {
            let (livestream, broadcast) = schedule.broadcast(id).ok()??;
            let explained = catalog.explain(&livestream, &broadcast)?;
            let why = withheld(&broadcast, &explained, refusal);
            let title = &broadcast.metadata.title;
            (Some(id.as_str().to_owned()), format!("`{title}`: {why}"))
        }
    };
    Some(DecisionStep {
        check: "rule".into(),
        subject,
        finding: finding.into(),
        passed: false,
    })
}

const fn in_gap(live: bool) -> &'static str {
    if live {
        "the schedule has no program at this position, so the livestream's defaults decide: live is off. To allow \
         it, set live on for the livestream"
    } else {
        "the schedule has no program at this position, so the livestream's defaults decide: neither start-over nor \
         catch-up covers the position. To allow it, set start_over on or more catchup_days for the livestream"
    }
}

/// Names the layer that denies the missing right and how to allow it, and then the other rights that are off.
fn withheld(broadcast: &Broadcast, explained: &ExplainedRight, refusal: &RightsRefusal) -> String {
    let all = rights(explained);
    let line = |right: &str| all.iter().find(|line| line.right == right);
    let is_off = |line: &&RightLine| {
        line.value == Value::Bool(false) || (line.right == "catchup_days" && line.value == 0)
    };
    let window = explained.rights.catchup;
    let (finding, decided) = if refusal.live {
        // Off, or the program would have been allowed.
        (None, line("live"))
    } else if refusal.at < broadcast.start {
        let start = broadcast.start.in_utc();
        return format!("it begins on {start}, and none of it may be watched before");
    } else if refusal.at < broadcast.stop {
        (None, line("start_over"))
    } else if let Some((from, _)) = window.filter(|(from, _)| refusal.at < *from) {
        return format!("its catch-up begins on {}", from.in_utc());
    } else if let Some((_, to)) = window {
        let ended = format!("its catch-up ended on {}: ", to.in_utc());
        (Some(ended), line("catchup_days"))
    } else {
        let catchup = line("catchup").filter(is_off);
        (None, catchup.or_else(|| line("catchup_days")))
    };
    let Some(decided) = decided else {
        return "no layer gives the rights".to_owned();
    };
    let (right, value, by) = (decided.right, shown(&decided.value), described(decided));
    let wanted = match right {
        "catchup_days" => "more catchup_days".to_owned(),
        // With live rights, which are on here, either lets a viewer go back.
        "start_over" => "start_over or rewind on".to_owned(),
        _ => format!("{right} on"),
    };
    let rule = explained
        .layers
        .iter()
        .find_map(|layer| match &layer.source {
            // Quoted, because the numbers of rules change.
            Source::Rule(_, rule) if name(&layer.source) == decided.by => Some(rule),
            Source::Rule(..) | Source::Livestream | Source::Broadcast => None,
        });
    let rule = rule.map_or_else(String::new, |rule| format!(" (`{rule}`)"));
    let others: Vec<String> = all
        .iter()
        .filter(|line| line.right != right && is_off(line))
        .map(|line| format!("{} by {}", line.right, described(line)))
        .collect();
    let others = match others.as_slice() {
        [] => String::new(),
        others => format!(". Also off: {}", others.join(", ")),
    };
    format!(
        "{}{right} is {value} by {by}{rule}. To allow it, set {wanted} {}{others}",
        finding.unwrap_or_default(),
        places(&decided.by)
    )
}

/// A value in the words of the command line.
fn shown(value: &Value) -> String {
    match value {
        Value::Bool(true) => "on".to_owned(),
        Value::Bool(false) => "off".to_owned(),
        other => other.to_string(),
    }
}

fn described(line: &RightLine) -> &str {
    match line.by.as_str() {
        "livestream" => "the livestream's default",
        "broadcast" => "the override of this broadcast",
        rule => rule,
    }
}

/// The layers that can change a right which the layer `by` decides: itself, and later ones.
fn places(by: &str) -> String {
    match by {
        "livestream" => "for the livestream, by a rule or for this broadcast".to_owned(),
        "broadcast" => "in the override of this broadcast, or remove the override".to_owned(),
        rule => format!("in {rule}, in a later rule or for this broadcast"),
    }
}

fn rights(explained: &ExplainedRight) -> Vec<RightLine> {
    let line = |(right, said): &(&'static str, Getter)| {
        let layer = explained.winner(|effects| said(effects).is_some())?;
        Some(RightLine {
            right,
            value: said(&layer.effects)?,
            by: name(&layer.source),
        })
    };
    let mut lines: Vec<RightLine> = RIGHTS.iter().filter_map(line).collect();
    // Removing live rights also removes start-over, even if no layer sets it.
    let blackout = explained.winner(|effects| effects.live.is_some());
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
