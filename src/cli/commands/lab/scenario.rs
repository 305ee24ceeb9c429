//! Scenario files: steps that disturb the requests of a lab partner, or wait for one.

use std::fs;
use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::known_names::no_such;
use crate::output::Failure;
use playgate_api::operators::faults::targets;
use playgate_api::route_table::ROUTERS;
use playgate_types::{format_span, parse_span};

macro_rules! shipped {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../../data/scenarios/", $name, ".toml")))),*]
    };
}

/// The shipped scenarios by name. The last one moves the clock of all partners.
pub(super) const SHIPPED: [(&str, &str); 10] = shipped! {
    "asset-gone"
    "blackout"
    "license-server"
    "pin-border"
    "restart"
    "revoked"
    "slow-network"
    "stolen-stream"
    "token-expired"
    "clock-change"
};

pub(super) struct Scenario {
    /// Name of a shipped scenario, or the file.
    pub key: String,
    pub name: String,
    pub text: String,
    /// Instruction for a person who operates the app.
    pub prompt: String,
    pub end: Duration,
    pub steps: Vec<Step>,
}

/// Steps run in sequence: a step waits for its trigger once the previous step is done.
#[derive(Debug)]
pub(super) struct Step {
    pub trigger: Trigger,
    /// `None` for a step that only waits.
    pub action: Option<StepAction>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// Time since the start of the run.
    At(Duration),
    On {
        route: String,
        labels: Vec<&'static str>,
        status: Option<u16>,
        count: u64,
    },
}

