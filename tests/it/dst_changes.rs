//! The six schedule routes against a naive model, around the nights in which clocks change, in three zones.
//!
//! The model shares no code with the server: a zone is two offsets and the instants of its clock changes, the TV day is
//! read off the local clock at the broadcast's start, and every view is a scan over a list. The responses are recorded
//! first and compared afterwards, so that models with one deliberate mistake can be compared with the same responses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Answer, Wire, request};
use crate::support::schedule_fixture::unpacked;
use crate::support::schedule_fixture::{post, set_clock};

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
const CATCHUP: i64 = 7 * DAY;

/// A clock change: its instant, and the offset from UTC after it.
type Change = (i64, i64);

/// A zone, its offset at the start of 2026, and its two changes in that year, from the tables of the governments and
/// not from a library.
const ZONES: [(&str, i64, [Change; 2]); 3] = [
    // 29 March and 25 October, 01:00 UTC.
    (
        "Europe/Stockholm",
        HOUR,
        [(1_774_746_000, 2 * HOUR), (1_792_890_000, HOUR)],
    ),
    // 8 March 07:00 UTC and 1 November 06:00 UTC.
    (
        "America/New_York",
        -5 * HOUR,
        [(1_772_953_200, -4 * HOUR), (1_793_512_800, -5 * HOUR)],
    ),
    // 4 April and 3 October, 16:00 UTC.
    (
        "Australia/Sydney",
        11 * HOUR,
        [(1_775_318_400, 10 * HOUR), (1_791_043_200, 11 * HOUR)],
    ),
];

/// A broadcast. Its `number` decides its title, rights and metadata; see [`title`] and [`Model::broadcast`].
#[derive(Clone, Debug, PartialEq)]
struct Row {
    id: String,
    number: i64,
    start: i64,
    stop: i64,
}

/// A livestream: id, index of its zone, and broadcasts by start.
struct Channel {
    id: String,
    zone: usize,
    rows: Vec<Row>,
}

/// A pseudo-random sequence that is the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Two livestreams in each zone, with broadcasts of odd lengths and with gaps from 2 days before each clock change to 2
/// days after it.
fn channels() -> Vec<Channel> {
    let mut random = Random(20_260_329);
    let mut channels = Vec::new();
    for (zone, (_, _, changes)) in ZONES.iter().enumerate() {
        for which in 0..2 {
            let id = format!("tv-{zone}{which}");
            let mut rows = Vec::new();
            for (night, _) in changes {
                let mut at = night - 2 * DAY + random.below(HOUR);
                while at < night + 2 * DAY {
                    let number = i64::try_from(rows.len()).unwrap();
                    let stop =
                        at + 60 * (1 + random.below(95)) + random.below(2) * random.below(60);
                    rows.push(Row {
                        id: format!("{id}-{number}"),
                        number,
                        start: at,
                        stop,
                    });
                    at = stop + i64::from(random.below(5) == 0) * random.below(2 * HOUR);
                }
            }
            channels.push(Channel { id, zone, rows });
        }
    }
    channels
}

fn stock(server: &GateOnly, channels: &[Channel]) {
    let mut catalog = String::new();
    let mut guide = json!({});
    for channel in channels {
        catalog += &format!(
            "[[livestream]]\nid = \"{}\"\nzone = \"{}\"\nextended_rights = {{ rewind = true }}\n\n",
            channel.id, ZONES[channel.zone].0
        );
        let rows = channel.rows.iter().map(|row| {
            let mut broadcast = json!({
                "id": row.id, "title": title(row), "start": row.start, "stop": row.stop,
            });
            if row.number % 2 == 0 {
                broadcast["description"] = json!("D");
                broadcast["pgAge"] = json!(row.number % 19);
            }
            broadcast
        });
        guide[&channel.id] = rows.collect();
    }
    catalog += "[[rule]]\ntitle = \"Caught*\"\ncatchup_days = 7\n\n\
                [[rule]]\ntitle = \"*Dark*\"\nlive = false\n";
    // Early enough that all broadcasts are in the future and inside the retention period.
    set_clock(server, ZONES[1].2[0].0);
    let imported = post(server, "/admin/v1/catalog/import", catalog.as_bytes());
    assert_eq!(imported.status, 200, "{}", imported.json());
    let imported = post(server, "/admin/v1/epg/import", guide.to_string().as_bytes());
    assert_eq!(imported.status, 200, "{}", imported.json());
    let all: usize = channels.iter().map(|channel| channel.rows.len()).sum();
    assert_eq!(imported.json()["added"], all, "{}", imported.json());
}

