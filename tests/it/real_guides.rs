//! Imports real guides twice, asks every route for their broadcasts, and compares the answers with a naive model: full
//! scans over lists, and a parser of a dozen lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::external_tools::skip;
use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Answer, Wire, request};
use crate::support::schedule_fixture::{post, set_clock};

const DAY: i64 = 86_400;

/// Start, stop, title.
type Row = (i64, i64, String);
type Guide = BTreeMap<String, Vec<Row>>;

/// A guide that uses every element, and 2026-08-22 12:00 UTC, which is within its times.
pub const NZ: (&str, i64) = ("nz_epg.xml.gz", 1_787_400_000);
/// A guide with repeated broadcasts, of February 2025, and 2025-02-16 12:00 UTC.
pub const SINGTEL: (&str, i64) = ("Singtel_epg.xml.gz", 1_739_707_200);

fn folder() -> PathBuf {
    let root = match std::env::var_os("PLAYGATE_SHARED") {
        Some(shared) => PathBuf::from(shared),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    root.join("data/epg")
}

/// The compressed guide. `None` if it is absent, which fails the test where `CI` is `true`.
pub fn packed(name: &str) -> Option<Vec<u8>> {
    let path = folder().join(name);
    if let Ok(bytes) = std::fs::read(&path) {
        return Some(bytes);
    }
    skip(&format!("{} is absent", path.display()));
    None
}

fn unescaped(text: &str) -> String {
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#13;", "\r"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    .replace("&amp;", "&")
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let rest = &text[text.find(from)? + from.len()..];
    Some(&rest[..rest.find(to)?])
}

/// Parses a time such as `20260822162500 +0200`.
fn time(text: &str) -> i64 {
    let time = chrono::DateTime::parse_from_str(text, "%Y%m%d%H%M%S %z");
    time.unwrap_or_else(|_| panic!("{text}")).timestamp()
}

/// Returns the rows of each channel in the order of the file, and the ids of all channels.
fn parse(
    xml: &str,
) -> (
    BTreeMap<String, Vec<(i64, Option<i64>, String)>>,
    BTreeSet<String>,
) {
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for part in xml.split("<programme ").skip(1) {
        let (head, rest) = part.split_once('>').unwrap();
        let attribute = |name: &str| between(head, &format!("{name}=\""), "\"");
        let body = &rest[..rest.find("</programme>").unwrap()];
        let title = body
            .find("<title")
            .and_then(|at| between(&body[at..], ">", "</title>"));
        rows.entry(unescaped(attribute("channel").unwrap()))
            .or_default()
            .push((
                time(attribute("start").unwrap()),
                attribute("stop").map(time),
                unescaped(title.unwrap_or_default()).trim().to_owned(),
            ));
    }
    let declared = xml.split("<channel ").skip(1);
    let ids = declared.map(|part| unescaped(between(part, "id=\"", "\"").unwrap()));
    let ids = ids.chain(rows.keys().cloned()).collect();
    (rows, ids)
}

/// Applies the import rules to a channel's rows, each rule by a scan of all rows.
fn apply_import_rules(rows: &[(i64, Option<i64>, String)], now: i64) -> Vec<Row> {
    let good: Vec<_> = rows
        .iter()
        .filter(|(start, stop, title)| !title.is_empty() && stop.is_none_or(|stop| stop > *start))
        .collect();
    let first: Vec<_> = (0..good.len())
        .filter(|at| good[..*at].iter().all(|before| before.0 != good[*at].0))
        .map(|at| good[at])
        .collect();
    let next = |start: i64| first.iter().map(|row| row.0).filter(|s| *s > start).min();
    let stopped: Vec<Row> = first
        .iter()
        .filter_map(|(start, stop, title)| Some((*start, (*stop).or(next(*start))?, title.clone())))
        .collect();
    let inside = |row: &Row| {
        stopped
            .iter()
            .any(|other| other.0 < row.0 && other.1 >= row.1)
    };
    let kept: Vec<&Row> = stopped.iter().filter(|row| !inside(row)).collect();
    let cut = |row: &Row| {
        let later = kept.iter().map(|row| row.0).filter(|start| *start > row.0);
        later.min().map_or(row.1, |start| row.1.min(start))
    };
    let mut list: Vec<Row> = kept.iter().map(|r| (r.0, cut(r), r.2.clone())).collect();
    list.retain(|row| row.0.div_euclid(DAY) >= now.div_euclid(DAY) - 30);
    list.sort();
    list
}

fn row(broadcast: &Value) -> Row {
    let number = |name: &str| broadcast[name].as_i64().unwrap();
    let title = broadcast["title"].as_str().unwrap().to_owned();
    (number("start"), number("stop"), title)
}

fn rows(list: &Value) -> Vec<Row> {
    list.as_array().unwrap().iter().map(row).collect()
}

/// Current, next and previous broadcast, by a scan.
fn live_view(list: &[Row], at: i64) -> Option<[Option<&Row>; 3]> {
    let on = list.iter().filter(|row| row.0 <= at && at < row.1);
    let current = on.max_by_key(|row| row.0)?;
    let next = list
        .iter()
        .filter(|row| row.0 >= current.1)
        .min_by_key(|row| row.0);
    let previous = list
        .iter()
        .filter(|row| row.1 <= current.0)
        .max_by_key(|row| row.1);
    Some([Some(current), next, previous])
}

struct Client<'a> {
    server: &'a GateOnly,
    wire: Wire,
}