#[derive(Debug, PartialEq)]
pub(super) enum StepAction {
    Fault(Value),
    Clock(Value),
    Grant(String),
    Revoke(String),
    /// Disables the user, or enables it again.
    Disable(bool),
    EndSessions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    name: String,
    #[serde(default)]
    text: String,
    prompt: Option<String>,
    end: Option<String>,
    #[serde(default)]
    step: Vec<StepFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepFile {
    at: Option<String>,
    on: Option<OnFile>,
    fault: Option<toml::Table>,
    clock: Option<toml::Table>,
    grant: Option<String>,
    revoke: Option<String>,
    disable: Option<bool>,
    end_sessions: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnFile {
    route: String,
    status: Option<u16>,
    count: Option<u64>,
}

/// Maximum number of steps that the server accepts in a report.
const STEPS_MAX: usize = 50;
const WORDS_MAX: usize = 200;
const DEFAULT_END: Duration = Duration::from_secs(300);
const PROMPT: &str = "Start a livestream or a film, and let it play.";

impl Scenario {
    pub(super) fn read(file: &str) -> Result<Self, Failure> {
        let shipped = SHIPPED.iter().find(|(name, _)| *name == file);
        let scenario = match shipped {
            Some((_, text)) => Self::parse(text),
            None => {
                let text = fs::read_to_string(file).map_err(|error| {
                    let names = SHIPPED.iter().map(|(name, _)| *name);
                    let message = match error.kind() {
                        io::ErrorKind::NotFound => no_such("scenario or file", file, names),
                        _ => format!("{file}: {error}"),
                    };
                    Failure::usage(message)
                        .hint("`playgate lab run` without a file lists the shipped scenarios")
                })?;
                Self::parse(&text)
            }
        };
        let key = file.to_owned();
        scenario.map(|scenario| Self { key, ..scenario })
    }

    /// Limits the time until the end of the scenario.
    pub(super) fn end_within(&mut self, limit: Duration) -> Result<(), Failure> {
        self.end = self.end.min(limit);
        let late = |step: &&Step| matches!(step.trigger, Trigger::At(at) if at > limit);
        match self.steps.iter().find(late) {
            None => Ok(()),
            Some(step) => Err(Failure::usage(format!(
                "{}: --limit {} ends the scenario before its step {}",
                self.key,
                format_span(limit),
                step.describe()
            ))),
        }
    }

    /// Parses a file and refuses steps that can never happen.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::usage(format!("scenario: {why}"));
        let file: ScenarioFile =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        let end = match &file.end {
            Some(end) => parse_span(end).map_err(|why| wrong(format!("end: {}", why.0)))?,
            None => DEFAULT_END,
        };
        if file.step.is_empty() {
            return Err(wrong("has no step".to_owned()));
        }
        if file.step.len() > STEPS_MAX {
            return Err(wrong(format!("has more than {STEPS_MAX} steps")));
        }
        if file.name.len() > WORDS_MAX {
            return Err(wrong(format!("name: has more than {WORDS_MAX} bytes")));
        }
        let mut steps = Vec::with_capacity(file.step.len());
        let mut last = Duration::ZERO;
        for (number, step) in file.step.into_iter().enumerate() {
            let wrong = |why: String| wrong(format!("step {}: {why}", number + 1));
            let step = step.check().map_err(&wrong)?;
            if let Trigger::At(at) = step.trigger {
                // Steps run in the order of the file, so a step with an earlier time than its predecessor would be
                // late.
                if at < last {
                    return Err(wrong(format!(
                        "can never happen: {at:?} is before the step before it, at {last:?}"
                    )));
                }
                if at > end {
                    return Err(wrong(format!(
                        "can never happen: {at:?} is after the end of the scenario, at {end:?}"
                    )));
                }
                last = at;
            }
            steps.push(step);
        }
        Ok(Self {
            key: String::new(),
            name: file.name,
            text: file.text,
            prompt: file.prompt.unwrap_or_else(|| PROMPT.to_owned()),
            end,
            steps,
        })
    }
}

impl StepFile {
    fn check(self) -> Result<Step, String> {
        let trigger = match (self.at, self.on) {
            (Some(at), None) => {
                Trigger::At(parse_span(&at).map_err(|why| format!("at: {}", why.0))?)
            }
            (None, Some(on)) => on.check()?,
            (None, None) => return Err("needs `at` or `on`".to_owned()),
            (Some(_), Some(_)) => return Err("has both `at` and `on`; keep one".to_owned()),
        };
        let actions = [
            self.fault
                .map(|fault| json_of(fault).map(StepAction::Fault)),
            self.clock
                .map(|clock| clock_change(clock).map(StepAction::Clock)),
            self.grant.map(|offer| Ok(StepAction::Grant(offer))),
            self.revoke.map(|offer| Ok(StepAction::Revoke(offer))),
            self.disable.map(|disable| Ok(StepAction::Disable(disable))),
            self.end_sessions.map(|end| match end {
                true => Ok(StepAction::EndSessions),
                false => Err("end_sessions: must be true or absent".to_owned()),
            }),
        ];
        let mut actions = actions.into_iter().flatten();
        let action = actions.next().transpose()?;
        if actions.next().is_some() {
            return Err("has more than one action; use one step for each".to_owned());
        }
        Ok(Step { trigger, action })
    }
}

impl OnFile {
    fn check(self) -> Result<Trigger, String> {
        let routes = ROUTERS.facts().public;
        let mut labels = Vec::new();
        for name in self.route.split(',').map(str::trim) {
            let named = targets::routes(&routes, name);
            if named.is_empty() {
                return Err(format!(
                    "can never happen: no route {name}; it is an operation id, license or any"
                ));
            }
            labels.extend(named.iter().map(|route| route.label));
        }
        if self
            .status
            .is_some_and(|status| !(200..=599).contains(&status))
        {
            return Err("can never happen: status must be from 200 to 599".to_owned());
        }
        if self.count == Some(0) {
            return Err("count: must be at least 1".to_owned());
        }
        Ok(Trigger::On {
            route: self.route,
            labels,
            status: self.status,
            count: self.count.unwrap_or(1),
        })
    }
}

fn json_of(table: toml::Table) -> Result<Value, String> {
    serde_json::to_value(table).map_err(|error| error.to_string())
}

/// `now` may be a date of TOML, `advance` a span.
fn clock_change(mut table: toml::Table) -> Result<Value, String> {
    if let Some(toml::Value::Datetime(now)) = table.get("now") {
        // A TOML date may lack its zone, and then does not name an instant.
        let at = chrono::DateTime::parse_from_rfc3339(&now.to_string())
            .map_err(|_| "clock.now: needs date, time and zone".to_owned())?;
        table.insert("now".to_owned(), at.timestamp().into());
    }
    if let Some(toml::Value::String(span)) = table.get("advance") {
        let seconds = parse_span(span).map_err(|why| format!("clock.advance: {}", why.0))?;
        let seconds = i64::try_from(seconds.as_secs()).unwrap_or(i64::MAX);
        table.insert("advance".to_owned(), seconds.into());
    }
    json_of(table)
}

impl Step {
    /// Describes the step in a few words; long actions are cut.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{}: {}", self.trigger.describe(), self.describe_action());
        text.truncate(text.floor_char_boundary(WORDS_MAX));
        text
    }

    pub(super) fn describe_action(&self) -> String {
        let action = self.action.as_ref();
        action.map_or_else(|| "wait".to_owned(), StepAction::describe)
    }
}