fn title(row: &Row) -> String {
    let caught = if row.number % 3 == 0 {
        "Caught"
    } else {
        "Gone"
    };
    let dark = if row.number % 5 == 0 { " Dark" } else { "" };
    format!("{caught}{dark} {}", row.number)
}

/// The assumptions of the model. Each of them can be wrong on purpose.
#[derive(Clone, Copy)]
struct Model {
    /// The clocks change.
    clocks: bool,
    /// A broadcast is over at the second of its stop.
    half_open: bool,
    /// The TV day begins at 06:00.
    six: bool,
    /// `offset` goes back from now.
    back: bool,
    /// A missing right has no member, not even null.
    absent: bool,
}

const TRUE: Model = Model {
    clocks: true,
    half_open: true,
    six: true,
    back: true,
    absent: true,
};

impl Model {
    fn broadcast(self, row: &Row) -> Value {
        let mut broadcast = json!({
            "id": row.id, "title": title(row), "start": row.start, "stop": row.stop,
            "liveAvailable": row.number % 5 != 0,
            "extendedRights": {"pause": false, "rewind": true, "fastForward": false},
        });
        if row.number % 2 == 0 {
            broadcast["description"] = json!("D");
            broadcast["pgAge"] = json!(row.number % 19);
        }
        if row.number % 3 == 0 {
            broadcast["catchupInterval"] = json!({"from": row.stop, "to": row.stop + CATCHUP});
        } else if !self.absent {
            broadcast["catchupInterval"] = Value::Null;
        }
        broadcast
    }

    fn view(self, channel: &Channel, now: i64, offset: i64) -> Option<Value> {
        let at = if self.back { now + offset } else { now };
        let is_on = |row: &&Row| {
            row.start <= at
                && if self.half_open {
                    at < row.stop
                } else {
                    at <= row.stop
                }
        };
        let on = channel
            .rows
            .iter()
            .filter(is_on)
            .max_by_key(|row| row.start)?;
        let before = channel.rows.iter().filter(|row| row.stop <= on.start);
        let after = channel.rows.iter().filter(|row| row.start >= on.stop);
        let mut view = json!({"current": self.broadcast(on)});
        if let Some(row) = after.min_by_key(|row| row.start) {
            view["next"] = self.broadcast(row);
        }
        if let Some(row) = before.max_by_key(|row| row.stop) {
            view["previous"] = self.broadcast(row);
        }
        Some(view)
    }

    /// Returns the TV day of a broadcast in days since 1970: the local date of its start, or the day before until
    /// 06:00.
    fn day_of(self, zone: usize, start: i64) -> i64 {
        let (_, winter, changes) = ZONES[zone];
        let past = changes.iter().rev().find(|(at, _)| *at <= start);
        let ahead = match past {
            Some((_, ahead)) if self.clocks => *ahead,
            _ => winter,
        };
        let begins = if self.six { 6 * HOUR } else { 0 };
        (start + ahead - begins).div_euclid(DAY)
    }

    fn day(self, channel: &Channel, day: i64) -> Value {
        let rows = channel.rows.iter();
        let of_day = rows.filter(|row| self.day_of(channel.zone, row.start) == day);
        of_day.map(|row| self.broadcast(row)).collect()
    }