impl Client<'_> {
    fn get(&mut self, path: &str) -> Answer {
        let token = self.server.gate.tokens.partner.reveal();
        let target = format!("/api/schedule/v1{path}");
        let headers = [("Service-AccessToken", token)];
        self.wire.send(request("GET", &target, &headers, ""));
        self.wire.answer().expect("an answer")
    }

    fn check_view(view: Option<&Value>, expected: Option<[Option<&Row>; 3]>, of: &str) {
        let shown =
            view.map(|view| ["current", "next", "previous"].map(|name| view.get(name).map(row)));
        let expected = expected.map(|view| view.map(|row| row.cloned()));
        assert_eq!(shown, expected, "{of}");
    }

    fn check_instant(&mut self, guide: &Guide, at: i64, offset: i64) {
        set_clock(self.server, at - offset);
        let ids: Vec<&str> = guide.keys().map(String::as_str).collect();
        for some in ids.chunks(40) {
            let list = some.join(",");
            let answer = self.get(&format!(
                "/broadcasts/live?livestreams={list}&offset={offset}"
            ));
            assert_eq!(answer.status, 200);
            let body = answer.json();
            for id in some {
                let expected = live_view(&guide[*id], at);
                Self::check_view(body.get(id), expected, &format!("{id} at {at}"));
            }
        }
        let single = ids[usize::try_from(at).unwrap() % ids.len()];
        let answer = self.get(&format!("/livestreams/{single}/live?offset={offset}"));
        let expected = live_view(&guide[single], at);
        assert_eq!(answer.status, if expected.is_some() { 200 } else { 404 });
        let body = answer.json();
        Self::check_view(
            Some(&body).filter(|_| answer.status == 200),
            expected,
            single,
        );
    }

    /// Checks broadcasts by id, one by one and in one request.
    fn check_ids(&mut self, some: &[&(String, String, Row)]) {
        for (_, id, expected) in some {
            let body = self.get(&format!("/broadcasts/{id}")).json();
            assert_eq!((row(&body), &body["id"]), (expected.clone(), &json!(id)));
        }
        let ids: Vec<&str> = some.iter().map(|(_, id, _)| id.as_str()).collect();
        let path = format!("/broadcasts?broadcasts={}", ids.join(","));
        let body = self.get(&path).json();
        assert_eq!(body.as_object().unwrap().len(), some.len());
        for (livestream, id, expected) in some {
            let one = &body[id];
            assert_eq!(row(one), *expected);
            assert_eq!(one["streamId"], *livestream);
            assert_eq!(one["streamStart"], expected.0);
            assert_eq!(one["streamStop"], expected.1);
        }
    }

    /// Checks one day of all livestreams, and of one livestream by its deprecated route. Returns the broadcasts.
    fn check_day(&mut self, guide: &Guide, day: i64) -> Vec<(String, String, Row)> {
        let from = day * DAY + 6 * 3_600;
        let date = chrono::DateTime::from_timestamp(from, 0)
            .unwrap()
            .format("%Y-%m-%d");
        let ids: Vec<&str> = guide.keys().map(String::as_str).collect();
        let mut seen = Vec::new();
        for some in ids.chunks(40) {
            let path = format!("/broadcasts/day/{date}?livestreams={}", some.join(","));
            let body = self.get(&path).json();
            assert_eq!(body.as_object().unwrap().len(), some.len());
            for id in some {
                let of_day = |row: &&Row| from <= row.0 && row.0 < from + DAY;
                let expected: Vec<Row> = guide[*id].iter().filter(of_day).cloned().collect();
                assert_eq!(rows(&body[id]), expected, "{id} on {date}");
                for (broadcast, row) in body[id].as_array().unwrap().iter().zip(expected) {
                    let broadcast_id = broadcast["id"].as_str().unwrap().to_owned();
                    seen.push(((*id).to_owned(), broadcast_id, row));
                }
            }
            let one = some[usize::try_from(day).unwrap() % some.len()];
            let single = self.get(&format!("/livestreams/{one}/day/{date}")).json();
            assert_eq!(single, body[one]);
        }
        seen
    }
}