impl Trigger {
    pub(super) fn is_met_by(&self, route: &str, status: u64) -> bool {
        match self {
            Self::At(_) => false,
            Self::On {
                labels,
                status: wanted,
                ..
            } => labels.contains(&route) && wanted.is_none_or(|wanted| u64::from(wanted) == status),
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::At(at) => format!("at {}", format_span(*at)),
            Self::On {
                route,
                status,
                count,
                ..
            } => {
                let status = status.map_or_else(String::new, |status| format!(" {status}"));
                match count {
                    1 => format!("on {route}{status}"),
                    count => format!("on {route}{status}, {count} times"),
                }
            }
        }
    }
}

impl StepAction {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Fault(fault) => format!("fault {}", fault["do"]),
            Self::Clock(clock) => format!("clock {clock}"),
            Self::Grant(offer) => format!("grant {offer}"),
            Self::Revoke(offer) => format!("revoke {offer}"),
            Self::Disable(true) => "disable the user".to_owned(),
            Self::Disable(false) => "enable the user".to_owned(),
            Self::EndSessions => "end the sessions".to_owned(),
        }
    }
}

/// Lists key, name and text of the shipped scenarios, for output.
pub(super) fn shipped() -> Value {
    let all = SHIPPED.iter().filter_map(|(name, text)| {
        let scenario = Scenario::parse(text).ok()?;
        Some(json!({"scenario": name, "name": scenario.name, "text": scenario.text}))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_scenarios_are_sound() {
        for (name, text) in SHIPPED {
            let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                !scenario.steps.is_empty() && !scenario.text.is_empty(),
                "{name}"
            );
        }
        assert_eq!(shipped().as_array().unwrap().len(), SHIPPED.len());
    }

    #[test]
    fn a_mistyped_scenario_is_answered_with_the_nearest() {
        let said = |name| Scenario::read(name).err().unwrap().to_string();
        assert!(
            said("blackuot").contains("no scenario or file `blackuot`; did you mean `blackout`?")
        );
        assert!(said("./nowhere/x.toml").contains("no scenario or file `./nowhere/x.toml`\n"));
    }

    #[test]
    fn a_bad_step_is_named_with_its_reason() {
        for (steps, why) in [
            ("", "has no step"),
            ("[[step]]\ngrant = 'x'", "step 1: needs `at` or `on`"),
            (
                "[[step]]\nat = '1s'\non = {route = 'login'}",
                "step 1: has both `at` and `on`; keep one",
            ),
            ("[[step]]\nat = 'soon'", "step 1: at: must be a number"),
            (
                "[[step]]\nat = '9s'\n[[step]]\nat = '8s'",
                "step 2: can never happen: 8s is before",
            ),
            (
                "[[step]]\nat = '1h'",
                "step 1: can never happen: 3600s is after the end",
            ),
            (
                "[[step]]\non = {route = 'hartbeat'}",
                "step 1: can never happen: no route hartbeat",
            ),
            (
                "[[step]]\non = {route = 'login, hartbeat'}",
                "step 1: can never happen: no route hartbeat",
            ),
            (
                "[[step]]\non = {route = 'login', status = 99}",
                "step 1: can never happen: status",
            ),
            (
                "[[step]]\non = {route = 'login', count = 0}",
                "step 1: count",
            ),
            (
                "[[step]]\nat = '1s'\ngrant = 'x'\nrevoke = 'y'",
                "step 1: has more than one action",
            ),
            ("[[step]]\nat = '1s'\nfalt = {}", "unknown field `falt`"),
            (
                "[[step]]\nat = '1s'\nclock = {advance = 'x'}",
                "step 1: clock.advance",
            ),
        ] {
            let text = format!("name = 'x'\nend = '1m'\n{steps}");
            let error = Scenario::parse(&text).err().unwrap().to_string();
            assert!(error.contains(why), "{steps}: {error}");
        }
    }

    #[test]
    fn a_step_happens_on_its_route_and_status_only() {
        let trigger = |on: &str| {
            let text = format!("name = 'x'\n[[step]]\non = {{{on}}}");
            Scenario::parse(&text).unwrap().steps.remove(0).trigger
        };
        let heartbeat = trigger("route = 'heartbeat', status = 552");
        assert!(heartbeat.is_met_by("heartbeat", 552));
        assert!(!heartbeat.is_met_by("heartbeat", 200) && !heartbeat.is_met_by("login", 552));
        let end = trigger("route = 'heartbeat, end_playback', status = 410");
        assert!(end.is_met_by("heartbeat", 410) && end.is_met_by("end_playback", 410));
        assert!(!end.is_met_by("end_playback", 204));
        let license = trigger("route = 'license'");
        assert!(
            license.is_met_by("license_clearkey", 200)
                && license.is_met_by("license_widevine", 502)
        );
        assert!(!license.is_met_by("entitlement", 200));
        assert!(!trigger("route = 'any'").is_met_by("lab_clock", 200));
    }
}