    /// Returns the expected status and body.
    fn answer(self, channels: &[Channel], question: &Question) -> (u16, Value) {
        let find = |id: &str| channels.iter().find(|channel| channel.id == id).unwrap();
        match question {
            Question::LivestreamLive {
                livestream,
                now,
                offset,
            } => {
                let view = self.view(find(livestream), *now, *offset);
                view.map_or((404, json!("NO_CURRENT_BROADCAST")), |view| (200, view))
            }
            Question::Live { now, offset } => {
                let views = channels.iter().filter_map(|channel| {
                    Some((channel.id.clone(), self.view(channel, *now, *offset)?))
                });
                (200, Value::Object(views.collect()))
            }
            Question::LivestreamDay { livestream, day } => (200, self.day(find(livestream), *day)),
            Question::Day { day } => {
                let days = channels.iter().map(|c| (c.id.clone(), self.day(c, *day)));
                (200, Value::Object(days.collect()))
            }
            Question::Broadcast { id } => (200, self.broadcast(row(channels, id).1)),
            Question::Broadcasts { ids } => {
                let several = ids.iter().map(|id| {
                    let (livestream, row) = row(channels, id);
                    let mut broadcast = self.broadcast(row);
                    broadcast["streamStart"] = json!(row.start);
                    broadcast["streamStop"] = json!(row.stop);
                    broadcast["streamId"] = json!(livestream);
                    (id.clone(), broadcast)
                });
                (200, Value::Object(several.collect()))
            }
        }
    }
}

fn row<'a>(channels: &'a [Channel], id: &str) -> (&'a str, &'a Row) {
    let mut all = channels
        .iter()
        .flat_map(|c| c.rows.iter().map(move |row| (c, row)));
    let (channel, row) = all.find(|(_, row)| row.id == id).unwrap();
    (&channel.id, row)
}

#[derive(Clone, Debug)]
enum Question {
    LivestreamLive {
        livestream: String,
        now: i64,
        offset: i64,
    },
    Live {
        now: i64,
        offset: i64,
    },
    LivestreamDay {
        livestream: String,
        day: i64,
    },
    Day {
        day: i64,
    },
    Broadcast {
        id: String,
    },
    Broadcasts {
        ids: Vec<String>,
    },
}

type Answered = (Question, (u16, Value));

/// Sends questions over one connection. The lab clock moves with them.
struct Asker<'a> {
    server: &'a GateOnly,
    wire: Wire,
    all: String,
    answered: Vec<Answered>,
}

impl Asker<'_> {
    fn get(&mut self, target: &str, more: &[(&str, &str)]) -> Answer {
        let token = self.server.gate.tokens.partner.reveal();
        let mut headers = vec![("Service-AccessToken", token)];
        headers.extend_from_slice(more);
        self.wire.send(request("GET", target, &headers, ""));
        self.wire.answer().expect("an answer")
    }

    fn ask(&mut self, question: Question) {
        let date = |day: i64| {
            let noon = chrono::DateTime::from_timestamp(day * DAY + DAY / 2, 0).unwrap();
            noon.format("%Y-%m-%d").to_string()
        };
        let all = &self.all;
        let path = match &question {
            Question::LivestreamLive {
                livestream,
                now,
                offset,
            } => {
                set_clock(self.server, *now);
                format!("livestreams/{livestream}/live?offset={offset}")
            }
            Question::Live { now, offset } => {
                set_clock(self.server, *now);
                format!("broadcasts/live?livestreams={all}&offset={offset}")
            }
            Question::LivestreamDay { livestream, day } => {
                format!("livestreams/{livestream}/day/{}", date(*day))
            }
            Question::Day { day } => format!("broadcasts/day/{}?livestreams={all}", date(*day)),
            Question::Broadcast { id } => format!("broadcasts/{id}"),
            Question::Broadcasts { ids } => format!("broadcasts?broadcasts={}", ids.join(",")),
        };
        let target = format!("/api/schedule/v1/{path}");
        let answer = self.get(&target, &[]);
        // The gzip response, which may come from the cache, must have the same content.
        let packed = self.get(&target, &[("Accept-Encoding", "gzip")]);
        let unpacked = match packed.header("content-encoding") {
            Some("gzip") => unpacked(&packed.body),
            _ => packed.body,
        };
        assert!(
            unpacked == answer.body,
            "{question:?} is another one when it is packed"
        );
        let body = match answer.status {
            200 => answer.json(),
            _ => json!(answer.code()),
        };
        self.answered.push((question, (answer.status, body)));
    }
}