/// Reads the rows that the import rules keep, and the number of rows in the XML.
fn naive_guide(packed: &[u8], now: i64) -> (Guide, usize) {
    let mut xml = String::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(packed);
    decoder.read_to_string(&mut xml).unwrap();
    let (raw, ids) = parse(&xml);
    let of = |id: &String| {
        raw.get(id)
            .map_or_else(Vec::new, |rows| apply_import_rules(rows, now))
    };
    let guide = ids.iter().map(|id| (id.clone(), of(id))).collect();
    (guide, raw.values().map(Vec::len).sum())
}

/// Imports a guide into an empty service and checks the report.
fn import(server: &GateOnly, packed: &[u8], guide: &Guide, programmes: usize) {
    let kept: usize = guide.values().map(Vec::len).sum();
    let first = post(server, TARGET, packed);
    let report = first.json();
    assert_eq!(first.status, 200, "{report}");
    let kinds = report["skipped"].as_object().unwrap().values();
    let skipped: u64 = kinds.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(report["channels"], guide.len());
    assert_eq!(report["programmes"], programmes);
    assert_eq!(report["added"], kept, "{report}");
    assert_eq!(skipped, (programmes - kept) as u64, "{report}");
    assert_eq!(report["created"].as_array().unwrap().len(), guide.len());
}

fn import_again(server: &GateOnly, packed: &[u8], kept: usize) {
    let report = post(server, TARGET, packed).json();
    for (member, number) in [
        ("unchanged", kept),
        ("added", 0),
        ("changed", 0),
        ("removed", 0),
    ] {
        assert_eq!(report[member], number, "{member}: {report}");
    }
    assert_eq!(report["created"], json!([]));
    for report in server.services.store.verify().unwrap().tables {
        assert!(report.is_sound(), "{report:?}");
    }
}

const TARGET: &str = "/admin/v1/epg/import?createLivestreams=true";

/// Checks a guide that is imported at `now`.
fn check(name: &str, now: i64) {
    let Some(packed) = packed(name) else {
        return;
    };
    let (guide, programmes) = naive_guide(&packed, now);
    let server = GateOnly::start();
    set_clock(&server, now);
    import(&server, &packed, &guide, programmes);
    let mut client = Client {
        server: &server,
        wire: Wire::to(server.public),
    };
    let days = guide.values().flatten().map(|row| row.0.div_euclid(DAY));
    let days: BTreeSet<i64> = days.collect();
    let (first_day, last_day) = (days.first().unwrap() - 1, days.last().unwrap() + 1);
    let mut all = || -> Vec<_> {
        (first_day..=last_day)
            .flat_map(|day| client.check_day(&guide, day))
            .collect()
    };
    let before = all();
    assert!(before.len() > 1_000);
    import_again(&server, &packed, before.len());
    assert_eq!(all(), before, "ids are kept");

    // Instants all over the guide, and the edges of some of its programmes.
    let (from, to) = (first_day * DAY, (last_day + 1) * DAY);
    for step in 0..30 {
        let at = from + (to - from) * step / 30 + step * 61;
        client.check_instant(&guide, at, -(step * 2_800));
    }
    for (_, _, (start, stop, _)) in before.iter().step_by(before.len() / 12) {
        for at in [start - 1, *start, stop - 1, *stop] {
            client.check_instant(&guide, at, 0);
        }
    }
    let some: Vec<_> = before.iter().step_by(before.len() / 60).collect();
    client.check_ids(&some);
}

#[test]
fn a_real_guide_with_every_element_is_imported() {
    check(NZ.0, NZ.1);
}

#[test]
fn a_real_guide_with_repeated_broadcasts_is_imported() {
    check(SINGTEL.0, SINGTEL.1);
}
