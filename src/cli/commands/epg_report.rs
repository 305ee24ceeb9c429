//! Prints an import report: totals, skipped programmes, then changes.

use chrono::DateTime;
use playgate_types::Zone;
use serde_json::Value;

use crate::output::members::{elements, number, texts};
use crate::output::{self, CommandResult};

/// Maximum number of line numbers listed per reason.
const LINES_SHOWN: usize = 5;

/// Prints a report. `done` is false for a dry run and a held import; with `all`, lists of channels are complete.
pub(crate) fn show(report: &Value, done: bool, all: bool, json: bool) -> CommandResult {
    if json {
        return output::json(report);
    }
    for member in [
        "channels",
        "programmes",
        "added",
        "changed",
        "removed",
        "unchanged",
    ] {
        if let Some(number) = report.get(member) {
            output::line(&format!("{member:<11} {number}"))?;
        }
    }
    let (unrated, programmes) = (number(report, "unrated"), number(report, "programmes"));
    if unrated > 0 {
        let share = unrated * 100 / programmes.max(1);
        output::print_note(&format!(
            "unrated     {unrated} of {programmes} programmes ({share} %) have no age rating"
        ));
    }
    show_rows(report, all);
    let made = if done {
        "created in the catalogue"
    } else {
        "to be created in the catalogue"
    };
    for (member, meaning) in [
        (
            "unmapped",
            "not in the catalogue (create with `--create-livestreams`, or map with the source's `channels`)",
        ),
        ("created", made),
        ("newChannels", "new in this source"),
        ("doubts", "looks wrong"),
    ] {
        let ids: Vec<&str> = texts(report, member).collect();
        let shown = !ids.is_empty()
            && match member {
                // Created channels are new anyway: one list is enough.
                "newChannels" => report.get("created") != report.get(member),
                // A held import creates nothing.
                "created" => done || !is_in_doubt(report),
                _ => true,
            };
        if shown {
            output::print_note(&format!("{meaning}: {}", output::joined(&ids, all)));
        }
    }
    let lines = changes(report, all);
    lines.iter().try_for_each(|line| output::line(line))
}

/// Prints what was skipped, repaired or lost.
fn show_rows(report: &Value, all: bool) {
    let skipped = report.get("skipped").and_then(Value::as_object);
    for (kind, number) in skipped.into_iter().flatten() {
        let lines = elements(&report["skippedLines"], kind)
            .iter()
            .take(LINES_SHOWN);
        let lines: Vec<String> = lines.map(ToString::to_string).collect();
        let (why, lines) = (reason(kind), lines.join(", "));
        output::print_note(&format!(
            "skipped     {number} {why}, for example line {lines}"
        ));
        for row in elements(&report["skippedRows"], kind)
            .iter()
            .take(LINES_SHOWN)
        {
            if let Some(text) = row.get("text").and_then(Value::as_str) {
                let channel = output::text(row, "channel");
                output::print_note(&format!(
                    "            line {}, {channel}: {text}",
                    row["line"]
                ));
            }
        }
    }
    let repaired = report.get("repaired").and_then(Value::as_object);
    for (kind, number) in repaired.into_iter().flatten() {
        let lines = elements(&report["repairedLines"], kind);
        let lines: Vec<String> = lines
            .iter()
            .take(LINES_SHOWN)
            .map(ToString::to_string)
            .collect();
        let example = match lines.is_empty() {
            true => String::new(),
            false => format!(", for example line {}", lines.join(", ")),
        };
        output::print_note(&format!("repaired    {number} {}{example}", repair(kind)));
    }
    for lost in elements(report, "lostOverrides") {
        output::print_note(&format!(
            "rights      `{}` was “{}” on {} and is gone; its rights apply to nothing; `playgate epg why` explains it",
            output::text(lost, "broadcastId"),
            output::text(lost, "title"),
            output::text(lost, "livestreamId"),
        ));
    }
    let unusable: Vec<&str> = texts(report, "unusableChannels").collect();
    if !unusable.is_empty() {
        let example = unusable.first().copied().unwrap_or_default();
        output::print_note(&format!(
            "no livestream can have these channel ids; map them in `epg.sources`, such as channels = {{ {} = \"{}\" }}: {}",
            Value::from(example),
            playgate_types::slug::slug(example),
            output::joined(&unusable, all)
        ));
    }
}

pub(crate) fn is_in_doubt(report: &Value) -> bool {
    !elements(report, "doubts").is_empty()
}

pub(crate) fn hint(report: &Value) -> &'static str {
    let unmapped = elements(report, "unmapped").len();
    if unmapped > 0 && u64::try_from(unmapped) == Ok(number(report, "channels")) {
        return "map the channels in `epg.sources`, such as channels = { \"guide-id\" = \"livestream-id\" }, or repeat with `--create-livestreams`";
    }
    let programmes = report.get("programmes").and_then(Value::as_u64);
    let skipped = report.get("skipped").and_then(Value::as_object);
    let skipped = skipped.into_iter().flat_map(|kinds| kinds.values());
    let skipped: u64 = skipped.filter_map(Value::as_u64).sum();
    if report.pointer("/skipped/tooOld").and_then(Value::as_u64) == programmes {
        "all programmes are in the past; `schedule.retention_days` sets how long past programmes are kept"
    } else if programmes == Some(skipped) {
        "see the reasons for skipped programmes; `--accept` imports an empty guide"
    } else {
        "review the guide, then repeat with `--accept`"
    }
}

