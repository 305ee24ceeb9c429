//! The rows "EPG import", "start" and "memory", and what a query costs without HTTP: a guide of
//! 228,000 programmes on 500 channels, 143 MB of XMLTV.
//!
//! `cargo bench --bench epg`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(clippy::cast_precision_loss, clippy::disallowed_methods)]

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use playgate::domain::schedule::import::draft::{ChannelMap, Draft};
use playgate::domain::schedule::import::reader::unpack;
use playgate::domain::schedule::import::xmltv::{Xmltv, XmltvOptions};
use playgate::domain::schedule::ratings::Ratings;
use playgate::domain::schedule::{
    Broadcast, BroadcastRights, ChannelFacts, ImportOptions, ImportReport, Rights, Schedule, View,
    tables,
};
use playgate::store::{Options, Schema, Store};
use playgate::types::time::DAY;
use playgate::types::{LiveOffset, LivestreamId, UnixSeconds};

const CHANNELS: usize = 500;
const PROGRAMMES: usize = 456;
/// 2026-08-22 00:00 UTC; with 40 to 50 minutes each the guide covers two weeks.
const FIRST: i64 = 1_787_356_800;

struct Catalogue(Vec<LivestreamId>);

impl Rights for Catalogue {
    fn livestreams(&self) -> Vec<LivestreamId> {
        self.0.clone()
    }

    fn channel(&self, _: &LivestreamId) -> Option<ChannelFacts> {
        let zone = chrono_tz::Tz::Europe__Stockholm;
        Some(ChannelFacts { zone })
    }

    fn rights(&self, _: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights {
        BroadcastRights {
            live: true,
            catchup: Some((broadcast.stop, broadcast.stop + 7 * DAY)),
            pause: true,
            rewind: true,
            fast_forward: false,
        }
    }

    fn is_taken(&self, _: &str) -> bool {
        false
    }
}

/// Writes a guide; `shift` moves some programmes a little, as a day's new guide does.
fn write_guide(path: &Path, shift: i64) {
    let mut out = BufWriter::new(File::create(path).expect("the folder can be written"));
    let stamp = |at: i64| {
        let at = chrono::DateTime::from_timestamp(at, 0).expect("in range");
        at.format("%Y%m%d%H%M%S +0000").to_string()
    };
    let text = "A sentence about what happens in this programme, and another one. ".repeat(3);
    let mut write = |piece: String| out.write_all(piece.as_bytes()).expect("space");
    write("<?xml version=\"1.0\"?>\n<!DOCTYPE tv SYSTEM \"xmltv.dtd\">\n<tv>\n".to_owned());
    for channel in 0..CHANNELS {
        write(format!(
            "<channel id=\"channel-{channel}\"><display-name>Channel {channel}</display-name></channel>\n"
        ));
    }
    let mut at = FIRST;
    for row in 0..PROGRAMMES {
        let length = 2_400 + i64::try_from(row % 7).unwrap_or(0) * 100;
        for channel in 0..CHANNELS {
            let moved = if row % 10 == 3 { shift } else { 0 };
            write(format!(
                "  <programme start=\"{}\" stop=\"{}\" channel=\"channel-{channel}\">\n    \
                 <title lang=\"en\">Programme {row} of {channel}</title>\n    \
                 <desc lang=\"en\">{text}{row}</desc>\n    <category>Series</category>\n    \
                 <icon src=\"https://images.example.test/programme/{channel}/{row}/wide.jpg\" \
                 width=\"1920\" height=\"1080\"/>\n    \
                 <episode-num system=\"xmltv_ns\">{row}.{channel}.</episode-num>\n    \
                 <rating system=\"FSK\"><value>12</value></rating>\n  </programme>\n",
                stamp(at + moved),
                stamp(at + length),
            ));
        }
        at += length;
    }
    write("</tv>\n".to_owned());
}

fn import(schedule: &Schedule, path: &Path) -> ImportReport {
    let options = XmltvOptions {
        zone: chrono_tz::Tz::UTC,
        languages: vec!["en".to_owned()],
        ratings: Arc::new(Ratings::built_in()),
    };
    let began = Instant::now();
    let file = File::open(path).expect("it was just written");
    let mut source = Xmltv::new(unpack(file).expect("readable"), options);
    let draft = Draft::read(&mut source, &ChannelMap::new()).expect("well-formed");
    let read = began.elapsed();
    let options = ImportOptions {
        dry_run: false,
        accept: true,
        now: UnixSeconds(FIRST),
        retention_days: 30,
    };
    let report = schedule.import(draft, &options).expect("a store");
    println!(
        "  {:.2} s, of which reading {:.2} s (goal: 5 s); {:?}",
        began.elapsed().as_secs_f64(),
        read.as_secs_f64(),
        report.difference
    );
    report
}

/// The memory of this process in MiB: now, and the most since the last call.
fn memory() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        number.unwrap_or(0.0) / 1_024.0
    };
    let found = (value("VmRSS:"), value("VmHWM:"));
    // Sets the high-water mark back; where that is not allowed the figures are upper bounds.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    found
}