/// Instants around a clock change: each start and stop, the seconds before them, and random ones.
fn instants(channels: &[Channel], night: i64, random: &mut Random) -> BTreeSet<i64> {
    let rows = channels.iter().flat_map(|channel| &channel.rows);
    let edges = rows.flat_map(|row| [row.start - 1, row.start, row.stop - 1, row.stop]);
    let near = edges.filter(|at| (at - night).abs() < 16 * HOUR);
    let mut all: BTreeSet<i64> = near.collect();
    all.extend((0..200).map(|_| night - 3 * DAY + random.below(6 * DAY)));
    all
}

fn ask_everything(server: &GateOnly, channels: &[Channel]) -> Vec<Answered> {
    let ids: Vec<&str> = channels.iter().map(|channel| channel.id.as_str()).collect();
    let mut asker = Asker {
        server,
        wire: Wire::to(server.public),
        all: ids.join(","),
        answered: Vec::new(),
    };
    let mut random = Random(7);
    let nights = ZONES
        .iter()
        .flat_map(|(_, _, changes)| changes.map(|(at, _)| at));
    for night in nights {
        for at in instants(channels, night, &mut random) {
            // At the live point, and time-shifted to the same instant.
            let offset = -random.below(DAY + 1);
            asker.ask(Question::Live { now: at, offset: 0 });
            asker.ask(Question::Live {
                now: at - offset,
                offset,
            });
            let channel = &channels[usize::try_from(random.below(6)).unwrap()];
            let livestream = channel.id.clone();
            asker.ask(Question::LivestreamLive {
                livestream,
                now: at - offset,
                offset,
            });
        }
        for day in night.div_euclid(DAY) - 4..=night.div_euclid(DAY) + 4 {
            asker.ask(Question::Day { day });
            for channel in channels {
                asker.ask(Question::LivestreamDay {
                    livestream: channel.id.clone(),
                    day,
                });
            }
        }
    }
    let all: Vec<String> = channels
        .iter()
        .flat_map(|c| c.rows.iter().map(|r| r.id.clone()))
        .collect();
    for ids in all.chunks(50) {
        asker.ask(Question::Broadcasts { ids: ids.to_vec() });
        asker.ask(Question::Broadcast { id: ids[0].clone() });
    }
    asker.answered
}

#[test]
fn schedule_responses_equal_a_naive_model() {
    let server = GateOnly::start();
    let channels = channels();
    stock(&server, &channels);
    let answered = ask_everything(&server, &channels);
    let instants: BTreeSet<i64> = answered
        .iter()
        .filter_map(|(question, _)| match question {
            Question::Live { now, offset } => Some(now + offset),
            _ => None,
        })
        .collect();
    assert!(instants.len() > 2_000, "{}", instants.len());
    for (question, answer) in &answered {
        assert_eq!(*answer, TRUE.answer(&channels, question), "{question:?}");
    }
    // The days of the clock changes have 23 and 25 hours, and every broadcast is in one of the days.
    let mut of_day: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (question, (_, body)) in &answered {
        if let Question::LivestreamDay { livestream, .. } = question {
            let ids = body
                .as_array()
                .unwrap()
                .iter()
                .map(|b| b["id"].as_str().unwrap().to_owned());
            of_day.entry(livestream).or_default().extend(ids);
        }
    }
    for channel in &channels {
        let mut seen = of_day[&*channel.id].clone();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), channel.rows.len(), "{}", channel.id);
    }
    // Control: the same responses expose a model with a single mistake.
    for (what, wrong) in [
        (
            "clocks",
            Model {
                clocks: false,
                ..TRUE
            },
        ),
        (
            "half_open",
            Model {
                half_open: false,
                ..TRUE
            },
        ),
        ("six", Model { six: false, ..TRUE }),
        (
            "back",
            Model {
                back: false,
                ..TRUE
            },
        ),
        (
            "absent",
            Model {
                absent: false,
                ..TRUE
            },
        ),
    ] {
        let differs = |(question, answer): &&Answered| wrong.answer(&channels, question) != *answer;
        assert!(answered.iter().any(|one| differs(&one)), "{what}");
    }
}