fn reason(kind: &str) -> &str {
    match kind {
        "badTime" => "with an invalid time",
        "badChannel" => "without a channel",
        "badId" => "with an invalid id",
        "idTaken" => "with an id already in use",
        "emptyTitle" => "without a title",
        "duplicate" => "duplicates (same channel and start)",
        "contained" => "within another programme",
        "tooOld" => "older than `schedule.retention_days`",
        "tooFar" => "too far in the future",
        "unmapped" => "of channels that are not in the catalogue",
        "outranked" => "of a source with lower priority",
        other => other,
    }
}

fn repair(kind: &str) -> &str {
    match kind {
        "badCharacter" => "characters that are not in the encoding of the guide (replaced)",
        "encoding" => {
            "characters of windows-1252 where the guide should be UTF-8 (read as windows-1252)"
        }
        "bareAmpersand" => "`&` that should be `&amp;`",
        "markup" => "texts with HTML (made plain)",
        "stop" => "ends that are missing or before the start (set to the next start)",
        "longStop" => "ends beyond the next programmes (cut)",
        "lastStop" => "ends of a channel's last programme (estimated)",
        "repeatedHour" => "times in the hour that occurs twice (placed by their order)",
        "copy" => "copies (the fuller one is imported)",
        "detail" => "dates and other details that are not understood (left out)",
        other => other,
    }
}

fn changes(report: &Value, all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let (livestreams, rest) = output::shortened(elements(report, "changes"), all);
    for one in livestreams {
        let [added, changed, removed] =
            ["added", "changed", "removed"].map(|member| number(one, member));
        let zone = one.get("zone").and_then(Value::as_str).unwrap_or("UTC");
        lines.push(String::new());
        lines.push(format!(
            "{} ({zone}): +{added} ~{changed} -{removed}",
            output::text(one, "livestream")
        ));
        let zone: Zone = zone.parse().unwrap_or(Zone::utc());
        let edits = elements(one, "edits");
        lines.extend(edits.iter().map(|one| edit(one, zone)));
        // The report lists only the first edits of a livestream.
        let rest = (added + changed + removed).saturating_sub(edits.len().try_into().unwrap_or(0));
        if rest > 0 {
            lines.push(format!("  … {rest} more"));
        }
    }
    lines.extend(rest.map(|rest| format!("\n{rest}: livestreams with changes")));
    lines
}

fn edit(edit: &Value, zone: Zone) -> String {
    let (before, after) = (edit.get("before"), edit.get("after"));
    let shown =
        |airing: &Value| format!("{}  {}", times(airing, zone), output::text(airing, "title"));
    match (before, after) {
        (Some(before), Some(after)) => {
            let mut was = Vec::new();
            if times(before, zone) != times(after, zone) {
                was.push(times(before, zone));
            }
            if before.get("title") != after.get("title") {
                was.push(output::text(before, "title"));
            }
            let was = match was.is_empty() {
                true => "other details".to_owned(),
                false => format!("was {}", was.join(" ")),
            };
            format!("  ~ {}  ({was})", shown(after))
        }
        (None, Some(after)) => format!("  + {}", shown(after)),
        (Some(before), None) => format!("  - {}", shown(before)),
        (None, None) => String::new(),
    }
}

/// `2026-08-22 18:00-18:30`, in the livestream's time zone.
fn times(airing: &Value, zone: Zone) -> String {
    let at = |member| {
        let seconds = airing.get(member).and_then(Value::as_i64)?;
        Some(DateTime::from_timestamp(seconds, 0)?.with_timezone(&zone))
    };
    match (at("start"), at("stop")) {
        (Some(start), Some(stop)) => {
            format!(
                "{}-{}",
                start.format("%Y-%m-%d %H:%M"),
                stop.format("%H:%M")
            )
        }
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_listed_line_by_line() {
        let airing = |start: i64, title: &str| json!({"start": 1_787_356_800 + start, "stop": 1_787_358_600 + start, "title": title});
        let report = json!({"changes": [{
            "livestream": "news", "zone": "Europe/Stockholm",
            "added": 1, "changed": 3, "removed": 12,
            "edits": [
                {"after": airing(0, "New")},
                {"before": airing(0, "Moved"), "after": airing(600, "Moved")},
                {"before": airing(0, "Old"), "after": airing(0, "Renamed")},
                {"before": airing(0, "Same"), "after": airing(0, "Same")},
                {"before": airing(0, "Gone\u{1b}[2J")},
            ],
        }]});
        assert_eq!(
            changes(&report, false).join("\n"),
            "\nnews (Europe/Stockholm): +1 ~3 -12\n  \
             + 2026-08-22 02:00-02:30  New\n  \
             ~ 2026-08-22 02:10-02:40  Moved  (was 2026-08-22 02:00-02:30)\n  \
             ~ 2026-08-22 02:00-02:30  Renamed  (was Old)\n  \
             ~ 2026-08-22 02:00-02:30  Same  (other details)\n  \
             - 2026-08-22 02:00-02:30  Gone [2J\n  \
             … 11 more"
        );
        assert_eq!(changes(&json!({}), false), Vec::<String>::new());
        let many = json!({"changes": vec![json!({"livestream": "tv", "added": 1}); 14]});
        let last = changes(&many, false).pop();
        assert_eq!(
            last.as_deref(),
            Some("\nand 2 more (--all): livestreams with changes")
        );
        assert_eq!(changes(&many, true).len(), 14 * 3);
    }
}