fn measure(name: &str, goal: u32, mut run: impl FnMut(usize)) {
    const RUNS: usize = 200_000;
    let mut rounds: Vec<f64> = (0..9)
        .map(|_| {
            let began = Instant::now();
            (0..RUNS).for_each(&mut run);
            began.elapsed().as_nanos() as f64 / RUNS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("  {name}: {:.0} ns (goal: {goal} ns)", rounds[4]);
}

fn queries(schedule: &Schedule, livestreams: &[LivestreamId]) {
    let now = UnixSeconds(FIRST + 5 * DAY);
    let spread = |n: usize| (n * 7_919) % livestreams.len();
    let ids: Vec<_> = (0..4_096)
        .filter_map(|n| {
            let at = now - i64::try_from(n * 97).unwrap_or(0);
            schedule
                .snapshot()
                .program_at(&livestreams[spread(n)], at)?
                .id()
        })
        .collect();
    let offsets: Vec<_> = (0..4_096)
        .filter_map(|n| LiveOffset::parse(&format!("-{}", 1 + n * 20)).ok())
        .collect();
    measure("live, one livestream, the same one", 300, |_| {
        black_box(
            schedule
                .snapshot()
                .live(&livestreams[..1], LiveOffset::LIVE, now)
                .ok(),
        );
    });
    measure("live, one livestream, any one", 300, |n| {
        let one = &livestreams[spread(n)..=spread(n)];
        black_box(schedule.snapshot().live(one, LiveOffset::LIVE, now).ok());
    });
    measure("live, one livestream, random offsets", 1_000, |n| {
        let one = &livestreams[spread(n)..=spread(n)];
        black_box(schedule.snapshot().live(one, offsets[n % 4_096], now).ok());
    });
    measure("program at an instant", 300, |n| {
        let at = offsets[n % 4_096].before(now);
        black_box(schedule.snapshot().program_at(&livestreams[spread(n)], at));
    });
    measure("broadcast by id", 300, |n| {
        black_box(schedule.snapshot().by_id(&ids[n % ids.len()]).ok());
    });
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("guide.xml");
    write_guide(&path, 0);
    let moved = folder.path().join("moved.xml");
    write_guide(&moved, 300);
    let bytes = std::fs::metadata(&path).map_or(0, |data| data.len());
    println!(
        "{} programmes, {} MB",
        CHANNELS * PROGRAMMES,
        bytes / 1_000_000
    );

    let data = folder.path().join("data");
    let open = || {
        let schema = tables::schema(Schema::default());
        Store::open(&data, schema, Options::default()).expect("a new store")
    };
    let livestreams: Vec<_> = (0..CHANNELS)
        .filter_map(|n| LivestreamId::parse(&format!("channel-{n}")).ok())
        .collect();
    let catalogue = Arc::new(Catalogue(livestreams.clone()));
    let serve = |store| {
        let catalogue = Arc::clone(&catalogue);
        Schedule::open(store, Box::new(move || catalogue.clone()), View::default())
    };
    let schedule = serve(open()).expect("an empty store");
    let (idle, _) = memory();
    for (name, path) in [("first", &path), ("same again", &path), ("moved", &moved)] {
        let (before, _) = memory();
        println!("{name} import:");
        import(&schedule, path);
        let (after, most) = memory();
        println!("  memory {before:.0} -> {after:.0} MiB, at most {most:.0}");
    }
    let (all, json) = schedule.snapshot().memory();
    println!(
        "schedule in memory: {:.2} x its JSON of {} MB (goal: 1.5)",
        all as f64 / json as f64,
        json / 1_000_000
    );
    println!("process: {idle:.0} MiB empty");
    queries(&schedule, &livestreams);

    drop(schedule);
    let began = Instant::now();
    let store = open();
    let opened = began.elapsed();
    let schedule = serve(store).expect("it was closed");
    println!(
        "start: {:.2} s, of which the store {:.2} s (goal: 2 s); {} broadcasts",
        began.elapsed().as_secs_f64(),
        opened.as_secs_f64(),
        schedule.snapshot().broadcasts()
    );
}
