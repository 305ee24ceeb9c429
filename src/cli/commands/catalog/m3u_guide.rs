//! What a playlist says of guides and of catch-up, which the catalogue has no place for: it belongs to the source of the guide and
//! to another server. It is collected here, so that a list of hundreds of channels gives a few remarks and not one for each.

use std::collections::BTreeMap;

use serde_json::Value;

/// Entries that one remark names.
const NAMED_MAX: usize = 20;
/// A guide that is a day off has another fault.
const SHIFT_MAX: i64 = 24 * 60;

#[derive(Default)]
pub(super) struct GuideRemarks {
    /// `tvg-shift` of the whole list.
    general: Option<String>,
    /// Lines of `channels` in a source of the configuration.
    mapped: Vec<String>,
    unreadable: Vec<u64>,
    /// Lines of entries with catch-up of another server, by its kind.
    catchup: BTreeMap<String, Vec<u64>>,
}

impl GuideRemarks {
    /// Reads the first line of a list, whose `tvg-shift` is for all entries that have none.
    pub(super) fn read_head(&mut self, attributes: &BTreeMap<String, String>) {
        self.general = attributes.get("tvg-shift").cloned();
    }

    pub(super) fn read(&mut self, (line, id): (u64, &str), attributes: &BTreeMap<String, String>) {
        let given = |name: &str| attributes.get(name).filter(|value| !value.is_empty());
        let shift = given("tvg-shift").or(self.general.as_ref());
        match shift.map(|shift| minutes(shift)) {
            None | Some(Some(0)) => {}
            Some(None) => self.unreadable.push(line),
            Some(Some(minutes)) => {
                let channel = given("tvg-id").map_or(id, String::as_str);
                self.mapped.push(format!(
                    "{} = {{ livestreams = [{}], shift = \"{}\" }}",
                    Value::from(channel),
                    Value::from(id),
                    duration(minutes)
                ));
            }
        }
        let kind = given("catchup").or(given("catchup-type"));
        let source = given("catchup-source");
        // Without both, days alone say how long the origin keeps its streams.
        if source.is_some() || kind.is_some() {
            let kind = kind.map_or("default", String::as_str);
            let kind = kind.chars().take(20).collect::<String>().to_lowercase();
            self.catchup.entry(kind).or_default().push(line);
        }
    }

    pub(super) fn remarks(self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.mapped.is_empty() {
            remarks.push(format!(
                "`tvg-shift` moves the guide of {} channels. Write into the source in `epg.sources`, or into a second one with the \
                 same `url` where the guide's channel is mapped already: channels = {{ {} }}",
                self.mapped.len(),
                shortened(&self.mapped)
            ));
        }
        if !self.unreadable.is_empty() {
            remarks.push(format!(
                "`tvg-shift` is not a number of hours from -24 to 24 and is left out: {}",
                lines(&self.unreadable)
            ));
        }
        for (kind, entries) in &self.catchup {
            remarks.push(format!(
                "catch-up of kind `{kind}` is an address of another server and is left out; days of catch-up are kept, for addresses that \
                 take `{{start}}` and `{{stop}}`: {}",
                lines(entries)
            ));
        }
        remarks
    }
}

fn shortened(items: &[String]) -> String {
    let named = items.get(..NAMED_MAX).unwrap_or(items);
    match items.len() - named.len() {
        0 => named.join(", "),
        more => format!("{}, … ({more} more)", named.join(", ")),
    }
}

fn lines(numbers: &[u64]) -> String {
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("{word} {}", shortened(&numbers))
}

/// Minutes of a number of hours such as `1`, `-3`, `+0.5` or `5,75`.
fn minutes(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = match text.split_at_checked(1)? {
        ("-" | "\u{2212}", rest) => (-1, rest),
        ("+", rest) => (1, rest),
        _ => (1, text),
    };
    let (hours, part) = digits.split_once(['.', ',']).unwrap_or((digits, "0"));
    let number = |digits: &str| {
        let are_digits =
            (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        are_digits.then(|| digits.parse::<i64>().ok()).flatten()
    };
    let unit = 10_i64.pow(u32::try_from(part.len()).ok()?.min(4));
    let minutes = number(hours)? * 60 + number(part)? * 60 / unit;
    (minutes <= SHIFT_MAX).then_some(sign * minutes)
}

/// As the configuration writes it.
fn duration(minutes: i64) -> String {
    let sign = if minutes < 0 { "-" } else { "" };
    let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
    match (hours, rest) {
        (0, rest) => format!("{sign}{rest}m"),
        (hours, 0) => format!("{sign}{hours}h"),
        (hours, rest) => format!("{sign}{hours}h{rest}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_read_as_minutes() {
        for (text, expected) in [
            ("1", Some("1h")),
            ("-3", Some("-3h")),
            ("+0.5", Some("30m")),
            ("-5,75", Some("-5h45m")),
            ("1.25", Some("1h15m")),
            ("24", Some("24h")),
            ("25", None),
            ("1h", None),
            ("one", None),
            ("1.", None),
            (".5", None),
            ("--1", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(minutes(text).map(duration).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn hundreds_of_channels_give_a_few_remarks() {
        let entry = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let mut guide = GuideRemarks::default();
        guide.read_head(&entry(&[("tvg-shift", "2")]));
        guide.read(
            (2, "one"),
            &entry(&[("tvg-id", "One \"1\""), ("tvg-shift", "-0.5")]),
        );
        guide.read(
            (4, "two"),
            &entry(&[("tvg-shift", "0"), ("catchup-days", "7")]),
        );
        guide.read(
            (6, "three"),
            &entry(&[("catchup", "Append"), ("catchup-source", "?utc={utc}")]),
        );
        guide.read(
            (8, "four"),
            &entry(&[("tvg-shift", "soon"), ("catchup-source", "http://x/{utc}")]),
        );
        for line in 10..500 {
            guide.read(
                (line, "more"),
                &entry(&[("tvg-shift", "0"), ("catchup", "xc")]),
            );
        }
        let remarks = guide.remarks();
        assert_eq!(remarks.len(), 5, "{remarks:#?}");
        let mapped = "channels = { \"One \\\"1\\\"\" = { livestreams = [\"one\"], shift = \"-30m\" }, \
                      \"three\" = { livestreams = [\"three\"], shift = \"2h\" } }";
        assert!(remarks[0].ends_with(mapped), "{}", remarks[0]);
        assert!(remarks[1].ends_with(": line 8"), "{}", remarks[1]);
        for (remark, kind, end) in [
            (&remarks[2], "`append`", ": line 6"),
            (&remarks[3], "`default`", ": line 8"),
            (&remarks[4], "`xc`", ", 29, … (470 more)"),
        ] {
            assert!(remark.contains(kind) && remark.ends_with(end), "{remark}");
        }
    }
}
